//! States at a window's entry in which a replacement does something else than the original: for
//! whoever looks for a better one. They are suggestions; nothing is proven by them.

use crate::ProverOptions;
use crate::call::Signature;
use crate::check::{first_difference, prepare};
use crate::facts::{Facts, Root};
use crate::rewrite::Rewrite;
use crate::solver::Backend;
use crate::symbolic::Symbols;
use crate::term::Term;
use karakoram_bpf::insn::{FuncId, Reg};
use karakoram_bpf::program::Program;
use std::collections::HashMap;

/// A state at a window's entry, as far as the two versions look at it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counterexample {
    /// Registers that hold something.
    pub registers: [Option<u64>; Reg::COUNT],
    /// Memory by address, also that of the context.
    pub bytes: HashMap<u64, u8>,
    /// The first byte of the packet, and one past its last.
    pub packet: (Option<u64>, Option<u64>),
}

/// Looks for a state in which a rewrite of code without effects that others see changes what it does;
/// `None` also where it is refused for something else.
pub fn counterexample(
    program: &Program,
    facts: &Facts,
    rewrite: &Rewrite,
    signature: &dyn Fn(FuncId) -> Signature,
    options: ProverOptions,
    backend: &Backend,
) -> Option<Counterexample> {
    let function = program.function(rewrite.function);
    rewrite.validate(function, &facts.flow).ok()?;
    rewrite.validate_entry(function, &facts.flow).ok()?;
    let (mut checker, old, new) = prepare(program, facts, rewrite, signature, options, backend).ok()?;
    let (_, model, _) = first_difference(&mut checker, &old, &new)?;
    describe(&mut checker.symbols, &model)
}

/// The state that values of the unknowns stand for; `None` where two kinds of memory meet in it, which
/// they do not in any execution.
fn describe(symbols: &mut Symbols, model: &HashMap<u32, u64>) -> Option<Counterexample> {
    let lookup = |n: u32| model.get(&n).copied().unwrap_or(0);
    let mut memo = HashMap::new();
    let registers = symbols.start().regs;
    let symbols = &*symbols;
    let mut value = |t: Term| symbols.terms.eval(t, &lookup, &mut memo);
    let mut found = Counterexample::default();
    for (known, term) in found.registers.iter_mut().zip(registers) {
        *known = term.map(&mut value);
    }
    let mut bytes: Vec<(u64, u8)> = Vec::new();
    for (base, offset, byte) in symbols.all_initial_bytes() {
        bytes.push((value(base).wrapping_add(offset), value(byte) as u8));
    }
    if let Some(context) = symbols.root(Root::Context) {
        for (offset, size, field) in symbols.initial_fields() {
            let address = value(context).wrapping_add(offset);
            let contents = value(field).to_le_bytes();
            bytes.extend((0..size as usize).map(|i| (address.wrapping_add(i as u64), contents[i])));
        }
    }
    for (address, byte) in bytes {
        if *found.bytes.entry(address).or_insert(byte) != byte {
            return None;
        }
    }
    let (start, end) = symbols.packet_bounds();
    found.packet = (start.map(&mut value), end.map(&mut value));
    Some(found)
}
