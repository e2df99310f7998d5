//! A stretch of code that does what another one does, given what is known where it begins: the
//! branches to it go to the other one.
//!
//! ```text
//! r1 = 0                         r1 = 0
//! if w4 != 8 goto b              if w4 != 8 goto a
//! r1 = *(u8 *)(r3 + 9)           r1 = *(u8 *)(r3 + 9)
//! a:                             a:
//! *(u32 *)(r10 - 4) = r1         *(u32 *)(r10 - 4) = r1
//! goto next                 =>
//! b:
//! *(u32 *)(r10 - 4) = 0
//! next:                          next:
//! ```

use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::concrete_extend;
use std::ops::Range;

/// Longest stretch.
const MAX_LENGTH: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let blocks = context.facts.flow.blocks.iter().filter(|b| context.facts.is_reachable(b.start));
    let stretches: Vec<Stretch> = blocks.filter_map(|b| Stretch::of(context, b.clone())).collect();
    for b in &stretches {
        out.extend(stretches.iter().find_map(|a| replaced(context, a, b)));
    }
}

/// A block up to where it goes on.
struct Stretch {
    /// Without a jump at its end.
    body: Range<usize>,
    block: Range<usize>,
    next: usize,
}

impl Stretch {
    fn of(context: &Context, block: Range<usize>) -> Option<Stretch> {
        let last = block.end - 1;
        let [next] = *context.facts.flow.successors[last].as_slice() else { return None };
        let jumps = matches!(context.insn(last), Insn::Jump { .. });
        let body = block.start..block.end - jumps as usize;
        (!body.is_empty() && body.len() <= MAX_LENGTH).then_some(Stretch { body, block, next })
    }
}

/// Whoever jumps to `b` jumps to `a`.
fn replaced(context: &Context, a: &Stretch, b: &Stretch) -> Option<Proposal> {
    let same_shape = a.body.start != b.body.start && a.next == b.next && a.body.len() == b.body.len();
    if !same_shape || !a.body.clone().zip(b.body.clone()).all(|(p, q)| is_alike(context, p, q)) {
        return None;
    }
    let start = b.block.start;
    let target = context.function.nodes[a.block.start].id;
    let mut changes = Changes::default();
    let mut since = start;
    for &p in &context.facts.flow.predecessors[start] {
        if context.insn(p).target() != Some(&context.function.nodes[start].id) || context.is_patched(p) {
            return None;
        }
        since = since.min(p);
        changes.replace(p, vec![context.instead(p, context.insn(p).map(|_| target, |f| f))]);
    }
    b.block.clone().for_each(|q| changes.delete(q));
    let known = b.body.clone().filter_map(|q| match *context.insn(a.body.start + (q - b.body.start)) {
        Insn::Store { src: Operand::Reg(r), .. } => Some(context.anchor(start, r)),
        _ => None,
    });
    let since = known.min().map_or(since, |k| k.min(since));
    Some(changes.proposal("alike").since(since).with(a.block.clone()))
}

/// Whether `p` does at `q` what `q` does there.
fn is_alike(context: &Context, p: usize, q: usize) -> bool {
    let free = !context.is_patched(p) && !context.is_patched(q);
    let known = match (*context.insn(p), *context.insn(q)) {
        (
            Insn::Store { size, base, off, src: Operand::Reg(r) },
            Insn::Store { size: s, base: b, off: o, src: Operand::Imm(v) },
        ) => {
            let low = |v: u64| concrete_extend(v, size.bits(), false);
            (size, base, off) == (s, b, o) && context.value(q, r).map(low) == Some(low(v as i64 as u64))
        }
        (one, other) => one == other,
    };
    free && known
}
