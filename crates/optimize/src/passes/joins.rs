//! Values that differ by the way one came, and that are only needed where the ways join: each way
//! does at once what the join would do with its value, or nothing where that changes nothing.
//!
//! ```text
//! w6 = 1
//! call bpf_map_lookup_elem         call bpf_map_lookup_elem
//! if r0 == 0x0 goto out            if r0 == 0x0 goto out
//! w6 = 0                           w0 = -1
//! out:                             out:
//! w0 = w6                     =>   w0 += 1
//! exit                             exit
//! ```

use super::copies::renamed;
use super::numbers::{self, immediate};
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

/// Values with more definitions are left alone.
const MAX_DEFINITIONS: usize = 16;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let flow = &context.facts.flow;
    for j in flow.blocks.iter().map(|b| b.start).filter(|j| flow.predecessors[*j].len() > 1) {
        let Some(join) = Join::at(context, j) else { continue };
        let mut offsets: Vec<u64> = vec![0];
        offsets.extend(join.edges.iter().filter_map(|e| Some(e.value?.wrapping_sub(e.known?))));
        offsets.sort_unstable();
        offsets.dedup();
        out.extend(offsets.into_iter().filter_map(|d| join.routed(d)));
    }
}

/// A way into a join.
struct Edge {
    from: usize,
    /// Whether it comes from the instruction above.
    falls: bool,
    /// The number that the source of the join's first instruction is on this way.
    value: Option<u64>,
    /// Whether the target holds the value of the source already, or can.
    is_same: bool,
    /// The number in the target on this way.
    known: Option<u64>,
}

/// A place where ways join, and the instruction there.
struct Join<'c, 'a> {
    context: &'c Context<'a>,
    at: usize,
    width: Width,
    /// Nothing for a move.
    op: Option<AluOp>,
    target: Reg,
    source: Reg,
    edges: Vec<Edge>,
    /// Definitions of the source, all for this instruction only.
    definitions: Vec<usize>,
}

impl<'c, 'a> Join<'c, 'a> {
    fn at(context: &'c Context<'a>, at: usize) -> Option<Join<'c, 'a>> {
        let (width, op, target, source) = match *context.insn(at) {
            Insn::Mov { width, dst, src: Operand::Reg(r) } if r != dst => (width, None, dst, r),
            Insn::Alu { width, op, dst, src: Operand::Reg(r) } if r != dst => (width, Some(op), dst, r),
            _ => return None,
        };
        let web = context.webs().used(at, source)?;
        if !context.facts.is_reachable(at) || web.fixed || web.uses != [at] || web.definitions.len() > MAX_DEFINITIONS {
            return None;
        }
        let definitions = web.definitions.clone();
        let mut join = Join { context, at, width, op, target, source, edges: Vec::new(), definitions };
        let is_removable = |d: &usize| matches!(context.insn(*d), Insn::Mov { .. }) || join.can_target(*d);
        if context.is_patched(at) || !join.definitions.iter().all(is_removable) {
            return None;
        }
        let from = &context.facts.flow.predecessors[at];
        join.edges = from.iter().map(|q| join.edge(*q)).collect::<Option<_>>()?;
        Some(join)
    }

    /// Whether a definition that is no move can write the target instead.
    fn can_target(&self, d: usize) -> bool {
        self.op.is_none()
            && matches!(self.context.insn(d), Insn::Load { .. } | Insn::LoadImm { .. })
            && !self.context.live_after(d).contains(self.target)
            && self.context.writes[d].contains(self.source)
    }

    fn edge(&self, from: usize) -> Option<Edge> {
        let (context, at) = (self.context, self.at);
        let falls = from + 1 == at && context.insn(from).target().is_none_or(|t| context.facts.flow.positions[t] != at);
        let mut edge = Edge { from, falls, value: None, is_same: false, known: None };
        let insn = context.insn(from);
        if context.facts.flow.successors[from].iter().filter(|s| **s == at).count() > 1
            || !context.facts.is_reachable(from)
        {
            return None;
        }
        if context.writes[from].contains(self.source) {
            match *insn {
                Insn::Mov { width, src: Operand::Imm(v), .. } => edge.value = Some(numbers::value(width, v)),
                Insn::Mov { src: Operand::Reg(r), .. } if r == self.target => edge.is_same = true,
                Insn::Mov { src: Operand::Reg(r), .. } => edge.value = Some(context.value(from, r)?),
                _ => edge.is_same = self.can_target(from),
            }
        } else {
            edge.value = context.value(from, self.source);
            let (s, t) = (context.fact(from, self.source)?, context.fact(from, self.target)?);
            edge.is_same =
                s.is_same(t) && edge.value.is_none() || self.last_writer(from).is_some_and(|d| self.can_target(d));
        }
        if !context.writes[from].contains(self.target) {
            edge.known = context.value(from, self.target).or_else(|| self.compared(from));
        }
        (edge.value.is_some() || edge.is_same && self.op.is_none()).then_some(edge)
    }

    /// Who writes the source last, in the block that an edge comes from.
    fn last_writer(&self, from: usize) -> Option<usize> {
        let block = self.context.block(from);
        (block.start..=from).rev().find(|p| self.context.writes[*p].contains(self.source))
    }

    /// What a branch tells about the target on the way to the join.
    fn compared(&self, from: usize) -> Option<u64> {
        let Insn::Branch { width, cond, dst, src: Operand::Imm(v), target } = *self.context.insn(from) else {
            return None;
        };
        let taken = self.context.facts.flow.positions[&target] == self.at;
        let equal = if taken { cond == Condition::Eq } else { cond == Condition::Ne };
        (equal && dst == self.target).then(|| numbers::value(width, v))
    }

    /// What an edge has to do when the join adds `offset` to the target: nothing, or that with a constant.
    fn work(&self, edge: &Edge, offset: u64) -> Option<Option<i32>> {
        let Some(op) = self.op else {
            if offset == 0 && edge.is_same {
                return Some(None);
            }
            let wanted = edge.value?.wrapping_sub(offset);
            return match edge.known {
                Some(k) if same(self.width, k, wanted) => Some(None),
                _ => immediate(self.width, wanted).map(Some),
            };
        };
        let value = edge.value?;
        let is_identity = match op {
            AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor | AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => value == 0,
            AluOp::Mul | AluOp::Div | AluOp::SDiv => value == 1,
            AluOp::And => same(self.width, value, u64::MAX),
            _ => false,
        };
        if is_identity { Some(None) } else { immediate(self.width, value).map(Some) }
    }

    fn insn(&self, constant: i32) -> Insn {
        let (width, dst, src) = (self.width, self.target, Operand::Imm(constant));
        match self.op {
            Some(op) => Insn::Alu { width, op, dst, src },
            None => Insn::Mov { width, dst, src },
        }
    }

    /// The proposal in which the join adds `offset` to what the ways left in the target.
    fn routed(&self, offset: u64) -> Option<Proposal> {
        let (context, at) = (self.context, self.at);
        let work: Vec<Option<i32>> = self.edges.iter().map(|e| self.work(e, offset)).collect::<Option<_>>()?;
        let falling = self.edges.iter().position(|e| e.falls);
        let mut constants: Vec<i32> = falling.iter().filter_map(|f| work[*f]).collect();
        work.iter().flatten().for_each(|c| {
            if !constants.contains(c) {
                constants.push(*c);
            }
        });
        let mut changes = Changes::default();
        for d in &self.definitions {
            match context.insn(*d) {
                Insn::Mov { .. } => changes.delete(*d),
                insn => {
                    let insn = renamed(insn, self.source, self.target, true, false);
                    changes.replace(*d, vec![context.instead(*d, insn)]);
                }
            }
        }
        let rest = match offset {
            0 => None,
            _ if self.op.is_some() => return None,
            _ => {
                let src = Operand::Imm(immediate(self.width, offset)?);
                Some(context.node(Insn::Alu { width: self.width, op: AluOp::Add, dst: self.target, src }))
            }
        };
        let after = rest.as_ref().map_or_else(|| Some(context.function.nodes.get(at + 1)?.id), |n| Some(n.id))?;
        let Some((main, others)) = constants.split_first() else {
            changes.replace(at, rest.into_iter().collect());
            return Some(changes.proposal("joins").with(at..self.end()));
        };
        let main_node = context.instead(at, self.insn(*main));
        let goto = |target: InsnId| context.node(Insn::Jump { target, long: false });
        let ends = *context.insn(at + 1) == Insn::Exit && !context.is_patched(at + 1);
        let stubs: Vec<(i32, Node)> = others.iter().map(|c| (*c, context.node(self.insn(*c)))).collect();
        if !stubs.is_empty() && !ends {
            return None;
        }
        let mut head = Vec::new();
        if let Some(f) = falling.filter(|f| work[*f].is_none()) {
            match self.skipped(&changes, &work, self.edges[f].from) {
                Some((branch, cond)) => {
                    let Insn::Branch { width, dst, src, .. } = *context.insn(branch) else { return None };
                    let inverted = Insn::Branch { width, cond, dst, src, target: after };
                    changes.replace(branch, vec![context.instead(branch, inverted)]);
                }
                None if ends && offset == 0 => head.push(context.node(Insn::Exit)),
                None => head.push(goto(after)),
            }
        }
        head.push(main_node);
        head.extend(rest);
        changes.replace(at, head);
        for (edge, work) in self.edges.iter().zip(&work).filter(|(e, _)| !e.falls) {
            if changes.touches(edge.from) {
                continue;
            }
            let to = match work {
                None => after,
                Some(c) if c == main => continue,
                Some(c) => stubs.iter().find(|(s, _)| s == c)?.1.id,
            };
            let insn = context.insn(edge.from).map(|_| to, |f| f);
            changes.replace(edge.from, vec![context.instead(edge.from, insn)]);
        }
        if !stubs.is_empty() {
            let mut nodes = vec![context.function.nodes[at + 1].clone()];
            for (_, stub) in stubs {
                nodes.push(stub);
                nodes.push(if offset == 0 { context.node(Insn::Exit) } else { goto(after) });
            }
            changes.replace(at + 1, nodes);
        }
        Some(changes.proposal("joins").with(at..self.end()))
    }

    /// The end of the join, with an exit behind it: what is returned may matter only in part.
    fn end(&self) -> usize {
        self.at + 1 + matches!(self.context.function.nodes.get(self.at + 1).map(|n| n.insn), Some(Insn::Exit)) as usize
    }

    /// The branch whose two ways both lead to the join once what is between is gone, the one that is
    /// taken to do something there, the other to pass it by; and its negated condition.
    fn skipped(&self, changes: &Changes, work: &[Option<i32>], from: usize) -> Option<(usize, Condition)> {
        let flow = &self.context.facts.flow;
        let mut p = from;
        while changes.deletes(p) && p > 0 && flow.predecessors[p] == [p - 1] {
            p -= 1;
        }
        let Insn::Branch { cond, target, .. } = *self.context.insn(p) else { return None };
        let edge = self.edges.iter().position(|e| e.from == p && !e.falls)?;
        (flow.positions[&target] == self.at && work[edge].is_some()).then(|| cond.negated().map(|c| (p, c)))?
    }
}

fn same(width: Width, a: u64, b: u64) -> bool {
    match width {
        Width::W32 => a as u32 == b as u32,
        Width::W64 => a == b,
    }
}
