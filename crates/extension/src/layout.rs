//! What lies where in the control page of a run, and what the word of a lock says: agreed on by this crate and by
//! what surrounds a run, the translator and the glue of a kernel module, whose header is made of these.

/// u64: next free byte of the heap.
pub const HEAP_NEXT: usize = 0x18;
/// u64: places in use at [`LOCKS`], those between them that are free again included.
pub const HELD: usize = 0x20;
/// A pointer each: the locks held; null where none is.
pub const LOCKS: usize = 0x40;
/// How many locks can be held at a time.
pub const MOST_LOCKS: usize = 8;
/// In a kernel module: where the packet is.
pub const PACKET: usize = 0x80;
/// u64 each: arguments of the tracepoint.
pub const ARGUMENTS: usize = 0x300;

/// Bits of a lock's word that say which CPU has it: the lowest of the number of its control page.
pub const OWNER_BITS: u32 = 20;
/// log2 of the bytes that a control page is a multiple of.
pub const PAGE_BITS: u32 = 12;
/// The bit of a lock's word that is set in all that are held; those between say where the lock is on record.
pub const HELD_BIT: u32 = 31;
