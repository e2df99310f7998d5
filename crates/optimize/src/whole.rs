//! What is done to a program as a whole before its functions are worked on: small functions and those
//! that are called once come to where they are called, and what nobody calls goes.

use crate::cost::Goal;
use crate::pipeline::{Level, Options};
use karakoram_bpf::insn::{Callee, FuncId, Insn, InsnId};
use karakoram_bpf::program::{Entry, Program};
use karakoram_proof::apply::Proven;
use karakoram_proof::whole::Change;
use std::collections::BTreeSet;

/// Name of the rule that puts code in place of calls.
pub const INLINE: &str = "inline";
/// Name of the rule that removes functions.
pub const REMOVE: &str = "remove";

/// Slots by which a program may grow at first where a function that is called once comes to where it is
/// called: there it can be fitted in.
const MOST_GROWTH: i64 = 10;

/// Slots of a function that is put in place of all calls for the goal of time.
const MOST_COPIED: usize = 16;

/// Slots that are gone through for all changes together: each looks at the whole program.
const MOST_WORK: usize = 100_000;

/// What may be done.
struct Wanted<'a> {
    options: &'a Options<'a>,
    keeps: &'a dyn Fn(FuncId) -> bool,
}

impl Wanted<'_> {
    fn uses(&self, rule: &str) -> bool {
        !self.options.skip.contains(rule)
    }

    fn may_change(&self, program: &Program, f: FuncId) -> bool {
        let is_chosen = |only: &BTreeSet<String>| only.contains(&program.function(f).name);
        self.options.only.as_ref().is_none_or(is_chosen) && !(self.keeps)(f)
    }
}

/// The program with what is worth it done to it as a whole; functions that `keeps` says yes to stay as
/// they are.
pub fn reshaped(program: Program, options: &Options, keeps: &dyn Fn(FuncId) -> bool) -> Proven {
    let wanted = &Wanted { options, keeps };
    let mut proven = Proven::input(program);
    let is_limited = options.window.is_some() || options.stop_after.is_some();
    if options.level < Level::O2 || is_limited || has_namesakes(proven.program()) {
        return proven;
    }
    remove_unused(&mut proven, wanted);
    if wanted.uses(INLINE) {
        let mut work = 0;
        for callee in callees_first(proven.program()) {
            work += proven.program().slots() * calls_of(proven.program(), callee).len();
            if work > MOST_WORK {
                break;
            }
            if let Some(better) = without_calls(&proven, callee, wanted) {
                proven = better;
            }
        }
    }
    proven
}

/// Whether several functions have one name: proofs go by names.
fn has_namesakes(program: &Program) -> bool {
    let names: BTreeSet<&str> = program.functions.iter().map(|f| f.name.as_str()).collect();
    names.len() < program.functions.len()
}

/// Removes functions that nobody calls, then those that only these called.
fn remove_unused(proven: &mut Proven, wanted: &Wanted) {
    if !wanted.uses(REMOVE) {
        return;
    }
    let program = proven.program();
    let functions: Vec<FuncId> = ids(program).filter(|f| wanted.may_change(program, *f)).collect();
    let is_removed = |proven: &mut Proven, f: &FuncId| proven.change(Change::Remove { function: *f }).is_ok();
    while functions.iter().any(|f| is_removed(proven, f)) {}
}

/// With the code of a function in place of all calls of it, if that is worth it.
fn without_calls(proven: &Proven, callee: FuncId, wanted: &Wanted) -> Option<Proven> {
    let program = proven.program();
    let calls = calls_of(program, callee);
    if calls.is_empty() || !calls.iter().all(|(caller, _)| wanted.may_change(program, *caller)) {
        return None;
    }
    let is_small = program.function(callee).slots() <= MOST_COPIED;
    if calls.len() > 1 && !is_small {
        return None;
    }
    let mut better = proven.clone();
    for (caller, call) in &calls {
        better.change(Change::Inline { caller: *caller, call: *call }).ok()?;
    }
    remove_unused(&mut better, wanted);
    let growth = better.program().slots() as i64 - program.slots() as i64;
    let is_worth = match (wanted.options.goal, calls.len()) {
        (Goal::Latency, _) if is_small => true,
        // Where it stays there are two of it.
        (_, 1) => better.program().function(callee).nodes.is_empty() && growth <= MOST_GROWTH,
        _ => growth <= 0,
    };
    is_worth.then_some(better)
}

/// The calls of a function.
fn calls_of(program: &Program, callee: FuncId) -> Vec<(FuncId, InsnId)> {
    let calls = |caller: FuncId| {
        let nodes = program.function(caller).nodes.iter();
        nodes.filter(move |n| n.insn == Insn::Call(Callee::Local(callee))).map(move |n| (caller, n.id))
    };
    ids(program).flat_map(calls).collect()
}

/// Subprograms that the linker does not see, those first that others call.
fn callees_first(program: &Program) -> Vec<FuncId> {
    let callees = |f: FuncId| -> BTreeSet<FuncId> {
        let callee = |insn: &Insn| match insn {
            Insn::Call(Callee::Local(g)) => Some(*g),
            _ => None,
        };
        program.function(f).nodes.iter().filter_map(|n| callee(&n.insn)).collect()
    };
    let mut waiting: BTreeSet<FuncId> = ids(program).collect();
    let mut order = Vec::new();
    // What calls itself is never ready.
    while let Some(f) = waiting.iter().copied().find(|f| callees(*f).is_disjoint(&waiting)) {
        waiting.remove(&f);
        order.push(f);
    }
    order.retain(|f| program.function(*f).entry == Entry::Subprogram { global: false });
    order
}

fn ids(program: &Program) -> impl Iterator<Item = FuncId> {
    (0..program.functions.len() as u32).map(FuncId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_bpf::text::asm;

    /// So many functions that each is called once: that ends long before each was tried.
    #[test]
    fn there_is_an_end_to_it() {
        const FUNCTIONS: usize = 400;
        let calls: String = (0..FUNCTIONS).map(|i| format!("r1 = {i}\ncall f{i}\n")).collect();
        let functions = (0..FUNCTIONS).map(|i| format!(".func f{i}\n.local\nr0 = r1\nr0 += 1\nr0 ^= 5\nexit\n"));
        let text = format!(".func main\n.hook buffer=16\n{calls}exit\n{}", functions.collect::<String>());
        let proven = reshaped(asm::parse(&text).unwrap(), &Options::default(), &|_| false);
        let gone = proven.program().functions.iter().filter(|f| f.nodes.is_empty()).count();
        assert!(gone > 15 && gone < FUNCTIONS / 2, "{gone}");
    }
}
