//! Value numbers: what is computed in the same way from the same values, and from memory that nobody wrote
//! to in between, has the same number, whichever register it is in.
//!
//! A guess, as everything here: the prover decides.

use crate::context::Context;
use crate::registers::{Role, operands, rename};
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Patch;
use karakoram_proof::call::{CallModel, Effect, Known, Mode, Signature};
use std::collections::{BTreeSet, HashMap};

/// The number of a value.
pub type Number = u32;

/// What is done with which values: the instruction without its registers, what the loader puts there, the
/// values that it reads, the state of the memory that it reads.
type Computation = (Insn<()>, Option<Patch>, Vec<Number>, Number);

/// Most equalities that are remembered at a time.
const MAX_EQUAL: usize = 16;

/// What is known at one point.
#[derive(Clone)]
struct State {
    regs: [Number; Reg::COUNT],
    frame: Number,
    memory: Number,
    /// Different numbers of what a branch has shown to be the same.
    equal: BTreeSet<(Number, Number)>,
}

/// The value numbers of a function.
pub struct Numbering {
    before: Vec<Option<State>>,
    computed: Vec<Option<Number>>,
    places: HashMap<Number, Vec<usize>>,
}

impl Numbering {
    /// Numbers all values, in one walk.
    pub fn of(context: &Context) -> Numbering {
        let n = context.len();
        let numbering = Numbering { before: vec![None; n], computed: vec![None; n], places: HashMap::new() };
        let mut walk = Walk { context, numbering, known: HashMap::new(), next: 0 };
        let flow = &context.facts.flow;
        let mut behind: Vec<Option<State>> = vec![None; n];
        for block in flow.reverse_post_order() {
            let range = flow.blocks[block].clone();
            if !context.facts.is_reachable(range.start) {
                continue;
            }
            let mut state = walk.entered(range.start, &behind);
            for p in range.clone() {
                walk.numbering.before[p] = Some(state.clone());
                walk.step(p, &mut state);
            }
            behind[range.end - 1] = Some(state);
        }
        walk.numbering
    }

    /// The number of what the instruction at a position computes.
    pub fn computed(&self, position: usize) -> Option<Number> {
        self.computed[position]
    }

    /// Where a value is computed, in the order of the walk.
    pub fn places(&self, number: Number) -> &[usize] {
        self.places.get(&number).map_or(&[], Vec::as_slice)
    }

    /// Whether what the instruction at a position computes was computed elsewhere before.
    pub fn is_repeated(&self, position: usize) -> bool {
        self.computed[position].is_some_and(|n| self.places(n)[0] != position)
    }

    /// Registers that hold a value before a position.
    pub fn holders(&self, position: usize, number: Number) -> impl Iterator<Item = Reg> {
        let state = self.before[position].as_ref();
        let holds = move |r: &Reg| {
            state.is_some_and(|s| {
                let held = s.regs[r.index()];
                held == number || s.equal.contains(&(held.min(number), held.max(number)))
            })
        };
        Reg::all().filter(holds)
    }
}

struct Walk<'c, 'a> {
    context: &'c Context<'a>,
    numbering: Numbering,
    known: HashMap<Computation, Number>,
    next: Number,
}

impl Walk<'_, '_> {
    fn fresh(&mut self) -> Number {
        self.next += 1;
        self.next
    }

    /// What is known where a block begins, from what is known behind the blocks before it.
    fn entered(&mut self, start: usize, behind: &[Option<State>]) -> State {
        let from = &self.context.facts.flow.predecessors[start];
        let mut states = from.iter().filter(|p| self.context.facts.is_reachable(**p)).map(|p| behind[*p].as_ref());
        let is_whole = start > 0 && !from.is_empty() && states.clone().all(|s| s.is_some());
        let Some(mut state) = states.next().flatten().filter(|_| is_whole).cloned() else {
            let regs = std::array::from_fn(|r| if r == Reg::FP.index() { 0 } else { self.fresh() });
            return State { regs, frame: self.fresh(), memory: self.fresh(), equal: BTreeSet::new() };
        };
        for other in states.flatten() {
            for (mine, theirs) in state.regs.iter_mut().zip(other.regs) {
                if *mine != theirs {
                    *mine = self.fresh();
                }
            }
            if state.frame != other.frame {
                state.frame = self.fresh();
            }
            if state.memory != other.memory {
                state.memory = self.fresh();
            }
            state.equal.retain(|pair| other.equal.contains(pair));
        }
        if let [from] = from[..] {
            state.equal.extend(self.shown(from, start, &state));
        }
        state
    }

    /// The two values that the branch at `from` has compared when control comes to `to`, if they are equal.
    fn shown(&self, from: usize, to: usize, state: &State) -> Option<(Number, Number)> {
        let Insn::Branch { width: Width::W64, cond, dst, src: Operand::Reg(src), target } = *self.context.insn(from)
        else {
            return None;
        };
        let is_taken = self.context.facts.flow.positions[&target] == to;
        let is_equal = cond == if is_taken { Condition::Eq } else { Condition::Ne };
        let (a, b) = (state.regs[dst.index()], state.regs[src.index()]);
        (is_equal && a != b && state.equal.len() < MAX_EQUAL).then_some((a.min(b), a.max(b)))
    }

    fn step(&mut self, p: usize, state: &mut State) {
        let insn = *self.context.insn(p);
        match insn {
            Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } if !self.context.is_patched(p) => {
                state.regs[dst.index()] = state.regs[src.index()];
            }
            Insn::Alu { .. }
            | Insn::Mov { .. }
            | Insn::MovSx { .. }
            | Insn::Neg { .. }
            | Insn::Endian { .. }
            | Insn::LoadImm { .. }
            | Insn::Load { .. } => {
                let number = self.computation(p, state);
                for r in self.context.writes[p].iter() {
                    state.regs[r.index()] = number;
                }
                self.numbering.computed[p] = Some(number);
                self.numbering.places.entry(number).or_default().push(p);
            }
            _ => {
                self.write(p, state);
                for r in self.context.writes[p].iter() {
                    state.regs[r.index()] = self.fresh();
                }
            }
        }
    }

    fn computation(&mut self, p: usize, state: &State) -> Number {
        let insn = self.context.insn(p).map(|_| (), |f| f);
        let shape = rename(&insn, |_, _| Reg::R0).unwrap_or(insn);
        let read = operands(&insn).into_iter().filter(|(_, role)| *role != Role::Write);
        let read = read.map(|(r, _)| state.regs[r.index()]).collect();
        let memory = match insn {
            Insn::Load { base: Reg::FP, .. } => state.frame,
            // Through another register it may be the frame all the same.
            Insn::Load { base, .. } if self.context.fact(p, base).is_none_or(|f| f.may_be_stack()) => self.fresh(),
            Insn::Load { .. } => state.memory,
            _ => 0,
        };
        let key = (shape, self.context.function.nodes[p].patch, read, memory);
        match self.known.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.fresh();
                self.known.insert(key, number);
                number
            }
        }
    }

    /// Memory that the instruction at `p` may write to is something else behind it.
    fn write(&mut self, p: usize, state: &mut State) {
        let context = self.context;
        let is_frame = |r: Reg| context.fact(p, r).is_some_and(|f| f.stack_offset().is_some());
        let (frame, memory) = match *context.insn(p) {
            Insn::Store { base, .. } => (context.fact(p, base).is_none_or(|f| f.may_be_stack()), !is_frame(base)),
            Insn::Call(callee) => {
                let any = |_| Signature { reads: karakoram_bpf::effects::RegSet::ARGUMENTS, returns: None };
                let model = CallModel::of(context.program, callee, &|_| Known::default(), &any);
                let is_written = |e: Effect| e >= Effect::Writes;
                let mut behind = model.accesses.iter().filter(|a| a.mode != Mode::Read);
                let writes = [model.packet, model.shared, model.context].into_iter().any(is_written);
                (true, writes || behind.any(|a| !is_frame(a.reg)))
            }
            insn => {
                let writes = effects::of(&insn).writes_memory || effects::of(&insn).is_barrier;
                (writes, writes)
            }
        };
        if frame {
            state.frame = self.fresh();
        }
        if memory {
            state.memory = self.fresh();
        }
    }
}
