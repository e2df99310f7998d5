//! What lies where in the arena. The extension crate, the generated code and the loader agree on this.
//!
//! From the bottom: 64 KiB that are never there (null pointers), the module's data, and from
//! [`REGIONS_AT`] on one region for each program and CPU: control page, guard, stack (growing down into
//! the guard), packet buffer, heap. Of stack and heap there is what the program can touch
//! ([`crate::manifest::Needs`]).

/// A page of zeros below the regions, which nobody writes.
pub const ZERO_PAGE: u32 = REGIONS_AT - 4096;
/// First byte of the regions.
pub const REGIONS_AT: u32 = 0x4000_0000;
/// Bytes of a region, a power of two: a stack pointer leads to the control page by masking.
pub const REGION_BYTES: u32 = 1 << 20;
/// Bytes of the control page.
pub const CONTROL_BYTES: u32 = 4096;
/// Lowest byte of the stack in its region; what is between it and the control page is never there.
pub const STACK_LOW: u32 = 0x1_0000;
/// Where the stack starts.
pub const STACK_TOP: u32 = 0x4_0000;
/// Heap of one run.
pub const HEAP_LOW: u32 = 0x8_0000;
/// End of the heap.
pub const HEAP_END: u32 = REGION_BYTES;

/// Fields of the control page, by offset.
pub mod control {
    /// u64: not 0 while the program runs on this CPU.
    pub const BUSY: u32 = 0x00;
    /// u64: entries that found the program already running on this CPU, and were let pass.
    pub const NESTED: u32 = 0x08;
    /// u64: panics.
    pub const PANICS: u32 = 0x10;
    /// u64: next free byte of the heap.
    pub const HEAP: u32 = 0x18;
    /// u64: locks held.
    pub const HELD: u32 = 0x20;
    /// u64: locks that were still held at the end of a run without a panic.
    pub const LEAKED: u32 = 0x28;
    /// u64: what the program returns after a panic or when it is nested.
    pub const VERDICT: u32 = 0x30;
    /// u64: where offsets pass through that the verifier shall not trace.
    pub const SCRATCH: u32 = 0x38;
    /// u32 each: addresses of the locks held, zeroed on release.
    pub const LOCKS: u32 = 0x40;
    /// How many locks can be held at a time.
    pub const MOST_LOCKS: u32 = 8;
    /// Panics, the latest ones in a ring.
    pub const LOG: u32 = 0x100;
    /// Entries of the ring.
    pub const LOG_ENTRIES: u32 = 16;
    /// u64 each: arguments of the tracepoint, or what programs at other hooks are given of their context.
    pub const ARGUMENTS: u32 = 0x300;
    /// Most arguments of a tracepoint.
    pub const MOST_ARGUMENTS: u32 = 12;
    /// Bytes of an entry: u64 time in ns, u32 site or [`super::SITE_PANIC`], u32 file, u32 bytes of its
    /// name, u32 line, u64 zero.
    pub const LOG_ENTRY_BYTES: u32 = 32;
}

/// Site number of a Rust panic, which names its file and line itself.
pub const SITE_PANIC: u32 = u32::MAX;
