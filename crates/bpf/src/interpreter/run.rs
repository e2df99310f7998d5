//! Running functions: control flow, calls, tail calls, callbacks.

use super::address::{self, Kind};
use super::fault::{Limit, Reason, Trap, unsupported_call};
use super::helpers;
use super::machine::Machine;
use super::observe::Step;
use crate::hook::Hook;
use crate::insn::*;
use crate::program::{Entry, Function, Program};
use crate::semantics::{self, Flow};

/// Tail calls that one run may make (kernel `MAX_TAIL_CALL_CNT`).
pub const MAX_TAIL_CALLS: u32 = 33;
/// Times a `may_goto` of one call of a function falls through (kernel `BPF_MAX_LOOPS`).
pub const MAX_LOOPS: u64 = 8 << 20;

/// A function made ready: jump targets are positions.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub name: String,
    /// The hook it is entered from; `None` for functions that only others call.
    pub hook: Option<Hook>,
    insns: Vec<Insn>,
    ids: Vec<InsnId>,
}

impl Code {
    /// All functions of a program.
    pub(super) fn of(program: &Program) -> Vec<Code> {
        program.functions.iter().map(Code::new).collect()
    }

    fn new(function: &Function) -> Code {
        let positions = function.positions();
        // A target that does not exist becomes a position that does not exist.
        let position = |target| InsnId(positions.get(&target).map_or(u32::MAX, |p| *p as u32));
        Code {
            name: function.name.clone(),
            hook: match function.entry {
                Entry::Hook(hook) => Some(hook),
                Entry::Subprogram { .. } => None,
            },
            insns: function.nodes.iter().map(|n| n.insn.map(position, |f| f)).collect(),
            ids: function.nodes.iter().map(|n| n.id).collect(),
        }
    }

    /// Identity of the instruction at a position.
    pub(super) fn id(&self, position: usize) -> Option<InsnId> {
        self.ids.get(position).copied()
    }
}

/// A caller that waits.
struct Frame {
    function: FuncId,
    position: usize,
    saved: [u64; 4],
    loops: u64,
}

impl<'r> Machine<'r> {
    /// Runs a function in the current frame with the current registers, until it exits; returns `r0`.
    pub(super) fn run(&mut self, function: FuncId) -> Result<u64, Trap> {
        let code: &'r [Code] = self.code;
        let mut at = (function, 0);
        let result = self.execute(code, &mut at);
        if result.is_err() && self.location.is_none() {
            self.location = Some(at);
        }
        result
    }

    /// Calls a function of the program from a helper, one frame deeper. Registers other than the
    /// argument registers are as before afterwards.
    pub(super) fn call_back(&mut self, function: FuncId, arguments: &[u64]) -> Result<u64, Trap> {
        let saved = self.registers;
        let depth = self.memory.depth;
        let callee = self.callee;
        self.enter_frame(depth + 1)?;
        self.poison(0..=9);
        self.registers[1..=arguments.len().min(5)].copy_from_slice(&arguments[..arguments.len().min(5)]);
        let result = self.run(function)?;
        (self.registers, self.memory.depth, self.callee) = (saved, depth, callee);
        Ok(result)
    }

    fn execute(&mut self, all: &'r [Code], at: &mut (FuncId, usize)) -> Result<u64, Trap> {
        let mut waiting: Vec<Frame> = Vec::new();
        let mut loops = MAX_LOOPS;
        let mut code = find(all, at.0)?;
        loop {
            let position = at.1;
            let insn = code.insns.get(position).ok_or_else(|| Box::new(Reason::OutsideCode))?;
            if self.remaining == 0 {
                return Err(Box::new(Reason::Limit(Limit::Instructions)));
            }
            self.remaining -= 1;
            if self.observer.is_some() {
                self.observe(code, at.0, position)?;
            }
            match semantics::step(self, insn)? {
                Flow::Next => at.1 = position + 1,
                Flow::Jump(target) => at.1 = target.0 as usize,
                Flow::Branch(taken, target) => at.1 = if taken { target.0 as usize } else { position + 1 },
                Flow::MayGoto(target) if loops == 0 => at.1 = target.0 as usize,
                Flow::MayGoto(_) => (loops, at.1) = (loops - 1, position + 1),
                Flow::Call(Callee::Local(function)) => {
                    let callee = find(all, function)?;
                    self.enter_frame(self.memory.depth + 1)?;
                    let mut saved = [0; 4];
                    saved.copy_from_slice(&self.registers[6..10]);
                    waiting.push(Frame { function: at.0, position: position + 1, saved, loops });
                    (code, loops, *at) = (callee, MAX_LOOPS, (function, 0));
                    self.poison(6..=9);
                }
                Flow::Call(callee) => {
                    self.call(callee)?;
                    at.1 = position + 1;
                    if let Some(function) = self.tail_call.take() {
                        code = find(all, function)?;
                        (loops, *at) = (MAX_LOOPS, (function, 0));
                    }
                }
                Flow::Exit => {
                    let Some(frame) = waiting.pop() else { return Ok(self.registers[0]) };
                    self.memory.depth -= 1;
                    self.registers[6..10].copy_from_slice(&frame.saved);
                    self.registers[10] = address::frame_pointer(self.memory.depth);
                    self.poison(1..=5);
                    code = find(all, frame.function)?;
                    (loops, *at) = (frame.loops, (frame.function, frame.position));
                }
            }
        }
    }

    #[cold]
    fn observe(&mut self, code: &Code, function: FuncId, position: usize) -> Result<(), Trap> {
        let Some(observer) = self.observer.as_mut() else { return Ok(()) };
        let insn = code.id(position).unwrap_or(InsnId(u32::MAX));
        let (depth, registers, memory) = (self.memory.depth, &self.registers, &self.memory);
        let step = Step { function, position, insn, depth, registers, memory };
        if observer.before(&step) { Ok(()) } else { Err(Box::new(Reason::Stopped)) }
    }

    /// A call of something outside the program.
    fn call(&mut self, callee: Callee<FuncId>) -> Result<(), Trap> {
        let callee = match callee {
            // The number of a helper may come from a register; its low half counts, as in a call.
            Callee::Register(r) => Callee::Helper(self.get(r) as i32),
            other => other,
        };
        self.callee = callee;
        let mut arguments = [0; 5];
        arguments.copy_from_slice(&self.registers[1..=5]);
        let before = self.events.len();
        let result = match callee {
            Callee::Helper(id) => match helpers::find(id) {
                Some(helper) => helper(self, arguments)?,
                None => self.call_unknown(arguments)?,
            },
            _ => self.call_unknown(arguments)?,
        };
        if let Some(event) = self.events.get_mut(before..).and_then(<[_]>::last_mut)
            && event.call == callee
        {
            event.result = result;
        }
        if self.tail_call.is_none() {
            self.registers[0] = result;
            self.poison(1..=5);
        }
        Ok(())
    }

    fn call_unknown(&mut self, arguments: [u64; 5]) -> Result<u64, Trap> {
        if self.options.model_unknown_calls {
            helpers::model_unknown(self, arguments)
        } else {
            Err(unsupported_call(self.callee))
        }
    }

    /// Continues in another function of the program with a fresh frame, as the kernel does after a
    /// successful tail call.
    pub(super) fn continue_in(&mut self, function: FuncId) {
        self.tail_calls += 1;
        self.poison_frame();
        self.poison(0..=9);
        self.registers[1] = address::base(Kind::Context, 0);
        self.tail_call = Some(function);
    }
}

fn find(all: &[Code], function: FuncId) -> Result<&Code, Trap> {
    all.get(function.0 as usize).ok_or_else(|| Box::new(Reason::OutsideCode))
}
