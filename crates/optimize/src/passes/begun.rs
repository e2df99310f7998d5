//! What is added to a number at the end, when all that was done with it is to add and to set bits: it begins
//! with that.
//!
//! ```text
//! r4 = 0                           r4 = 32
//! if r2 <= 0xff goto small         if r2 <= 0xff goto small
//! r4 |= 8                          r4 |= 8
//! r2 >>= 8                         r2 >>= 8
//! small:                           small:
//! r4 |= r2                         r4 |= r2
//! r4 += 32                    =>
//! ```

use super::numbers;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::concrete_alu;
use std::collections::BTreeSet;

/// Most instructions on the ways from the beginning.
const MAX_STEPS: usize = 64;

/// Windows hold several branches.
const PATIENCE: usize = 8;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter(|p| context.facts.is_reachable(*p)).filter_map(|p| begun(context, p)));
}

fn begun(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Alu { width: Width::W64, op: op @ (AluOp::Add | AluOp::Or), dst: reg, src: Operand::Imm(by) } =
        *context.insn(p)
    else {
        return None;
    };
    if context.is_patched(p) {
        return None;
    }
    let mut changes = Changes::default();
    let (mut ways, mut starts) = (BTreeSet::from([p]), BTreeSet::new());
    let mut pending = vec![p];
    while let Some(at) = pending.pop() {
        if at == 0 || ways.len() > MAX_STEPS {
            return None;
        }
        for &q in &context.facts.flow.predecessors[at] {
            match *context.insn(q) {
                Insn::Mov { dst, src: Operand::Imm(number), width } if dst == reg && !context.is_patched(q) => {
                    let first = concrete_alu(Width::W64, op, numbers::value(width, number), by as i64 as u64);
                    changes.replace(q, vec![context.instead(q, numbers::load(reg, first)?)]);
                    starts.insert(q);
                    continue;
                }
                Insn::Alu { width: Width::W64, op: AluOp::Add | AluOp::Or, dst, src }
                    if dst == reg && src != Operand::Reg(reg) => {}
                _ if context.reads[q].contains(reg) || context.writes[q].contains(reg) => return None,
                _ => {}
            }
            if ways.insert(q) {
                pending.push(q);
            }
        }
    }
    // Whoever begins comes here, unless nobody looks at the number any more.
    let leads_here = |q: &usize| {
        let next = &context.facts.flow.successors[*q];
        next.iter().all(|s| ways.contains(s) || changes.touches(*s) || !context.facts.live[*s].contains(reg))
    };
    if !ways.iter().filter(|q| **q != p).chain(&starts).all(leads_here) {
        return None;
    }
    changes.delete(p);
    let mut proposal = changes.proposal("begun").across(ways);
    proposal.patience = PATIENCE;
    Some(proposal)
}
