//! A number or zero, by a branch, of which several values are made: the branch goes around the same
//! arithmetic with the number itself.
//!
//! ```text
//! r3 = 8
//! if r6 > 0xff goto large        if r6 <= 0xff goto small
//! r3 = 0                         r6 >>= 8
//! large:                         r1 |= 8
//! r6 >>= r3                  =>  small:
//! ..                             ..
//! r1 |= r3
//! ```
//!
//! Where the number itself goes on, it begins as zero, and the arithmetic adds it. What stands between must not look at the values, and change them only so that the order does not matter.

use super::numbers::{self, immediate};
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

/// Most values that are made of one number.
const MAX_USES: usize = 8;

/// Most instructions that such arithmetic is moved over.
const MAX_DISTANCE: usize = 100;

/// Windows hold several branches.
const PATIENCE: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((2..context.len()).filter_map(|join| around(context, join)));
}

/// The number is chosen by a branch over the one instruction before `join`.
fn around(context: &Context, join: usize) -> Option<Proposal> {
    let flow = &context.facts.flow;
    let branch = join - 2;
    let Insn::Branch { width, cond, dst, src, target } = *context.insn(branch) else { return None };
    if flow.positions[&target] != join || flow.predecessors[join - 1] != [branch] || flow.predecessors[join].len() != 2
    {
        return None;
    }
    let (reg, last) = constant(context, join - 1)?;
    let (number, is_taken) = match (context.value(branch, reg)?, last) {
        (0, n) if n != 0 => (n, false),
        (n, 0) if n != 0 => (n, true),
        _ => return None,
    };
    let web = context.webs().defined(join - 1, reg).filter(|w| !w.fixed)?;
    let uses: Vec<usize> = web.uses.iter().copied().filter(|u| context.between(branch, *u).is_some()).collect();
    if uses.len() > MAX_USES || context.is_patched(branch) {
        return None;
    }
    let is_made = |d: &usize| constant(context, *d).is_some();
    let starts = web.definitions.iter().copied();
    let starts = starts.filter(|d| *d < branch && is_made(d) && context.between(*d, branch).is_some());
    let start = starts.max();
    let turn = uses.iter().copied().find(|u| {
        let onto = turned(context, start, *u, reg);
        onto.is_some() && worked(context, join, *u, onto, reg, number).is_some()
    });
    // What comes behind that is another number.
    let uses: Vec<usize> =
        uses.into_iter().filter(|u| turn.is_none_or(|t| *u == t || context.between(t, *u).is_none())).collect();
    let onto = |u: usize| turn.filter(|t| *t == u).and_then(|u| turned(context, start, u, reg));
    let work = |u: &usize| worked(context, join, *u, onto(*u), reg, number);
    let done: Vec<usize> = uses.iter().copied().filter(|u| work(u).is_some()).collect();
    let mut arm: Vec<Node> = done.iter().filter_map(work).collect();
    let mut changes = Changes::default();
    // Nobody else looks at the number.
    let is_kept = done.len() < uses.len();
    if let (Some(turn), false) = (turn, is_kept) {
        changes.delete(start?);
        let other = turned(context, start, turn, reg)?;
        let copy = Insn::Mov { width: Width::W64, dst: reg, src: Operand::Reg(other) };
        done.iter().for_each(|u| changes.delete(*u));
        changes.replace(turn, vec![context.instead(turn, copy)]);
    } else if !is_kept && uses.len() == web.uses.len() && web.definitions.iter().all(is_made) {
        web.definitions.iter().for_each(|d| changes.delete(*d));
    }
    if is_kept {
        // It begins as zero, and is added with the rest.
        let goes_on = uses.iter().filter(|u| !done.contains(u)).min().is_some_and(|u| goes_on(context, *u, reg));
        let start = start.filter(|_| !done.is_empty() && turn.is_none() && goes_on)?;
        changes.replace(start, vec![context.instead(start, numbers::load(reg, 0)?)]);
        let src = Operand::Imm(immediate(Width::W64, number)?);
        arm.insert(0, context.node(Insn::Alu { width: Width::W64, op: AluOp::Or, dst: reg, src }));
    }
    let gone: Vec<usize> = done.into_iter().filter(|u| !changes.touches(*u) || changes.deletes(*u)).collect();
    gone.iter().for_each(|u| changes.delete(*u));
    changes.replace(join - 1, arm);
    if is_taken {
        let target = context.function.nodes[first_kept(context, &gone, join)?].id;
        let around = Insn::Branch { width, cond: cond.negated()?, dst, src, target };
        changes.replace(branch, vec![context.instead(branch, around)]);
    }
    let mut proposal = changes.proposal("chosen").across([branch]);
    proposal.patience = PATIENCE;
    proposal.enables = is_kept;
    Some(proposal)
}

/// An older number, than the chosen one that begins at `start`, with which that is joined at `at`, and which ends there: that one can
/// take the chosen number up at once, and is copied.
fn turned(context: &Context, start: Option<usize>, at: usize, reg: Reg) -> Option<Reg> {
    let Insn::Alu { width: Width::W64, op: AluOp::Or | AluOp::Add | AluOp::Xor, dst, src: Operand::Reg(other) } =
        *context.insn(at)
    else {
        return None;
    };
    let is_older = context.webs().used(at, other)?.definitions.iter().min().copied() < start;
    let is_over = !context.live_after(at).contains(other) && !context.is_patched(at);
    (dst == reg && other != reg && is_older && is_over).then_some(other)
}

/// Whether the number itself is worked on at a position, or copied for that.
fn goes_on(context: &Context, at: usize, reg: Reg) -> bool {
    match *context.insn(at) {
        Insn::Alu { op: AluOp::Or | AluOp::Add, dst, src, .. } => dst == reg && src != Operand::Reg(reg),
        Insn::Mov { width: Width::W64, src, .. } => src == Operand::Reg(reg),
        _ => false,
    }
}

/// The first instruction from `at` on that stays.
fn first_kept(context: &Context, gone: &[usize], at: usize) -> Option<usize> {
    (at..context.len()).find(|p| !gone.contains(p))
}

fn constant(context: &Context, p: usize) -> Option<(Reg, u64)> {
    match *context.insn(p) {
        Insn::Mov { width, dst, src: Operand::Imm(v) } if !context.is_patched(p) => {
            Some((dst, numbers::value(width, v)))
        }
        _ => None,
    }
}

/// The arithmetic at a position with the number itself, if it can as well be done at the join; on another
/// register where the number is `turned`.
fn worked(context: &Context, join: usize, at: usize, turned: Option<Reg>, reg: Reg, number: u64) -> Option<Node> {
    let Insn::Alu { width, op, dst, src: Operand::Reg(r) } = *context.insn(at) else { return None };
    let is_kept_by_zero =
        matches!(op, AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor | AluOp::Lsh | AluOp::Rsh | AluOp::Arsh);
    let dst = match turned {
        Some(other) => other,
        None if r != reg || dst == reg => return None,
        None => dst,
    };
    if !is_kept_by_zero || context.is_patched(at) {
        return None;
    }
    if at != join {
        let passed = context.between(join, at)?;
        let lets_pass = |p: &usize| *p == at || passes(context, *p, width, op, dst);
        if passed.len() > MAX_DISTANCE || !passed.iter().chain([&join]).all(lets_pass) {
            return None;
        }
    }
    Some(context.node(Insn::Alu { width, op, dst, src: Operand::Imm(immediate(width, number)?) }))
}

/// Whether arithmetic on a register may as well stand before the instruction at `p` as behind it.
fn passes(context: &Context, p: usize, width: Width, op: AluOp, reg: Reg) -> bool {
    if !context.reads[p].contains(reg) && !context.writes[p].contains(reg) {
        return true;
    }
    let is_same_sort = |other: AluOp| match op {
        AluOp::Add | AluOp::Sub => matches!(other, AluOp::Add | AluOp::Sub),
        _ => other == op,
    };
    match *context.insn(p) {
        Insn::Alu { width: w, op: other, dst, src } => {
            w == width && dst == reg && is_same_sort(other) && src != Operand::Reg(reg) && !context.is_patched(p)
        }
        _ => false,
    }
}
