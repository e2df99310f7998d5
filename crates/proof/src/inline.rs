//! Code of a subprogram in place of a call of it.
//!
//! What a call does by itself is done by nobody then: the callee has a frame of its own, and the caller
//! finds `r6` to `r9` as they were. So the frame of the callee lies below everything that anybody uses of
//! the caller's (`extent`), and for `r6` to `r9` the callee gets such registers as the caller does not
//! need any more; where there are not enough, the caller's are kept below both frames meanwhile.
//! Arguments and the result are where they are, and of `r1` to `r5` nobody expects anything after a call.

use crate::ProverOptions;
use crate::apply::Prover;
use crate::extent::{FRAME_BYTES, frame_bytes};
use crate::facts::Kind;
use crate::refusal::Refusal;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::helper::{self, Returns};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Entry, Function, Node, Program};
use karakoram_bpf::registers::rename;
use std::collections::HashMap;

/// Bytes of a register.
const WORD: i64 = 8;

/// The caller with the code of the callee in place of the call.
pub(crate) fn inline(program: &Program, caller: FuncId, call: InsnId) -> Result<Function, Refusal> {
    let function = program.function(caller);
    let position =
        function.nodes.iter().position(|n| n.id == call).ok_or(Refusal::Malformed("there is no such call"))?;
    let (Insn::Call(Callee::Local(callee)), Some(next)) =
        (function.nodes[position].insn, function.nodes.get(position + 1))
    else {
        return Err(Refusal::Malformed("it is no call of a function, or nothing comes after it"));
    };
    check_callee(program.function(callee))?;
    let place = Place::find(program, caller, position, callee)?;
    let mut code =
        Code { function, place: &place, ids: HashMap::new(), fresh: function.fresh_id().0, nodes: Vec::new() };
    code.write(call, &program.function(callee).nodes, next.id)?;
    let body = code.nodes;
    let mut nodes = function.nodes[..position].to_vec();
    nodes.extend(body);
    nodes.extend_from_slice(&function.nodes[position + 1..]);
    Ok(Function { nodes, ..function.clone() })
}

/// Whether a function does the same as part of another.
fn check_callee(callee: &Function) -> Result<(), Refusal> {
    if callee.entry != (Entry::Subprogram { global: false }) {
        return Err(Refusal::Unsafe("others may put another function in its place".to_string()));
    }
    for node in &callee.nodes {
        let why = match node.insn {
            // The program that is jumped to returns to the caller.
            Insn::Call(c) if helper::contract_of(&c).is_some_and(|c| c.returns == Returns::Tail) => "a tail call",
            Insn::Call(Callee::Register(_)) => "a call of something that is not known",
            // Each call begins with a budget of its own.
            Insn::MayGoto { .. } => "a loop budget of its own",
            // It may end the function, and takes its context from `r6`.
            Insn::LegacyLoad { .. } => "a legacy packet load",
            _ => continue,
        };
        return Err(Refusal::Barrier(node.id, why));
    }
    Ok(())
}

/// Where the callee's registers and frame go.
struct Place {
    /// By number, for `r6` to `r9` of the callee.
    registers: [Reg; Reg::COUNT],
    /// Bytes that its frame lies lower than the caller's.
    below: i64,
    /// Registers of the caller that are kept, with the offset in its frame.
    kept: Vec<(Reg, i16)>,
}

impl Place {
    fn find(program: &Program, caller: FuncId, position: usize, callee: FuncId) -> Result<Place, Refusal> {
        let prover = Prover::new(program, ProverOptions::default());
        let facts = prover.facts(program, caller);
        let Some(state) = &facts.before[position] else {
            return Err(Refusal::Malformed("the call is never reached"));
        };
        let live = facts.live[position + 1];
        let touched = program.function(callee).nodes.iter().map(|n| effects::of(&n.insn));
        let used = touched.fold(RegSet::EMPTY, |all, e| all.union(e.reads).union(e.writes));
        let used: Vec<Reg> = RegSet::CALLEE_SAVED.iter().filter(|r| used.contains(*r)).collect();
        let mut registers: [Reg; Reg::COUNT] = std::array::from_fn(|n| Reg::new(n as u8).expect("r0 to r10 exist"));
        // Those that the caller does not need, its own name first; then the others.
        let mut free: Vec<Reg> = RegSet::CALLEE_SAVED.iter().collect();
        free.sort_by_key(|r| live.contains(*r));
        for r in &used {
            let place = free.iter().position(|f| f == r && !live.contains(*f)).unwrap_or(0);
            registers[r.index()] = free.remove(place);
        }
        let bytes = |f| frame_bytes(program, f, &prover).map(|n| (n + WORD - 1) / WORD * WORD);
        let unclear = || Refusal::Unsafe("it is not clear how much of the frame is used".to_string());
        let below = bytes(caller).ok_or_else(unclear)?;
        let mut lowest = below + bytes(callee).ok_or_else(unclear)?;
        let mut kept = Vec::new();
        for r in used.iter().map(|r| registers[r.index()]).filter(|r| live.contains(*r)) {
            if state.regs[r.index()].kind == Kind::Uninit {
                return Err(Refusal::ReadsDead(r.to_string()));
            }
            lowest += WORD;
            kept.push((r, -lowest as i16));
        }
        match lowest <= FRAME_BYTES {
            true => Ok(Place { registers, below, kept }),
            false => Err(Refusal::TooLarge("bytes in the frame")),
        }
    }

    /// An instruction of the callee in the caller.
    fn translate(&self, node: &Node) -> Result<Vec<Insn>, Refusal> {
        let barrier = |why| Refusal::Barrier(node.id, why);
        let insn = match rename(&node.insn, |r, _| self.registers[r.index()]) {
            Some(insn) => insn,
            None => {
                let effects = effects::of(&node.insn);
                let mut touched = effects.reads.union(effects.writes).iter();
                if touched.any(|r| self.registers[r.index()] != r) {
                    return Err(barrier("registers that cannot be others"));
                }
                node.insn
            }
        };
        if self.below == 0 || !effects::of(&insn).reads.contains(Reg::FP) {
            return Ok(vec![insn]);
        }
        let lower =
            |off: i16| i16::try_from(off as i64 - self.below).map_err(|_| barrier("an offset that is too large"));
        Ok(match insn {
            _ if node.patch.is_some() => return Err(barrier("a place in the frame that the loader chooses")),
            Insn::Load { size, signed, dst, base: Reg::FP, off } => {
                vec![Insn::Load { size, signed, dst, base: Reg::FP, off: lower(off)? }]
            }
            Insn::Store { size, base: Reg::FP, off, src } if src != Operand::Reg(Reg::FP) => {
                vec![Insn::Store { size, base: Reg::FP, off: lower(off)?, src }]
            }
            Insn::Atomic { op, fetch, size, base: Reg::FP, off, src } if src != Reg::FP => {
                vec![Insn::Atomic { op, fetch, size, base: Reg::FP, off: lower(off)?, src }]
            }
            Insn::Mov { width: Width::W64, dst, .. } => {
                let by = Operand::Imm(-self.below as i32);
                vec![insn, Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: by }]
            }
            _ => return Err(barrier("an unusual use of the frame pointer")),
        })
    }
}

/// The code that comes in place of the call.
struct Code<'a> {
    function: &'a Function,
    place: &'a Place,
    /// New names of the callee's instructions.
    ids: HashMap<InsnId, InsnId>,
    fresh: u32,
    nodes: Vec<Node>,
}

impl Code<'_> {
    fn write(&mut self, call: InsnId, callee: &[Node], next: InsnId) -> Result<(), Refusal> {
        let place = self.place;
        for (r, off) in &place.kept {
            let src = Operand::Reg(*r);
            self.push(Insn::Store { size: Size::D, base: Reg::FP, off: *off, src }, None);
        }
        // Jumps go to the first of the instructions that one becomes.
        for node in callee {
            let id = self.fresh();
            self.ids.insert(node.id, id);
        }
        for node in callee {
            let id = self.ids[&node.id];
            let first = self.nodes.len();
            if node.insn == Insn::Exit {
                for (dst, off) in &place.kept {
                    self.push(Insn::Load { size: Size::D, signed: false, dst: *dst, base: Reg::FP, off: *off }, None);
                }
                self.push(Insn::Jump { target: next, long: false }, None);
            } else {
                for insn in place.translate(node)? {
                    let insn = insn.map(|t| self.ids[&t], |f| f);
                    self.push(insn, node.patch);
                }
            }
            self.nodes[first].id = id;
        }
        // What goes to the call goes to what is there now.
        let Some(first) = self.nodes.first_mut() else { return Err(Refusal::Malformed("a function without code")) };
        let was = std::mem::replace(&mut first.id, call);
        for node in &mut self.nodes {
            node.insn = node.insn.map(|t| if t == was { call } else { t }, |f| f);
        }
        Ok(())
    }

    fn fresh(&mut self) -> InsnId {
        self.fresh += 1;
        InsnId(self.fresh - 1)
    }

    fn push(&mut self, insn: Insn, patch: Option<karakoram_bpf::program::Patch>) {
        let id = self.fresh();
        debug_assert!(self.function.nodes.iter().all(|n| n.id != id));
        self.nodes.push(Node { id, insn, patch });
    }
}
