//! One concrete state to try candidates on: registers, the few bytes of memory that the window
//! touches, and what the original makes of them.

use super::machine::{Concrete, Fault, Led, Memory, Registers, step};
use super::random::mix;
use super::window::Exit;
use karakoram_bpf::hook::{ContextField, Hook};
use karakoram_bpf::insn::*;

/// Bytes of memory that a window may touch.
pub const BYTES: usize = 64;

/// Everything a candidate changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot {
    /// Registers.
    pub registers: Registers,
    /// Memory, as the case's [`Layout`] places it.
    pub bytes: [u8; BYTES],
    /// Bytes that are defined, one bit each.
    pub known: u64,
}

/// Pointers that do not come from memory.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Where the program is attached.
    pub hook: Option<Hook>,
    /// The context.
    pub context: u64,
    /// The first byte of the packet.
    pub start: u64,
    /// One past its last byte.
    pub end: u64,
    /// The first byte of what lies before the packet.
    pub meta: u64,
}

impl Fields {
    /// The packet pointer that a load of a context field yields.
    #[inline]
    pub fn pointer(&self, address: u64, size: Size) -> Option<u64> {
        let offset = address.wrapping_sub(self.context);
        if offset >= CONTEXT_BYTES {
            return None;
        }
        Some(match self.hook?.context_field(offset as i64, size.bytes())? {
            ContextField::PacketStart => self.start,
            ContextField::PacketEnd => self.end,
            ContextField::MetaStart => self.meta,
        })
    }

    /// What a two-slot constant is.
    pub fn loaded(&self, value: Imm64<FuncId>) -> u64 {
        match value {
            Imm64::Value(v) => v,
            Imm64::Map(m) => address_of(1, m),
            Imm64::MapValue(m, off) => address_of(2, m).wrapping_add(off as u64),
            Imm64::Btf { id, .. } => KERNEL + (mix(id as u64 ^ 3 << 32) & 0xfff_fff8),
            Imm64::Function(f) => KERNEL + (mix(f.0 as u64 ^ 4 << 32) & 0xfff_fff8),
            Imm64::Extern(e) => KERNEL + (mix(e as u64 ^ 5 << 32) & 0xfff_fff8),
        }
    }
}

/// Where the kernel's memory begins.
pub const KERNEL: u64 = 0xffff_8880_0000_0000;
const CONTEXT_BYTES: u64 = 4096;

fn address_of(what: u64, map: MapRef) -> u64 {
    let number = match map {
        MapRef::Index(i) => i as u32 as u64,
        MapRef::Fd(fd) => fd as u32 as u64 | 1 << 40,
    };
    KERNEL + (mix(number | what << 48) & 0xff_ffff_fff8)
}

/// Where the bytes of a snapshot lie.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pieces: Vec<Piece>,
    /// Bytes that the original stores to, or that belong to the frame.
    writable: u64,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    address: u64,
    length: u64,
    at: usize,
}

impl Layout {
    /// Places the byte at an address, in ascending order of addresses.
    pub fn add(&mut self, address: u64, at: usize, is_writable: bool) {
        match self.pieces.last_mut() {
            Some(p) if p.address.wrapping_add(p.length) == address => p.length += 1,
            _ => self.pieces.push(Piece { address, length: 1, at }),
        }
        self.writable |= (is_writable as u64) << at;
    }

    #[inline]
    fn find(&self, address: u64, bytes: u32) -> Result<usize, Fault> {
        for p in &self.pieces {
            let offset = address.wrapping_sub(p.address);
            if offset < p.length && offset + bytes as u64 <= p.length {
                return Ok(p.at + offset as usize);
            }
        }
        Err(Fault)
    }
}

struct Placed<'a> {
    layout: &'a Layout,
    bytes: &'a mut [u8; BYTES],
    known: &'a mut u64,
}

#[inline]
fn bits(at: usize, bytes: u32) -> u64 {
    ((1u64 << bytes) - 1) << at
}

impl Memory for Placed<'_> {
    #[inline]
    fn load(&mut self, address: u64, bytes: u32) -> Result<u64, Fault> {
        let at = self.layout.find(address, bytes)?;
        let wanted = bits(at, bytes);
        if *self.known & wanted != wanted {
            return Err(Fault);
        }
        let mut value = [0; 8];
        value[..bytes as usize].copy_from_slice(&self.bytes[at..at + bytes as usize]);
        Ok(u64::from_le_bytes(value))
    }
    #[inline]
    fn store(&mut self, address: u64, bytes: u32, value: u64) -> Result<(), Fault> {
        let at = self.layout.find(address, bytes)?;
        let written = bits(at, bytes);
        if self.layout.writable & written != written {
            return Err(Fault);
        }
        self.bytes[at..at + bytes as usize].copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        *self.known |= written;
        Ok(())
    }
}

/// One state at the entry, and what the original makes of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where its memory lies.
    pub layout: Layout,
    /// Pointers that are loaded.
    pub fields: Fields,
    /// The state at the entry.
    pub start: Snapshot,
    /// The state at the exit.
    pub expected: Snapshot,
    /// Whether the branch out of the window is taken.
    pub taken: bool,
    /// The branches that the original takes, one bit each.
    pub path: u32,
    /// What matters at that exit.
    pub exit: Exit,
    /// 0xff for bytes that matter at that exit.
    pub matters: [u8; BYTES],
}

impl Case {
    /// Executes one instruction; for a branch, whether it is taken.
    #[inline]
    pub fn step(&self, at: &mut Snapshot, insn: &Insn) -> Result<bool, Fault> {
        let memory = Placed { layout: &self.layout, bytes: &mut at.bytes, known: &mut at.known };
        let mut machine = Concrete { registers: &mut at.registers, memory, fields: &self.fields };
        Ok(step(&mut machine, insn)? != Led::Next)
    }

    /// Executes a sequence of which only the last instruction may be a branch.
    pub fn run(&self, at: &mut Snapshot, insns: &[Insn]) -> Result<bool, Fault> {
        let mut taken = false;
        for insn in insns {
            taken = self.step(at, insn)?;
        }
        Ok(taken)
    }

    /// Whether a sequence of which only the last instruction may be a branch comes to the same end as
    /// the original.
    pub fn agrees(&self, insns: &[Insn]) -> bool {
        let mut at = self.start;
        self.run(&mut at, insns) == Ok(self.taken)
            && self.exit.live.iter().all(|r| self.agrees_on(&at, r))
            && self.agrees_on_memory(&at)
    }

    /// Whether that register holds what it should at the exit, or does not matter.
    #[inline]
    pub fn agrees_on(&self, at: &Snapshot, reg: Reg) -> bool {
        !self.exit.live.contains(reg)
            || at.registers.values[reg.index()] == self.expected.registers.values[reg.index()]
                && at.registers.defined.contains(reg)
    }

    /// Whether memory is what it should be at the exit, where it matters.
    #[inline]
    pub fn agrees_on_memory(&self, at: &Snapshot) -> bool {
        let mut different = 0;
        for i in 0..BYTES {
            different |= (at.bytes[i] ^ self.expected.bytes[i]) & self.matters[i];
        }
        different == 0
    }

    /// Where the byte at an address is kept.
    pub fn place(&self, address: u64, bytes: u32) -> Option<usize> {
        self.layout.find(address, bytes).ok()
    }
}
