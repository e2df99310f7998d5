//! Webs that move to other registers, several at once.

use crate::context::Context;
use crate::proposal::Changes;
use crate::registers::{Role, rename};
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use std::collections::{BTreeMap, BTreeSet};

/// Which web moves from which register to which.
#[derive(Clone)]
pub struct Renaming<'c, 'a> {
    context: &'c Context<'a>,
    moves: BTreeMap<WebId, (Reg, Reg)>,
}

/// Webs that hold one value, and where that must be kept besides.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// The webs, with their registers.
    pub webs: Vec<(WebId, Reg)>,
    /// Positions before which it must be there, though no web lives there.
    pub kept: BTreeSet<usize>,
}

impl Value {
    /// The value of a web.
    pub fn of(web: WebId, reg: Reg) -> Value {
        Value { webs: vec![(web, reg)], kept: BTreeSet::new() }
    }

    fn is_part(&self, web: WebId) -> bool {
        self.webs.iter().any(|(w, _)| *w == web)
    }

    /// Whether it is needed before a position.
    fn lives(&self, context: &Context, p: usize) -> bool {
        let is_here =
            |(web, reg): &(WebId, Reg)| context.facts.live[p].contains(*reg) && context.webs().at(p, *reg) == *web;
        self.kept.contains(&p) || self.webs.iter().any(is_here)
    }
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

    /// Other webs that would be in `to` while `value` lives there.
    pub fn conflicts(&self, value: &Value, to: Reg) -> BTreeSet<WebId> {
        let webs = self.context.webs();
        let mut others: BTreeSet<WebId> = value.kept.iter().flat_map(|p| self.conflicts_at(value, *p, to)).collect();
        for (mine, _) in &value.webs {
            others.extend(webs.beside(*mine, to).filter(|web| !self.moves.contains_key(web)));
            let moved = self.moves.iter().filter(|(_, (_, place))| *place == to);
            others.extend(moved.filter(|(web, (reg, _))| webs.is_beside(*mine, **web, *reg)).map(|(web, _)| *web));
        }
        others.retain(|web| !value.is_part(*web));
        others
    }

    /// The webs that would be in `to` where `value` is kept.
    fn conflicts_at(&self, value: &Value, p: usize, to: Reg) -> impl Iterator<Item = WebId> {
        let (facts, webs) = (self.context.facts, self.context.webs());
        let goes_on = facts.flow.successors[p].iter().any(|s| value.lives(self.context, *s));
        let written = self.context.writes[p].iter().filter(move |_| goes_on);
        let written = written.filter_map(move |r| Some((r, webs.id_defined(p, r)?)));
        let all = facts.live[p].iter().map(move |r| (r, webs.at(p, r))).chain(written);
        all.filter(move |(reg, web)| self.place(*reg, *web) == to).map(|(_, web)| web)
    }

    /// Moves what is in the way of `value` in `to` to registers that are free; `None` when there are none.
    pub fn make_room(&mut self, value: &Value, to: Reg, most: usize) -> Option<()> {
        let rivals = self.conflicts(value, to);
        if rivals.len() > most {
            return None;
        }
        let homes: Vec<Reg> = value.webs.iter().map(|(_, r)| *r).filter(|r| *r != to).collect();
        for rival in rivals {
            let places = homes.iter().copied().chain(Reg::all().filter(|r| *r != to && *r != Reg::FP));
            let rival_value = Value::of(rival, to);
            let free = places.into_iter().find(|r| self.conflicts(&rival_value, *r).is_empty())?;
            self.add(rival, to, free)?;
        }
        Some(())
    }

    fn place(&self, reg: Reg, web: WebId) -> Reg {
        self.moves.get(&web).map_or(reg, |(_, to)| *to)
    }

    /// An instruction with its new registers.
    pub fn insn(&self, p: usize) -> Insn {
        let webs = self.context.webs();
        let place = |r: Reg, web: Option<WebId>| web.map_or(r, |web| self.place(r, web));
        let definition = |r: Reg| place(r, webs.id_defined(p, r));
        let used = |r: Reg| place(r, webs.id_used(p, r));
        mapped(self.context.insn(p), &definition, &used)
    }

    /// The instructions with their new registers; copies of a register to itself are left out.
    pub fn changes(&self) -> Option<Changes> {
        let webs = self.context.webs();
        let moved = self.moves.keys().filter_map(|id| webs.get(*id));
        let members: BTreeSet<usize> = moved.flat_map(|w| w.definitions.iter().chain(&w.uses)).copied().collect();
        let mut changes = Changes::default();
        for p in members {
            let insn = self.insn(p);
            match insn {
                Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } if dst == src => changes.delete(p),
                _ => changes.replace(p, vec![self.context.instead(p, insn)]),
            }
        }
        Some(changes)
    }
}

/// An instruction with other registers where it writes and where it only reads.
pub fn mapped(insn: &Insn, definition: &dyn Fn(Reg) -> Reg, used: &dyn Fn(Reg) -> Reg) -> Insn {
    let name = |r: Reg, role: Role| if role == Role::Read { used(r) } else { definition(r) };
    rename(insn, name).unwrap_or(*insn)
}
