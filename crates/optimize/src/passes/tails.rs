//! Blocks that end the same way, up to the names of registers and to what is known: the second one jumps
//! into the first.
//!
//! ```text
//! r1 = *(u8 *)(r7 + 9)             r1 = *(u8 *)(r7 + 9)
//! r1 += 15                         same:
//! *(u32 *)(r10 - 4) = r1           r1 += 15
//! exit                             *(u32 *)(r10 - 4) = r1
//! other:                      =>   exit
//! r2 = *(u8 *)(r7 + 6)             other:
//! r2 += 15                         r1 = *(u8 *)(r7 + 6)
//! *(u32 *)(r10 - 4) = r2           goto same
//! exit
//! ```

use super::share::through_jumps;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use crate::registers::{Role, operands, rename};
use crate::renaming::{Renaming, Value};
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use std::collections::BTreeMap;

/// Blocks with the same ending that are compared with one another.
const MAX_ALIKE: usize = 24;

/// Most values that make room for one.
const MAX_RIVALS: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let mut alike: BTreeMap<Vec<usize>, Vec<Tail>> = BTreeMap::new();
    for block in context.facts.flow.blocks.iter().filter(|b| context.facts.is_reachable(b.start)) {
        if let Some(tail) = Tail::of(context, block.clone()) {
            alike.entry(tail.next.clone()).or_default().push(tail);
        }
    }
    for group in alike.into_values() {
        for (i, a) in group.iter().enumerate() {
            for b in group[i + 1..].iter().take(MAX_ALIKE) {
                // Code that falls through or exits takes no jump of its own away.
                merged(context, a, b, out);
                merged(context, b, a, out);
            }
        }
    }
}

/// A block, and where it leads.
struct Tail {
    start: usize,
    /// The end of what can be common: before the jump at the end.
    end: usize,
    /// The end with that jump.
    whole: usize,
    next: Vec<usize>,
    /// Jumps on the way there.
    jumps: Vec<usize>,
}

impl Tail {
    fn of(context: &Context, block: std::ops::Range<usize>) -> Option<Tail> {
        let last = block.end - 1;
        let (insn, mut jumps) = (context.insn(last), Vec::new());
        let is_jump = matches!(insn, Insn::Jump { .. });
        let target = insn.target().map(|t| context.facts.flow.positions[t]);
        let after = (!insn.ends_block()).then_some(block.end);
        let next = target.into_iter().chain(after).map(|p| through_jumps(context, p, &mut jumps));
        let next = next.collect::<Option<_>>()?;
        let end = block.end - is_jump as usize;
        (end > block.start).then_some(Tail { start: block.start, end, whole: block.end, next, jumps })
    }
}

/// Which register of one block plays the role of which of the other, where control is at the moment.
#[derive(Clone, PartialEq)]
struct Names([Option<Reg>; Reg::COUNT]);

impl Names {
    /// What matters behind the blocks has the same name in both.
    fn behind(context: &Context, next: &[usize]) -> Names {
        let mut names = Names([None; Reg::COUNT]);
        let live = next.iter().flat_map(|s| context.facts.live[*s].iter());
        live.chain([Reg::FP]).for_each(|r| names.0[r.index()] = Some(r));
        names
    }

    fn unify(&mut self, from: Reg, to: Reg) -> bool {
        match self.0[from.index()] {
            Some(known) => known == to,
            None if self.0.contains(&Some(to)) => false,
            None => {
                self.0[from.index()] = Some(to);
                true
            }
        }
    }

    /// A register gets its value here.
    fn define(&mut self, from: Reg, to: Reg) -> bool {
        self.unify(from, to) && self.0[from.index()].take().is_some()
    }

    /// Goes up over one instruction of each block, if they do the same.
    fn step(&mut self, context: &Context, p: usize, q: usize) -> bool {
        let patch = context.function.nodes[p].patch;
        if patch != context.function.nodes[q].patch {
            return false;
        }
        let b = if patch.is_some() { *context.insn(q) } else { as_known(context, q, context.insn(p)) };
        let a = *context.insn(p);
        let pairs: Vec<(Reg, Reg, Role)> = match (shape(&a), shape(&b)) {
            (Some(x), Some(y)) if x == y => {
                operands(&b).iter().zip(operands(&a)).map(|((r, role), (s, _))| (*r, s, *role)).collect()
            }
            (None, None) if a == b => {
                let (reads, writes) = (context.reads[q].iter(), context.writes[q].iter());
                writes.map(|r| (r, r, Role::Write)).chain(reads.map(|r| (r, r, Role::Read))).collect()
            }
            _ => return false,
        };
        pairs.iter().all(|(r, s, role)| *role == Role::Read || self.define(*r, *s))
            && pairs.iter().all(|(r, s, role)| *role == Role::Write || self.unify(*r, *s))
    }

    /// Registers that have another name, and which.
    fn moved(&self) -> Vec<(Reg, Reg)> {
        Reg::all().filter_map(|r| self.0[r.index()].filter(|s| *s != r).map(|s| (r, s))).collect()
    }
}

/// What an instruction does, whatever its registers and its target are.
fn shape(insn: &Insn) -> Option<Insn<()>> {
    rename(&insn.map(|_| (), |f| f), |_, _| Reg::R0)
}

/// The instruction at `q`, where it and `like` differ in whether an operand is a known constant: like that.
fn as_known(context: &Context, q: usize, like: &Insn) -> Insn {
    let insn = *context.insn(q);
    let (Some(here), Some(there)) = (source(&insn), source(like)) else { return insn };
    let (r, v) = match (here, there) {
        (Operand::Reg(r), Operand::Imm(v)) | (Operand::Imm(v), Operand::Reg(r)) => (r, v),
        _ => return insn,
    };
    match context.value(q, r) {
        Some(known) if known == v as i64 as u64 => with_source(insn, there),
        _ => insn,
    }
}

fn source(insn: &Insn) -> Option<Operand> {
    match insn {
        Insn::Alu { src, .. } | Insn::Mov { src, .. } | Insn::Store { src, .. } | Insn::Branch { src, .. } => {
            Some(*src)
        }
        _ => None,
    }
}

fn with_source(insn: Insn, src: Operand) -> Insn {
    match insn {
        Insn::Alu { width, op, dst, .. } => Insn::Alu { width, op, dst, src },
        Insn::Mov { width, dst, .. } => Insn::Mov { width, dst, src },
        Insn::Store { size, base, off, .. } => Insn::Store { size, base, off, src },
        Insn::Branch { width, cond, dst, target, .. } => Insn::Branch { width, cond, dst, src, target },
        other => other,
    }
}

/// Lets `b` jump into `a` where both go on alike: with the names that it has, and with others.
fn merged(context: &Context, a: &Tail, b: &Tail, out: &mut Vec<Proposal>) {
    let mut names = Names::behind(context, &b.next);
    let (mut plain, mut longest) = (0, (0, names.clone()));
    for k in 1..=(a.end - a.start).min(b.end - b.start) {
        if !names.step(context, a.end - k, b.end - k) {
            break;
        }
        longest = (k, names.clone());
        if names.moved().is_empty() {
            plain = k;
        }
    }
    if plain > 0 {
        out.extend(jumping(context, a, b, plain, Changes::default()));
    }
    if let (k, names) = longest
        && k > plain
        && let Some(changes) = with_names(context, b.end - k, &names)
    {
        out.extend(jumping(context, a, b, k, changes));
    }
}

/// The values that matter before `cut` in the registers in which other code has them.
fn with_names(context: &Context, cut: usize, names: &Names) -> Option<Changes> {
    let mut renaming = Renaming::new(context);
    let moved: Vec<(WebId, Reg, Reg)> =
        names.moved().into_iter().map(|(r, to)| (context.webs().at(cut, r), r, to)).collect();
    for (web, from, to) in &moved {
        renaming.add(*web, *from, *to)?;
    }
    for (web, from, to) in &moved {
        renaming.make_room(&Value::of(*web, *from), *to, MAX_RIVALS)?;
    }
    renaming.changes()
}

/// Replaces the last `k` instructions of `b` by a jump; where they are the whole block, and nothing falls
/// into it, all jumps to it go to `a` instead.
fn jumping(context: &Context, a: &Tail, b: &Tail, k: usize, mut changes: Changes) -> Option<Proposal> {
    let (from, to) = (b.end - k, a.end - k);
    let target = context.function.nodes[to].id;
    let before = &context.facts.flow.predecessors[b.start];
    let is_jump =
        |p: &usize| context.insn(*p).target() == Some(&context.function.nodes[b.start].id) && *p + 1 != b.start;
    if from == b.start && b.start > 0 && before.iter().all(is_jump) {
        for p in before {
            changes.replace(*p, vec![context.instead(*p, context.insn(*p).map(|_| target, |f| f))]);
        }
        (from..b.whole).for_each(|p| changes.delete(p));
    } else {
        (from + 1..b.whole).for_each(|p| changes.delete(p));
        changes.replace(from, vec![context.instead(from, Insn::Jump { target, long: false })]);
    }
    let proposal = changes.proposal("tails").with(to..a.whole);
    let since = (from..b.end).flat_map(|q| operands(context.insn(to + q - from)).into_iter().map(move |(r, _)| (q, r)));
    let since = since.filter(|(q, r)| context.value(*q, *r).is_some()).map(|(q, r)| context.anchor(q, r)).min();
    let proposal = since.into_iter().fold(proposal, Proposal::since);
    Some(proposal.across(a.jumps.iter().chain(&b.jumps).copied()))
}
