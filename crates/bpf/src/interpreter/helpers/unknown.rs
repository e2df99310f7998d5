//! Calls that are not modelled, when the options say to make something up: a result that follows
//! from the call and its arguments, and an event.

use crate::helper::{self, Arg, Length, Returns};
use crate::insn::Callee;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::{Machine, object};
use crate::interpreter::random::{Random, hash};

/// Makes up what a call does.
pub(in crate::interpreter) fn model(m: &mut Machine, arguments: [u64; 5]) -> Result<u64, Trap> {
    let identity = match m.callee {
        Callee::Helper(id) => hash([0, id as u32 as u64]),
        Callee::Kfunc { id, off } => hash([1, id as u32 as u64, off as u16 as u64]),
        Callee::Extern(n) => hash([2, n as u64]),
        Callee::Local(f) => hash([3, f.0 as u64]),
        Callee::Register(r) => hash([4, r.index() as u64]),
    };
    let seed = hash([m.memory.kernel.seed, identity]);
    let Some(contract) = helper::contract_of(&m.callee) else {
        // How many arguments it takes is not known, and registers beyond them hold anything: only how
        // often it was called before can count.
        let made = m.unknown_calls.entry(m.callee).or_default();
        *made += 1;
        let made = *made;
        m.record(Vec::new())?;
        return Ok(number(hash([seed, made])));
    };
    let mut seen = Vec::new();
    for (arg, value) in contract.args.iter().zip(arguments) {
        seen.extend(describe(m, *arg, contract.args, arguments, value)?);
    }
    let seed = hash([seed].into_iter().chain(seen.iter().flat_map(digest)));
    m.record(seen)?;
    for (arg, value) in contract.args.iter().zip(arguments) {
        if let Arg::Write(length) | Arg::ReadWrite(length) = arg
            && value != 0
        {
            let len = bytes(*length, arguments);
            Random::new(seed ^ value_of(length, arguments)).fill(m.memory.write(value, len)?);
        }
    }
    returned(m, contract.returns, arguments, seed)
}

fn value_of(length: &Length, arguments: [u64; 5]) -> u64 {
    match length {
        Length::Arg(n) => arguments.get(*n as usize).copied().unwrap_or(0),
        Length::Bytes(n) => *n as u64,
    }
}

fn bytes(length: Length, arguments: [u64; 5]) -> usize {
    // Lengths are 32-bit quantities in the kernel's helpers.
    value_of(&length, arguments) as u32 as usize
}

/// What an argument tells the callee.
fn describe(m: &Machine, arg: Arg, args: &[Arg], arguments: [u64; 5], value: u64) -> Result<Option<Argument>, Trap> {
    let map = || {
        let handle = args.iter().position(|a| *a == Arg::Map).and_then(|i| arguments.get(i).copied()).unwrap_or(0);
        m.map_argument(handle).map(|map| m.memory.maps[map].def())
    };
    // Many helpers take null for "nothing"; which ones, the contract does not say.
    let read = |len: usize| match value {
        0 => Ok(Some(Argument::Number(0))),
        _ => Ok(Some(Argument::Bytes(m.memory.read(value, len)?.to_vec()))),
    };
    match arg {
        // What need not be there may hold anything.
        Arg::Context | Arg::Optional => Ok(None),
        Arg::Plain | Arg::Opaque => Ok(Some(m.argument(value))),
        Arg::Word => Ok(Some(Argument::Number(value as u32 as u64))),
        Arg::Map => Ok(Some(Argument::Number(m.map_argument(value)? as u64))),
        Arg::Key => read(map()?.key_size as usize),
        Arg::Value => read(map()?.value_size as usize),
        Arg::Read(length) | Arg::ReadWrite(length) | Arg::Gather(length) => read(bytes(length, arguments)),
        Arg::Write(length) => Ok(Some(Argument::Number(bytes(length, arguments) as u64))),
    }
}

fn digest(argument: &Argument) -> Vec<u64> {
    match argument {
        Argument::Number(n) => vec![0, *n],
        Argument::Bytes(bytes) => bytes.iter().map(|b| *b as u64 + 1).collect(),
        Argument::Pointer(r) => vec![2, r.kind as u64, r.index as u64, r.element as u64, r.offset as u64],
    }
}

/// Half of all results are 0, the others small numbers or error numbers.
fn number(seed: u64) -> u64 {
    match seed >> 62 {
        0 => seed & 0xff,
        1 => -(1 + (seed & 31) as i64) as u64,
        _ => 0,
    }
}

fn returned(m: &mut Machine, returns: Returns, arguments: [u64; 5], seed: u64) -> Result<u64, Trap> {
    let some = seed >> 63 == 1;
    Ok(match returns {
        Returns::Scalar => number(seed),
        Returns::AtMost(most) => seed.checked_rem(most.wrapping_add(1)).unwrap_or(seed),
        Returns::MemoryOrNull(n) if some => {
            let len = arguments.get(n as usize).copied().unwrap_or(0) as u32 as usize;
            m.memory.make_record(0, len)?
        }
        Returns::PointerOrNull if some => object(seed, 0),
        Returns::Pointer => object(seed, 0),
        Returns::MapValueOrNull | Returns::MemoryOrNull(_) | Returns::PointerOrNull | Returns::Tail => 0,
    })
}
