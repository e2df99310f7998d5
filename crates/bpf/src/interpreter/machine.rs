//! The machine: registers and memory, as the concrete instance of [`semantics::Machine`].

use super::Options;
use super::address::{self, Kind};
use super::event::{Argument, Event};
use super::fault::{Access, Limit, Reason, Trap, unsupported};
use super::memory::{MAX_FRAMES, Memory};
use super::observe::Observer;
use super::random::Random;
use super::run::Code;
use super::state::{State, Task};
use crate::hook::Hook;
use crate::insn::*;
use crate::semantics;
use std::collections::BTreeMap;

/// Everything a run changes, and what it needs to know.
pub(super) struct Machine<'r> {
    pub registers: [u64; Reg::COUNT],
    pub memory: Memory,
    pub code: &'r [Code],
    pub options: &'r Options,
    pub world: World,
    pub events: Vec<Event>,
    pub observer: Option<&'r mut dyn Observer>,
    /// Instructions that may still be executed.
    pub remaining: u64,
    /// Function to continue in, set by a tail call.
    pub tail_call: Option<FuncId>,
    pub tail_calls: u32,
    /// What is being called, for messages and events.
    pub callee: Callee<FuncId>,
    /// How often each call that is not modelled was made.
    pub unknown_calls: BTreeMap<Callee<FuncId>, u64>,
    event_bytes: usize,
    /// Where it went wrong, set once.
    pub location: Option<(FuncId, usize)>,
    junk: Option<Random>,
}

/// The part of [`State`] that is not memory.
pub(super) struct World {
    pub clock_ns: u64,
    pub cpu: u32,
    pub cpus: u32,
    pub task: Task,
    pub fib_result: i64,
    pub random: Random,
}

impl<'r> Machine<'r> {
    pub(super) fn new(code: &'r [Code], options: &'r Options, memory: Memory, state: &State) -> Machine<'r> {
        let mut machine = Machine {
            registers: [0; Reg::COUNT],
            memory,
            code,
            options,
            world: World {
                clock_ns: state.clock_ns,
                cpu: state.cpu,
                cpus: state.cpus,
                task: state.task.clone(),
                fib_result: state.fib_result,
                random: state.random.clone(),
            },
            events: Vec::new(),
            observer: None,
            remaining: options.limits.instructions,
            tail_call: None,
            tail_calls: 0,
            callee: Callee::Helper(0),
            unknown_calls: BTreeMap::new(),
            event_bytes: 0,
            location: None,
            junk: options.poison.map(Random::new),
        };
        machine.poison(0..=9);
        machine
    }

    /// Gives registers that hold nothing what they hold on a real machine: anything.
    pub(super) fn poison(&mut self, registers: std::ops::RangeInclusive<usize>) {
        for register in &mut self.registers[registers] {
            *register = self.junk.as_mut().map_or(0, Random::next);
        }
    }

    /// Gives the frame of the current depth the contents of a fresh one.
    pub(super) fn poison_frame(&mut self) {
        let start = self.memory.depth * address::FRAME_BYTES;
        let frame = &mut self.memory.stack[start..start + address::FRAME_BYTES];
        match &mut self.junk {
            Some(random) => random.fill(frame),
            None => frame.fill(0),
        }
    }

    /// Enters a frame: `r10` and fresh stack.
    pub(super) fn enter_frame(&mut self, depth: usize) -> Result<(), Trap> {
        if depth >= MAX_FRAMES {
            return Err(Box::new(Reason::Limit(Limit::CallDepth)));
        }
        self.memory.depth = depth;
        self.registers[10] = address::frame_pointer(depth);
        self.poison_frame();
        Ok(())
    }

    /// Reads `r0` to `r10`.
    pub(super) fn get(&self, reg: Reg) -> u64 {
        self.registers[reg.index()]
    }

    /// Records an event of the call that is being made; the caller of the helper adds its result.
    pub(super) fn record(&mut self, arguments: Vec<Argument>) -> Result<(), Trap> {
        let bytes = |a: &Argument| if let Argument::Bytes(bytes) = a { bytes.len() } else { 0 };
        self.event_bytes += arguments.iter().map(bytes).sum::<usize>();
        let limits = &self.options.limits;
        if self.events.len() >= limits.events || self.event_bytes > limits.event_bytes {
            return Err(Box::new(Reason::Limit(Limit::Events)));
        }
        self.events.push(Event { call: self.callee, arguments, result: 0 });
        Ok(())
    }

    /// A number or pointer as an argument of an event.
    pub(super) fn argument(&self, value: u64) -> Argument {
        match self.memory.classify(value) {
            Some(region) => Argument::pointer(region),
            None => Argument::Number(value),
        }
    }

    /// An error of the program: it gave a helper what the verifier would refuse.
    pub(super) fn bad_argument(&self, why: impl Into<String>) -> Trap {
        let helper = match self.callee {
            Callee::Helper(id) => super::helpers::name(id).unwrap_or("helper"),
            _ => "call",
        };
        Box::new(Reason::Argument { helper, why: why.into() })
    }

    /// The number of the map whose handle that is.
    pub(super) fn map_argument(&self, handle: u64) -> Result<usize, Trap> {
        self.memory.map_at(handle).ok_or_else(|| self.bad_argument(format!("{handle:#x} is no map")))
    }

    fn map_index(&self, map: MapRef) -> Result<usize, Trap> {
        let maps = &self.memory.maps;
        let index = match map {
            MapRef::Index(i) => usize::try_from(i).ok().filter(|i| *i < maps.len()),
            MapRef::Fd(fd) => maps.iter().position(|m| m.def().fd == Some(fd)),
        };
        index.ok_or_else(|| unsupported(format!("a map that the program does not define ({map:?})")))
    }

    /// The bytes that legacy packet loads read: the packet, or the buffer of hooks without one.
    fn legacy_bytes(&self) -> &[u8] {
        match self.memory.hook {
            Hook::Kernel(_) => self.memory.packet.bytes(),
            Hook::Constant | Hook::Buffer(_) => &self.memory.context,
        }
    }
}

impl semantics::Machine for Machine<'_> {
    type Value = u64;
    type Cond = bool;
    type Error = Trap;

    #[inline]
    fn constant(&mut self, value: u64) -> u64 {
        value
    }

    #[inline]
    fn reg(&mut self, reg: Reg) -> Result<u64, Trap> {
        Ok(self.registers[reg.index()])
    }

    #[inline]
    fn set_reg(&mut self, reg: Reg, value: u64) -> Result<(), Trap> {
        if reg == Reg::FP {
            return Err(Box::new(Reason::FramePointer));
        }
        self.registers[reg.index()] = value;
        Ok(())
    }

    #[inline]
    fn alu(&mut self, width: Width, op: AluOp, a: &u64, b: &u64) -> Result<u64, Trap> {
        Ok(semantics::concrete_alu(width, op, *a, *b))
    }

    #[inline]
    fn extend(&mut self, value: &u64, bits: u32, signed: bool) -> u64 {
        semantics::concrete_extend(*value, bits, signed)
    }

    #[inline]
    fn swap_bytes(&mut self, value: &u64, bits: u32) -> u64 {
        semantics::concrete_swap(*value, bits)
    }

    #[inline]
    fn compare(&mut self, width: Width, cond: Condition, a: &u64, b: &u64) -> bool {
        semantics::concrete_compare(width, cond, *a, *b)
    }

    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<u64, Trap> {
        Ok(match value {
            Imm64::Value(v) => v,
            Imm64::Map(map) => address::base(Kind::Map, self.map_index(map)? as u32),
            Imm64::MapValue(map, offset) => {
                let index = self.map_index(map)?;
                let first = self.memory.maps[index].first_value().map_err(|l| Box::new(Reason::Limit(l)))?;
                first.ok_or_else(|| unsupported("the address of a value of a map that is no array"))? + offset as u64
            }
            Imm64::Function(f) if (f.0 as usize) < self.code.len() && f.0 <= address::MAX_INDEX => {
                address::base(Kind::Function, f.0)
            }
            Imm64::Function(f) => return Err(unsupported(format!("function {}, which does not exist", f.0))),
            // Kernel variables and extern symbols are objects somewhere in the kernel.
            Imm64::Btf { id, fd } => object(id as u32 as u64, fd as u32 as u64),
            Imm64::Extern(n) => object(n as u64, u64::MAX),
        })
    }

    #[inline]
    fn load(&mut self, address: &u64, size: Size) -> Result<u64, Trap> {
        self.memory.load(*address, size)
    }

    #[inline]
    fn store(&mut self, address: &u64, size: Size, value: &u64) -> Result<(), Trap> {
        self.memory.store(*address, size, *value)
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        address: &u64,
        size: Size,
        operand: &u64,
        expected: Option<&u64>,
    ) -> Result<u64, Trap> {
        let in_context = address::place(*address).is_some_and(|p| p.kind == Kind::Context);
        if in_context && matches!(self.memory.hook, Hook::Kernel(_)) {
            let (access, bytes) = (Access::Write, size.bytes() as u64);
            let why = "atomic operations on the context do not exist";
            return Err(Box::new(Reason::Memory { access, address: *address, bytes, region: None, why }));
        }
        let old = self.memory.load(*address, size)?;
        let equal = expected.is_none_or(|e| semantics::concrete_extend(*e, size.bits(), false) == old);
        let new = semantics::atomic_result(self, op, size, &old, operand)?;
        self.memory.store(*address, size, if equal { new } else { old })?;
        Ok(old)
    }

    fn load_acquire(&mut self, address: &u64, size: Size) -> Result<u64, Trap> {
        self.memory.load(*address, size)
    }

    fn store_release(&mut self, address: &u64, size: Size, value: &u64) -> Result<(), Trap> {
        self.memory.store(*address, size, *value)
    }

    fn legacy_load(&mut self, offset: &u64, size: Size) -> Result<Option<u64>, Trap> {
        let bytes = self.legacy_bytes();
        let at = match *offset as u32 as i32 {
            at if at >= 0 => at as i64,
            // Kernel `bpf_internal_load_pointer_neg_helper`: from the network header, from the link header.
            at if at >= NETWORK_HEADER => (at - NETWORK_HEADER) as i64 + network_offset(self.memory.hook),
            at if at >= LINK_HEADER => (at - LINK_HEADER) as i64,
            _ => i64::MAX,
        };
        let len = size.bytes() as usize;
        let read = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(len)?));
        let value = read.map(|bytes| bytes.iter().fold(0, |v, b| v << 8 | *b as u64));
        self.poison(1..=5);
        Ok(value)
    }

    fn cast_address_space(&mut self, _: &u64, to: u16, from: u16) -> Result<u64, Trap> {
        Err(unsupported(format!("a cast from address space {from} to {to}")))
    }
}

/// `SKF_NET_OFF`.
const NETWORK_HEADER: i32 = -0x100000;
/// `SKF_LL_OFF`.
const LINK_HEADER: i32 = -0x200000;

/// Bytes before the network header in a packet as that hook sees it.
pub(super) fn network_offset(hook: Hook) -> i64 {
    use crate::hook::ProgramType as T;
    match hook.program_type() {
        Some(T::SCHED_CLS | T::SCHED_ACT | T::XDP) => 14,
        _ => 0,
    }
}

/// An address for an object of the kernel.
pub(super) fn object(a: u64, b: u64) -> u64 {
    let hash = super::random::hash([a, b]);
    address::base(Kind::Object, hash as u32 & address::MAX_INDEX) + (hash >> 40 << 6)
}
