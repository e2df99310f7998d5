//! The call graph, and in which form each function is translated.
//!
//! A BPF program has at most eight frames, of 512 bytes together, and no recursion. So small functions
//! are inlined, others are BPF functions, verified once each; functions that call themselves in any
//! way, and those from which too deep a chain of calls starts, are run by a *machine*, which keeps their
//! activation records in the arena.

use crate::Options;
use crate::error::{TranslateError, unsupported};
use crate::hook::Hook;
use crate::host::Host;
use crate::maps::{self, KernelMap};
use crate::module::Module;
use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::Operator;

/// Longest chain of BPF functions below a machine or a program: eight frames, less the program's own,
/// those of a machine and one of the runtime.
const MOST_FRAMES: usize = 7 - MACHINE_FRAMES - 1;
/// A machine and the member that it calls.
const MACHINE_FRAMES: usize = 2;

/// Operators of the smallest functions, which take less where they are called than a call does.
const MOST_SMALLEST: usize = 12;

/// How a function is translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Into its callers.
    Inline,
    /// As a BPF function.
    Native,
    /// By a machine, of that number.
    Machine(usize),
}

/// A program: an exported function with a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// Hook.
    pub hook: Hook,
    /// Verdict after a panic.
    pub on_panic: i64,
    /// Function.
    pub function: u32,
    /// Tracepoint, and how many of its arguments are looked at.
    pub target: Option<(String, u32)>,
}

impl Entry {
    /// The section of the object, which says where the program belongs.
    pub fn section(&self) -> String {
        match &self.target {
            Some((target, _)) => format!("{}/{target}", self.hook.section()),
            None => self.hook.section().to_string(),
        }
    }
}

/// What is translated, and how.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Programs.
    pub entries: Vec<Entry>,
    /// Reachable functions with their forms.
    pub forms: BTreeMap<u32, Form>,
    /// Functions that reach a host function that needs the context.
    pub needs_context: BTreeSet<u32>,
    /// Functions of which each hook has its own instance: those, and all where verdicts differ in what they may be.
    pub by_hook: BTreeSet<u32>,
    /// Hooks from which each function is reachable.
    pub hooks: BTreeMap<u32, BTreeSet<Hook>>,
    /// Members of the machines.
    pub machines: Vec<Vec<u32>>,
    /// Those of them that are one BPF function each.
    pub fused: BTreeSet<usize>,
    /// Functions that a call through a pointer can reach, by type, with their places in the table.
    pub targets: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Maps of the kernel.
    pub maps: Vec<KernelMap>,
    /// Functions that always end the run.
    pub diverging: BTreeSet<u32>,
}

impl Plan {
    /// Whether a function always ends the run, and returns the verdict for that.
    pub fn is_diverging(&self, number: u32) -> bool {
        self.diverging.contains(&number)
    }

    /// Under which hooks' names a function is translated: each that can reach it when it needs a
    /// context, otherwise none in particular.
    pub fn instances(&self, number: u32) -> Vec<Option<Hook>> {
        match self.by_hook.contains(&number) {
            true => self.hooks[&number].iter().map(|h| Some(*h)).collect(),
            false => vec![None],
        }
    }

    /// Whether each hook has its own instance of a machine.
    pub fn machine_is_by_hook(&self, machine: usize) -> bool {
        self.machines[machine].iter().any(|f| self.by_hook.contains(f))
    }

    /// Whether a machine needs a context.
    pub fn machine_needs_context(&self, machine: usize) -> bool {
        self.machines[machine].iter().any(|f| self.needs_context.contains(f))
    }
}

/// Decides.
pub fn plan(module: &Module, options: &Options) -> Result<Plan, TranslateError> {
    let mut plan = Plan { entries: entries(module)?, maps: maps::declared(module)?, ..Plan::default() };
    for (index, number) in &module.table {
        if module.function(*number).is_some() {
            plan.targets.entry(module.type_of(*number)).or_default().push((*index, *number));
        }
    }
    let calls = Calls::collect(module, &plan);
    for entry in &plan.entries {
        for number in calls.reachable(entry.function) {
            plan.hooks.entry(number).or_default().insert(entry.hook);
        }
    }
    let reachable: Vec<u32> = plan.hooks.keys().copied().collect();
    if let Some((number, (what, at))) = reachable.iter().find_map(|n| Some((*n, module.impossible.get(n)?))) {
        return Err(source::unsupported_at(module, number, *at, what));
    }
    plan.needs_context = needing_context(module, &calls, &reachable);
    plan.by_hook = match plan.entries.iter().any(|e| e.hook.verdict_bits().is_some()) {
        true => reachable.iter().copied().collect(),
        false => plan.needs_context.clone(),
    };
    assign_forms(module, &calls, options, &mut plan);
    plan.diverging = diverging(module, &plan);
    Ok(plan)
}

/// Functions whose end is never reached, as rustc writes those that panic. Programs and members of
/// machines are not among them: nobody would end the run.
fn diverging(module: &Module, plan: &Plan) -> BTreeSet<u32> {
    let may = |n: &u32, form: &Form| !matches!(form, Form::Machine(_)) && plan.entries.iter().all(|e| e.function != *n);
    let found = plan.forms.iter().filter(|(number, form)| may(number, form)).map(|(number, _)| *number);
    found.filter(|n| module.function(*n).is_some_and(|f| never_returns(&f.code))).collect()
}

/// Whether code ends in `unreachable` and nothing leaves it before.
fn never_returns(code: &[(u32, Operator)]) -> bool {
    let mut depth = 0u32;
    for (_, operator) in code {
        let leaves = match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                depth += 1;
                false
            }
            Operator::End => {
                depth = depth.saturating_sub(1);
                false
            }
            Operator::Return | Operator::BrTable { .. } => true,
            Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => *relative_depth >= depth,
            _ => false,
        };
        if leaves {
            return false;
        }
    }
    matches!(code, [.., (_, Operator::Unreachable), (_, Operator::End)])
}

/// Programs are exported as `kara:HOOK:VERDICT:NAME`, those at tracepoints with `:TRACEPOINT:ARGUMENTS` behind.
fn entries(module: &Module) -> Result<Vec<Entry>, TranslateError> {
    let mut entries = Vec::new();
    for (export, function) in &module.exports {
        let parts: Vec<&str> = export.split(':').collect();
        let ["kara", hook, verdict, name, target @ ..] = &parts[..] else { continue };
        let (Some(hook), Ok(on_panic)) = (Hook::from_name(hook), verdict.parse()) else {
            return unsupported(format!("a program at {hook} that returns {verdict} after a panic"));
        };
        let target = match target {
            [target, arguments] => arguments.parse().ok().map(|n| (target.to_string(), n)),
            _ => None,
        };
        entries.push(Entry { name: name.to_string(), hook, on_panic, function: *function, target });
    }
    match entries.is_empty() {
        true => Err(TranslateError::Invalid(
            "no program in it: nothing is marked with the attribute of a hook, such as #[xdp] or #[tc]".into(),
        )),
        false => Ok(entries),
    }
}

/// Who calls whom.
struct Calls {
    /// Callees, each once.
    callees: BTreeMap<u32, BTreeSet<u32>>,
    /// Places that call a function, the table counting as two.
    sites: BTreeMap<u32, usize>,
}

impl Calls {
    fn collect(module: &Module, plan: &Plan) -> Calls {
        let mut calls = Calls { callees: BTreeMap::new(), sites: BTreeMap::new() };
        for number in module.numbers() {
            let function = module.function(number).expect("a function with a body");
            let callees = calls.callees.entry(number).or_default();
            for (_, operator) in &function.code {
                match operator {
                    Operator::Call { function_index } if module.is_memory_compare(*function_index) => {}
                    Operator::Call { function_index } => {
                        callees.insert(*function_index);
                        *calls.sites.entry(*function_index).or_default() += 1;
                    }
                    Operator::CallIndirect { type_index, .. } => {
                        callees.extend(plan.targets.get(type_index).into_iter().flatten().map(|(_, f)| *f));
                    }
                    _ => {}
                }
            }
        }
        for (_, function) in plan.targets.values().flatten() {
            *calls.sites.entry(*function).or_default() += 2;
        }
        for entry in &plan.entries {
            *calls.sites.entry(entry.function).or_default() += 1;
        }
        calls
    }

    fn of(&self, number: u32) -> impl Iterator<Item = u32> {
        self.callees.get(&number).into_iter().flatten().copied()
    }

    /// Functions with bodies that a call of this one can reach, itself included.
    fn reachable(&self, from: u32) -> BTreeSet<u32> {
        let (mut found, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(number) = next.pop() {
            if self.callees.contains_key(&number) && found.insert(number) {
                next.extend(self.of(number));
            }
        }
        found
    }
}

fn needing_context(module: &Module, calls: &Calls, reachable: &[u32]) -> BTreeSet<u32> {
    let needs = |number: &u32| {
        calls.of(*number).any(|callee| {
            let import = module.imports.get(callee as usize);
            import.and_then(|i| Host::from_name(&i.name)).is_some_and(Host::needs_context)
        })
    };
    let mut found: BTreeSet<u32> = reachable.iter().copied().filter(needs).collect();
    loop {
        let more: Vec<u32> = reachable
            .iter()
            .copied()
            .filter(|n| !found.contains(n) && calls.of(*n).any(|callee| found.contains(&callee)))
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn assign_forms(module: &Module, calls: &Calls, options: &Options, plan: &mut Plan) {
    let reachable: Vec<u32> = plan.hooks.keys().copied().collect();
    let mut heights: BTreeMap<u32, usize> = BTreeMap::new();
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    let mut upper: Vec<u32> = Vec::new();
    // Callees come before callers.
    for component in components(calls, &reachable) {
        let below = component.iter().flat_map(|n| calls.of(*n)).filter(|c| !component.contains(c));
        let height = below.map(|c| heights.get(&c).copied().unwrap_or(0)).max().unwrap_or(0);
        let first = component[0];
        let recursive = component.len() > 1 || calls.of(first).any(|c| c == first);
        let inlined: usize = calls
            .of(first)
            .filter(|c| plan.forms.get(c) == Some(&Form::Inline))
            .map(|c| sizes[&c] * sites_in(module, first, c))
            .sum();
        let size = module.function(first).map_or(0, |f| f.code.len()) + inlined;
        sizes.insert(first, size);
        let most = match calls.sites.get(&first) {
            _ if options.alone.iter().any(|caller| calls.of(*caller).any(|c| c == first)) => MOST_SMALLEST,
            Some(1) if plan.entries.iter().any(|e| e.function == first) => {
                if options.called.contains(&first) {
                    MOST_SMALLEST
                } else {
                    usize::MAX
                }
            }
            Some(1) => options.inline_single,
            _ => options.inline_small,
        };
        // What is below may run in the machine for deep chains, which cannot be entered from itself.
        let may_inline = !recursive && height <= MOST_FRAMES && !options.in_arena.contains(&first);
        let own = if may_inline && size <= most {
            plan.forms.insert(first, Form::Inline);
            0
        } else if recursive {
            MACHINE_FRAMES
        } else {
            1
        };
        for number in &component {
            heights.insert(*number, height + own);
        }
        if height + own > MOST_FRAMES {
            upper.extend(&component);
        } else if recursive {
            add_machine(plan, component);
        } else {
            plan.forms.entry(first).or_insert(Form::Native);
        }
    }
    upper.retain(|n| plan.forms.get(n) != Some(&Form::Inline));
    if !upper.is_empty() {
        add_machine(plan, upper);
    }
    let size = |number: &u32| -> usize {
        let inlined = calls.of(*number).filter(|c| plan.forms.get(c) == Some(&Form::Inline));
        let inlined: usize = inlined.map(|c| sizes[&c] * sites_in(module, *number, c)).sum();
        module.function(*number).map_or(0, |f| f.code.len()) + inlined
    };
    let is_small = |members: &[u32]| members.iter().map(size).sum::<usize>() <= options.most_fused;
    let may_fuse = |members: &[u32]| is_small(members) && !options.unfused.contains(&members[0]);
    plan.fused = (0..plan.machines.len()).filter(|m| may_fuse(&plan.machines[*m])).collect();
}

/// How often a function calls another directly.
fn sites_in(module: &Module, caller: u32, callee: u32) -> usize {
    let code = module.function(caller).map_or(&[][..], |f| &f.code);
    code.iter().filter(|(_, o)| matches!(o, Operator::Call { function_index } if *function_index == callee)).count()
}

fn add_machine(plan: &mut Plan, members: Vec<u32>) {
    let machine = plan.machines.len();
    plan.forms.extend(members.iter().map(|n| (*n, Form::Machine(machine))));
    plan.machines.push(members);
}

/// Strongly connected components, callees first (Tarjan).
fn components(calls: &Calls, nodes: &[u32]) -> Vec<Vec<u32>> {
    #[derive(Default)]
    struct State {
        index: BTreeMap<u32, usize>,
        low: BTreeMap<u32, usize>,
        stack: Vec<u32>,
        on_stack: BTreeSet<u32>,
        found: Vec<Vec<u32>>,
    }
    fn visit(calls: &Calls, state: &mut State, node: u32) {
        let number = state.index.len();
        state.index.insert(node, number);
        state.low.insert(node, number);
        state.stack.push(node);
        state.on_stack.insert(node);
        for callee in calls.of(node).filter(|c| calls.callees.contains_key(c)) {
            if !state.index.contains_key(&callee) {
                visit(calls, state, callee);
                let low = state.low[&node].min(state.low[&callee]);
                state.low.insert(node, low);
            } else if state.on_stack.contains(&callee) {
                let low = state.low[&node].min(state.index[&callee]);
                state.low.insert(node, low);
            }
        }
        if state.low[&node] == number {
            let at = state.stack.iter().position(|n| *n == node).expect("itself");
            let mut component = state.stack.split_off(at);
            component.iter().for_each(|n| {
                state.on_stack.remove(n);
            });
            component.sort_unstable();
            state.found.push(component);
        }
    }
    let mut state = State::default();
    for node in nodes {
        if !state.index.contains_key(node) {
            visit(calls, &mut state, *node);
        }
    }
    state.found
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmparser::BlockType;

    fn code(operators: &[Operator<'static>]) -> Vec<(u32, Operator<'static>)> {
        operators.iter().cloned().map(|o| (0, o)).collect()
    }

    #[test]
    fn what_never_returns_ends_in_unreachable_and_is_not_left() {
        use Operator::{Block, BrIf, End, Return, Unreachable};
        let block = || Block { blockty: BlockType::Empty };
        assert!(never_returns(&code(&[Unreachable, End])));
        assert!(never_returns(&code(&[block(), BrIf { relative_depth: 0 }, End, Unreachable, End])));
        assert!(!never_returns(&code(&[block(), BrIf { relative_depth: 1 }, End, Unreachable, End])));
        assert!(!never_returns(&code(&[block(), Return, End, Unreachable, End])));
        assert!(!never_returns(&code(&[End])));
    }
}
