//! What of its region a program can touch: how deep its stack gets, and whether it has a heap.

use crate::Options;
use crate::graph::{Form, Plan};
use crate::host::Host;
use crate::layout::{STACK_LOW, STACK_TOP};
use crate::manifest::Needs;
use crate::module::{Function, Module};
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::Operator;

/// Bytes that every function gets on top of what it asks for: arguments and frames begin at multiples of it.
const ALIGNMENT: u32 = 16;

/// Needs of a program that runs this function.
pub(crate) fn of(module: &Module, plan: &Plan, options: &Options, entry: u32) -> Needs {
    let mut walk = Walk { module, plan, options, depths: BTreeMap::new(), has_heap: false };
    let stack = walk.depth(entry).map_or(STACK_TOP - STACK_LOW, |bytes| bytes.min(STACK_TOP - STACK_LOW));
    Needs { stack_bytes: stack, has_heap: walk.has_heap }
}

struct Walk<'a> {
    module: &'a Module<'a>,
    plan: &'a Plan,
    options: &'a Options,
    /// Bytes of the stack below each function's caller; `None` for no bound.
    depths: BTreeMap<u32, Option<u32>>,
    has_heap: bool,
}

impl Walk<'_> {
    /// Bytes of the stack that a call of the function takes at most. All that it can call is visited. Whatever
    /// calls itself is run by a machine, so this ends.
    fn depth(&mut self, number: u32) -> Option<u32> {
        if let Some(known) = self.depths.get(&number) {
            return *known;
        }
        // For functions that call themselves.
        self.depths.insert(number, None);
        let function = self.module.function(number)?;
        let mut below = Some(0);
        for callee in self.callees(function) {
            let import = self.module.imports.get(callee as usize);
            if let Some(host) = import.and_then(|i| Host::from_name(&i.name)) {
                self.has_heap |= host == Host::Heap;
                continue;
            }
            let depth = self.depth(callee);
            below = below.zip(depth).map(|(a, b)| a.max(b));
        }
        let is_bounded = !matches!(self.plan.forms.get(&number), Some(Form::Machine(_)));
        let own = frame(function).filter(|_| is_bounded);
        let locals = if self.options.in_arena.contains(&number) { function.locals.len() } else { 0 };
        let values = 8 * (function.signature.params.len() * 2 + locals) as u32;
        let depth = own.zip(below).and_then(|(own, below)| own.checked_add(below)?.checked_add(values + ALIGNMENT));
        // A function without any of it takes nothing.
        let depth = if own == Some(0) && values == 0 { below } else { depth };
        self.depths.insert(number, depth);
        depth
    }

    fn callees(&self, function: &Function) -> BTreeSet<u32> {
        let mut callees = BTreeSet::new();
        for (_, operator) in &function.code {
            match operator {
                Operator::Call { function_index } if self.module.is_memory_compare(*function_index) => {}
                Operator::Call { function_index } => {
                    callees.insert(*function_index);
                }
                Operator::CallIndirect { type_index, .. } => {
                    callees.extend(self.plan.targets.get(type_index).into_iter().flatten().map(|(_, f)| *f));
                }
                _ => {}
            }
        }
        callees
    }
}

/// Bytes that a function takes off the stack pointer; `None` when that is no constant, as where an alignment comes
/// on top.
fn frame(function: &Function) -> Option<u32> {
    use Operator::{GlobalGet, GlobalSet, I32Const, I32Sub, LocalSet, LocalTee};
    let mut bytes: Option<u32> = Some(0);
    for (at, (_, operator)) in function.code.iter().enumerate() {
        if !matches!(operator, GlobalGet { global_index: 0 }) {
            continue;
        }
        let taken = match function.code.get(at + 1..at + 4) {
            Some([(_, I32Const { value }), (_, I32Sub), (_, LocalSet { .. } | LocalTee { .. } | GlobalSet { .. })]) => {
                u32::try_from(*value).ok()
            }
            _ => None,
        };
        bytes = bytes.zip(taken).and_then(|(a, b)| a.checked_add(b));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Signature;

    fn function(code: Vec<Operator<'static>>) -> Function<'static> {
        let code = code.into_iter().map(|o| (0, o)).collect();
        Function { signature: Signature::default(), type_index: 0, name: String::new(), locals: Vec::new(), code }
    }

    #[test]
    fn frames_are_what_is_taken_off_the_stack_pointer() {
        use Operator::{End, GlobalGet, I32Add, I32And, I32Const, I32Sub, LocalTee};
        let get = || GlobalGet { global_index: 0 };
        let taken = || vec![get(), I32Const { value: 48 }, I32Sub];
        let tee = || LocalTee { local_index: 0 };
        assert_eq!(frame(&function(vec![End])), Some(0));
        assert_eq!(frame(&function([taken(), vec![tee()]].concat())), Some(48));
        assert_eq!(frame(&function([taken(), vec![tee()], taken(), vec![tee(), End]].concat())), Some(96));
        // As much as a number says that only the run knows, or an alignment.
        assert_eq!(frame(&function(vec![get(), tee(), I32Sub])), None);
        assert_eq!(frame(&function(vec![get(), I32Const { value: 48 }, I32Add, tee()])), None);
        assert_eq!(frame(&function([taken(), vec![I32Const { value: -64 }, I32And, tee()]].concat())), None);
    }
}
