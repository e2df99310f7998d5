//! What a call does to registers and memory, from the contract of its callee and what is known of
//! its arguments. Facts, liveness and the prover all ask here.

use karakoram_bpf::effects::RegSet;
use karakoram_bpf::helper::{self, Arg, Length, Returns, Touch};
use karakoram_bpf::insn::{Callee, FuncId, Reg};
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_bpf::program::{Entry, Program};

/// How a callee treats the bytes behind a pointer argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Reads them.
    Read,
    /// Overwrites all of them without reading.
    Write,
    /// Reads and may overwrite them.
    ReadWrite,
}

/// Bytes behind a pointer argument that a callee touches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Register with the address.
    pub reg: Reg,
    /// How many; `None`: not known, up to the whole object.
    pub bytes: Option<u32>,
    /// At most that many, where it is not known how many.
    pub most: Option<u32>,
    /// How.
    pub mode: Mode,
}

/// What is known of an argument register at the call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Known {
    /// Its value.
    pub value: Option<u64>,
    /// The largest number it may be.
    pub most: Option<u64>,
    /// The map it is the address of.
    pub map: Option<usize>,
}

/// Everything a call does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CallModel {
    /// Argument registers that matter.
    pub reads: RegSet,
    /// Those of them that the callee may not have; they need not hold anything.
    pub optional: RegSet,
    /// Of those, the ones of which only the low half counts.
    pub words: RegSet,
    /// Memory behind arguments.
    pub accesses: Vec<Access>,
    /// Other packet bytes.
    pub packet: Effect,
    /// Other map values and kernel memory.
    pub shared: Effect,
    /// Context fields.
    pub context: Effect,
    /// Whether what it reads may be addresses, which it then follows.
    pub gathers: bool,
    /// What `r0` becomes.
    pub result: CallResult,
    /// Whether the call may be dropped when its result is not used.
    pub droppable: bool,
    /// Whether the callee has a contract; without one everything above is the worst case.
    pub has_contract: bool,
}

/// [`Touch`] with `Hash`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Effect {
    /// Untouched.
    None,
    /// Read.
    Reads,
    /// Read and maybe changed.
    Writes,
    /// Changed, and packet pointers are invalid.
    Moves,
}

impl From<Touch> for Effect {
    fn from(t: Touch) -> Effect {
        match t {
            Touch::None => Effect::None,
            Touch::Reads => Effect::Reads,
            Touch::Writes => Effect::Writes,
            Touch::Moves => Effect::Moves,
        }
    }
}

/// What a call leaves in `r0`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CallResult {
    /// A number up to that.
    Scalar(u64),
    /// A pointer to a value of that map (`None`: of some map), or null.
    MapValueOrNull(Option<usize>),
    /// Something else.
    Other,
}

/// What is known of a function of the program by its code; see [`crate::interface`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Argument registers that it reads before it writes them.
    pub reads: RegSet,
    /// The largest number it returns, where it returns nothing but small numbers.
    pub returns: Option<u64>,
}

impl CallModel {
    /// The worst case for a callee that reads `reads`.
    fn opaque(reads: RegSet) -> CallModel {
        CallModel {
            reads,
            optional: reads,
            words: RegSet::EMPTY,
            accesses: reads.iter().map(|reg| Access { reg, bytes: None, most: None, mode: Mode::ReadWrite }).collect(),
            packet: Effect::Moves,
            shared: Effect::Writes,
            context: Effect::Writes,
            // All that it can reach is accessed as it is.
            gathers: false,
            result: CallResult::Other,
            droppable: false,
            has_contract: false,
        }
    }

    /// The model of a call; `known` tells what is known of argument registers, `signature` what is known
    /// of the functions of the program.
    pub fn of(
        program: &Program,
        callee: Callee<FuncId>,
        known: &dyn Fn(Reg) -> Known,
        signature: &dyn Fn(FuncId) -> Signature,
    ) -> CallModel {
        if let Some(contract) = helper::contract_of(&callee) {
            return CallModel::from_contract(program, contract, known);
        }
        match callee {
            Callee::Local(f) => {
                let global = matches!(program.function(f).entry, Entry::Subprogram { global: true });
                // The kernel checks all arguments of a global function's type, used or not.
                let Signature { reads, returns } = signature(f);
                let model = CallModel::opaque(if global { RegSet::ARGUMENTS } else { reads });
                match returns {
                    Some(most) => CallModel { result: CallResult::Scalar(most), ..model },
                    None => model,
                }
            }
            Callee::Extern(n) => {
                // The loader refuses an object whose prototype is not the kernel's.
                let arguments = program.externs.get(&n).and_then(|p| p.arguments);
                CallModel::opaque(arguments.map_or(RegSet::ARGUMENTS, |n| RegSet::arguments(n as usize)))
            }
            Callee::Helper(_) | Callee::Kfunc { .. } => CallModel::opaque(RegSet::ARGUMENTS),
            Callee::Register(r) => {
                let mut model = CallModel::opaque(RegSet::ARGUMENTS);
                model.reads = model.reads.with(r);
                model
            }
        }
    }

    /// Whether it may write through pointers that it finds in memory. Helpers with a contract only write
    /// behind their arguments and to memory of the kernel's own.
    pub fn writes_through_memory(&self) -> bool {
        !self.has_contract && self.shared >= Effect::Writes
    }

    fn from_contract(program: &Program, contract: &helper::Contract, known: &dyn Fn(Reg) -> Known) -> CallModel {
        let register = |i: usize| Reg::new(i as u8 + 1).expect("at most five arguments");
        let map = contract.args.iter().position(|a| *a == Arg::Map).and_then(|i| known(register(i)).map);
        let definition = map.and_then(|m| program.maps.get(m));
        let is_foreign = |d: &MapDef| d.kind.behaviour().is_none();
        let takes_foreign = contract.args.contains(&Arg::Map)
            && definition.map_or_else(|| program.maps.iter().any(is_foreign), is_foreign);
        let bytes = |length| match length {
            Length::Bytes(n) => Some(n),
            Length::Arg(n) => {
                known(register(n as usize)).value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v <= 1 << 16)
            }
        };
        let arguments =
            |kind| (0..contract.args.len()).filter(|i| contract.args[*i] == kind).map(register).collect::<RegSet>();
        let mut model = CallModel {
            reads: RegSet::arguments(contract.args.len()),
            optional: arguments(Arg::Optional),
            words: arguments(Arg::Word),
            accesses: Vec::new(),
            packet: contract.packet.into(),
            shared: if takes_foreign { Effect::Writes } else { contract.shared.into() },
            context: contract.context.into(),
            gathers: contract.args.iter().any(|a| matches!(a, Arg::Gather(_))),
            result: match contract.returns {
                Returns::AtMost(max) => CallResult::Scalar(max),
                Returns::Scalar => CallResult::Scalar(u64::MAX),
                Returns::MapValueOrNull if takes_foreign => CallResult::Other,
                Returns::MapValueOrNull => CallResult::MapValueOrNull(map.filter(|m| {
                    // The values of a map of maps are maps.
                    !matches!(program.maps[*m].kind, MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS)
                })),
                _ => CallResult::Other,
            },
            droppable: contract.droppable
                && !takes_foreign
                && (!contract.args.contains(&Arg::Map) || definition.is_some_and(|d| has_silent_lookup(d.kind))),
            has_contract: true,
        };
        for (i, arg) in contract.args.iter().enumerate() {
            let reg = register(i);
            let most = match arg {
                Arg::Read(Length::Arg(n))
                | Arg::Gather(Length::Arg(n))
                | Arg::Write(Length::Arg(n))
                | Arg::ReadWrite(Length::Arg(n)) => known(register(*n as usize)).most,
                _ => None,
            };
            let most = most.and_then(|m| u32::try_from(m).ok()).filter(|m| *m <= 512);
            let access = |bytes, mode| Access { reg, bytes, most, mode };
            match arg {
                Arg::Plain | Arg::Word | Arg::Context | Arg::Map => {}
                Arg::Key => model.accesses.push(access(definition.map(|d| d.key_size), Mode::Read)),
                Arg::Value => model.accesses.push(access(definition.map(|d| d.value_size), Mode::Read)),
                Arg::Read(n) | Arg::Gather(n) => model.accesses.push(access(bytes(*n), Mode::Read)),
                Arg::Write(n) => match bytes(*n) {
                    Some(n) => model.accesses.push(access(Some(n), Mode::Write)),
                    None => model.accesses.push(access(None, Mode::ReadWrite)),
                },
                Arg::ReadWrite(n) => model.accesses.push(access(bytes(*n), Mode::ReadWrite)),
                Arg::Optional => model.accesses.push(access(None, Mode::Read)),
                Arg::Opaque => model.accesses.push(access(None, Mode::ReadWrite)),
            }
        }
        // What was written behind an argument would be missed.
        model.droppable &= model.accesses.iter().all(|a| a.mode == Mode::Read);
        model
    }
}

/// Whether looking up an element leaves no trace: in an LRU map it counts as a use, in a socket map
/// it takes a reference.
fn has_silent_lookup(kind: MapType) -> bool {
    !matches!(kind, MapType::LRU_HASH | MapType::LRU_PERCPU_HASH | MapType::SOCKMAP | MapType::SOCKHASH)
}
