//! Functions that call each other in circles, or in too deep chains: a machine runs them. Their
//! activation records lie on the stack in the arena. Each is a BPF function, so that the verifier looks
//! at it alone, which runs from its beginning, or from behind a call, to the next call of another one,
//! and returns whose record is next. The machine calls them in turn. Small ones together are one BPF function
//! instead ([`super::fused`]).
//!
//! A record: u32 where to go on (0: at the beginning), u32 the caller's record, u32 the stack pointer
//! while it waits, u32 whose it is, u64 the result of the call it waits for, then eight bytes for each
//! local and waiting operand. The first one's caller is a root record, which only takes the result.

use super::fused::Fused;
use super::{Emitter, Head};
use crate::error::TranslateError;
use crate::manifest::Fault;
use crate::module::Ty;

pub(super) const HEAD_BYTES: usize = 24;
pub(super) const STATE: usize = 0;
pub(super) const CALLER: usize = 4;
pub(super) const STACK_POINTER: usize = 8;
pub(super) const MEMBER: usize = 12;
const RESULT: usize = 16;

/// A member of a machine being written.
pub(super) struct Machine {
    pub number: usize,
    /// Variables of the waiting operands, by depth.
    pub slots: Vec<String>,
    /// Blocks where calls go on.
    pub resumptions: Vec<String>,
    /// What the members share when they are one function.
    pub fused: Option<Fused>,
}

impl Machine {
    pub fn new(number: usize, fused: Option<Fused>) -> Machine {
        Machine { number, slots: Vec::new(), resumptions: Vec::new(), fused }
    }
}

/// Bytes of a record with so many locals and operands.
pub(super) fn record_bytes(locals: usize, operands: usize) -> usize {
    (HEAD_BYTES + 8 * (locals + operands)).next_multiple_of(16)
}

/// Stands for the size of a function's record until all functions are written.
pub(crate) fn size_mark(number: u32) -> String {
    format!("<<record {number}>>")
}

impl Emitter<'_> {
    /// A member: its text, and how large its records are.
    pub fn member(mut self, machine: usize, number: u32) -> Result<(Head, String, usize), TranslateError> {
        let function = self.module.function(number).expect("a function with a body");
        self.number = number;
        let params = self.machine_params(machine);
        self.keep(&params);
        let name = self.member_name(machine, number);
        self.machine = Some(Machine::new(machine, None));
        self.stack_pointer = self.text.variable("i32");
        let types = function.signature.params.iter().chain(&function.locals);
        // The arguments are in the record already, where locals stay.
        self.locals = types.map(|ty| (*ty, String::new())).collect();
        let state = self.load_field("%sp", STATE);
        self.text.line(format!("switch i32 {state}, label %begin [<<states>>]"));
        self.text.label("begin");
        let start = self.text.value("trunc i64 %sp to i32");
        self.text.line(format!("store i32 {start}, ptr {}", self.stack_pointer));
        for i in function.signature.params.len()..self.locals.len() {
            self.set_local(i, "0");
        }
        self.body(function)?;
        let machine = self.machine.take().expect("set above");
        let bytes = record_bytes(self.locals.len(), machine.slots.len());
        let states = machine.resumptions.iter().enumerate().map(|(i, block)| format!("i32 {}, label %{block}", i + 1));
        let text = self.text.finish().replacen("<<states>>", &states.collect::<Vec<_>>().join(" "), 1);
        Ok((Head { name, params }, text, bytes))
    }

    /// What calls the members, starting with the one whose record it gets.
    pub fn machine(mut self, number: usize) -> Result<(Head, String), TranslateError> {
        let params = self.machine_params(number);
        self.keep(&params);
        let record = self.text.variable("i64");
        self.text.line(format!("store i64 %sp, ptr {record}"));
        let root = self.load_field("%sp", CALLER);
        let root = self.widen(Ty::I32, &root);
        let (start, join) = (self.text.block("loop"), self.text.block("join"));
        self.text.line(format!("br label %{start}"));
        self.text.label(&start);
        let current = self.text.value(format!("load i64, ptr {record}"));
        let member = self.load_field(&current, MEMBER);
        let on = self.may_machine_go_on(number, &member);
        self.text.label(&on);
        let members = self.plan.machines[number].clone();
        let cases: Vec<String> = members.iter().map(|m| format!("i32 {m}, label %member{m}")).collect();
        self.text.line(format!("switch i32 {member}, label %nobody [{}]", cases.join(" ")));
        let context = if self.plan.machine_needs_context(number) { "ptr %ctx, " } else { "" };
        for member in &members {
            self.text.label(&format!("member{member}"));
            let (name, place) = (self.member_name(number, *member), self.place);
            let next = self.text.value(format!("call i64 {name}({context}i64 {current}), !dbg !{place}"));
            self.text.line(format!("store i64 {next}, ptr {record}"));
            self.text.line(format!("br label %{join}"));
        }
        self.text.label(&join);
        let next = self.text.value(format!("load i64, ptr {record}"));
        let done = self.text.value(format!("icmp eq i64 {next}, {root}"));
        self.text.line(format!("br i1 {done}, label %leave, label %{start}"));
        self.text.label("leave");
        let place = self.field(&root, RESULT);
        let value = self.text.value(format!("load i64, ptr {place}, align 8"));
        self.text.line(format!("ret i64 {value}"));
        self.text.label("nobody");
        self.text.line("ret i64 0");
        Ok((Head { name: self.machine_name(number), params }, self.text.finish()))
    }

    /// A loop of calls that takes too long is reported where the function begins that was next.
    fn may_machine_go_on(&mut self, number: usize, member: &str) -> String {
        let (late, on) = (self.text.block("late"), self.text.block("on"));
        self.text
            .line(format!("callbr void asm sideeffect \"may_goto ${{0:l}}\", \"!i\"() to label %{on} [label %{late}]"));
        self.text.label(&late);
        let members = self.plan.machines[number].clone();
        let site = self.text.variable("i64");
        let cases: Vec<String> = members.iter().map(|m| format!("i32 {m}, label %overdue{m}")).collect();
        self.text.line(format!("switch i32 {member}, label %nobody [{}]", cases.join(" ")));
        let end = self.text.block("end");
        for member in members {
            self.number = member;
            let code = &self.module.function(member).expect("a function with a body").code;
            let n = self.site(Fault::Timeout, code.first().map_or(0, |(at, _)| *at));
            self.text.label(&format!("overdue{member}"));
            self.text.line(format!("store i64 {n}, ptr {site}"));
            self.text.line(format!("br label %{end}"));
        }
        self.text.label(&end);
        let n = self.text.value(format!("load i64, ptr {site}"));
        self.trap_at(&n);
        on
    }

    pub(super) fn machine_params(&self, machine: usize) -> Vec<String> {
        let context = self.plan.machine_needs_context(machine).then(|| "ptr %ctx".to_string());
        context.into_iter().chain(["i64 %sp".to_string()]).collect()
    }

    fn machine_name(&self, number: usize) -> String {
        format!("@machine{number}{}", self.machine_suffix(number))
    }

    fn member_name(&self, machine: usize, number: u32) -> String {
        format!("@m{number}{}", self.machine_suffix(machine))
    }

    pub(super) fn machine_suffix(&self, machine: usize) -> String {
        match self.hook.filter(|_| self.plan.machine_is_by_hook(machine)) {
            Some(hook) => format!("_{}", hook.name()),
            None => String::new(),
        }
    }

    fn is_fused(&self) -> bool {
        self.machine.as_ref().is_some_and(|m| m.fused.is_some())
    }

    /// Whether locals are where the record is, and not variables.
    pub(super) fn has_locals_in_record(&self) -> bool {
        self.machine.as_ref().is_some_and(|m| m.fused.is_none())
    }

    pub(super) fn the_machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("inside a machine")
    }

    /// The variable of the operand at that depth.
    pub(super) fn operand_slot(&mut self, depth: usize) -> String {
        while self.the_machine().slots.len() <= depth {
            let slot = self.text.variable("i64");
            self.the_machine().slots.push(slot);
        }
        self.the_machine().slots[depth].clone()
    }

    /// Pointer to a field of a record.
    pub(super) fn field(&mut self, record: &str, offset: usize) -> String {
        let base = self.arena_pointer(record);
        self.text.value(format!("getelementptr i8, ptr {base}, i64 {offset}"))
    }

    pub(super) fn load_field(&mut self, record: &str, offset: usize) -> String {
        let place = self.field(record, offset);
        self.text.value(format!("load i32, ptr {place}, align 4"))
    }

    pub(super) fn store_field(&mut self, record: &str, offset: usize, value: &str) {
        let place = self.field(record, offset);
        self.text.line(format!("store i32 {value}, ptr {place}, align 4"));
    }

    /// Where a local of the current function is: in its record, so that little is in registers and in
    /// the frame, of which the verifier compares every byte.
    pub(super) fn local_in_record(&mut self, index: usize) -> String {
        self.field("%sp", HEAD_BYTES + 8 * index)
    }

    fn operand_in_record(&mut self, record: &str, depth: usize) -> String {
        self.field(record, HEAD_BYTES + 8 * (self.locals.len() + depth))
    }

    /// Stores the stack pointer and the operands of the current function in its record.
    fn save(&mut self) {
        let sp = self.stack_pointer();
        self.store_field("%sp", STACK_POINTER, &sp);
        self.save_operands("%sp");
    }

    fn restore(&mut self) {
        let sp = self.load_field("%sp", STACK_POINTER);
        self.text.line(format!("store i32 {sp}, ptr {}", self.stack_pointer));
        self.restore_operands("%sp");
    }

    pub(super) fn save_operands(&mut self, record: &str) {
        for depth in 0..self.operands.len() {
            let slot = self.operands[depth].1.clone();
            let value = self.text.value(format!("load i64, ptr {slot}"));
            let place = self.operand_in_record(record, depth);
            self.text.line(format!("store i64 {value}, ptr {place}, align 8"));
        }
    }

    pub(super) fn restore_operands(&mut self, record: &str) {
        for depth in 0..self.operands.len() {
            let slot = self.operands[depth].1.clone();
            let place = self.operand_in_record(record, depth);
            let value = self.text.value(format!("load i64, ptr {place}, align 8"));
            self.text.line(format!("store i64 {value}, ptr {slot}"));
        }
    }

    /// Makes a record of a function below the stack pointer, with the arguments in it, and this many bytes
    /// free above it.
    fn new_record(&mut self, number: u32, above: usize, arguments: &[String], offset: u32) -> String {
        let sp = self.stack_pointer();
        let start = self.text.value(format!("sub i32 {sp}, {above}"));
        let start = self.text.value(format!("sub i32 {start}, {}", size_mark(number)));
        let start = self.text.value(format!("and i32 {start}, -16"));
        self.check_stack(&start, offset);
        let record = self.widen(Ty::I32, &start);
        self.store_field(&record, STATE, "0");
        self.store_field(&record, MEMBER, &number.to_string());
        for (i, argument) in arguments.iter().enumerate() {
            let place = self.field(&record, HEAD_BYTES + 8 * i);
            self.text.line(format!("store i64 {argument}, ptr {place}, align 8"));
        }
        record
    }

    /// A call of a member by a member.
    pub(super) fn call_inside(&mut self, number: u32, arguments: &[String], offset: u32) -> String {
        if self.is_fused() {
            return self.fused_call(number, arguments, offset);
        }
        self.save();
        let state = self.the_machine().resumptions.len() + 1;
        self.store_field("%sp", STATE, &state.to_string());
        let record = self.new_record(number, 0, arguments, offset);
        let own = self.text.value("trunc i64 %sp to i32");
        self.store_field(&record, CALLER, &own);
        self.text.line(format!("ret i64 {record}"));
        let resumption = self.text.block("resume");
        self.text.label(&resumption);
        self.the_machine().resumptions.push(resumption);
        self.restore();
        let place = self.field("%sp", RESULT);
        self.text.value(format!("load i64, ptr {place}, align 8"))
    }

    /// The return of a member.
    pub(super) fn machine_return(&mut self, value: &str) {
        if self.is_fused() {
            return self.fused_return(value);
        }
        let caller = self.load_field("%sp", CALLER);
        let caller = self.widen(Ty::I32, &caller);
        let place = self.field(&caller, RESULT);
        self.text.line(format!("store i64 {value}, ptr {place}, align 8"));
        self.text.line(format!("ret i64 {caller}"));
    }

    /// A call of a member from outside.
    pub(super) fn call_machine(&mut self, machine: usize, number: u32, arguments: &[String], offset: u32) -> String {
        const ROOT_BYTES: usize = HEAD_BYTES.next_multiple_of(16);
        let is_fused = self.plan.fused.contains(&machine);
        let record = self.new_record(number, if is_fused { 0 } else { ROOT_BYTES }, arguments, offset);
        let name = if is_fused {
            self.fused_name(machine)
        } else {
            let root = self.text.value(format!("add i64 {record}, {}", size_mark(number)));
            let narrow = self.text.value(format!("trunc i64 {root} to i32"));
            self.store_field(&record, CALLER, &narrow);
            self.machine_name(machine)
        };
        let context = if self.plan.machine_needs_context(machine) { "ptr %ctx, " } else { "" };
        let place = self.place;
        self.text.value(format!("call i64 {name}({context}i64 {record}), !dbg !{place}"))
    }
}
