//! Numbers that are only added to a pointer, always to the same one: the sums are carried instead.
//!
//! ```text
//! r3 = r1                         r3 = r1
//! r3 += 14                        r3 += 14
//! if r3 > r2 goto out             if r3 > r2 goto out
//! r3 = 14
//! r4 = r1                         r4 = r3
//! r4 += r3                        r4 = *(u8 *)(r4 + 9)
//! r4 = *(u8 *)(r4 + 9)       =>
//! ```

use super::numbers;
use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::{Kind, Root};
use std::collections::BTreeSet;

/// Instructions that handle one offset, at most.
const MAX_MEMBERS: usize = 64;

/// How much larger than usual windows may be: offsets are few, and live long.
const PATIENCE: usize = 6;

/// The pointer that an offset is added to.
type Base = (Root, u64);

/// Everything that is done with an offset.
#[derive(Default)]
struct Offset {
    webs: BTreeSet<WebId>,
    /// Where it comes to be: position, register, number.
    starts: BTreeSet<(usize, Reg, i32)>,
    /// Where it is added to the pointer: position, register of the sum, register of the offset.
    sums: BTreeSet<(usize, Reg, Reg)>,
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let mut seen: BTreeSet<WebId> = BTreeSet::new();
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        let Some((_, offset)) = sum(context, p) else { continue };
        let Some(web) = context.webs().id_used(p, offset).filter(|w| !seen.contains(w)) else { continue };
        let found = Offset::of(context, web, &mut seen);
        out.extend(found.and_then(|offset| offset.carried(context)));
    }
}

/// An instruction that adds a register to a pointer: register of the sum, register of the offset.
fn sum(context: &Context, p: usize) -> Option<(Reg, Reg)> {
    match *context.insn(p) {
        Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Reg(src) } if dst != src => {
            base(context, p, dst).map(|_| (dst, src))
        }
        _ => None,
    }
}

/// The pointer in a register, when it has a name.
fn base(context: &Context, p: usize, reg: Reg) -> Option<Base> {
    let fact = context.fact(p, reg)?;
    let is_pointer = matches!(fact.kind, Kind::Pointer { nullable: false, .. });
    fact.root.filter(|_| is_pointer).map(|root| (root, fact.delta))
}

impl Offset {
    /// Follows an offset through copies and additions of constants; `None` when anything else is done
    /// with it.
    fn of(context: &Context, web: WebId, seen: &mut BTreeSet<WebId>) -> Option<Offset> {
        let mut offset = Offset::default();
        let mut pending = vec![web];
        let mut is_known = true;
        while let Some(id) = pending.pop() {
            if !offset.webs.insert(id) {
                continue;
            }
            seen.insert(id);
            is_known &= offset.add(context, id, &mut pending).is_some();
        }
        (is_known && offset.starts.len() + offset.sums.len() <= MAX_MEMBERS).then_some(offset)
    }

    fn add(&mut self, context: &Context, id: WebId, pending: &mut Vec<WebId>) -> Option<()> {
        let web = context.webs().get(id).filter(|w| !w.fixed)?;
        for &p in web.definitions.iter().chain(&web.uses) {
            let is_member = |w: Option<WebId>| w == Some(id);
            match *context.insn(p) {
                Insn::Mov { width, dst, src: Operand::Imm(v) } if width == Width::W64 || v >= 0 => {
                    self.starts.insert((p, dst, v));
                }
                Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } => {
                    pending.push(context.webs().id_defined(p, dst)?);
                    pending.push(context.webs().id_used(p, src)?);
                }
                Insn::Alu { width: Width::W64, op: AluOp::Add | AluOp::Sub, src: Operand::Imm(_), .. } => {}
                _ => {
                    let (to, from) = sum(context, p)?;
                    if !is_member(context.webs().id_used(p, from)) || is_member(context.webs().id_used(p, to)) {
                        return None;
                    }
                    self.sums.insert((p, to, from));
                }
            }
        }
        Some(())
    }

    /// The code that carries the sums.
    fn carried(&self, context: &Context) -> Option<Proposal> {
        let mut bases = self.sums.iter().map(|(p, to, _)| base(context, *p, *to));
        let base = bases.next()??;
        if bases.any(|b| b != Some(base)) {
            return None;
        }
        let mut changes = Changes::default();
        let mut since = usize::MAX;
        for &(p, reg, by) in &self.starts {
            since = since.min(start(context, (p, reg, by), base, &mut changes)?);
        }
        for &(p, to, from) in &self.sums {
            let copy = Insn::Mov { width: Width::W64, dst: to, src: Operand::Reg(from) };
            changes.replace(p, vec![context.instead(p, copy)]);
            let block = Block::new(context, context.block(p));
            // What was added to is not needed for its own sake.
            let was_copy =
                |q: &usize| matches!(context.insn(*q), Insn::Mov { width: Width::W64, src: Operand::Reg(_), .. });
            let made = block.writer(p, to).filter(was_copy);
            if let Some(q) = made.filter(|q| block.readers(*q, to) == [p] && !context.is_patched(*q)) {
                changes.delete(q);
            }
        }
        let mut proposal = changes.proposal("offsets").since(since);
        proposal.patience = PATIENCE;
        // Nothing makes sums of registers again.
        proposal.enables = true;
        Some(proposal)
    }
}

/// Where the number came to be, the sum does; returns from where on what it is made of must be known.
fn start(context: &Context, (p, reg, by): (usize, Reg, i32), base: Base, changes: &mut Changes) -> Option<usize> {
    let state = context.state(p)?;
    let holds = |r: Reg, distance: u64| {
        let f = &state.regs[r.index()];
        let is_pointer = matches!(f.kind, Kind::Pointer { .. });
        is_pointer && f.root == Some(base.0) && f.delta == base.1.wrapping_add(distance)
    };
    let distance = numbers::value(Width::W64, by);
    if holds(reg, distance) {
        changes.delete(p);
        return Some(context.anchor(p, reg));
    }
    let (from, adds) = match Reg::all().find(|r| holds(*r, distance)) {
        Some(r) => (r, false),
        None => (Reg::all().find(|r| holds(*r, 0))?, true),
    };
    let copy = Insn::Mov { width: Width::W64, dst: reg, src: Operand::Reg(from) };
    let add = Insn::Alu { width: Width::W64, op: AluOp::Add, dst: reg, src: Operand::Imm(by) };
    let mut nodes = vec![context.instead(p, copy)];
    nodes.extend((adds && by != 0).then(|| context.node(add)));
    changes.replace(p, nodes);
    Some(context.anchor(p, from))
}
