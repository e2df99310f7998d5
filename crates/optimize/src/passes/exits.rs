//! Constants that a function returns: set at its end, with one end for each, and not in front of the
//! branches to a common one.
//!
//! ```text
//! w6 = 1
//! if r1 > r2 goto L1         if r1 > r2 goto L1
//! ..                         ..
//! call bpf_redirect          call bpf_redirect
//! r6 = r0               =>   exit
//! L1:                        L1:
//! w0 = w6                    w0 = 1
//! exit                       exit
//! ```

use crate::context::Context;
use crate::draft::Draft;
use crate::passes::numbers;
use crate::proposal::Proposal;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use std::collections::BTreeMap;

/// Constants of one end that are looked at; each subset is tried.
const MAX_CONSTANTS: usize = 4;

/// How much larger than usual windows may be: a function has few ends.
const PATIENCE: usize = 12;

/// The last instructions of a function, which nothing but the end of others leads to.
pub(super) struct End {
    pub(super) first: usize,
    pub(super) exit: usize,
    /// The register that is returned.
    pub(super) reg: Reg,
}

/// A way to an end.
pub(super) struct Arrival {
    /// The instruction before.
    pub(super) from: usize,
    pub(super) falls: bool,
    /// What will be returned.
    pub(super) constant: Option<u64>,
    /// Whether that is in `r0` already.
    is_there: bool,
}

/// What a way needs to be followed by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Exit,
    Copy,
    Constant(u64),
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for end in all(context) {
        let arrivals = arrivals(context, &end);
        let mut constants: Vec<u64> = arrivals.iter().filter_map(|a| a.constant).collect();
        constants.sort_unstable();
        constants.dedup();
        constants.truncate(MAX_CONSTANTS);
        let tails = tails(context, &end);
        let best = (1u32..1 << constants.len())
            .filter_map(|subset| {
                let chosen = |c: u64| constants.iter().position(|k| *k == c).is_some_and(|i| subset >> i & 1 == 1);
                let endings: Vec<Ending> = arrivals.iter().map(|a| ending(&end, a, &chosen)).collect();
                rebuilt(context, &end, &tails, &arrivals, &endings)
            })
            .min_by_key(|p| p.growth(context));
        out.extend(best);
    }
}

/// The ends of a function.
pub(super) fn all<'c>(context: &'c Context) -> impl Iterator<Item = End> + 'c {
    let exits = (0..context.len()).filter(|p| *context.insn(*p) == Insn::Exit && context.facts.is_reachable(*p));
    exits.filter_map(|exit| end(context, exit))
}

fn end(context: &Context, exit: usize) -> Option<End> {
    let first = context.block(exit).start;
    match *context.insn(first) {
        Insn::Exit if first > 0 => Some(End { first, exit, reg: Reg::R0 }),
        Insn::Mov { dst: Reg::R0, src: Operand::Reg(reg), .. } if first + 1 == exit && first > 0 => {
            Some(End { first, exit, reg })
        }
        _ => None,
    }
}

pub(super) fn arrivals(context: &Context, end: &End) -> Vec<Arrival> {
    let flow = &context.facts.flow;
    let reachable = flow.predecessors[end.first].iter().filter(|p| context.facts.is_reachable(**p));
    reachable.map(|&from| arrival(context, end, from)).collect()
}

/// Where else a constant is returned.
pub(super) fn tails(context: &Context, end: &End) -> BTreeMap<u64, usize> {
    let is_exit = |p: usize| *context.insn(p) == Insn::Exit;
    let returns = |p: &usize| {
        let next = context.facts.flow.successors[*p].first().copied();
        let after = next.and_then(|n| context.insn(n).target().map(|t| context.facts.flow.positions[t]));
        let jumps = next.is_some_and(|n| matches!(context.insn(n), Insn::Jump { .. }) && after.is_some_and(is_exit));
        !(end.first..=end.exit).contains(p) && !context.is_patched(*p) && (next.is_some_and(is_exit) || jumps)
    };
    let constants = (0..context.len()).filter(|p| context.facts.is_reachable(*p)).filter_map(|p| {
        let Insn::Mov { width, dst: Reg::R0, src: Operand::Imm(v) } = *context.insn(p) else { return None };
        Some((numbers::value(width, v), p))
    });
    constants.filter(|(_, p)| returns(p)).collect()
}

/// Positions of a tail up to its exit.
pub(super) fn extent(context: &Context, tail: usize) -> Vec<std::ops::Range<usize>> {
    let next = tail + 1;
    let exit = context.insn(next).target().map(|t| context.facts.flow.positions[t]);
    std::iter::once(tail..next + 1).chain(exit.map(|e| e..e + 1)).collect()
}

fn arrival(context: &Context, end: &End, from: usize) -> Arrival {
    let insn = context.insn(from);
    let falls = insn.target() != Some(&context.function.nodes[end.first].id);
    let writes = context.writes[from].contains(end.reg);
    let constant = match *insn {
        Insn::Mov { width, src: Operand::Imm(v), .. } if writes => Some(numbers::value(width, v)),
        _ if writes => None,
        _ => context.value(from, end.reg),
    };
    let known = context.fact(from, end.reg).zip(context.fact(from, Reg::R0));
    let is_there = match *insn {
        _ if end.reg == Reg::R0 => true,
        Insn::Mov { width: Width::W64, src: Operand::Reg(Reg::R0), .. } if writes => true,
        _ if writes || context.writes[from].contains(Reg::R0) => false,
        _ if constant.is_some() && number_in_r0(insn, falls) == constant => true,
        _ => known.is_some_and(|(a, b)| a.is_same(b)),
    };
    Arrival { from, falls, constant, is_there }
}

/// What a branch says of `r0` when control goes that way.
fn number_in_r0(insn: &Insn, falls: bool) -> Option<u64> {
    match *insn {
        Insn::Branch { width: Width::W64, cond, dst: Reg::R0, src: Operand::Imm(v), .. }
            if cond == (if falls { Condition::Ne } else { Condition::Eq }) =>
        {
            Some(v as i64 as u64)
        }
        _ => None,
    }
}

fn ending(end: &End, arrival: &Arrival, chosen: &dyn Fn(u64) -> bool) -> Ending {
    match arrival.constant {
        _ if arrival.is_there && end.reg != Reg::R0 => Ending::Exit,
        Some(c) if chosen(c) => Ending::Constant(c),
        _ if end.reg == Reg::R0 => Ending::Exit,
        _ => Ending::Copy,
    }
}

/// The function with these endings, and without what they make needless.
fn rebuilt(
    context: &Context,
    end: &End,
    tails: &BTreeMap<u64, usize>,
    arrivals: &[Arrival],
    endings: &[Ending],
) -> Option<Proposal> {
    let mut kinds: Vec<Ending> = Vec::new();
    // What control falls into comes first, else what needs an instruction before the exit.
    let fallen = arrivals.iter().zip(endings).find(|(a, _)| a.falls).map(|(_, e)| *e);
    kinds.extend(fallen);
    for e in endings.iter().filter(|e| **e != Ending::Exit).chain(endings) {
        if !kinds.contains(e) {
            kinds.push(*e);
        }
    }
    // Constants that are returned elsewhere need no end of their own.
    let elsewhere = |kind: &Ending| match kind {
        Ending::Constant(c) if fallen != Some(*kind) => tails.get(c).copied(),
        _ => None,
    };
    let mut places: Vec<(Ending, InsnId)> =
        kinds.iter().filter_map(|k| Some((*k, context.function.nodes[elsewhere(k)?].id))).collect();
    let needs = kinds.iter().filter_map(&elsewhere).flat_map(|tail| extent(context, tail)).collect();
    kinds.retain(|k| elsewhere(k).is_none());
    let mut nodes: Vec<Node> = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let exit = context.function.nodes[end.exit].clone();
        let set = match kind {
            // The bare exit is the one of the first ending.
            Ending::Exit if i > 0 => {
                places.push((*kind, exit.id));
                continue;
            }
            Ending::Exit => None,
            Ending::Copy => Some(context.function.nodes[end.first].clone()),
            Ending::Constant(c) => Some(context.node(numbers::load(Reg::R0, *c)?)),
        };
        let exit = if i == 0 { exit } else { context.node(Insn::Exit) };
        places.push((*kind, set.as_ref().map_or(exit.id, |n| n.id)));
        nodes.extend(set.into_iter().chain([exit]));
    }
    let mut draft = Draft::new(context);
    for p in end.first..end.exit {
        draft.put(p, Vec::new());
    }
    draft.put(end.exit, nodes);
    for (arrival, ending) in arrivals.iter().zip(endings).filter(|(a, _)| !a.falls) {
        let (_, target) = places.iter().find(|(kind, _)| kind == ending)?;
        if *target != context.function.nodes[end.first].id {
            let insn = context.insn(arrival.from).map(|_| *target, |f| f);
            draft.put(arrival.from, vec![context.instead(arrival.from, insn)]);
        }
    }
    draft.drop_needless();
    let mut proposal = Proposal::new("exits", draft.edits());
    proposal.needs = needs;
    proposal.patience = PATIENCE;
    Some(proposal)
}
