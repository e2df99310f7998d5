//! The interpreter: the concrete instance of the one semantics.
//!
//! [`Interpreter`] runs a function of a program on a packet and a context, in a [`State`] with maps,
//! a clock and a task. All memory is checked on every access; a run ends with an [`Outcome`] or with
//! a [`Fault`] that says where and why. Nothing depends on the machine, the time or chance: the same
//! program, state and input give the same outcome.
//!
//! ```
//! use karakoram_bpf::insn::FuncId;
//! use karakoram_bpf::interpreter::{Input, Interpreter, Options};
//!
//! let program = karakoram_bpf::text::asm::parse(
//!     ".hook xdp
//!      r2 = *(u32 *)(r1 + 0)
//!      r0 = *(u8 *)(r2 + 1)
//!      exit",
//! )?;
//! let mut interpreter = Interpreter::new(&program, Options::default());
//! let outcome = interpreter.run(FuncId(0), Input { packet: vec![1, 2, 3], ..Input::default() })?;
//! assert_eq!(outcome.value, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What an instruction means is not said here but in [`crate::semantics`]. Here are memory
//! ([`address`], `memory`), control flow (`run`), maps ([`maps`]) and helpers (`helpers`).

pub mod address;
pub mod conformance;
mod context;
mod errno;
mod event;
mod fault;
mod helpers;
mod kernel;
mod machine;
pub mod maps;
mod memory;
mod observe;
mod outcome;
mod packet;
mod random;
mod run;
mod state;

pub use address::{Kind, Region};
pub use event::{Argument, Event};
pub use fault::{Access, Fault, Limit, Reason};
pub use kernel::KernelMemory;
pub use memory::{MAX_FRAMES, Memory};
pub use observe::{Observer, Step};
pub use outcome::Outcome;
pub use run::{MAX_LOOPS, MAX_TAIL_CALLS};
pub use state::{State, Task};

use crate::hook::Hook;
use crate::insn::{FuncId, InsnId};
use crate::program::Program;
use machine::Machine;
use run::Code;

/// Address of the first byte of the context, for [`Input::arguments`].
pub const CONTEXT_ADDRESS: u64 = address::base(Kind::Context, 0);

/// Bounds on what a run may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Instructions.
    pub instructions: u64,
    /// Bytes of values of one map.
    pub map_bytes: usize,
    /// Bytes of memory that helpers make.
    pub record_bytes: usize,
    /// Events.
    pub events: usize,
    /// Bytes that events carry.
    pub event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            instructions: 100_000_000,
            map_bytes: 256 << 20,
            record_bytes: 16 << 20,
            events: 100_000,
            event_bytes: 64 << 20,
        }
    }
}

/// How to run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Bounds.
    pub limits: Limits,
    /// Seed of what uninitialised registers and stack bytes hold; without one they are zero. Two
    /// runs with different seeds show whether a program depends on them.
    pub poison: Option<u64>,
    /// Take calls that are not known for calls that return a number which the call and its arguments
    /// determine, and record them as events, instead of refusing them.
    pub model_unknown_calls: bool,
    /// Let loads follow pointers into the kernel, as tracing programs do: [`KernelMemory`].
    pub kernel_loads: bool,
    /// How much the clock advances each time a program looks at it. It advances by a millisecond
    /// from run to run in any case.
    pub clock_step_ns: u64,
    /// Number of CPUs, of which programs run on [`State::cpu`]; 0 means 1.
    pub cpus: u32,
}

/// What a function is run on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Input {
    /// The context; as long as the hook's context if it is empty or shorter. Fields that describe
    /// the packet follow the packet.
    pub context: Vec<u8>,
    /// The packet.
    pub packet: Vec<u8>,
    /// Metadata before the packet; at most 216 bytes.
    pub metadata: Vec<u8>,
    /// `r1` to `r5`, when they are not the context and nothing.
    pub arguments: Option<[u64; 5]>,
}

/// Runs the functions of one program.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// The world, to be looked at and changed between runs.
    pub state: State,
    code: Vec<Code>,
    options: Options,
}

impl Interpreter {
    /// Makes a program ready to run, with its maps as they are after loading.
    pub fn new(program: &Program, options: Options) -> Interpreter {
        Interpreter { state: State::new(program, &options.limits, options.cpus), code: Code::of(program), options }
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Runs a function to its end.
    pub fn run(&mut self, function: FuncId, input: Input) -> Result<Outcome, Fault> {
        self.start(function, input, None)
    }

    /// Runs a function to its end; the observer sees the machine before every instruction.
    pub fn run_observed(
        &mut self,
        function: FuncId,
        input: Input,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Fault> {
        self.start(function, input, Some(observer))
    }

    fn start(&mut self, function: FuncId, input: Input, observer: Option<&mut dyn Observer>) -> Result<Outcome, Fault> {
        let hook = self.hook(function);
        let mut memory = context::memory(hook, &input, &mut self.state, &self.options);
        memory.maps.iter_mut().for_each(maps::Map::start_run);
        let mut machine = Machine::new(&self.code, &self.options, memory, &self.state);
        if let Some(observer) = observer {
            machine.observer = Some(observer);
        }
        match input.arguments {
            Some(arguments) => machine.registers[1..=5].copy_from_slice(&arguments),
            None => machine.registers[1] = context::first_argument(hook, &input),
        }
        let result = machine.enter_frame(0).and_then(|()| machine.run(function));
        let outcome = match result {
            Ok(value) => Ok(Outcome::of(value, &mut machine)),
            Err(mut reason) => {
                machine.memory.explain(&mut reason);
                Err((*reason, machine.location.unwrap_or((function, 0))))
            }
        };
        let Machine { memory, world, .. } = machine;
        self.state.maps = memory.maps;
        self.state.kernel = memory.kernel;
        self.state.clock_ns = world.clock_ns.wrapping_add(1_000_000);
        self.state.random = world.random;
        outcome.map_err(|(reason, location)| self.fault(reason, location))
    }

    /// The hook that a function is run at: for functions that only others call, that of the first
    /// function that has one.
    fn hook(&self, function: FuncId) -> Hook {
        let own = self.code.get(function.0 as usize).and_then(|c| c.hook);
        own.or_else(|| self.code.iter().find_map(|c| c.hook)).unwrap_or(Hook::Constant)
    }

    fn fault(&self, reason: Reason, (function, position): (FuncId, usize)) -> Fault {
        let code = self.code.get(function.0 as usize);
        let insn: Option<InsnId> = code.and_then(|c| c.id(position));
        Fault { function, function_name: code.map_or_else(String::new, |c| c.name.clone()), insn, position, reason }
    }
}
