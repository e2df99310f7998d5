//! Proof of a rule in general: for all values of its registers and memory, all constants that its side
//! conditions and the encoding allow, every width and parameter, and every way in which its register
//! variables may be the same register.
//!
//! Memory is an array of bytes. What kind of memory it is, and whether it may be accessed that way, is
//! for the prover to judge at each place where the rule applies.

use super::expression::{Expression, Numbers};
use super::general::{Side, Unsayable, World};
use super::template::Template;
use super::{Known, Rule, Variant, flow, limits};
use crate::registers;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::{Insn, Reg};
use karakoram_proof::solver::{Answer, Decide, Solver};
use karakoram_proof::term::Term;
use std::collections::HashMap;

/// What came of a proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The rule holds in general.
    Holds {
        /// Statements that were shown: variants, and ways in which registers may coincide.
        statements: usize,
    },
    /// It does not.
    Refuted {
        /// Which variant.
        variant: String,
        /// What differs, and for which values.
        counterexample: String,
    },
    /// No answer within the budget, or nothing to answer.
    Unknown {
        /// Which variant.
        variant: String,
        /// Why.
        why: String,
    },
}

/// Conflicts after which a question is taken apart, and after which one is given up that cannot be.
const CONFLICTS_WHOLE: i32 = 1_000;
const CONFLICTS: i32 = 100_000;

/// Proves all variants of a rule.
pub fn rule(rule: &Rule) -> Verdict {
    let mut statements = 0;
    for variant in &rule.variants {
        for classes in flow::partitions(variant) {
            match by_cases(variant, &classes, &mut vec![None; variant.constants.len()]) {
                Ok(()) => statements += 1,
                Err(Failure::Different(counterexample)) => {
                    return Verdict::Refuted { variant: variant.label.clone(), counterexample };
                }
                Err(Failure::Open(why)) => return Verdict::Unknown { variant: variant.label.clone(), why },
                Err(Failure::Never) => {
                    let why = "it never applies: its conditions cannot all hold".to_string();
                    return Verdict::Unknown { variant: variant.label.clone(), why };
                }
            }
        }
    }
    Verdict::Holds { statements }
}

/// Whether a rule is proven at once, for registers that are all different: a first look.
pub fn quickly(rule: &Rule) -> bool {
    rule.variants.iter().all(|variant| {
        let Some(classes) = flow::partitions(variant).into_iter().next() else { return false };
        by_cases(variant, &classes, &mut vec![None; variant.constants.len()]).is_ok()
    })
}

enum Failure {
    Different(String),
    Open(String),
    /// The conditions cannot all hold.
    Never,
}

impl From<Unsayable> for Failure {
    fn from(_: Unsayable) -> Failure {
        Failure::Open("an instruction that rules cannot speak of".to_string())
    }
}

/// Shows a variant at once or, where that takes too long, for each value of a constant that has few.
fn by_cases(variant: &Variant, classes: &[u8], fixed: &mut Vec<Option<u64>>) -> Result<(), Failure> {
    let few = variant.lhs.iter().find_map(|t| match (&t.imm, limits::count(&t.insn)) {
        (Some(Expression::Constant(i)), Some(count)) if fixed[*i].is_none() => Some((*i, count)),
        _ => None,
    });
    let Some((constant, count)) = few else { return statement(variant, classes, fixed, CONFLICTS) };
    match statement(variant, classes, fixed, CONFLICTS_WHOLE) {
        Err(Failure::Open(_)) => {}
        verdict => return verdict,
    }
    let mut applies = false;
    for value in 0..count {
        fixed[constant] = Some(value);
        match by_cases(variant, classes, fixed) {
            Ok(()) => applies = true,
            Err(Failure::Never) => {}
            failure => return failure,
        }
    }
    fixed[constant] = None;
    if applies { Ok(()) } else { Err(Failure::Never) }
}

/// Shows one variant where registers of the same class are one register, and some constants are known.
fn statement(variant: &Variant, classes: &[u8], fixed: &[Option<u64>], conflicts: i32) -> Result<(), Failure> {
    let class = |r: Reg| if r == Reg::FP { Some(r) } else { classes.get(r.index()).and_then(|c| Reg::new(*c)) };
    let merged = |side: &[Template]| -> Vec<Template> {
        let rename = |t: &Template| Template { insn: renamed(&t.insn, &class), ..t.clone() };
        side.iter().map(rename).collect()
    };
    let (lhs, rhs) = (merged(&variant.lhs), merged(&variant.rhs));
    let mut world = World::default();
    let mut constant = |c: &Option<u64>| match c {
        Some(v) => world.terms.constant(64, *v),
        None => world.terms.var(64),
    };
    let constants: Vec<Option<Term>> = fixed.iter().map(|c| Some(constant(c))).collect();
    let mut regs = [None; Reg::COUNT];
    for given in &variant.givens {
        // What is a given number is that number, so that nothing has to be found out about it.
        if let (Known::Is(e), Some(r)) = (&given.known, class(given.reg)) {
            regs[r.index()] = Some(evaluate(&mut world, e, &constants)?);
        }
    }
    for r in flow::inputs(variant).iter().filter_map(class) {
        regs[r.index()].get_or_insert_with(|| world.terms.var(64));
    }
    for given in &variant.givens {
        let known = class(given.reg).and_then(|r| regs[r.index()]).ok_or(Unsayable)?;
        assume_given(&mut world, known, &given.known, &constants)?;
    }
    for condition in &variant.conditions {
        let truth = evaluate(&mut world, condition, &constants)?;
        let holds = world.holds(truth);
        world.assumptions.push(holds);
    }
    for t in &lhs {
        assume_whole(&mut world, t, &constants)?;
    }
    let start = Side { regs, writes: Vec::new(), jumps: world.terms.bool(false) };
    let (mut old, mut new) = (start.clone(), start);
    lhs.iter().try_for_each(|t| execute(&mut world, &mut old, t, &constants))?;
    rhs.iter().try_for_each(|t| execute(&mut world, &mut new, t, &constants))?;
    let inputs = Inputs { variant, constants: constants.into_iter().flatten().collect(), regs, classes };
    let outputs = variant.outputs().iter().filter_map(class).fold(RegSet::EMPTY, RegSet::with);
    compare(&mut world, &old, &new, outputs, &inputs, Solver::new(conflicts))
}

/// A constant operand that stands in a program has 32 bits.
fn assume_whole(world: &mut World, t: &Template, constants: &[Option<Term>]) -> Result<(), Failure> {
    if let (Some(e), false) = (&t.imm, matches!(t.insn, Insn::LoadImm { .. })) {
        let value = evaluate(world, e, constants)?;
        let cut = world.extend(&value, 32, true);
        let whole = world.terms.eq(cut, value);
        world.assumptions.push(whole);
    }
    Ok(())
}

fn renamed(insn: &Insn, class: &dyn Fn(Reg) -> Option<Reg>) -> Insn {
    registers::rename_known(insn, class).expect("rules only have instructions that can be renamed")
}

fn evaluate(world: &mut World, e: &Expression, constants: &[Option<Term>]) -> Result<Term, Failure> {
    e.evaluate(world, constants).ok_or_else(|| Failure::Open("an expression without a value".to_string()))
}

fn assume_given(world: &mut World, reg: Term, known: &Known, constants: &[Option<Term>]) -> Result<(), Failure> {
    use karakoram_bpf::insn::{AluOp, Condition};
    let truth = match known {
        Known::Is(e) => {
            let v = evaluate(world, e, constants)?;
            world.compare(Condition::Eq, &reg, &v)
        }
        Known::AtMost(e) => {
            let v = evaluate(world, e, constants)?;
            world.compare(Condition::Le, &reg, &v)
        }
        Known::Clear(e) => {
            let (mask, zero) = (evaluate(world, e, constants)?, world.number(0));
            let bits = world.alu(AluOp::And, &reg, &mask);
            world.compare(Condition::Eq, &bits, &zero)
        }
    };
    let holds = world.holds(truth);
    world.assumptions.push(holds);
    Ok(())
}

/// Executes an instruction; that its constants fit is assumed, since it would not be there otherwise.
fn execute(world: &mut World, side: &mut Side, t: &Template, constants: &[Option<Term>]) -> Result<(), Failure> {
    let mut imm = None;
    if let Some(e) = &t.imm {
        let value = evaluate(world, e, constants)?;
        for truth in limits::imm(world, &t.insn, &value) {
            let holds = world.holds(truth);
            world.assumptions.push(holds);
        }
        imm = Some(limits::cut(world, &t.insn, &value));
    }
    let mut off = None;
    if let Some(e) = &t.off {
        let value = evaluate(world, e, constants)?;
        let fits = limits::off(world, &value);
        let holds = world.holds(fits);
        world.assumptions.push(holds);
        off = Some(value);
    }
    Ok(world.step(side, t, imm, off)?)
}

/// The unknowns, for counterexamples.
struct Inputs<'v> {
    variant: &'v Variant,
    constants: Vec<Term>,
    regs: [Option<Term>; Reg::COUNT],
    classes: &'v [u8],
}

fn compare(
    world: &mut World,
    old: &Side,
    new: &Side,
    outputs: RegSet,
    inputs: &Inputs,
    mut solver: Solver,
) -> Result<(), Failure> {
    let mut goals: Vec<(String, Term)> = Vec::new();
    for r in outputs.iter() {
        let (a, b) = (old.regs[r.index()].ok_or(Unsayable)?, new.regs[r.index()].ok_or(Unsayable)?);
        goals.push((inputs.name(r), world.terms.eq(a, b)));
    }
    goals.push(("where control goes".to_string(), world.terms.eq(old.jumps, new.jumps)));
    for (address, bytes, _) in old.writes.iter().chain(&new.writes) {
        for k in 0..*bytes as u64 {
            let distance = world.terms.constant(64, k);
            let at = world.terms.add(*address, distance);
            let (a, b) = (world.byte(&old.writes, at), world.byte(&new.writes, at));
            goals.push(("memory".to_string(), world.terms.eq(a, b)));
        }
    }
    match solver.check(&world.terms, &world.assumptions) {
        Answer::Sometimes => {}
        Answer::Never => return Err(Failure::Never),
        Answer::Unknown => return Err(Failure::Open("whether its conditions can hold".to_string())),
    }
    for (what, goal) in goals {
        let mut query = world.assumptions.clone();
        query.push(world.terms.not(goal));
        match solver.check(&world.terms, &query) {
            Answer::Never => {}
            Answer::Sometimes => {
                let model = solver.model(&world.terms);
                return Err(Failure::Different(inputs.describe(world, &model, &what)));
            }
            Answer::Unknown => return Err(Failure::Open(format!("{what} takes too long"))),
        }
    }
    Ok(())
}

impl Inputs<'_> {
    /// The letter of a register class.
    fn name(&self, class: Reg) -> String {
        let first = self.classes.iter().position(|c| *c as usize == class.index());
        first.map_or("r10".to_string(), |i| format!("r{}", self.variant.registers[i]))
    }

    fn describe(&self, world: &World, model: &HashMap<u32, u64>, what: &str) -> String {
        let mut memo = HashMap::new();
        let lookup = |n: u32| model.get(&n).copied().unwrap_or(0);
        let mut value = |t: Term| world.terms.eval(t, &lookup, &mut memo);
        let mut parts: Vec<String> = Vec::new();
        for (name, term) in self.variant.constants.iter().zip(&self.constants) {
            parts.push(format!("{name} = {:#x}", value(*term)));
        }
        for r in Reg::all() {
            if let Some(term) = self.regs[r.index()] {
                parts.push(format!("{} = {:#x}", self.name(r), value(term)));
            }
        }
        format!("{what} differs with {}", parts.join(", "))
    }
}
