//! Webs that move to other registers, several at once.

use crate::context::Context;
use crate::proposal::Changes;
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use std::collections::{BTreeMap, BTreeSet};

/// Which web moves from which register to which.
#[derive(Clone)]
pub struct Renaming<'c, 'a> {
    context: &'c Context<'a>,
    moves: BTreeMap<WebId, (Reg, Reg)>,
}

impl<'c, 'a> Renaming<'c, 'a> {
    /// No web moves.
    pub fn new(context: &'c Context<'a>) -> Renaming<'c, 'a> {
        Renaming { context, moves: BTreeMap::new() }
    }

    /// Moves a web; `None` when it cannot be moved.
    pub fn add(&mut self, web: WebId, from: Reg, to: Reg) -> Option<()> {
        self.context.webs().get(web).filter(|w| !w.fixed && to != Reg::FP)?;
        self.moves.insert(web, (from, to));
        Some(())
    }

    /// Other webs that would be in `to` while `web`, now in `from`, lives; `None` when it is also
    /// overwritten by a call or by what nobody reads.
    pub fn conflicts(&self, web: WebId, from: Reg, to: Reg) -> Option<BTreeSet<WebId>> {
        let (facts, webs) = (self.context.facts, self.context.webs());
        let lives = |p: usize| facts.live[p].contains(from) && webs.at(p, from) == web;
        let mut others = BTreeSet::new();
        for p in 0..self.context.len() {
            let stays = !self.context.writes[p].contains(from);
            let lives_on = facts.flow.successors[p].iter().any(|s| lives(*s));
            let is_read = self.context.live_after(p).contains(to);
            if self.context.writes[p].contains(to) && lives(p) && stays && lives_on && !is_read {
                return None;
            }
            if lives(p) {
                let here = facts.live[p].iter().map(|r| (r, webs.at(p, r)));
                others.extend(here.filter(|(r, w)| *w != web && self.place(*r, *w) == to).map(|(_, w)| w));
            }
        }
        Some(others)
    }

    fn place(&self, reg: Reg, web: WebId) -> Reg {
        self.moves.get(&web).map_or(reg, |(_, to)| *to)
    }

    /// The instructions with their new registers; copies of a register to itself are left out.
    pub fn changes(&self) -> Option<Changes> {
        let webs = self.context.webs();
        let moved = self.moves.keys().filter_map(|id| webs.get(*id));
        let members: BTreeSet<usize> = moved.flat_map(|w| w.definitions.iter().chain(&w.uses)).copied().collect();
        let mut changes = Changes::default();
        for p in members {
            let place = |r: Reg, web: Option<WebId>| web.map_or(r, |web| self.place(r, web));
            let definition = |r: Reg| place(r, webs.id_defined(p, r));
            let used = |r: Reg| place(r, webs.id_used(p, r));
            let insn = mapped(self.context.insn(p), &definition, &used);
            match insn {
                _ if self.context.is_patched(p) => return None,
                Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } if dst == src => changes.delete(p),
                _ => changes.replace(p, vec![self.context.instead(p, insn)]),
            }
        }
        Some(changes)
    }
}

/// An instruction with other registers where it writes and where it only reads.
pub fn mapped(insn: &Insn, definition: &dyn Fn(Reg) -> Reg, used: &dyn Fn(Reg) -> Reg) -> Insn {
    let (d, u) = (definition, used);
    let o = |src: Operand| match src {
        Operand::Reg(r) => Operand::Reg(u(r)),
        imm => imm,
    };
    match *insn {
        Insn::Alu { width, op, dst, src } => Insn::Alu { width, op, dst: d(dst), src: o(src) },
        Insn::Mov { width, dst, src } => Insn::Mov { width, dst: d(dst), src: o(src) },
        Insn::MovSx { width, bits, dst, src } => Insn::MovSx { width, bits, dst: d(dst), src: u(src) },
        Insn::Neg { width, dst } => Insn::Neg { width, dst: d(dst) },
        Insn::Endian { order, bits, dst } => Insn::Endian { order, bits, dst: d(dst) },
        Insn::LoadImm { dst, value } => Insn::LoadImm { dst: d(dst), value },
        Insn::Load { size, signed, dst, base, off } => Insn::Load { size, signed, dst: d(dst), base: u(base), off },
        Insn::Store { size, base, off, src } => Insn::Store { size, base: u(base), off, src: o(src) },
        Insn::Atomic { op, fetch, size, base, off, src } => {
            Insn::Atomic { op, fetch, size, base: u(base), off, src: if fetch { d(src) } else { u(src) } }
        }
        Insn::LoadAcquire { size, dst, base, off } => Insn::LoadAcquire { size, dst: d(dst), base: u(base), off },
        Insn::StoreRelease { size, base, off, src } => Insn::StoreRelease { size, base: u(base), off, src: u(src) },
        Insn::Branch { width, cond, dst, src, target } => {
            Insn::Branch { width, cond, dst: u(dst), src: o(src), target }
        }
        other => other,
    }
}
