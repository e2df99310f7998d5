//! Branches that together choose by the value of one register, as a compiler makes them of a `switch`:
//! the tests in a row, each result set once before the tests that lead to it.
//!
//! ```text
//! w3 = 1                           w3 = 4
//! if w0 s> 0x8846 goto high        if w0 == 0x86dd goto out
//! if w0 == 0x8100 goto out         w3 = 1
//! if w0 != 0x86dd goto none   =>   if w0 == 0x8100 goto out
//! w3 = 4                           if w0 != 0x88a8 goto none
//! goto out                         out:
//! high:
//! if w0 != 0x88a8 goto none
//! out:
//! ```
//!
//! The old code is run on numbers from every interval between the constants it compares with. Where a
//! result comes into the very register, or the constants fit into no instruction, a copy is looked at, with
//! a number added.

use super::numbers::load;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::{concrete_alu, concrete_compare};
use std::collections::{BTreeMap, BTreeSet};

/// Most instructions that choose, and most results whose order is tried out.
const MAX_REGION: usize = 48;
const MAX_OUTCOMES: usize = 6;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        let Insn::Branch { dst, width, .. } = *context.insn(p) else { continue };
        if compared(context, p).is_some() {
            out.extend(Choice::at(context, p, dst, width).and_then(|choice| choice.in_a_row()));
        }
    }
}

/// The number that a branch compares with.
fn compared(context: &Context, p: usize) -> Option<u64> {
    match *context.insn(p) {
        Insn::Branch { src: Operand::Imm(v), .. } => Some(v as i64 as u64),
        Insn::Branch { src: Operand::Reg(r), .. } => context.value(p, r),
        _ => None,
    }
}

/// What a register holds while the old code runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Held {
    /// What it held before.
    Old,
    /// A constant.
    Constant(u64),
    /// A number computed from the one that is looked at.
    Computed(u64),
}

/// Where the old code leads and what it leaves in the registers that matter there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Outcome {
    to: usize,
    sets: BTreeMap<Reg, u64>,
}

/// Code that chooses by the value of `by`.
struct Choice<'c, 'a> {
    context: &'c Context<'a>,
    start: usize,
    by: Reg,
    width: Width,
    /// Whether the register has a high half, at which nobody here looks.
    is_low_half: bool,
    region: BTreeSet<usize>,
    /// Inclusive ranges of numbers with the same outcome, ascending, together all that there can be.
    ranges: Vec<(u64, u64, Outcome)>,
}

impl<'c, 'a> Choice<'c, 'a> {
    fn at(context: &'c Context<'a>, branch: usize, by: Reg, width: Width) -> Option<Choice<'c, 'a>> {
        let block = context.block(branch);
        let is_constant =
            |p: &usize| matches!(context.insn(*p), Insn::Mov { dst, src: Operand::Imm(_), .. } if *dst != by);
        let above = (block.start..branch).rev().take_while(|p| is_constant(p) && !context.is_patched(*p)).count();
        let start = branch - above;
        let range = context.fact(start, by)?.range;
        let is_low_half = range.max > u32::MAX as u64;
        if is_low_half && width == Width::W64 {
            return None;
        }
        let (min, max) = if is_low_half { (0, u32::MAX as u64) } else { (range.min, range.max) };
        let mut choice = Choice { context, start, by, width, is_low_half, region: BTreeSet::new(), ranges: Vec::new() };
        let region = choice.trimmed(choice.grown());
        let (points, mut used) = (choice.points(&region, min, max), BTreeSet::new());
        for bounds in points.windows(2) {
            let (first, last) = (bounds[0], bounds[1] - 1);
            let outcome = choice.run(&region, first, first == last, &mut used)?;
            if choice.run(&region, last, first == last, &mut used)? != outcome {
                return None;
            }
            match choice.ranges.last_mut() {
                Some((_, end, other)) if *other == outcome => *end = last,
                _ => choice.ranges.push((first, last, outcome)),
            }
        }
        // What one number runs through, another must not leave by.
        let leaves = choice.ranges.iter().any(|(.., o)| used.contains(&o.to));
        choice.region = used;
        let branches = choice.region.iter().filter(|p| matches!(context.insn(**p), Insn::Branch { .. })).count();
        (!leaves && branches > 1).then_some(choice)
    }

    /// Instructions behind the start that only choose, and to which nothing else leads.
    fn grown(&self) -> BTreeSet<usize> {
        let flow = &self.context.facts.flow;
        let mut region = BTreeSet::from([self.start]);
        let mut pending = vec![self.start];
        while let Some(p) = pending.pop() {
            for &next in &flow.successors[p] {
                let is_inside = flow.predecessors[next].iter().all(|q| region.contains(q));
                if is_inside && region.len() < MAX_REGION && self.chooses(next) && region.insert(next) {
                    pending.push(next);
                }
            }
        }
        region
    }

    /// Without what comes after the choice: the beginning of code to which only one way leads.
    fn trimmed(&self, mut region: BTreeSet<usize>) -> BTreeSet<usize> {
        let flow = &self.context.facts.flow;
        let leads_on = |region: &BTreeSet<usize>, p: usize| {
            let [next] = flow.successors[p].as_slice() else { return false };
            p != self.start
                && !region.contains(next)
                && flow.predecessors[*next].iter().filter(|q| region.contains(q)).count() == 1
        };
        while let Some(p) = region.iter().copied().find(|p| leads_on(&region, *p)) {
            region.remove(&p);
        }
        region
    }

    fn chooses(&self, p: usize) -> bool {
        let is_kind = matches!(
            self.context.insn(p),
            Insn::Jump { .. } | Insn::Mov { .. } | Insn::Alu { op: AluOp::Add | AluOp::Sub, src: Operand::Imm(_), .. }
        );
        (is_kind || compared(self.context, p).is_some()) && !self.context.is_patched(p)
    }

    /// Where ranges with different outcomes can begin, and one past the end.
    fn points(&self, region: &BTreeSet<usize>, min: u64, max: u64) -> Vec<u64> {
        let (mut compared, mut added) = (BTreeSet::new(), BTreeSet::from([0u64]));
        for p in region {
            if let Some(v) = self::compared(self.context, *p) {
                compared.extend([v as u32 as u64, v]);
            }
            match *self.context.insn(*p) {
                Insn::Alu { op: AluOp::Add, src: Operand::Imm(v), .. } => _ = added.insert(v as i64 as u64),
                Insn::Alu { op: AluOp::Sub, src: Operand::Imm(v), .. } => {
                    _ = added.insert((v as i64 as u64).wrapping_neg())
                }
                _ => {}
            }
        }
        let mut points = BTreeSet::from([min, max + 1]);
        for c in compared.iter().chain([&0, &0x8000_0000]) {
            for a in &added {
                for point in [c.wrapping_sub(*a), c.wrapping_sub(*a) & u32::MAX as u64] {
                    points.extend([point, point.wrapping_add(1)].into_iter().filter(|p| (min..=max).contains(p)));
                }
            }
        }
        points.into_iter().collect()
    }

    /// Runs the old code on one number, perhaps the only one that goes its way.
    fn run(
        &self,
        region: &BTreeSet<usize>,
        number: u64,
        is_single: bool,
        used: &mut BTreeSet<usize>,
    ) -> Option<Outcome> {
        let mut held = [Held::Old; Reg::COUNT];
        held[self.by.index()] = Held::Computed(number);
        let mut p = self.start;
        for _ in 0..MAX_REGION {
            let Some(next) = region.contains(&p).then(|| self.step(p, &mut held)).flatten() else {
                return self.outcome(p, number, is_single, &held);
            };
            used.insert(p);
            p = next;
        }
        None
    }

    /// Executes one instruction; nothing where it needs what is not known.
    fn step(&self, p: usize, held: &mut [Held; Reg::COUNT]) -> Option<usize> {
        let number = |r: Reg, width: Width| match held[r.index()] {
            Held::Computed(_) if self.is_low_half && r == self.by && width == Width::W64 => None,
            Held::Old => self.context.value(p, r),
            Held::Constant(v) | Held::Computed(v) => Some(v),
        };
        let positions = &self.context.facts.flow.positions;
        match *self.context.insn(p) {
            Insn::Jump { target, .. } => return Some(positions[&target]),
            Insn::Branch { width, cond, dst, src, target } => {
                let with = match src {
                    Operand::Imm(v) => v as i64 as u64,
                    Operand::Reg(r) => number(r, width)?,
                };
                let taken = concrete_compare(width, cond, number(dst, width)?, with);
                return Some(if taken { positions[&target] } else { p + 1 });
            }
            Insn::Mov { width, dst, src: Operand::Imm(v) } => {
                held[dst.index()] = Held::Constant(if width == Width::W32 { v as u32 as u64 } else { v as i64 as u64 });
            }
            Insn::Mov { width, dst, src: Operand::Reg(r) } => {
                let value = if width == Width::W32 { number(r, width)? as u32 as u64 } else { number(r, width)? };
                held[dst.index()] = Held::Computed(value);
            }
            Insn::Alu { width, op, dst, src: Operand::Imm(v) } => {
                held[dst.index()] = Held::Computed(concrete_alu(width, op, number(dst, width)?, v as i64 as u64));
            }
            _ => return None,
        }
        Some(p + 1)
    }

    fn outcome(&self, to: usize, number: u64, is_single: bool, held: &[Held; Reg::COUNT]) -> Option<Outcome> {
        let mut sets = BTreeMap::new();
        for r in self.context.facts.live.get(to)?.iter() {
            match held[r.index()] {
                Held::Old => {}
                Held::Constant(v) => _ = sets.insert(r, v),
                Held::Computed(v) if r == self.by && v == number => {}
                Held::Computed(v) if is_single => _ = sets.insert(r, v),
                Held::Computed(_) => return None,
            }
        }
        Some(Outcome { to, sets })
    }

    /// The cheapest row of tests.
    fn in_a_row(&self) -> Option<Proposal> {
        let mut outcomes: Vec<&Outcome> = Vec::new();
        for (.., outcome) in &self.ranges {
            if !outcomes.contains(&outcome) {
                outcomes.push(outcome);
            }
        }
        let size = |o: &Outcome| self.ranges.iter().filter(|r| r.2 == *o).map(|r| r.1 - r.0 + 1).sum::<u64>();
        let default = (0..outcomes.len()).max_by_key(|i| (size(outcomes[*i]), std::cmp::Reverse(*i)))?;
        let default = outcomes.remove(default);
        if outcomes.len() > MAX_OUTCOMES {
            return None;
        }
        let looked_at = self.looked_at(&outcomes, default)?;
        let best = orders(outcomes.len()).into_iter().filter_map(|order| {
            let order: Vec<&Outcome> = order.iter().map(|i| outcomes[*i]).collect();
            self.row(&looked_at, &order, default)
        });
        let insns = best.min_by_key(Vec::len)?;
        let mut nodes = insns.into_iter();
        let mut new = vec![self.context.instead(self.start, nodes.next()?)];
        new.extend(nodes.map(|insn| self.context.node(insn)));
        let mut changes = Changes::default();
        self.region.iter().for_each(|p| changes.delete(*p));
        changes.replace(self.start, new);
        Some(changes.proposal("switch"))
    }

    /// What the tests look at: the register itself, unless a result comes into it or the numbers do not fit.
    fn looked_at(&self, outcomes: &[&Outcome], default: &Outcome) -> Option<LookedAt> {
        let numbers = || outcomes.iter().flat_map(|o| self.ranges_of(o)).flat_map(|(from, to)| [from, to]);
        let mut added = 0;
        if self.width == Width::W64 && numbers().any(|n| n > i32::MAX as u64) {
            added = numbers().map(|n| n as u32 as i32).min()?.checked_neg()? as u32;
        }
        let all = || outcomes.iter().copied().chain([default]);
        let is_needed = |r: Reg| all().any(|o| self.context.facts.live[o.to].contains(r));
        let is_replaced = outcomes.iter().any(|o| o.sets.contains_key(&self.by));
        if !is_replaced && (added == 0 || !is_needed(self.by)) {
            return Some(LookedAt { reg: self.by, added });
        }
        let is_free = |r: &Reg| *r != Reg::FP && !self.context.facts.live[self.start].contains(*r) && !is_needed(*r);
        Some(LookedAt { reg: Reg::all().find(is_free)?, added })
    }

    /// The tests for these outcomes one after another, and what is left for the default.
    fn row(&self, looked_at: &LookedAt, order: &[&Outcome], default: &Outcome) -> Option<Vec<Insn>> {
        let mut row = Row { choice: self, looked_at, insns: Vec::new(), held: BTreeMap::new() };
        row.look();
        let next = (self.start..).find(|p| !self.region.contains(p))?;
        let (last, others) = order.split_last()?;
        for outcome in others {
            row.sets(outcome)?;
            for (from, to) in self.ranges_of(outcome) {
                row.test(from, to, outcome.to)?;
            }
        }
        row.sets(last)?;
        let ranges = self.ranges_of(last);
        let ((from, to), others) = ranges.split_last()?;
        for (from, to) in others {
            row.test(*from, *to, last.to)?;
        }
        if last.to == next && row.holds(default) && from == to {
            row.branch(Condition::Ne, *from, default.to)?;
            return Some(row.insns);
        }
        row.test(*from, *to, last.to)?;
        row.sets(default)?;
        if default.to != next {
            row.insns.push(Insn::Jump { target: self.id(default.to), long: false });
        }
        Some(row.insns)
    }

    fn ranges_of(&self, outcome: &Outcome) -> Vec<(u64, u64)> {
        self.ranges.iter().filter(|r| r.2 == *outcome).map(|r| (r.0, r.1)).collect()
    }

    fn id(&self, position: usize) -> InsnId {
        self.context.function.nodes[position].id
    }
}

/// The register that tests look at, and what is added to the number there.
struct LookedAt {
    reg: Reg,
    added: u32,
}

/// A row of tests in the making.
struct Row<'r, 'c, 'a> {
    choice: &'r Choice<'c, 'a>,
    looked_at: &'r LookedAt,
    insns: Vec<Insn>,
    /// Constants set so far.
    held: BTreeMap<Reg, u64>,
}

impl Row<'_, '_, '_> {
    /// Puts the number where the tests look.
    fn look(&mut self) {
        let LookedAt { reg: dst, added } = *self.looked_at;
        if dst != self.choice.by {
            self.insns.push(Insn::Mov { width: Width::W64, dst, src: Operand::Reg(self.choice.by) });
        }
        if added != 0 {
            let src = Operand::Imm(added as i32);
            self.insns.push(Insn::Alu { width: Width::W32, op: AluOp::Add, dst, src });
        }
    }

    /// Whether an outcome finds its constants set, and only those.
    fn holds(&self, outcome: &Outcome) -> bool {
        let live = self.choice.context.facts.live[outcome.to];
        let is_kept = self.held.keys().all(|r| outcome.sets.contains_key(r) || !live.contains(*r));
        is_kept && outcome.sets.iter().all(|(r, v)| self.held.get(r) == Some(v))
    }

    fn sets(&mut self, outcome: &Outcome) -> Option<()> {
        for (r, v) in &outcome.sets {
            if self.held.insert(*r, *v) != Some(*v) {
                self.insns.push(load(*r, *v)?);
            }
        }
        self.holds(outcome).then_some(())
    }

    fn branch(&mut self, cond: Condition, number: u64, to: usize) -> Option<()> {
        let (width, dst, target) = (self.choice.width, self.looked_at.reg, self.choice.id(to));
        let number =
            if self.looked_at.added == 0 { number } else { (number as u32).wrapping_add(self.looked_at.added) as u64 };
        let fits = width == Width::W32 || number <= i32::MAX as u64;
        let src = Operand::Imm(number as u32 as i32);
        self.insns.push(Insn::Branch { width, cond, dst, src, target });
        fits.then_some(())
    }

    /// Branches to `to` for the numbers in an inclusive range.
    fn test(&mut self, from: u64, to: u64, target: usize) -> Option<()> {
        let (first, last) = (self.choice.ranges.first()?.0, self.choice.ranges.last()?.1);
        let is_ordered = self.looked_at.added == 0;
        match () {
            _ if from == to => self.branch(Condition::Eq, from, target),
            _ if from == first && is_ordered => self.branch(Condition::Le, to, target),
            _ if to == last && is_ordered => self.branch(Condition::Ge, from, target),
            _ if to == from + 1 => {
                self.branch(Condition::Eq, from, target)?;
                self.branch(Condition::Eq, to, target)
            }
            _ => None,
        }
    }
}

/// All orders of that many things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(n - 1);
    (0..n)
        .flat_map(|at| shorter.iter().map(move |o| [&o[..at.min(o.len())], &[n - 1], &o[at.min(o.len())..]].concat()))
        .collect()
}
