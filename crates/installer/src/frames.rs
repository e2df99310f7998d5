//! Frames of the functions of an object. A chain of calls has 512 bytes for all its frames; where that
//! is not enough, locals move to the arena.

use karakoram_bpf::insn::{Callee, FuncId, Insn, Reg};
use karakoram_bpf::program::{Function, Program};
use karakoram_elf::Object;

/// Bytes that a chain of calls has, less what the kernel adds for `may_goto` in each of its functions.
const MOST_BYTES: u32 = 512;
/// What the kernel keeps in the frame of a function with loops.
const LOOP_BYTES: u32 = 16;

/// The number of the function whose locals should move: the one with the largest frame on a chain that
/// is too deep; `None` when none is, or nothing can be done.
pub(crate) fn too_large(object: &[u8], moved: &[u32]) -> Option<u32> {
    let object = Object::parse(object.to_vec()).ok()?;
    let program = object.program();
    let chains = (0..program.functions.len() as u32).map(|f| deepest(program, FuncId(f), 0));
    let chain = chains.max_by_key(|c| c.0).filter(|c| c.0 > MOST_BYTES)?;
    let movable = chain.1.into_iter().filter_map(|f| Some((frame(program.function(f)), number(program.function(f))?)));
    movable.filter(|(_, n)| !moved.contains(n)).max().map(|(_, n)| n)
}

/// The number in `f12` or `f12_xdp`, the translator's names.
fn number(function: &Function) -> Option<u32> {
    let rest = function.name.strip_prefix('f')?;
    rest.split('_').next()?.parse().ok()
}

/// Bytes of the deepest chain from a function, and the chain. Programs that recurse do not verify.
fn deepest(program: &Program, from: FuncId, depth: u32) -> (u32, Vec<FuncId>) {
    const MOST_CALLS: u32 = 16;
    let function = program.function(from);
    let callees = function.nodes.iter().filter_map(|n| match n.insn {
        Insn::Call(Callee::Local(f)) => Some(f),
        _ => None,
    });
    let mut callees: Vec<FuncId> = callees.collect();
    callees.sort_by_key(|f| f.0);
    callees.dedup();
    let below = callees.into_iter().filter(|_| depth < MOST_CALLS).map(|f| deepest(program, f, depth + 1));
    let (bytes, mut chain) = below.max_by_key(|c| c.0).unwrap_or_default();
    chain.push(from);
    (bytes + frame(function), chain)
}

/// Bytes of a frame as the kernel counts them.
fn frame(function: &Function) -> u32 {
    let offset = |insn: &Insn| match insn {
        Insn::Load { base, off, .. } | Insn::Store { base, off, .. } if *base == Reg::FP => {
            Some(u32::from(off.unsigned_abs()))
        }
        _ => None,
    };
    let used = function.nodes.iter().filter_map(|n| offset(&n.insn)).max().unwrap_or(0);
    let loops = function.nodes.iter().any(|n| matches!(n.insn, Insn::MayGoto { .. }));
    (used + if loops { LOOP_BYTES } else { 0 }).next_multiple_of(16)
}
