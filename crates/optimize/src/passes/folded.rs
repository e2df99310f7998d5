//! Arithmetic on a value that is another number on every way: each way brings the result instead.
//!
//! ```text
//! r5 = 1                           r5 = 16
//! if r1 > 65535 goto large         if r1 > 65535 goto large
//! r5 = 0                           r5 = 0
//! large:                           large:
//! r5 <<= 4                     =>
//! ```

use super::numbers;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::concrete_alu;
use std::collections::BTreeSet;

/// Instructions between the numbers and the arithmetic, at most.
const MAX_STEPS: usize = 64;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter(|p| context.facts.is_reachable(*p)).filter_map(|p| brought(context, p)));
}

fn brought(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Alu { width, op, dst, src: Operand::Imm(by) } = *context.insn(p) else { return None };
    if context.is_patched(p) {
        return None;
    }
    let (makers, ways) = origins(context, p, dst)?;
    let mut changes = Changes::default();
    for maker in &makers {
        let Insn::Mov { width: made, src: Operand::Imm(number), .. } = *context.insn(*maker) else { return None };
        let result = concrete_alu(width, op, numbers::value(made, number), by as i64 as u64);
        changes.replace(*maker, vec![context.instead(*maker, numbers::load(dst, result)?)]);
    }
    changes.delete(p);
    (makers.len() > 1).then(|| changes.proposal("folded").across(ways))
}

/// Who may have written a register that is read at `p`, when nobody else reads it, and the instructions on
/// the ways from there.
fn origins(context: &Context, p: usize, reg: Reg) -> Option<(Vec<usize>, BTreeSet<usize>)> {
    let mut makers = BTreeSet::new();
    let mut ways = BTreeSet::new();
    let mut pending = vec![p];
    while let Some(at) = pending.pop() {
        if at == 0 || ways.len() > MAX_STEPS {
            return None;
        }
        for &q in &context.facts.flow.predecessors[at] {
            if context.writes[q].contains(reg) {
                makers.insert(q);
            } else if context.reads[q].contains(reg) {
                return None;
            } else if ways.insert(q) {
                pending.push(q);
            }
        }
    }
    let only_here = |q: &usize| {
        let next = &context.facts.flow.successors[*q];
        next.iter().all(|s| *s == p || ways.contains(s) || makers.contains(s) || !context.facts.live[*s].contains(reg))
    };
    let is_fit = makers.iter().chain(&ways).all(only_here) && makers.iter().all(|m| !context.is_patched(*m));
    is_fit.then(|| (makers.into_iter().collect(), ways))
}
