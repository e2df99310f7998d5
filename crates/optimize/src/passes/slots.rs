//! Values that wait in one slot of the frame until they are copied to another: put there at once, by the
//! store or the helper that made them.
//!
//! ```text
//! r1 = r10                         r1 = r10
//! r1 += -152                       r1 += -80
//! r2 = 8                           r2 = 8
//! call bpf_probe_read_kernel       call bpf_probe_read_kernel
//! r1 = *(u64 *)(r10 - 152)     =>
//! *(u64 *)(r10 - 80) = r1
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// Instructions between the making of a value and its copy, at most.
const MAX_STEPS: usize = 400;

/// How much larger than usual windows may be: few proposals, each of which saves two slots.
const PATIENCE: usize = 8;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        if let Some(copy) = Copy::at(context, p) {
            out.extend(copy.at_once());
        }
    }
}

/// A load from the frame whose value only goes to another place of the frame.
struct Copy<'c, 'a> {
    context: &'c Context<'a>,
    load: usize,
    store: usize,
    from: i16,
    /// Bytes that are loaded.
    loaded: Size,
    to: i16,
    /// Bytes that are stored.
    stored: Size,
}

/// Who made the value that is copied.
enum Maker {
    Store(usize, Operand),
    /// A helper that wrote it, and the instruction that calculated where to.
    Helper(usize),
}

impl<'c, 'a> Copy<'c, 'a> {
    fn at(context: &'c Context<'a>, load: usize) -> Option<Copy<'c, 'a>> {
        let Insn::Load { size: loaded, signed: false, dst, base: Reg::FP, off: from } = *context.insn(load) else {
            return None;
        };
        let web = context.webs().defined(load, dst)?;
        let [store] = web.uses[..] else { return None };
        let Insn::Store { size: stored, base: Reg::FP, off: to, src } = *context.insn(store) else { return None };
        let is_fit =
            web.definitions == [load] && src == Operand::Reg(dst) && stored.bytes() <= loaded.bytes() && from != to;
        let is_plain = !context.is_patched(load) && !context.is_patched(store);
        (is_fit && is_plain).then_some(Copy { context, load, store, from, loaded, to, stored })
    }

    fn waiting(&self) -> Range<i64> {
        self.from as i64..self.from as i64 + self.loaded.bytes() as i64
    }

    fn at_once(&self) -> Option<Proposal> {
        let context = self.context;
        let after = context.facts.flow.successors[self.load].first()?;
        if self.waiting().any(|b| context.facts.live_stack[*after].contains(b)) {
            return None;
        }
        let mut ways: BTreeSet<usize> = context.between(self.load, self.store)?;
        let makers = self.makers(&mut ways)?;
        let mut changes = Changes::default();
        for maker in makers {
            let (at, insn) = match maker {
                Maker::Store(at, src) => (at, Insn::Store { size: self.stored, base: Reg::FP, off: self.to, src }),
                Maker::Helper(at) => {
                    let Insn::Alu { width, op, dst, .. } = *context.insn(at) else { return None };
                    (at, Insn::Alu { width, op, dst, src: Operand::Imm(self.to as i32) })
                }
            };
            changes.replace(at, vec![context.instead(at, insn)]);
            ways.insert(at);
        }
        changes.delete(self.load);
        changes.delete(self.store);
        let mut proposal = changes.proposal("slots").across(ways);
        proposal.patience = PATIENCE;
        Some(proposal)
    }

    /// Who wrote the slot last, on all ways to the load.
    fn makers(&self, ways: &mut BTreeSet<usize>) -> Option<Vec<Maker>> {
        let context = self.context;
        let (mut makers, mut found) = (Vec::new(), BTreeSet::new());
        let mut pending = vec![self.load];
        while let Some(p) = pending.pop() {
            if p == 0 || ways.len() > MAX_STEPS {
                return None;
            }
            for &q in &context.facts.flow.predecessors[p] {
                match self.maker(q) {
                    Some(maker) if found.insert(q) => makers.push(maker?),
                    None if ways.insert(q) => pending.push(q),
                    _ => {}
                }
            }
        }
        Some(makers)
    }

    /// Whether the instruction at `q` writes the slot, and if so whether its value can go elsewhere.
    fn maker(&self, q: usize) -> Option<Option<Maker>> {
        match *self.context.insn(q) {
            Insn::Store { size, base: Reg::FP, off, src } => {
                let bytes = off as i64..off as i64 + size.bytes() as i64;
                let waiting = self.waiting();
                let is_whole = off == self.from && size == self.loaded;
                let overlaps = bytes.start < waiting.end && waiting.start < bytes.end;
                overlaps.then(|| is_whole.then_some(Maker::Store(q, src)))
            }
            Insn::Call(Callee::Helper(_)) => self.address(q).map(|at| at.map(Maker::Helper)),
            _ => None,
        }
    }

    /// Where the address of the slot is calculated for a call, when it is only for that.
    fn address(&self, call: usize) -> Option<Option<usize>> {
        let context = self.context;
        let is_slot = |r: &Reg| context.fact(call, *r).and_then(|f| f.stack_offset()) == Some(self.from as i64);
        let reg = Reg::all().skip(1).take(5).find(|r| context.facts.live[call].contains(*r) && is_slot(r))?;
        let block = Block::new(context, context.block(call));
        let made = block.writer(call, reg).filter(|at| block.readers(*at, reg) == [call] && self.is_sum(*at, reg));
        Some(made.filter(|_| self.loaded == self.stored))
    }

    fn is_sum(&self, at: usize, reg: Reg) -> bool {
        let offset = Operand::Imm(self.from as i32);
        *self.context.insn(at) == Insn::Alu { width: Width::W64, op: AluOp::Add, dst: reg, src: offset }
            && !self.context.is_patched(at)
    }
}
