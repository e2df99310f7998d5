//! Pages of an arena, many at a time.
//!
//! A page that this process touches costs a fault, and a large cache has tens of thousands. The kernel also
//! gives pages to programs that ask (`bpf_arena_alloc_pages`), all at once, and a program may run when user
//! space says.

use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_elf::btf::Kind;
use karakoram_kernel::load::{LoadRequest, LoadedProgram, load};
use karakoram_kernel::map::Map;
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_lab::object;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// `BPF_F_SLEEPABLE`, which programs that ask for pages must be.
const SLEEPABLE: u32 = 16;
/// `BPF_PSEUDO_MAP_IDX` and `BPF_PSEUDO_KFUNC_CALL`.
const MAP_BY_POSITION: u8 = 5;
const KERNEL_FUNCTION: u8 = 2;

/// A program that asks for pages of one arena.
pub(crate) struct Allocator {
    program: LoadedProgram,
}

impl Allocator {
    /// `None` where the kernel does not permit it.
    pub fn new(arena: &Map) -> Option<Allocator> {
        let function = object::kernel_types()?.find("bpf_arena_alloc_pages", Kind::Function)?.id;
        let slots = code(i32::try_from(function).ok()?);
        let request = LoadRequest {
            maps: std::slice::from_ref(arena),
            flags: SLEEPABLE,
            ..LoadRequest::new("kara_pages", ProgramType::SYSCALL, &slots)
        };
        Some(Allocator { program: load(&request).ok()? })
    }

    /// Asks for all pages of a range that has none; false when they are not given.
    pub fn allocate(&self, address: u64, length: usize) -> bool {
        let pages = length.div_ceil(PAGE) as u64;
        let ctx = [address.to_le_bytes(), pages.to_le_bytes()].concat();
        let mut output = RunOutput::default();
        let run = Runner::default().run(&self.program, &RunInput { ctx, ..RunInput::default() }, &mut output);
        run.is_ok() && output.retval != 0
    }
}

/// `return bpf_arena_alloc_pages(&arena, ctx->address, ctx->pages, NUMA_NO_NODE, 0) != NULL`
fn code(function: i32) -> [Slot; 10] {
    let slot = |code, dst, src, off, imm| Slot { code, dst, src, off, imm };
    [
        slot(0x79, 2, 1, 0, 0),               // r2 = *(u64 *)(r1 + 0)
        slot(0x61, 3, 1, 8, 0),               // w3 = *(u32 *)(r1 + 8)
        slot(0x18, 1, MAP_BY_POSITION, 0, 0), // r1 = map
        slot(0, 0, 0, 0, 0),
        slot(0xb7, 4, 0, 0, -1),                     // r4 = -1
        slot(0xb7, 5, 0, 0, 0),                      // r5 = 0
        slot(0x85, 0, KERNEL_FUNCTION, 0, function), // call
        slot(0x15, 0, 0, 1, 0),                      // if r0 == 0 goto +1
        slot(0xb7, 0, 0, 0, 1),                      // r0 = 1
        slot(0x95, 0, 0, 0, 0),                      // exit
    ]
}
