//! Pointers that some register holds already, or held a while ago, or from which they are a known
//! distance away: sums of a register and a number, and pointers that wait on the stack.
//!
//! ```text
//! r3 = r1                  r3 = r1
//! r3 += 14                 r3 += 14
//! if r3 > r2 goto out      if r3 > r2 goto out
//! r3 = *(u16 *)(r1 + 12)   r4 = *(u16 *)(r1 + 12)
//! if w3 != 8 goto out      if w4 != 8 goto out
//! r3 = r1
//! r3 += 34            =>   r3 += 20
//! ```

use super::advance::{is_access_through, shifted};
use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use crate::renaming::{Renaming, Value};
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::{Fact, Kind};

/// Webs that are moved out of the way, at most.
const MAX_RIVALS: usize = 4;

/// Earlier sums that are looked at.
const MAX_EARLIER: usize = 3;

/// How far back, in instructions.
const MAX_DISTANCE: usize = 200;

/// A sum made by a copy and an addition; or a load, which is both.
struct Sum {
    copy: usize,
    add: usize,
    reg: Reg,
    /// What it is.
    fact: Fact,
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for loaded in block.range.clone().filter_map(|p| Sum::loaded(context, &block, p)) {
            out.extend(loaded.earlier(context).into_iter().filter_map(|at| loaded.kept(context, at)));
        }
        for sum in block.range.clone().filter_map(|p| Sum::at(context, &block, p)) {
            match sum.held(context) {
                Some(proposal) => out.push(proposal),
                None => out.extend(sum.earlier(context).into_iter().filter_map(|at| sum.kept(context, at))),
            }
        }
    }
}

impl Sum {
    fn at(context: &Context, block: &Block, add: usize) -> Option<Sum> {
        let Insn::Alu { width: Width::W64, op: AluOp::Add, dst: reg, src: Operand::Imm(by) } = *context.insn(add)
        else {
            return None;
        };
        let copy = block.writer(add, reg).filter(|q| block.readers(*q, reg) == [add])?;
        let is_copy = matches!(context.insn(copy), Insn::Mov { width: Width::W64, src: Operand::Reg(_), .. });
        let before = context.fact(add, reg).filter(|f| f.root.is_some())?;
        let fact = Fact { delta: before.delta.wrapping_add(by as i64 as u64), ..*before };
        let is_free = !context.is_patched(copy) && !context.is_patched(add);
        (is_copy && is_free).then_some(Sum { copy, add, reg, fact })
    }

    /// A pointer that is loaded from the stack.
    fn loaded(context: &Context, block: &Block, p: usize) -> Option<Sum> {
        let Insn::Load { dst, base, .. } = *context.insn(p) else { return None };
        context.fact(p, base)?.stack_offset()?;
        let (_, fact) = result(context, p).filter(|_| block.range.contains(&(p + 1)))?;
        let is_pointer = fact.root.is_some() && matches!(fact.kind, Kind::Pointer { .. });
        (!context.is_patched(p) && is_pointer).then_some(Sum { copy: p, add: p, reg: dst, fact })
    }

    /// Some register holds it.
    fn held(&self, context: &Context) -> Option<Proposal> {
        let holds =
            |p: usize, r: Reg| context.fact(p, r).is_some_and(|f| f.kind == self.fact.kind && f.is_same(&self.fact));
        if holds(self.copy, self.reg) {
            let changes = vec![(self.copy, None), (self.add, None)];
            return Some(Proposal::new("sums/unchanged", edits(changes)).since(context.anchor(self.copy, self.reg)));
        }
        let from = Reg::all().find(|r| *r != self.reg && holds(self.add, *r))?;
        let copy = Insn::Mov { width: Width::W64, dst: self.reg, src: Operand::Reg(from) };
        let changes = vec![(self.copy, None), (self.add, Some(context.instead(self.add, copy)))];
        Some(Proposal::new("sums/held", edits(changes)).since(context.anchor(self.add, from)))
    }

    /// Where something at a known distance from it was computed last, on every way to it: position,
    /// register, distance.
    fn earlier(&self, context: &Context) -> Vec<(usize, Reg, u64)> {
        let flow = &context.facts.flow;
        let mut block = flow.block_of[self.copy];
        let mut end = self.copy;
        let mut found = Vec::new();
        while self.copy - flow.blocks[block].start.min(self.copy) <= MAX_DISTANCE {
            let computed = (flow.blocks[block].start..end).rev().filter_map(|p| self.related(context, p));
            found.extend(computed.take(MAX_EARLIER - found.len()));
            let above = context.dominators()[block];
            if above == block || found.len() == MAX_EARLIER {
                break;
            }
            block = above;
            end = flow.blocks[block].end;
        }
        found
    }

    /// What an instruction computes, when the distance from it is known.
    fn related(&self, context: &Context, p: usize) -> Option<(usize, Reg, u64)> {
        let (reg, fact) = match *context.insn(p) {
            Insn::Alu { width: Width::W64, op: AluOp::Add, src: Operand::Imm(_), .. } => result(context, p)?,
            Insn::Load { .. } if matches!(self.fact.kind, Kind::Pointer { .. }) => result(context, p)?,
            _ => return None,
        };
        let is_related = fact.root == self.fact.root && fact.kind == self.fact.kind;
        is_related.then_some((p, reg, self.fact.delta.wrapping_sub(fact.delta)))
    }

    /// The earlier one stays in a register until it is needed here.
    fn kept(&self, context: &Context, (at, held, distance): (usize, Reg, u64)) -> Option<Proposal> {
        let webs = context.webs();
        let (old, new) = (webs.id_defined(at, held)?, webs.id_defined(self.add, self.reg)?);
        let value = Value { webs: vec![(old, held), (new, self.reg)], kept: context.between(at, self.copy)? };
        let in_room = |room: Reg| {
            let mut renaming = Renaming::new(context);
            for (web, reg) in value.webs.iter().filter(|(_, reg)| *reg != room) {
                renaming.add(*web, *reg, room)?;
            }
            renaming.make_room(&value, room, MAX_RIVALS)?;
            let mut changes = renaming.changes()?;
            changes.delete(self.copy);
            changes.delete(self.add);
            match (self.accesses(context, new), distance) {
                (_, 0) => {}
                (Some(accesses), _) => {
                    for q in accesses {
                        let insn = shifted(&renaming.insn(q), (distance as i64).wrapping_neg())?;
                        changes.replace(q, vec![context.instead(q, insn)]);
                    }
                }
                (None, _) if self.is_idle(context, old, held) && self.copy != self.add => {
                    let by = Operand::Imm(i32::try_from(distance as i64).ok()?);
                    let add = Insn::Alu { width: Width::W64, op: AluOp::Add, dst: room, src: by };
                    changes.replace(self.add, vec![context.instead(self.add, add)]);
                }
                _ => return None,
            }
            Some(changes.proposal("sums/kept").since(at))
        };
        [held, self.reg].into_iter().filter_map(in_room).min_by_key(|p| p.growth(context))
    }

    /// Whether the earlier one is not needed any more.
    fn is_idle(&self, context: &Context, old: WebId, held: Reg) -> bool {
        !context.facts.live[self.copy].contains(held) || context.webs().at(self.copy, held) != old
    }

    /// Who uses it, when it is only used as an address.
    fn accesses(&self, context: &Context, new: WebId) -> Option<Vec<usize>> {
        let web = context.webs().get(new)?;
        let is_own = |p: &usize| *p == self.copy || *p == self.add;
        let uses: Vec<usize> = web.uses.iter().copied().filter(|p| !is_own(p)).collect();
        let only = web.definitions.iter().all(is_own) && uses.iter().all(|p| is_access_through(context, *p, self.reg));
        only.then_some(uses)
    }
}

/// What an instruction leaves in its register.
fn result(context: &Context, p: usize) -> Option<(Reg, Fact)> {
    match *context.insn(p) {
        Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Imm(by) } => {
            let before = context.fact(p, dst)?;
            Some((dst, Fact { delta: before.delta.wrapping_add(by as i64 as u64), ..*before }))
        }
        Insn::Load { dst, .. } => {
            Some((dst, *context.fact(p + 1, dst).filter(|_| context.block(p).contains(&(p + 1)))?))
        }
        _ => None,
    }
}
