//! A function of the module to LLVM's text form: control flow, locals and calls.

use crate::Options;
use crate::error::{TranslateError, unsupported};
use crate::graph::{Form, Plan};
use crate::hook::Hook;
use crate::host::Host;
use crate::layout;
use crate::manifest::{Fault, Site};
use crate::module::{Function, Module, Ty};
use crate::source;
use crate::text::Text;
use wasmparser::{BlockType, Operator as O};

mod fused;
mod live;
mod machine;
mod memory;
mod own;

pub(crate) use machine::size_mark;
pub(crate) use own::{distance, left};

/// Registers for arguments, of which the stack pointer and the context take theirs.
const ARGUMENT_REGISTERS: usize = 5;
/// The number of no function, of which text is written.
const NOBODY: u32 = u32::MAX;

/// A structured block that is open.
struct Control {
    /// Where a branch to it goes: behind its end, or to the head of a loop.
    target: String,
    /// Behind its end.
    end: String,
    /// The other arm, until it comes.
    otherwise: Option<String>,
    /// Variable of its result.
    result: Option<(Ty, String)>,
    /// A branch to a loop carries no result.
    is_loop: bool,
    /// Operands below it.
    height: usize,
    /// Which block it is, the arms of an `if` being two.
    id: usize,
}

/// Writes one function, or a machine.
pub(crate) struct Emitter<'a> {
    pub module: &'a Module<'a>,
    pub plan: &'a Plan,
    pub options: &'a Options,
    /// The hook whose context it works on, if it needs one.
    pub hook: Option<Hook>,
    pub text: Text,
    pub sites: &'a mut Vec<Site>,
    /// Number of the debug location of its calls.
    pub place: usize,
    number: u32,
    locals: Vec<(Ty, String)>,
    /// Where the locals are when they are in the arena.
    frame: Option<String>,
    stack_pointer: String,
    operands: Vec<(Ty, String)>,
    controls: Vec<Control>,
    reachable: bool,
    machine: Option<machine::Machine>,
    own: Option<own::Own>,
    blocks: usize,
}

/// The lowest bits of a number, also for the verifier: in assembly, since the optimizer leaves out what it knows to
/// change nothing.
pub(crate) fn low_bits(bits: u32, value: &str) -> String {
    format!("call i64 asm sideeffect \"$0 &= {}\", \"=r,0\"(i64 {value})", (1u64 << bits) - 1)
}

/// What the text of a function begins with.
pub(crate) struct Head {
    /// Name, with the at sign.
    pub name: String,
    /// Parameters.
    pub params: Vec<String>,
}

/// Name of the instance of a function for a hook.
pub(crate) fn instance_name(plan: &Plan, number: u32, hook: Option<Hook>) -> String {
    match hook.filter(|_| plan.by_hook.contains(&number)) {
        Some(hook) => format!("@f{number}_{}", hook.name()),
        None => format!("@f{number}"),
    }
}

impl<'a> Emitter<'a> {
    pub fn new(
        module: &'a Module<'a>,
        plan: &'a Plan,
        options: &'a Options,
        hook: Option<Hook>,
        place: usize,
        sites: &'a mut Vec<Site>,
    ) -> Emitter<'a> {
        Emitter {
            module,
            plan,
            options,
            hook,
            text: Text::default(),
            sites,
            place,
            number: NOBODY,
            locals: Vec::new(),
            frame: None,
            stack_pointer: String::new(),
            operands: Vec::new(),
            controls: Vec::new(),
            reachable: true,
            machine: None,
            own: None,
            blocks: 0,
        }
    }

    /// Starts with a stack pointer, without a function of the module.
    pub fn begin_without_function(&mut self, sp: &str) {
        self.stack_pointer = self.text.variable("i32");
        self.text.line(format!("store i32 {sp}, ptr {}", self.stack_pointer));
    }

    /// Calls a function that takes no arguments; returns its result in 64 bits.
    pub fn call_function(&mut self, number: u32) -> String {
        self.call_with(number, &[], 0)
    }

    /// A function of its own: its parameters and its text. `None` when its part of the stack cannot be a variable
    /// of its own, as was wished.
    pub fn function(mut self, number: u32, has_own: bool) -> Result<Option<(Head, String)>, TranslateError> {
        let function = self.module.function(number).expect("a function with a body");
        self.own = has_own.then(|| own::Own::new(function));
        let is_inline = self.plan.forms.get(&number) == Some(&Form::Inline);
        let needs_context = self.plan.needs_context.contains(&number);
        let mut params = Vec::new();
        if needs_context {
            params.push("ptr %ctx".to_string());
        }
        params.push("i64 %sp".to_string());
        let count = function.signature.params.len();
        let in_registers = if is_inline { count } else { count.min(ARGUMENT_REGISTERS - params.len()) };
        params.extend((0..in_registers).map(|i| format!("i64 %a{i}")));
        if !is_inline {
            self.keep(&params);
        }
        self.prologue(number, function, in_registers);
        self.body(function)?;
        if self.has_failed() {
            return Ok(None);
        }
        let head = Head { name: instance_name(self.plan, number, self.hook), params };
        let text = std::mem::take(&mut self.text).finish();
        Ok(Some((head, self.finish_own(text))))
    }

    /// Uses all parameters: what the optimizer finds unused it no longer passes, and the verifier wants
    /// every argument of a function.
    pub(super) fn keep(&mut self, params: &[String]) {
        let constraints = vec!["r"; params.len()].join(",");
        self.text.line(format!("call void asm sideeffect \"\", \"{constraints}\"({})", params.join(", ")));
    }

    /// Fetches the arguments and makes the locals.
    fn prologue(&mut self, number: u32, function: &Function, in_registers: usize) {
        self.number = number;
        self.stack_pointer = self.text.variable("i32");
        let count = function.signature.params.len();
        let in_arena = self.options.in_arena.contains(&number);
        let types: Vec<Ty> = function.signature.params.iter().chain(&function.locals).copied().collect();
        let below = 8 * (count - in_registers) + if in_arena { 8 * types.len() } else { 0 };
        let start = self.text.value("trunc i64 %sp to i32");
        let start = self.text.value(format!("sub i32 {start}, {}", below.next_multiple_of(16)));
        self.text.line(format!("store i32 {start}, ptr {}", self.stack_pointer));
        if in_arena {
            self.check_stack(&start, 0);
        }
        self.make_locals(&types, in_arena.then_some(start.as_str()));
        for (i, ty) in types.iter().enumerate().take(count) {
            let wide = match i < in_registers {
                true => format!("%a{i}"),
                false => {
                    let at = self.text.value(format!("sub i64 %sp, {}", 8 * (i - in_registers + 1)));
                    let pointer = self.arena_pointer(&at);
                    self.text.value(format!("load i64, ptr {pointer}, align 8"))
                }
            };
            let value = self.narrow(*ty, &wide);
            self.set_local(i, &value);
        }
        for i in count..types.len() {
            self.set_local(i, "0");
        }
    }

    /// Locals as variables, or as offsets from where a frame in the arena starts: a pointer to each would
    /// take as much of the frame as the locals do.
    fn make_locals(&mut self, types: &[Ty], frame: Option<&str>) {
        self.frame = frame.map(|start| {
            let at = self.widen(Ty::I32, start);
            self.arena_pointer(&at)
        });
        self.locals.clear();
        for ty in types {
            let place = if frame.is_some() { String::new() } else { self.text.variable(ty.name()) };
            self.locals.push((*ty, place));
        }
    }

    /// Where a local is, and how it is accessed: in the arena so that the optimizer does not bring it back
    /// to where there is no room for it.
    fn local(&mut self, index: usize) -> (Ty, String, &'static str) {
        let (ty, place) = self.locals[index].clone();
        if self.has_locals_in_record() {
            let how = if self.options.in_arena.contains(&self.number) { " volatile" } else { "" };
            return (ty, self.local_in_record(index), how);
        }
        match self.frame.clone() {
            Some(frame) => {
                (ty, self.text.value(format!("getelementptr i8, ptr {frame}, i64 {}", 8 * index)), " volatile")
            }
            None => (ty, place, ""),
        }
    }

    fn set_local(&mut self, index: usize, value: &str) {
        let (ty, place, how) = self.local(index);
        self.text.line(format!("store{how} {} {value}, ptr {place}", ty.name()));
    }

    fn get_local(&mut self, index: usize) -> (Ty, String) {
        let (ty, place, how) = self.local(index);
        (ty, self.text.value(format!("load{how} {}, ptr {place}", ty.name())))
    }

    /// A value of 64 bits as one of that type.
    pub(crate) fn narrow(&mut self, ty: Ty, wide: &str) -> String {
        match ty {
            Ty::I32 => self.text.value(format!("trunc i64 {wide} to i32")),
            Ty::I64 => wide.to_string(),
        }
    }

    /// A value of that type in 64 bits.
    pub(crate) fn widen(&mut self, ty: Ty, value: &str) -> String {
        match ty {
            Ty::I32 => self.text.value(format!("zext i32 {value} to i64")),
            Ty::I64 => value.to_string(),
        }
    }

    pub(crate) fn push(&mut self, ty: Ty, value: String) {
        if self.machine.is_some() {
            let slot = self.operand_slot(self.operands.len());
            let wide = self.widen(ty, &value);
            self.text.line(format!("store i64 {wide}, ptr {slot}"));
            self.operands.push((ty, slot));
        } else {
            self.operands.push((ty, value));
        }
    }

    fn pop_typed(&mut self) -> (Ty, String) {
        let (ty, value) = self.operands.pop().expect("validated");
        if distance(&value).is_some() {
            self.fail_own();
            return (ty, "0".to_string());
        }
        if self.machine.is_none() {
            return (ty, value);
        }
        let wide = self.text.value(format!("load i64, ptr {value}"));
        (ty, self.narrow(ty, &wide))
    }

    pub(crate) fn pop(&mut self) -> String {
        self.pop_typed().1
    }

    fn stack_pointer(&mut self) -> String {
        self.text.value(format!("load i32, ptr {}", self.stack_pointer))
    }

    /// The current stack pointer in 64 bits, which every callee gets.
    pub(crate) fn wide_stack_pointer(&mut self) -> String {
        let sp = self.stack_pointer();
        self.widen(Ty::I32, &sp)
    }

    fn site(&mut self, what: Fault, offset: u32) -> usize {
        let function = self.module.function(self.number).map_or(String::new(), |f| f.name.clone());
        self.sites.push(Site { what, function, code_offset: offset, source: None });
        self.sites.len() - 1
    }

    /// Ends the run here.
    fn trap(&mut self, what: Fault, offset: u32) {
        let site = self.site(what, offset);
        self.trap_at(&site.to_string());
    }

    /// Ends the run; the number of the site is a value.
    fn trap_at(&mut self, site: &str) {
        let place = self.place;
        let verdict = self.text.value(format!("call i64 @kara_trap(i64 %sp, i64 {site}), !dbg !{place}"));
        self.end_run(&verdict);
    }

    /// Ends the run with a verdict. What that takes grows with the frames that it leaves, so functions
    /// that do nothing else leave it to their callers.
    pub(crate) fn end_run(&mut self, verdict: &str) {
        if self.plan.is_diverging(self.number) {
            return self.text.line(format!("ret i64 {verdict}"));
        }
        let verdict = match self.hook.and_then(Hook::verdict_bits) {
            Some(bits) => self.text.value(low_bits(bits, verdict)),
            None => verdict.to_string(),
        };
        let place = self.place;
        self.text.line(format!("call void @bpf_throw(i64 {verdict}), !dbg !{place}"));
        // Not reached; the verifier wants an end.
        self.text.line("ret i64 0");
    }

    /// Ends the run if a bit is set.
    pub(crate) fn trap_if(&mut self, bit: &str, what: Fault, offset: u32) {
        let (bad, good) = (self.text.block("bad"), self.text.block("good"));
        self.text.line(format!("br i1 {bit}, label %{bad}, label %{good}, !prof !99999"));
        self.text.label(&bad);
        self.trap(what, offset);
        self.text.label(&good);
    }

    fn check_stack(&mut self, sp: &str, offset: u32) {
        if !self.options.stack_checks {
            return;
        }
        let inside = self.text.value(format!("and i32 {sp}, {}", layout::REGION_BYTES - 1));
        let full = self.text.value(format!("icmp ult i32 {inside}, {}", layout::STACK_LOW));
        self.trap_if(&full, Fault::StackOverflow, offset);
    }

    /// Marks the head of a loop: the kernel decides whether it goes on.
    fn may_go_on(&mut self, offset: u32) {
        let (late, on) = (self.text.block("late"), self.text.block("on"));
        self.text
            .line(format!("callbr void asm sideeffect \"may_goto ${{0:l}}\", \"!i\"() to label %{on} [label %{late}]"));
        self.text.label(&late);
        self.trap(Fault::Timeout, offset);
        self.text.label(&on);
    }

    fn body(&mut self, function: &Function) -> Result<(), TranslateError> {
        let result = function.signature.result.map(|ty| (ty, self.text.variable(ty.name())));
        let end = self.text.block("end");
        self.controls.push(Control {
            target: end.clone(),
            end,
            otherwise: None,
            result,
            is_loop: false,
            height: self.operands.len(),
            id: self.blocks,
        });
        self.reachable = true;
        let mut skipped = 0;
        let mut before = &O::Nop;
        for (offset, operator) in &function.code {
            if !self.reachable {
                match operator {
                    O::Block { .. } | O::Loop { .. } | O::If { .. } => skipped += 1,
                    O::End if skipped > 0 => skipped -= 1,
                    O::Else if skipped == 0 => self.otherwise(),
                    O::End => self.end(),
                    _ => {}
                }
                continue;
            }
            self.operator(operator, before, *offset).map_err(|e| match e {
                TranslateError::Unsupported(what) => source::unsupported_at(self.module, self.number, *offset, &what),
                other => other,
            })?;
            before = operator;
        }
        Ok(())
    }

    fn operator(&mut self, operator: &O, before: &O, offset: u32) -> Result<(), TranslateError> {
        if self.own_operator(operator) || self.numeric(operator, offset) || self.memory(operator)? {
            return Ok(());
        }
        match operator {
            O::Nop => {}
            O::Unreachable => {
                self.trap(Fault::Abort, offset);
                self.reachable = false;
            }
            O::Block { blockty } => self.open(*blockty, false, offset)?,
            O::Loop { blockty } => self.open(*blockty, true, offset)?,
            O::If { blockty } => self.open_if(*blockty)?,
            O::Else => self.otherwise(),
            O::End => self.end(),
            O::Br { relative_depth } => self.branch(*relative_depth),
            O::BrIf { relative_depth } => self.branch_if(*relative_depth),
            O::BrTable { targets } => self.branch_table(targets)?,
            O::Return => self.branch(self.controls.len() as u32 - 1),
            O::Call { function_index } => self.call(*function_index, offset)?,
            O::CallIndirect { type_index, .. } => self.call_indirect(*type_index, offset)?,
            O::Drop => drop(self.pop()),
            O::Select | O::TypedSelect { .. } => {
                let (condition, (_, b), (ty, a)) = (self.pop(), self.pop_typed(), self.pop_typed());
                let bit = self.text.value(format!("icmp ne i32 {condition}, 0"));
                let t = ty.name();
                let value = self.text.value(format!("select i1 {bit}, {t} {a}, {t} {b}"));
                self.push(ty, value);
            }
            O::LocalGet { local_index } => {
                let (ty, value) = self.get_local(*local_index as usize);
                self.push(ty, value);
            }
            O::LocalSet { local_index } => {
                let value = self.pop();
                self.set_local(*local_index as usize, &value);
            }
            O::LocalTee { local_index } => {
                let (ty, value) = self.pop_typed();
                self.set_local(*local_index as usize, &value);
                self.push(ty, value);
            }
            O::GlobalGet { global_index } => self.get_global(*global_index),
            O::GlobalSet { global_index } => self.set_global(*global_index, before, offset)?,
            O::I32Const { value } => self.push(Ty::I32, value.to_string()),
            O::I64Const { value } => self.push(Ty::I64, value.to_string()),
            other => {
                let name = format!("{other:?}");
                let name = name.split([' ', '{']).next().unwrap_or("").to_string();
                return unsupported(match name.contains("F32") || name.contains("F64") {
                    true => format!("floating point ({name})"),
                    false => format!("the WebAssembly operator {name}"),
                });
            }
        }
        Ok(())
    }

    fn get_global(&mut self, index: u32) {
        let global = self.module.globals[index as usize];
        let value = match global.mutable {
            true => self.stack_pointer(),
            false => global.value.to_string(),
        };
        self.push(global.ty, value);
    }

    /// The one variable global is the stack pointer. Where it was just added to, it goes back up.
    fn set_global(&mut self, index: u32, before: &O, offset: u32) -> Result<(), TranslateError> {
        if index != 0 {
            return unsupported("a global variable besides the stack pointer");
        }
        let value = self.pop();
        self.text.line(format!("store i32 {value}, ptr {}", self.stack_pointer));
        if !matches!(before, O::I32Add) {
            self.check_stack(&value, offset);
        }
        Ok(())
    }

    fn open(&mut self, ty: BlockType, is_loop: bool, offset: u32) -> Result<(), TranslateError> {
        let result = self.block_result(ty)?;
        let (start, end) = (self.text.block("loop"), self.text.block("end"));
        if is_loop {
            self.text.line(format!("br label %{start}"));
            self.text.label(&start);
            self.may_go_on(offset);
        }
        let target = if is_loop { start } else { end.clone() };
        let height = self.operands.len();
        let id = self.next_block();
        self.controls.push(Control { target, end, otherwise: None, result, is_loop, height, id });
        Ok(())
    }

    fn open_if(&mut self, ty: BlockType) -> Result<(), TranslateError> {
        let result = self.block_result(ty)?;
        let condition = self.pop();
        let bit = self.text.value(format!("icmp ne i32 {condition}, 0"));
        let (then, otherwise, end) = (self.text.block("then"), self.text.block("else"), self.text.block("end"));
        self.text.line(format!("br i1 {bit}, label %{then}, label %{otherwise}"));
        self.text.label(&then);
        let height = self.operands.len();
        let target = end.clone();
        let id = self.next_block();
        self.controls.push(Control { target, end, otherwise: Some(otherwise), result, is_loop: false, height, id });
        Ok(())
    }

    fn next_block(&mut self) -> usize {
        self.blocks += 1;
        self.blocks
    }

    fn block_result(&mut self, ty: BlockType) -> Result<Option<(Ty, String)>, TranslateError> {
        let ty = match ty {
            BlockType::Empty => return Ok(None),
            BlockType::Type(wasmparser::ValType::I32) => Ty::I32,
            BlockType::Type(wasmparser::ValType::I64) => Ty::I64,
            _ => return unsupported("a block with parameters or a result that is no integer"),
        };
        Ok(Some((ty, self.text.variable(ty.name()))))
    }

    /// Stores the result of the block that ends or is left.
    fn store_result(&mut self, depth: usize) {
        let control = &self.controls[depth];
        if let (Some((ty, variable)), false) = (control.result.clone(), control.is_loop) {
            let value = self.pop();
            self.text.line(format!("store {} {value}, ptr {variable}", ty.name()));
            self.push(ty, value);
        }
    }

    fn otherwise(&mut self) {
        let depth = self.controls.len() - 1;
        self.leave(depth);
        let id = self.next_block();
        let control = &mut self.controls[depth];
        control.id = id;
        let height = control.height;
        let label = control.otherwise.take().expect("validated");
        self.text.label(&label);
        self.operands.truncate(height);
        self.reachable = true;
    }

    /// From the end of an arm to behind the block.
    fn leave(&mut self, depth: usize) {
        if !self.reachable {
            return;
        }
        if let Some((ty, variable)) = self.controls[depth].result.clone() {
            let value = self.pop();
            self.text.line(format!("store {} {value}, ptr {variable}", ty.name()));
        }
        self.text.line(format!("br label %{}", self.controls[depth].end));
    }

    fn end(&mut self) {
        self.leave(self.controls.len() - 1);
        let control = self.controls.pop().expect("validated");
        if let Some(label) = &control.otherwise {
            self.text.label(label);
            self.text.line(format!("br label %{}", control.end));
        }
        self.text.label(&control.end);
        self.operands.truncate(control.height);
        self.reachable = true;
        let result = control.result.map(|(ty, variable)| {
            let value = self.text.value(format!("load {}, ptr {variable}", ty.name()));
            (ty, value)
        });
        if self.controls.is_empty() {
            self.finish(result);
        } else if let Some((ty, value)) = result {
            self.push(ty, value);
        }
    }

    /// The end of the function.
    fn finish(&mut self, result: Option<(Ty, String)>) {
        let wide = match result {
            Some((ty, value)) => self.widen(ty, &value),
            None => "0".to_string(),
        };
        match self.machine.is_some() {
            true => self.machine_return(&wide),
            false => self.text.line(format!("ret i64 {wide}")),
        }
    }

    fn branch(&mut self, relative: u32) {
        let depth = self.controls.len() - 1 - relative as usize;
        self.store_result(depth);
        self.text.line(format!("br label %{}", self.controls[depth].target));
        self.reachable = false;
    }

    fn branch_if(&mut self, relative: u32) {
        let depth = self.controls.len() - 1 - relative as usize;
        let condition = self.pop();
        self.store_result(depth);
        let bit = self.text.value(format!("icmp ne i32 {condition}, 0"));
        let next = self.text.block("next");
        let target = &self.controls[depth].target;
        self.text.line(format!("br i1 {bit}, label %{target}, label %{next}"));
        self.text.label(&next);
    }

    fn branch_table(&mut self, targets: &wasmparser::BrTable) -> Result<(), TranslateError> {
        let index = self.pop();
        let depths: Vec<u32> = targets.targets().collect::<Result<_, _>>()?;
        let depth_of = |relative: u32| self.controls.len() - 1 - relative as usize;
        let default = depth_of(targets.default());
        let all: Vec<usize> = depths.iter().map(|d| depth_of(*d)).collect();
        // All have the same type, but each its own variable.
        for depth in all.iter().chain([&default]) {
            self.store_result(*depth);
        }
        let cases: Vec<String> = all
            .iter()
            .enumerate()
            .map(|(i, depth)| format!("i32 {i}, label %{}", self.controls[*depth].target))
            .collect();
        let default = &self.controls[default].target;
        self.text.line(format!("switch i32 {index}, label %{default} [{}]", cases.join(" ")));
        self.reachable = false;
        Ok(())
    }

    fn call(&mut self, number: u32, offset: u32) -> Result<(), TranslateError> {
        if let Some(import) = self.module.imports.get(number as usize) {
            let Some(host) = Host::from_name(&import.name).filter(|h| h.signature() == import.signature) else {
                return unsupported(format!("host function {}", import.name));
            };
            self.host_call(host);
            if host == Host::Panic {
                self.reachable = false;
            }
            return Ok(());
        }
        if self.module.is_memory_compare(number) {
            self.compare();
            return Ok(());
        }
        let signature = &self.module.function(number).expect("a function with a body").signature;
        let (result, count) = (signature.result, signature.params.len());
        let arguments = self.pop_arguments(count);
        let value = self.call_with(number, &arguments, offset);
        if self.plan.is_diverging(number) {
            self.end_run(&value);
            self.reachable = false;
        } else if let Some(ty) = result {
            let value = self.narrow(ty, &value);
            self.push(ty, value);
        }
        Ok(())
    }

    /// Arguments in 64 bits, in order.
    fn pop_arguments(&mut self, count: usize) -> Vec<String> {
        let mut arguments = Vec::new();
        for _ in 0..count {
            let (ty, value) = self.pop_typed();
            arguments.push(self.widen(ty, &value));
        }
        arguments.reverse();
        arguments
    }

    /// Calls a function with a body; returns its result in 64 bits.
    fn call_with(&mut self, number: u32, arguments: &[String], offset: u32) -> String {
        match self.plan.forms.get(&number) {
            Some(Form::Machine(machine)) => match self.machine.as_ref().is_some_and(|m| m.number == *machine) {
                true => self.call_inside(number, arguments, offset),
                false => self.call_machine(*machine, number, arguments, offset),
            },
            form => self.call_native(number, arguments, form == Some(&Form::Inline)),
        }
    }

    fn call_native(&mut self, number: u32, arguments: &[String], is_inline: bool) -> String {
        let sp = self.wide_stack_pointer();
        let mut passed = Vec::new();
        if self.plan.needs_context.contains(&number) {
            passed.push("ptr %ctx".to_string());
        }
        passed.push(format!("i64 {sp}"));
        let room = if is_inline { arguments.len() } else { ARGUMENT_REGISTERS - passed.len() };
        let (first, rest) = arguments.split_at(room.min(arguments.len()));
        passed.extend(first.iter().map(|a| format!("i64 {a}")));
        for (i, argument) in rest.iter().enumerate() {
            let at = self.text.value(format!("sub i64 {sp}, {}", 8 * (i + 1)));
            let pointer = self.arena_pointer(&at);
            self.text.line(format!("store i64 {argument}, ptr {pointer}, align 8"));
        }
        let name = instance_name(self.plan, number, self.hook);
        let place = self.place;
        self.text.value(format!("call i64 {name}({}), !dbg !{place}", passed.join(", ")))
    }

    /// Compares the index with the places of all functions of that type.
    fn call_indirect(&mut self, type_index: u32, offset: u32) -> Result<(), TranslateError> {
        let signature = self.module.signature(type_index)?;
        let index = self.pop();
        let arguments = self.pop_arguments(signature.params.len());
        let targets = self.plan.targets.get(&type_index).cloned().unwrap_or_default();
        let (bad, after) = (self.text.block("bad"), self.text.block("after"));
        let result = self.text.variable("i64");
        let blocks: Vec<String> = targets.iter().map(|_| self.text.block("case")).collect();
        let cases: Vec<String> =
            targets.iter().zip(&blocks).map(|((i, _), block)| format!("i32 {i}, label %{block}")).collect();
        self.text.line(format!("switch i32 {index}, label %{bad} [{}]", cases.join(" ")));
        for ((_, number), block) in targets.iter().zip(&blocks) {
            self.text.label(block);
            let value = self.call_with(*number, &arguments, offset);
            if self.plan.is_diverging(*number) {
                self.end_run(&value);
                continue;
            }
            self.text.line(format!("store i64 {value}, ptr {result}"));
            self.text.line(format!("br label %{after}"));
        }
        self.text.label(&bad);
        self.trap(Fault::IndirectCall, offset);
        self.text.label(&after);
        if let Some(ty) = signature.result {
            let wide = self.text.value(format!("load i64, ptr {result}"));
            let value = self.narrow(ty, &wide);
            self.push(ty, value);
        }
        Ok(())
    }
}
