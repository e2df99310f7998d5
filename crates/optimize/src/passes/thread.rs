//! Ways on which later tests are already decided: they go where those tests lead, past all of them.
//!
//! ```text
//! r0 = 1                          r0 = 1
//! r5 = 1                          r5 = 1
//! if r3 == 0x81 goto one          if r3 == 0x81 goto yes
//! r5 = 0                          r5 = 0
//! one:                            one:
//! if r3 == 0xa888 goto two   =>   if r3 == 0xa888 goto two
//! r0 = 0                          r0 = 0
//! two:                            two:
//! r0 |= r5                        r0 |= r5
//! if r0 != 0x1 goto no            if r0 != 0x1 goto no
//! ..                              yes:
//! ```
//!
//! Other passes then find that what led to the tests is needless.

use super::movable::is_computation;
use super::numbers;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::{concrete_alu, concrete_compare};

/// Instructions that are followed on one way.
const MAX_STEPS: usize = 24;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let flow = &context.facts.flow;
        let insn = context.insn(p);
        let to = match insn {
            Insn::Branch { target, .. } | Insn::Jump { target, .. } => flow.positions[target],
            _ if is_computation(context, p) && flow.successors[p] == [p + 1] => p + 1,
            _ => continue,
        };
        if flow.predecessors[to].len() > 1
            && let Some(end) = Way::begun(context, p).followed(to)
        {
            out.extend(threaded(context, p, end));
        }
    }
}

/// Where a way leads, and over which positions.
struct End {
    at: usize,
    passed: Vec<usize>,
}

fn threaded(context: &Context, p: usize, end: End) -> Option<Proposal> {
    let target = context.function.nodes[end.at].id;
    let insn = match context.insn(p) {
        Insn::Branch { .. } | Insn::Jump { .. } => context.insn(p).map(|_| target, |f| f),
        // What it computes is needed on the old way only.
        _ => Insn::Jump { target, long: false },
    };
    let mut changes = Changes::default();
    changes.replace(p, vec![context.instead(p, insn)]);
    let mut proposal = changes.proposal("thread").across(end.passed);
    proposal.shortens = true;
    Some(proposal)
}

/// What is known while one way is followed.
struct Way<'c, 'a> {
    context: &'c Context<'a>,
    first: usize,
    values: [Option<u64>; Reg::COUNT],
    /// Registers written on the way.
    written: RegSet,
    /// Tests whose outcome is known, and with which registers.
    tests: Vec<(Insn<(), ()>, bool)>,
}

impl<'c, 'a> Way<'c, 'a> {
    /// The way that begins with what the instruction at `p` does, taken if it is a branch.
    fn begun(context: &'c Context<'a>, p: usize) -> Way<'c, 'a> {
        let mut values = [None; Reg::COUNT];
        Reg::all().for_each(|r| values[r.index()] = context.value(p, r));
        let mut way = Way { context, first: p, values, written: RegSet::EMPTY, tests: Vec::new() };
        match *context.insn(p) {
            Insn::Branch { .. } => way.learn(p, true),
            Insn::Jump { .. } => {}
            _ => way.compute(p),
        }
        way
    }

    /// The furthest place that certainly comes after a decided test, and where nothing matters that the
    /// way there computes.
    fn followed(mut self, start: usize) -> Option<End> {
        let (context, flow) = (self.context, &self.context.facts.flow);
        let (mut at, mut passed, mut end) = (start, Vec::new(), None);
        while passed.len() < MAX_STEPS && at > self.first && !context.is_patched(at) && !passed.contains(&at) {
            passed.push(at);
            at = match context.insn(at) {
                Insn::Jump { target, .. } => flow.positions[target],
                Insn::Branch { target, .. } => {
                    let Some(taken) = self.outcome(at) else { break };
                    let next = if taken { flow.positions[target] } else { at + 1 };
                    if next > self.first && self.written.iter().all(|r| !context.facts.live[next].contains(r)) {
                        end = Some(End { at: next, passed: passed.clone() });
                    }
                    next
                }
                _ if is_computation(context, at) => {
                    self.compute(at);
                    at + 1
                }
                _ => break,
            };
        }
        end
    }

    fn operand(&self, width: Width, src: Operand) -> Option<u64> {
        match src {
            Operand::Imm(v) => Some(numbers::value(width, v)),
            Operand::Reg(r) => self.values[r.index()],
        }
    }

    fn outcome(&self, p: usize) -> Option<bool> {
        let test = anonymous(self.context.insn(p));
        let known = self.tests.iter().find(|(insn, _)| *insn == test).map(|(_, taken)| *taken);
        let Insn::Branch { width, cond, dst, src, .. } = test else { return None };
        let decided = || Some(concrete_compare(width, cond, self.values[dst.index()]?, self.operand(width, src)?));
        known.or_else(decided)
    }

    /// The branch at `p` goes that way.
    fn learn(&mut self, p: usize, taken: bool) {
        let insn = self.context.insn(p);
        self.tests.push((anonymous(insn), taken));
        let Insn::Branch { width, cond, dst, src: Operand::Imm(v), .. } = *insn else { return };
        let is_whole = width == Width::W64 || self.context.fact(p, dst).is_some_and(|f| f.range.max <= u32::MAX as u64);
        if is_whole && cond == if taken { Condition::Eq } else { Condition::Ne } {
            self.values[dst.index()] = Some(numbers::value(width, v));
        }
    }

    fn compute(&mut self, p: usize) {
        let result = match *self.context.insn(p) {
            Insn::Mov { width: Width::W64, src, .. } => self.operand(Width::W64, src),
            Insn::Mov { width, src, .. } => self.operand(width, src).map(|v| v as u32 as u64),
            Insn::Alu { width, op, dst, src } => {
                self.values[dst.index()].and_then(|a| Some(concrete_alu(width, op, a, self.operand(width, src)?)))
            }
            _ => None,
        };
        for r in self.context.writes[p].iter() {
            self.values[r.index()] = result;
            self.written = self.written.with(r);
            self.tests.retain(|(insn, _)| !reads(insn, r));
        }
    }
}

/// A test without where it leads.
pub(super) fn anonymous(insn: &Insn) -> Insn<(), ()> {
    insn.map(|_| (), |_| ())
}

fn reads(test: &Insn<(), ()>, r: Reg) -> bool {
    matches!(test, Insn::Branch { dst, src, .. } if *dst == r || *src == Operand::Reg(r))
}
