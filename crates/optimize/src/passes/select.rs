//! One of two constants, chosen by a single bit that a branch looks at: the bit is moved to where the
//! constants differ, or to what one is more than the other.
//!
//! ```text
//! r2 &= 128
//! w1 = 4                    r2 &= 128
//! if r2 == 0x0 goto out     r2 >>= 5
//! w1 = 8               =>   r2 += 4
//! out:
//! ```

use super::copies::renamed;
use super::numbers::{self, immediate};
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        let Some(choice) = Choice::at(context, p) else { continue };
        out.extend(choice.with_bit());
    }
}

/// A branch around the second of two definitions of one value.
struct Choice<'c, 'a> {
    context: &'c Context<'a>,
    branch: usize,
    /// What the branch compares with zero.
    by: Reg,
    result: Reg,
    /// The constant when it is zero, and when it is not.
    equal: u64,
    other: u64,
}

impl<'c, 'a> Choice<'c, 'a> {
    fn at(context: &'c Context<'a>, p: usize) -> Option<Choice<'c, 'a>> {
        let Insn::Branch { cond, dst: by, src: Operand::Imm(0), target, .. } = *context.insn(p) else {
            return None;
        };
        let Insn::Mov { dst: result, .. } = *context.function.nodes.get(p + 2).and(Some(context.insn(p + 1)))? else {
            return None;
        };
        let web = context.webs().defined(p + 1, result)?;
        let [a, b] = web.definitions[..] else { return None };
        let first = if b == p + 1 { a } else { b };
        let flow = &context.facts.flow;
        let is_diamond = flow.positions[&target] == p + 2 && flow.predecessors[p + 1] == [p];
        let is_free = !web.fixed && by != result && web.uses.iter().all(|u| !context.facts.live[*u].contains(by));
        let is_patched = [p, p + 1, first].into_iter().any(|q| context.is_patched(q));
        if !is_diamond || !is_free || is_patched || context.facts.live[p + 2].contains(by) {
            return None;
        }
        let (taken, fallen) = (number(context, first)?, number(context, p + 1)?);
        let (equal, other) = match cond {
            Condition::Eq => (taken, fallen),
            Condition::Ne => (fallen, taken),
            _ => return None,
        };
        Some(Choice { context, branch: p, by, result, equal, other })
    }

    /// What is looked at has one bit, in which the constants differ, or by which.
    fn with_bit(&self) -> Option<Proposal> {
        let range = self.context.fact(self.branch, self.by)?.range;
        let bits = !range.zeros;
        let (differ, more) = (self.equal ^ self.other, self.other.wrapping_sub(self.equal));
        if !bits.is_power_of_two() {
            return None;
        }
        let (op, by) = match () {
            _ if differ.is_power_of_two() => (AluOp::Xor, differ),
            _ if more.is_power_of_two() => (AluOp::Add, more),
            _ => return None,
        };
        let distance = bits.trailing_zeros() as i32 - by.trailing_zeros() as i32;
        let shift = if distance > 0 { AluOp::Rsh } else { AluOp::Lsh };
        let step = |op, v: i32| (v != 0).then_some((op, v));
        let steps = [step(shift, distance.abs()), step(op, immediate(Width::W64, self.equal)?)];
        let insn = |(op, v)| Insn::Alu { width: Width::W64, op, dst: self.by, src: Operand::Imm(v) };
        self.proposal(steps.into_iter().flatten().map(insn).collect())
    }

    /// Without the definitions, with `insns` in the place of the branch.
    fn proposal(&self, insns: Vec<Insn>) -> Option<Proposal> {
        let context = self.context;
        let web = context.webs().defined(self.branch + 1, self.result)?;
        let mut changes = Changes::default();
        for u in &web.uses {
            let insn = renamed(context.insn(*u), self.result, self.by, false, true);
            changes.replace(*u, vec![context.instead(*u, insn)]);
        }
        web.definitions.iter().for_each(|d| changes.delete(*d));
        let mut insns = insns.into_iter();
        let mut nodes: Vec<_> = insns.next().map(|i| context.instead(self.branch, i)).into_iter().collect();
        nodes.extend(insns.map(|i| context.node(i)));
        changes.replace(self.branch, nodes);
        Some(changes.proposal("select"))
    }
}

/// The constant that an instruction moves.
fn number(context: &Context, p: usize) -> Option<u64> {
    match *context.insn(p) {
        Insn::Mov { width, src: Operand::Imm(v), .. } => Some(numbers::value(width, v)),
        _ => None,
    }
}
