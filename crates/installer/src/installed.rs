//! An extension in the kernel: its programs and its memory.

use crate::error::InstallError;
use karakoram_elf::container::Container;
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::sys::{Mapping, os};
use karakoram_lab::object::{self, Loaded};
use karakoram_translator::layout::{
    CONTROL_BYTES, HEAP_END, HEAP_LOW, REGION_BYTES, REGIONS_AT, SITE_PANIC, STACK_LOW, STACK_TOP, ZERO_PAGE, control,
};
use karakoram_translator::manifest::{IMAGE_SECTION, Manifest, SECTION};
use std::path::Path;

/// Bytes of a whole arena.
const ARENA_BYTES: usize = 1 << 32;
/// Where static data starts.
const MEMORY_LOW: u32 = 1 << 16;

/// An extension in the kernel.
pub struct Installed {
    loaded: Loaded,
    memory: Mapping,
    manifest: Manifest,
    cpus: usize,
}

/// What a program's control pages say, summed over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Panics, of whatever kind.
    pub panics: u64,
    /// Runs that were let pass because the program was already running on that CPU.
    pub nested: u64,
    /// Runs that ended without giving back all locks.
    pub leaked: u64,
}

/// A run that did not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// When, in nanoseconds since boot.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: usize,
    /// File, when known.
    pub file: Option<String>,
    /// Line in it.
    pub line: u32,
    /// What happened.
    pub what: String,
}

/// The manifest of an object.
pub fn manifest(object: &[u8]) -> Result<Manifest, InstallError> {
    let bytes = section(object, SECTION)?;
    serde_json::from_slice(&bytes).map_err(|e| InstallError::Object(format!("its manifest is not understood: {e}")))
}

fn section(object: &[u8], name: &str) -> Result<Vec<u8>, InstallError> {
    let container = Container::parse(object).map_err(|e| InstallError::Object(e.to_string()))?;
    match container.find(name) {
        Some(at) => Ok(container.sections[at].data.clone()),
        None => Err(InstallError::Object(format!("no extension: it has no section {name}"))),
    }
}

impl Installed {
    /// Loads these programs of an object, or all when none is named, and puts their memory in place.
    /// Nothing is attached.
    pub fn load(path: &Path, programs: &[&str]) -> Result<Installed, InstallError> {
        let bytes = std::fs::read(path).map_err(|e| InstallError::file("read", path, &e))?;
        let manifest = manifest(&bytes)?;
        let all: Vec<String> = manifest.programs.iter().map(|p| p.name.clone()).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let wanted = if programs.is_empty() { &all } else { programs };
        let loaded = object::load(path, wanted)?;
        let arena = loaded.map("arena")?;
        let memory = Mapping::arena(arena.fd(), arena.extra(), ARENA_BYTES)
            .map_err(|e| machine("map the memory of the extension", e))?;
        let cpus = os::possible_cpus().unwrap_or(1);
        let installed = Installed { loaded, memory, manifest, cpus };
        installed.fill(&section(&bytes, IMAGE_SECTION)?)?;
        for name in wanted {
            installed.prepare(name)?;
        }
        Ok(installed)
    }

    /// A program that was loaded. Panics when it was not.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        self.loaded.program(name)
    }

    /// What the object says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Static data: the module's own, then zeros.
    fn fill(&self, image: &[u8]) -> Result<(), InstallError> {
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

    /// Stack, heap and control page of a program on every CPU.
    fn prepare(&self, name: &str) -> Result<(), InstallError> {
        let program = &self.manifest.programs[self.number(name)];
        for cpu in 0..self.cpus {
            let region = self.region(name, cpu);
            self.populate(region, region + CONTROL_BYTES)?;
            self.populate(region + STACK_LOW, region + STACK_TOP)?;
            self.populate(region + HEAP_LOW, region + HEAP_END)?;
            let verdict = program.on_panic.to_le_bytes();
            let at = region + control::VERDICT;
            self.memory.write(at as usize, &verdict).map_err(|e| machine("set up a control page", e))?;
        }
        Ok(())
    }

    fn populate(&self, from: u32, to: u32) -> Result<(), InstallError> {
        let length = to.saturating_sub(from) as usize;
        match length {
            0 => Ok(()),
            _ => self.memory.populate(from as usize, length).map_err(|e| machine("get memory for the extension", e)),
        }
    }

    fn number(&self, name: &str) -> usize {
        self.manifest.programs.iter().position(|p| p.name == name).expect("a program of this object")
    }

    fn region(&self, name: &str, cpu: usize) -> u32 {
        let index = cpu * self.manifest.programs.len() + self.number(name);
        REGIONS_AT + index as u32 * REGION_BYTES
    }

    fn u64_at(&self, address: u32) -> u64 {
        let mut bytes = [0; 8];
        // Memory that is not there reads as zeros, as it does to the program.
        let _ = self.memory.read(address as usize, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn u32_at(&self, address: u32) -> u32 {
        self.u64_at(address) as u32
    }

    /// What has happened to a program so far.
    pub fn state(&self, name: &str) -> State {
        let mut state = State::default();
        for cpu in 0..self.cpus {
            let region = self.region(name, cpu);
            state.panics += self.u64_at(region + control::PANICS);
            state.nested += self.u64_at(region + control::NESTED);
            state.leaked += self.u64_at(region + control::LEAKED);
        }
        state
    }

    /// Makes a program take itself for running already, on every CPU: for tests of what it then does.
    pub fn set_busy(&self, name: &str, busy: bool) {
        for cpu in 0..self.cpus {
            let at = self.region(name, cpu) + control::BUSY;
            // The page was put in place by `load`.
            let _ = self.memory.write(at as usize, &u64::from(busy).to_le_bytes());
        }
    }

    /// The latest panics of a program, oldest first: up to sixteen of each CPU.
    pub fn panics(&self, name: &str) -> Vec<Panic> {
        let mut found = Vec::new();
        for cpu in 0..self.cpus {
            let region = self.region(name, cpu);
            let count = self.u64_at(region + control::PANICS).min(control::LOG_ENTRIES as u64) as u32;
            found.extend((0..count).map(|n| self.panic_at(region + control::LOG + n * control::LOG_ENTRY_BYTES, cpu)));
        }
        found.sort_by_key(|p| p.time_ns);
        found
    }

    fn panic_at(&self, at: u32, cpu: usize) -> Panic {
        let time_ns = self.u64_at(at);
        match self.u32_at(at + 8) {
            SITE_PANIC => {
                let file = self.text(self.u32_at(at + 12), self.u32_at(at + 16));
                Panic { time_ns, cpu, file, line: self.u32_at(at + 20), what: "panic".to_string() }
            }
            site => {
                let site = self.manifest.sites.get(site as usize);
                let source = site.and_then(|s| s.source.clone());
                let (file, line) = source.map_or((None, 0), |(file, line)| (Some(file), line));
                let what = site.map_or("unknown place", |s| s.what.text()).to_string();
                Panic { time_ns, cpu, file, line, what }
            }
        }
    }

    fn text(&self, address: u32, length: u32) -> Option<String> {
        let mut bytes = vec![0; length.min(4096) as usize];
        self.memory.read(address as usize, &mut bytes).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// The counters by name.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.manifest.exported.iter().filter(|e| e.kind == "counter");
        counters.map(|e| (e.name.clone(), self.u64_at(e.address))).collect()
    }
}

fn machine(doing: &str, errno: karakoram_kernel::errno::Errno) -> InstallError {
    InstallError::Machine(format!("could not {doing}: {errno}"), "is there enough memory?".into())
}
