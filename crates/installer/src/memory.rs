//! An extension's memory: its arena, as this process has it mapped.

use crate::error::InstallError;
use crate::pages::{Allocator, PAGE};
use karakoram_kernel::map::Map;
use karakoram_kernel::sys::{Mapping, os};
use karakoram_translator::layout::{
    CONTROL_BYTES, HEAP_END, HEAP_LOW, REGION_BYTES, REGIONS_AT, STACK_LOW, STACK_TOP, ZERO_PAGE, control,
};
use karakoram_translator::manifest::Manifest;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a whole arena.
const ARENA_BYTES: usize = 1 << 32;
/// Where static data starts.
const MEMORY_LOW: u32 = 1 << 16;

/// The memory, and what is where in it.
pub(crate) struct Memory {
    memory: Mapping,
    allocator: Option<Allocator>,
    start: u64,
    /// Bytes of pages that were put in place.
    placed: AtomicU64,
    pub manifest: Manifest,
    pub cpus: usize,
}

impl Memory {
    /// Maps an arena; nothing is in it yet.
    pub fn map(arena: &Map, manifest: Manifest) -> Result<Memory, InstallError> {
        let memory = Mapping::arena(arena.fd(), arena.extra(), ARENA_BYTES)
            .map_err(|e| machine("map the memory of the extension", e))?;
        let allocator = Allocator::new(arena);
        Ok(Memory {
            memory,
            allocator,
            start: arena.extra(),
            placed: AtomicU64::new(0),
            manifest,
            cpus: os::possible_cpus().unwrap_or(1),
        })
    }

    /// Puts everything in place: static data, and what these programs need on every CPU.
    pub fn fill(&self, image: &[u8], programs: &[&str]) -> Result<(), InstallError> {
        self.fill_statics(image)?;
        programs.iter().try_for_each(|name| self.prepare(name))
    }

    /// Static data: the module's own, then zeros.
    fn fill_statics(&self, image: &[u8]) -> Result<(), InstallError> {
        self.populate(MEMORY_LOW, self.manifest.memory_end)?;
        self.populate(ZERO_PAGE, REGIONS_AT)?;
        let mut rest = image;
        while let [a, b, c, d, e, f, g, h, more @ ..] = rest {
            let address = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            let length = u32::from_le_bytes([*e, *f, *g, *h]) as usize;
            let Some((bytes, after)) = more.split_at_checked(length) else {
                return Err(InstallError::Object("its memory image is cut off".into()));
            };
            self.memory.write(address, bytes).map_err(|e| machine("fill the memory", e))?;
            rest = after;
        }
        Ok(())
    }

    /// Control page of a program on every CPU, and what it can touch of stack and heap.
    fn prepare(&self, name: &str) -> Result<(), InstallError> {
        let program = &self.manifest.programs[self.number(name)];
        for cpu in 0..self.cpus {
            let region = self.region(name, cpu);
            self.populate(region, region + CONTROL_BYTES)?;
            let stack_bytes = program.needs.stack_bytes.min(STACK_TOP - STACK_LOW).next_multiple_of(PAGE as u32);
            self.populate(region + STACK_TOP - stack_bytes, region + STACK_TOP)?;
            if program.needs.has_heap {
                self.populate(region + HEAP_LOW, region + HEAP_END)?;
            }
            let verdict = program.on_panic.to_le_bytes();
            let at = region + control::VERDICT;
            self.memory.write(at as usize, &verdict).map_err(|e| machine("set up a control page", e))?;
        }
        Ok(())
    }

    /// Has the kernel put memory there, at once or, where it does not, page by page.
    fn populate(&self, from: u32, to: u32) -> Result<(), InstallError> {
        let length = to.saturating_sub(from) as usize;
        self.placed.fetch_add(length.next_multiple_of(PAGE) as u64, Ordering::Relaxed);
        let allocated = |a: &Allocator| a.allocate(self.start + u64::from(from), length);
        match length {
            0 => Ok(()),
            _ if self.allocator.as_ref().is_some_and(allocated) => Ok(()),
            _ => self.memory.populate(from as usize, length).map_err(|e| machine("get memory for the extension", e)),
        }
    }

    /// Bytes of its pages, those that the kernel says nothing of: it takes arenas for empty.
    pub fn bytes(&self) -> u64 {
        self.placed.load(Ordering::Relaxed)
    }

    fn number(&self, name: &str) -> usize {
        self.manifest.programs.iter().position(|p| p.name == name).expect("a program of this object")
    }

    /// Where the region of a program on a CPU is.
    pub fn region(&self, name: &str, cpu: usize) -> u32 {
        let index = cpu * self.manifest.programs.len() + self.number(name);
        REGIONS_AT + index as u32 * REGION_BYTES
    }

    /// A number in it.
    pub fn u64_at(&self, address: u32) -> u64 {
        let mut bytes = [0; 8];
        // Memory that is not there reads as zeros, as it does to the program.
        let _ = self.memory.read(address as usize, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number in it.
    pub fn u32_at(&self, address: u32) -> u32 {
        self.u64_at(address) as u32
    }

    /// Sets a number. Pages that are not there stay so.
    pub fn write_u64(&self, address: u32, value: u64) {
        let _ = self.memory.write(address as usize, &value.to_le_bytes());
    }

    /// A text in it.
    pub fn text(&self, address: u32, length: u32) -> Option<String> {
        let mut bytes = vec![0; length.min(4096) as usize];
        self.memory.read(address as usize, &mut bytes).ok()?;
        String::from_utf8(bytes).ok()
    }
}

fn machine(doing: &str, errno: karakoram_kernel::errno::Errno) -> InstallError {
    InstallError::Machine(format!("could not {doing}: {errno}"), "is there enough memory?".into())
}
