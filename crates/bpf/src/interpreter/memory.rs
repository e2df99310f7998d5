//! All memory that a running program can reach, with a check on every access.

use super::address::{self, FRAME_BYTES, FRAME_SPACING, Kind, MAX_INDEX, Place, Region};
use super::fault::{Access, Limit, Reason, Trap};
use super::kernel::KernelMemory;
use super::maps::Map;
use super::packet::Packet;
use crate::hook::{ContextField, Hook};
use crate::insn::{FuncId, Size};

/// Functions that may be active at once (kernel `MAX_CALL_FRAMES`).
pub const MAX_FRAMES: usize = 8;

/// Memory that a helper made for the program.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The map it belongs to.
    pub map: u32,
    /// Its bytes; `None` once it was given back.
    pub bytes: Option<Vec<u8>>,
}

/// The memory of one run.
#[derive(Debug)]
pub struct Memory {
    pub(super) maps: Vec<Map>,
    pub(super) packet: Packet,
    pub(super) context: Vec<u8>,
    pub(super) hook: Hook,
    pub(super) stack: Vec<u8>,
    pub(super) depth: usize,
    pub(super) records: Vec<Record>,
    pub(super) kernel: KernelMemory,
    /// Whether loads may follow pointers into the kernel.
    pub(super) kernel_loads: bool,
    pub(super) record_limit: usize,
}

impl Memory {
    /// Where an address leads; `None` when it belongs to no object of the program.
    pub fn classify(&self, address: u64) -> Option<Region> {
        address::place(address).map(|place| self.region(place))
    }

    /// Bytes at an address, when the program could read them all. Packet pointers in the context
    /// read as the plain bytes below them.
    pub fn peek(&self, address: u64, len: usize) -> Option<&[u8]> {
        self.find(address::place(address)?, len).ok()
    }

    /// Addresses of the first metadata byte, the first packet byte and the byte after the packet.
    pub fn packet_bounds(&self) -> [u64; 3] {
        [self.packet.meta(), self.packet.start(), self.packet.end()].map(|p| address::base(Kind::Packet, 0) + p as u64)
    }

    fn region(&self, place: Place) -> Region {
        let Place { kind, index, offset } = place;
        match kind {
            Kind::Stack => {
                // Up to and including the frame pointer itself, which lies one past the frame.
                let spacing = FRAME_SPACING as i64;
                let frame = (offset + spacing / 2).div_euclid(spacing).max(0);
                Region { kind, index: frame as u32, element: 0, offset: offset - frame * spacing - FRAME_BYTES as i64 }
            }
            Kind::Packet => Region { kind, index, element: 0, offset: offset - self.packet.start() as i64 },
            Kind::MapValue => {
                let (element, offset) = self.maps.get(index as usize).map_or((0, offset), |m| m.locate(offset));
                Region { kind, index, element, offset }
            }
            Kind::Context | Kind::Map | Kind::Record | Kind::Function | Kind::Object => {
                Region { kind, index, element: 0, offset }
            }
        }
    }

    #[inline]
    fn find(&self, place: Place, len: usize) -> Result<&[u8], &'static str> {
        let Place { kind, index, offset } = place;
        match kind {
            Kind::Stack => self.stack_place(offset, len).map(|at| &self.stack[at..at + len]),
            Kind::Context => slice(&self.context, offset, len).ok_or("outside the context"),
            Kind::Packet => self.packet.at(offset, len).ok_or("outside the packet"),
            Kind::MapValue => {
                let map = self.maps.get(index as usize).ok_or("there is no such map")?;
                map.bytes(offset, len).ok_or("outside the map value")
            }
            Kind::Record => {
                let record = self.records.get(index as usize).ok_or("there is no such record")?;
                let bytes = record.bytes.as_deref().ok_or("the record was given back")?;
                slice(bytes, offset, len).ok_or("outside the record")
            }
            Kind::Map | Kind::Function => Err("its memory is not visible to programs"),
            Kind::Object => Err("loads through kernel pointers are not enabled"),
        }
    }

    #[inline]
    fn find_mut(&mut self, place: Place, len: usize) -> Result<&mut [u8], &'static str> {
        let Place { kind, index, offset } = place;
        match kind {
            Kind::Stack => self.stack_place(offset, len).map(|at| &mut self.stack[at..at + len]),
            Kind::Context => slice_mut(&mut self.context, offset, len).ok_or("outside the context"),
            Kind::Packet => self.packet.at_mut(offset, len).ok_or("outside the packet"),
            Kind::MapValue => {
                let map = self.maps.get_mut(index as usize).ok_or("there is no such map")?;
                if map.def().frozen {
                    return Err("the map is read-only");
                }
                map.bytes_mut(offset, len).ok_or("outside the map value")
            }
            Kind::Record => {
                let record = self.records.get_mut(index as usize).ok_or("there is no such record")?;
                let bytes = record.bytes.as_deref_mut().ok_or("the record was given back")?;
                slice_mut(bytes, offset, len).ok_or("outside the record")
            }
            Kind::Map | Kind::Function => Err("its memory is not visible to programs"),
            Kind::Object => Err("programs may not write the kernel's objects"),
        }
    }

    #[inline]
    fn stack_place(&self, offset: i64, len: usize) -> Result<usize, &'static str> {
        const OUTSIDE: &str = "outside the stack frame";
        let offset = u64::try_from(offset).map_err(|_| OUTSIDE)?;
        let (frame, inner) = ((offset / FRAME_SPACING) as usize, (offset % FRAME_SPACING) as usize);
        if inner > FRAME_BYTES || len > FRAME_BYTES - inner {
            return Err(OUTSIDE);
        }
        if frame > self.depth {
            return Err("the stack frame belongs to no active function");
        }
        Ok(frame * FRAME_BYTES + inner)
    }

    /// Bytes that the program may read.
    #[inline]
    pub(super) fn read(&self, address: u64, len: usize) -> Result<&[u8], Trap> {
        match address::place(address) {
            Some(place) => self.find(place, len).map_err(|why| trap(Access::Read, address, len, why)),
            None if len == 0 => Ok(&[]),
            None => Err(no_object(Access::Read, address, len)),
        }
    }

    /// Bytes that the program may write.
    #[inline]
    pub(super) fn write(&mut self, address: u64, len: usize) -> Result<&mut [u8], Trap> {
        match address::place(address) {
            Some(place) => self.find_mut(place, len).map_err(|why| trap(Access::Write, address, len, why)),
            None if len == 0 => Ok(&mut []),
            None => Err(no_object(Access::Write, address, len)),
        }
    }

    /// Adds to a reason what the address belongs to.
    pub(super) fn explain(&self, reason: &mut Reason) {
        if let Reason::Memory { address, region, .. } = reason {
            *region = self.classify(*address);
        }
    }

    /// Loads a number, as an instruction does: context fields may be packet pointers.
    #[inline]
    pub(super) fn load(&self, address: u64, size: Size) -> Result<u64, Trap> {
        let len = size.bytes() as usize;
        match address::place(address) {
            Some(place) if place.kind == Kind::Context => {
                if let Some(field) = self.hook.context_field(place.offset, size.bytes()) {
                    return Ok(self.packet_pointer(field));
                }
                Ok(number(self.read(address, len)?, size))
            }
            None | Some(Place { kind: Kind::Object, .. }) if self.kernel_loads => {
                let mut bytes = [0; 8];
                self.kernel.read(address, &mut bytes[..len]);
                Ok(u64::from_le_bytes(bytes))
            }
            _ => Ok(number(self.read(address, len)?, size)),
        }
    }

    /// Stores a number, as an instruction does.
    #[inline]
    pub(super) fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Trap> {
        let len = size.bytes() as usize;
        if let Some(Place { kind: Kind::Context, offset, .. }) = address::place(address)
            && self.hook.context_field(offset, size.bytes()).is_some()
        {
            return Err(trap(Access::Write, address, len, "a packet pointer of the context"));
        }
        let bytes = self.write(address, len)?;
        match size {
            Size::B => bytes[0] = value as u8,
            Size::H => bytes.copy_from_slice(&(value as u16).to_le_bytes()),
            Size::W => bytes.copy_from_slice(&(value as u32).to_le_bytes()),
            Size::D => bytes.copy_from_slice(&value.to_le_bytes()),
        }
        Ok(())
    }

    fn packet_pointer(&self, field: ContextField) -> u64 {
        let [meta, start, end] = self.packet_bounds();
        match field {
            ContextField::MetaStart => meta,
            ContextField::PacketStart => start,
            ContextField::PacketEnd => end,
        }
    }

    /// Makes memory for the program.
    pub(super) fn make_record(&mut self, map: u32, len: usize) -> Result<u64, Trap> {
        let used: usize = self.records.iter().filter_map(|r| r.bytes.as_ref()).map(Vec::len).sum();
        if len > self.record_limit.saturating_sub(used) {
            return Err(Box::new(Reason::Limit(Limit::Memory)));
        }
        let record = Record { map, bytes: Some(vec![0; len]) };
        // The place of one that was given back is used again only when there is no other.
        let index = match self.records.len() {
            next if next <= MAX_INDEX as usize => {
                self.records.push(record);
                next
            }
            _ => {
                let free = self.records.iter().position(|r| r.bytes.is_none());
                let free = free.ok_or_else(|| Box::new(Reason::Limit(Limit::Memory)))?;
                self.records[free] = record;
                free
            }
        };
        Ok(address::base(Kind::Record, index as u32))
    }

    /// Takes a record back; `None` when the address is not that of a live one.
    pub(super) fn take_record(&mut self, address: u64) -> Option<(u32, Vec<u8>)> {
        match address::place(address)? {
            Place { kind: Kind::Record, index, offset: 0 } => {
                let record = self.records.get_mut(index as usize)?;
                Some((record.map, record.bytes.take()?))
            }
            _ => None,
        }
    }

    /// The map an address is the handle of.
    pub(super) fn map_at(&self, address: u64) -> Option<usize> {
        match address::place(address)? {
            Place { kind: Kind::Map, index, offset: 0 } if (index as usize) < self.maps.len() => Some(index as usize),
            _ => None,
        }
    }

    /// The function an address is the handle of.
    pub(super) fn function_at(&self, address: u64) -> Option<FuncId> {
        match address::place(address)? {
            Place { kind: Kind::Function, index, offset: 0 } => Some(FuncId(index)),
            _ => None,
        }
    }
}

#[cold]
fn trap(access: Access, address: u64, len: usize, why: &'static str) -> Trap {
    Box::new(Reason::Memory { access, address, bytes: len as u64, region: None, why })
}

#[cold]
fn no_object(access: Access, address: u64, len: usize) -> Trap {
    trap(access, address, len, if address < 4096 { "a null pointer" } else { "not an address of the program" })
}

fn slice(bytes: &[u8], offset: i64, len: usize) -> Option<&[u8]> {
    let from = usize::try_from(offset).ok()?;
    bytes.get(from..from.checked_add(len)?)
}

fn slice_mut(bytes: &mut [u8], offset: i64, len: usize) -> Option<&mut [u8]> {
    let from = usize::try_from(offset).ok()?;
    bytes.get_mut(from..from.checked_add(len)?)
}

/// The little-endian number in exactly `size` bytes.
#[inline]
fn number(bytes: &[u8], size: Size) -> u64 {
    match (size, bytes) {
        (Size::B, &[a]) => a as u64,
        (Size::H, &[a, b]) => u16::from_le_bytes([a, b]) as u64,
        (Size::W, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as u64,
        (Size::D, &[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}
