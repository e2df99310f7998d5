//! How far down a function's frame is used: by its own code, and by all that it hands addresses to.
//!
//! Every value is an address in that frame at some offset or above, or none in it, or it may be any.
//! Where a function goes is followed into what it calls; all memory is one place, which holds whatever
//! was stored anywhere. Addresses are numbers from the frame pointer by additions and subtractions of 64
//! bits only, as the kernel's verifier allows nothing else.

use crate::apply::Prover;
use crate::facts::{Fact, Facts, Kind};
use crate::range::Range;
use crate::region::Region;
use karakoram_bpf::helper::{self, Arg, Returns};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;
use karakoram_bpf::semantics::{self, Flow, Machine};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a frame.
pub(crate) const FRAME_BYTES: i64 = 512;

/// Bytes from the top of its frame down that `function`, and what it calls, use at most; `None` where
/// that cannot be told.
pub(crate) fn frame_bytes(program: &Program, function: FuncId, prover: &Prover) -> Option<i64> {
    let mut walk = Walk {
        program,
        prover,
        function,
        facts: BTreeMap::new(),
        given: BTreeMap::from([(function, [Address::None; 5])]),
        returned: BTreeMap::new(),
        memory: Address::None,
        lowest: 0,
    };
    // Each round raises what is known of some function or the memory, which can be done a limited number
    // of times: offsets only go down, to the end of the frame.
    loop {
        let before = (walk.given.clone(), walk.returned.clone(), walk.memory);
        for f in walk.given.keys().copied().collect::<Vec<_>>() {
            walk.function(f).ok()?;
        }
        if before == (walk.given.clone(), walk.returned.clone(), walk.memory) {
            return Some(-walk.lowest);
        }
    }
}

/// What a value is to the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Address {
    /// No address in it.
    None,
    /// If it is one, at that offset or above.
    From(i64),
    /// Anything.
    Any,
}

impl Address {
    fn join(self, other: Address) -> Address {
        match (self, other) {
            (Address::None, x) | (x, Address::None) => x,
            (Address::From(a), Address::From(b)) => Address::From(a.min(b)),
            _ => Address::Any,
        }
    }

    /// That much further up.
    fn plus(self, by: i64) -> Address {
        match self {
            Address::From(at) if (-FRAME_BYTES..=FRAME_BYTES).contains(&at.saturating_add(by)) => {
                Address::From(at + by)
            }
            Address::None => Address::None,
            _ => Address::Any,
        }
    }
}

/// It cannot be told.
struct Lost;

struct Walk<'a> {
    program: &'a Program,
    prover: &'a Prover,
    /// Whose frame it is.
    function: FuncId,
    facts: BTreeMap<FuncId, Facts>,
    /// What each function that was met is called with.
    given: BTreeMap<FuncId, [Address; 5]>,
    /// What each returns.
    returned: BTreeMap<FuncId, Address>,
    /// What memory may hold.
    memory: Address,
    lowest: i64,
}

impl Walk<'_> {
    fn function(&mut self, f: FuncId) -> Result<(), Lost> {
        let facts = match self.facts.remove(&f) {
            Some(facts) => facts,
            None => self.prover.facts(self.program, f),
        };
        let result = self.code(f, &facts);
        self.facts.insert(f, facts);
        result
    }

    fn code(&mut self, f: FuncId, facts: &Facts) -> Result<(), Lost> {
        let nodes = &self.program.function(f).nodes;
        let mut entry = [Address::None; Reg::COUNT];
        entry[1..=5].copy_from_slice(&self.given[&f]);
        let is_own = f == self.function;
        if is_own {
            entry[Reg::FP.index()] = Address::From(0);
        }
        let mut before: Vec<Option<[Address; Reg::COUNT]>> = vec![None; nodes.len()];
        before[0] = Some(entry);
        let mut pending = BTreeSet::from([0]);
        while let Some(p) = pending.pop_first() {
            let (Some(mut regs), Some(known)) = (before[p], &facts.before[p]) else { continue };
            let node = &nodes[p];
            regs.iter_mut()
                .zip(&known.regs)
                .filter(|(_, f)| is_elsewhere(f, is_own))
                .for_each(|(r, _)| *r = Address::None);
            let mut step = Step { walk: self, regs, known: &known.regs, is_patched: node.patch.is_some() };
            if node.patch.is_some() && node.patched_constant().is_none() {
                step.patched(&node.insn)?;
            } else {
                match semantics::step(&mut step, &node.insn)? {
                    Flow::Call(callee) => step.call(callee)?,
                    Flow::Exit => step.leave(f),
                    _ => {}
                }
            }
            let after = step.regs;
            for next in &facts.flow.successors[p] {
                let joined = match before[*next] {
                    None => after,
                    Some(old) => std::array::from_fn(|r| old[r].join(after[r])),
                };
                if before[*next] != Some(joined) {
                    before[*next] = Some(joined);
                    pending.insert(*next);
                }
            }
        }
        Ok(())
    }

    fn uses(&mut self, address: Address) -> Result<(), Lost> {
        match address {
            Address::None => Ok(()),
            Address::From(at) => {
                self.lowest = self.lowest.min(at);
                Ok(())
            }
            Address::Any => Err(Lost),
        }
    }
}

/// Whether a value is known to be no address in the frame, in the function whose frame it is (`is_own`) or
/// in one that it calls.
fn is_elsewhere(fact: &Fact, is_own: bool) -> bool {
    match fact.kind {
        Kind::Pointer { region, .. } => region.is_map_value() || matches!(region, Region::Packet | Region::Context),
        Kind::Map(_) => true,
        Kind::Scalar => is_own || fact.value().is_some(),
        Kind::Unknown | Kind::Uninit => false,
    }
}

/// A value: what it is to the frame, and which numbers it may be where it is no address.
#[derive(Clone, Copy, Debug)]
struct Value {
    address: Address,
    range: Range,
}

impl Value {
    fn number(range: Range) -> Value {
        Value { address: Address::None, range }
    }

    fn address(address: Address) -> Value {
        Value { address, range: Range::FULL }
    }

    /// The same after an operation that no address comes out of.
    fn mangled(&self) -> Value {
        match self.address {
            Address::None => Value::number(Range::FULL),
            _ => Value::address(Address::Any),
        }
    }
}

/// One instruction.
struct Step<'w, 'a> {
    walk: &'w mut Walk<'a>,
    regs: [Address; Reg::COUNT],
    known: &'w [Fact; Reg::COUNT],
    is_patched: bool,
}

impl Step<'_, '_> {
    /// An instruction that the loader changes in ways that are not known.
    fn patched(&mut self, insn: &Insn) -> Result<(), Lost> {
        let effects = karakoram_bpf::effects::of(insn);
        if effects.reads.iter().any(|r| self.regs[r.index()] != Address::None) {
            return Err(Lost);
        }
        effects.writes.iter().for_each(|r| self.regs[r.index()] = self.walk.memory);
        Ok(())
    }

    fn call(&mut self, callee: Callee<FuncId>) -> Result<(), Lost> {
        let arguments: [Address; 5] = self.regs[1..=5].try_into().map_err(|_| Lost)?;
        let result = match callee {
            // A frame of its own for each call: it would not be told which.
            Callee::Local(f) if f == self.walk.function => return Err(Lost),
            Callee::Local(f) => {
                let given = self.walk.given.entry(f).or_insert([Address::None; 5]);
                *given = std::array::from_fn(|i| given[i].join(arguments[i]));
                self.walk.returned.get(&f).copied().unwrap_or(Address::None)
            }
            Callee::Register(_) => return Err(Lost),
            Callee::Helper(_) | Callee::Kfunc { .. } | Callee::Extern(_) => {
                let contract = helper::contract_of(&callee);
                let is_address = |i: usize| match contract.map(|c| c.args.get(i)) {
                    Some(None | Some(Arg::Plain | Arg::Word | Arg::Context | Arg::Map)) => false,
                    Some(Some(_)) | None => true,
                };
                // The kernel takes an address as the start of what it reads or writes.
                (0..5).filter(|i| is_address(*i)).try_for_each(|i| self.walk.uses(arguments[i]))?;
                match contract.map(|c| c.returns) {
                    Some(Returns::Scalar | Returns::AtMost(_) | Returns::MapValueOrNull) => Address::None,
                    _ => arguments.iter().fold(self.walk.memory, |all, a| all.join(*a)),
                }
            }
        };
        self.regs[..=5].fill(Address::None);
        self.regs[0] = result;
        Ok(())
    }

    fn leave(&mut self, f: FuncId) {
        let returned = self.walk.returned.entry(f).or_insert(Address::None);
        *returned = returned.join(self.regs[0]);
    }

    fn remember(&mut self, address: Address) -> Result<(), Lost> {
        // Whoever finds it may use it.
        self.walk.uses(address)?;
        self.walk.memory = self.walk.memory.join(address);
        Ok(())
    }
}

impl Machine for Step<'_, '_> {
    type Value = Value;
    type Cond = ();
    type Error = Lost;

    fn constant(&mut self, value: u64) -> Value {
        Value::number(Range::exactly(value))
    }

    fn immediate(&mut self, value: i32) -> Value {
        if self.is_patched { Value::number(Range::FULL) } else { self.constant(value as i64 as u64) }
    }

    fn reg(&mut self, reg: Reg) -> Result<Value, Lost> {
        let fact = &self.known[reg.index()];
        let range = if fact.kind == Kind::Scalar { fact.range } else { Range::FULL };
        Ok(Value { address: self.regs[reg.index()], range })
    }

    fn set_reg(&mut self, reg: Reg, value: Value) -> Result<(), Lost> {
        self.regs[reg.index()] = value.address;
        Ok(())
    }

    fn alu(&mut self, width: Width, op: AluOp, a: &Value, b: &Value) -> Result<Value, Lost> {
        let added = |base: &Value, by: &Value| match by.range.value() {
            Some(by) => base.address.plus(by as i64),
            None if by.range.max <= FRAME_BYTES as u64 => base.address,
            None => Address::Any,
        };
        let none = Address::None;
        Ok(match (width, op, a.address, b.address) {
            (_, _, Address::None, Address::None) => Value::number(Range::FULL),
            (Width::W64, AluOp::Add, _, by) if by == none => Value::address(added(a, b)),
            (Width::W64, AluOp::Add, by, _) if by == none => Value::address(added(b, a)),
            (Width::W64, AluOp::Sub, _, by) if by == none => match b.range.value() {
                Some(by) => Value::address(a.address.plus((by as i64).saturating_neg())),
                None => Value::address(Address::Any),
            },
            _ => Value::address(Address::Any),
        })
    }

    fn extend(&mut self, value: &Value, bits: u32, _: bool) -> Value {
        if bits == 64 { *value } else { value.mangled() }
    }

    fn swap_bytes(&mut self, value: &Value, _: u32) -> Value {
        value.mangled()
    }

    fn compare(&mut self, _: Width, _: Condition, _: &Value, _: &Value) {}

    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<Value, Lost> {
        // Who calls that, and with what, is not seen.
        if matches!(value, Imm64::Function(_)) { Err(Lost) } else { Ok(Value::number(Range::FULL)) }
    }

    fn load(&mut self, address: &Value, size: Size) -> Result<Value, Lost> {
        self.walk.uses(address.address)?;
        // Addresses are only found whole.
        Ok(Value::address(if size == Size::D { self.walk.memory } else { Address::None }))
    }

    fn store(&mut self, address: &Value, _: Size, value: &Value) -> Result<(), Lost> {
        self.walk.uses(address.address)?;
        self.remember(value.address)
    }

    fn atomic(
        &mut self,
        _: AtomicOp,
        address: &Value,
        size: Size,
        operand: &Value,
        _: Option<&Value>,
    ) -> Result<Value, Lost> {
        self.store(address, size, operand)?;
        self.load(address, size)
    }

    fn load_acquire(&mut self, address: &Value, size: Size) -> Result<Value, Lost> {
        self.load(address, size)
    }

    fn store_release(&mut self, address: &Value, size: Size, value: &Value) -> Result<(), Lost> {
        self.store(address, size, value)
    }

    fn legacy_load(&mut self, _: &Value, _: Size) -> Result<Option<Value>, Lost> {
        self.regs[..=5].fill(Address::None);
        Ok(Some(Value::number(Range::FULL)))
    }

    fn cast_address_space(&mut self, value: &Value, _: u16, _: u16) -> Result<Value, Lost> {
        Ok(value.mangled())
    }
}
