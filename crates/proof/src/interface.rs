//! What functions of a program are called with: what holds of the arguments of a subprogram at every
//! call of it. Derived from the input once. It stays true whatever is proven of callers and callees,
//! because calls are made with the same arguments before and after.

use crate::call::Signature;
use crate::facts::{Fact, Facts, Kind, Root, State, join};
use crate::range::Range;
use crate::region::Region;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::helper::{self, Returns};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Entry, Function, Program};
use std::collections::BTreeSet;
use std::rc::Rc;

/// What a function is called with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// What is known of `r1` to `r5`.
    pub facts: [Fact; 5],
    /// Bytes, up to 8, that they are multiples of should they be addresses in callers' frames.
    pub alignment: [u32; 5],
}

impl Arguments {
    /// Anything.
    pub fn any() -> Arguments {
        let facts = std::array::from_fn(|i| named(Kind::Scalar, Range::FULL, argument(i)));
        Arguments { facts, alignment: [8; 5] }
    }

    /// What a caller in that state passes, as the callee sees it; `own` are the caller's own arguments.
    pub(crate) fn passed(state: &State, own: &Arguments) -> Arguments {
        let of = |i: usize| &state.regs[i + 1];
        Arguments {
            facts: std::array::from_fn(|i| passed(of(i), argument(i))),
            alignment: std::array::from_fn(|i| own.alignment_of(of(i))),
        }
    }

    /// Bytes that a value is a multiple of should it be an address in some frame.
    fn alignment_of(&self, fact: &Fact) -> u32 {
        let base = match (fact.kind, fact.root) {
            (Kind::Pointer { region: Region::Stack, .. }, Some(Root::Frame)) => 8,
            (Kind::Pointer { region: Region::Stack | Region::Any, .. } | Kind::Unknown, _) => 1,
            (_, Some(Root::Argument(r))) => self.alignment[r.index() - 1],
            (Kind::Pointer { region: Region::CallerFrame, .. }, _) => 1,
            _ => return 8,
        };
        base.min(1 << fact.delta.trailing_zeros().min(3))
    }

    /// What holds of both.
    fn join(&self, other: &Arguments) -> Arguments {
        let joined = join(&self.state(), &other.state(), 0, 0);
        let facts = std::array::from_fn(|i| {
            let fact = joined.regs[i + 1];
            match fact.root {
                Some(Root::Context | Root::Map(_)) => fact,
                _ if fact.value().is_some() => fact,
                _ => Fact { root: Some(Root::Argument(argument(i))), delta: 0, ..fact },
            }
        });
        Arguments { facts, alignment: std::array::from_fn(|i| self.alignment[i].min(other.alignment[i])) }
    }

    fn state(&self) -> State {
        let mut regs = [self.facts[0]; Reg::COUNT];
        regs[1..=5].copy_from_slice(&self.facts);
        State { regs, stack: Rc::default(), readable: 0 }
    }
}

fn argument(i: usize) -> Reg {
    Reg::new(i as u8 + 1).expect("r1 to r5 exist")
}

fn named(kind: Kind, range: Range, argument: Reg) -> Fact {
    Fact { kind, root: Some(Root::Argument(argument)), delta: 0, range }
}

/// A fact of the caller as one of the callee: its frame is a caller's, roots have other names, and what
/// may point into any frame is a number like all that is no address in the callee's own frame.
fn passed(fact: &Fact, to: Reg) -> Fact {
    if fact.value().is_some() {
        return Fact { kind: Kind::Scalar, root: None, delta: 0, range: fact.range };
    }
    let is_start = |root: Root| fact.root == Some(root) && fact.delta == 0;
    match fact.kind {
        Kind::Scalar | Kind::Unknown => named(Kind::Scalar, fact.range, to),
        Kind::Map(m) if is_start(Root::Map(m)) => *fact,
        Kind::Pointer { region: Region::Context, nullable: false } if is_start(Root::Context) => *fact,
        Kind::Pointer { region: Region::Stack, nullable } => {
            named(Kind::Pointer { region: Region::CallerFrame, nullable }, Range::FULL, to)
        }
        Kind::Pointer { region: Region::Context | Region::Any, .. } | Kind::Map(_) | Kind::Uninit => {
            named(Kind::Scalar, Range::FULL, to)
        }
        kind @ Kind::Pointer { .. } => named(kind, Range::FULL, to),
    }
}

/// What each function of a program is called with. Only of functions that nothing outside the object
/// can call is anything known, and of those only when all their calls are seen: no recursion, no
/// address taken.
pub fn arguments(program: &Program, signature: &dyn Fn(FuncId) -> Signature) -> Vec<Arguments> {
    let n = program.functions.len();
    let closed = closed(program);
    let callees: Vec<BTreeSet<usize>> = (0..n).map(|f| callees(program, f)).collect();
    let mut known: Vec<Option<Arguments>> = vec![None; n];
    let mut found: Vec<Arguments> = vec![Arguments::any(); n];
    let mut waiting: BTreeSet<usize> = (0..n).collect();
    let is_ready =
        |f: usize, waiting: &BTreeSet<usize>| !closed[f] || !waiting.iter().any(|g| callees[*g].contains(&f));
    // Callers first.
    while let Some(f) = waiting.iter().copied().find(|f| is_ready(*f, &waiting)) {
        waiting.remove(&f);
        if let Some(arguments) = known[f].take().filter(|_| closed[f]) {
            found[f] = arguments;
        }
        if !callees[f].iter().any(|g| closed[*g]) {
            continue;
        }
        for (callee, arguments) in Facts::derive(program, FuncId(f as u32), signature, &found[f]).calls {
            let all = &mut known[callee.0 as usize];
            *all = Some(all.as_ref().map_or(arguments.clone(), |a| a.join(&arguments)));
        }
    }
    found
}

/// The largest number that each function returns, where it returns nothing but numbers of 32 bits. Only
/// of functions that nothing outside the object can call or replace is anything known, of none that calls
/// itself in the end, and of none with tail calls: what another program returns comes back from those. It
/// stays true, because what is proven of a function keeps what it returns.
pub fn returned(program: &Program, reads: &[RegSet], given: &[Arguments]) -> Vec<Option<u64>> {
    let closed = closed(program);
    let callees: Vec<BTreeSet<usize>> = (0..closed.len()).map(|f| callees(program, f)).collect();
    let is_called = |f: &usize| callees.iter().any(|c| c.contains(f));
    let is_wanted = |f: &usize| closed[*f] && is_called(f) && !has_tail_calls(&program.functions[*f]);
    let mut waiting: BTreeSet<usize> = (0..closed.len()).filter(is_wanted).collect();
    let mut found = vec![None; closed.len()];
    // Callees first.
    while let Some(f) = waiting.iter().copied().find(|f| callees[*f].is_disjoint(&waiting)) {
        waiting.remove(&f);
        let signature = |g: FuncId| Signature { reads: reads[g.0 as usize], returns: found[g.0 as usize] };
        let facts = Facts::derive(program, FuncId(f as u32), &signature, &given[f]);
        found[f] = largest_returned(&program.functions[f], &facts);
    }
    found
}

fn has_tail_calls(function: &Function) -> bool {
    function.nodes.iter().any(|node| match node.insn {
        Insn::Call(callee) => helper::contract_of(&callee).is_some_and(|c| c.returns == Returns::Tail),
        _ => false,
    })
}

/// The largest number in `r0` at any exit.
fn largest_returned(function: &Function, facts: &Facts) -> Option<u64> {
    let exits = (0..function.nodes.len()).filter(|p| function.nodes[*p].insn == Insn::Exit);
    let results: Vec<Fact> = exits.filter_map(|p| Some(facts.before[p].as_ref()?.regs[0])).collect();
    let is_small = |r: &Fact| r.kind == Kind::Scalar && r.range.max <= u32::MAX as u64;
    results.iter().map(|r| is_small(r).then_some(r.range.max)).reduce(|a, b| Some(a?.max(b?)))?
}

/// Functions that only calls by name in this program can reach.
fn closed(program: &Program) -> Vec<bool> {
    let is_local = |e: &Entry| matches!(e, Entry::Subprogram { global: false });
    let is_closed = |e: &Entry| is_local(e) && !program.has_unseen_callers;
    let mut closed: Vec<bool> = program.functions.iter().map(|f| is_closed(&f.entry)).collect();
    for node in program.functions.iter().flat_map(|f| &f.nodes) {
        if let Insn::LoadImm { value: Imm64::Function(f), .. } = node.insn {
            closed[f.0 as usize] = false;
        }
    }
    closed
}

fn callees(program: &Program, f: usize) -> BTreeSet<usize> {
    let callee = |insn: &Insn| match insn {
        Insn::Call(Callee::Local(g)) => Some(g.0 as usize),
        _ => None,
    };
    program.functions[f].nodes.iter().filter_map(|n| callee(&n.insn)).collect()
}
