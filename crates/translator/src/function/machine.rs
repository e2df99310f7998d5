//! Functions that cannot be BPF functions, because they call themselves or too deep a chain: together
//! they are one BPF function, a machine, whose activation records lie on the stack in the arena.
//!
//! A record: u32 where to go on in the caller (0: leave the machine), u32 the caller's record, u32 the
//! caller's own stack pointer while it waits, then eight bytes for each local and waiting operand.

use super::{Emitter, Head};
use crate::error::TranslateError;
use crate::manifest::Fault;
use crate::module::{Function, Ty};

const HEAD_BYTES: usize = 16;

/// A machine being written.
pub(super) struct Machine {
    pub number: usize,
    /// Variable: the current record.
    record: String,
    /// Variable: the result of the call that has just returned.
    result: String,
    /// Members.
    members: Vec<u32>,
    /// Variables of the waiting operands, by depth; all members share them.
    slots: Vec<String>,
    /// Most operands of each member.
    depths: Vec<usize>,
    /// Blocks where calls go on.
    resumptions: Vec<String>,
}

/// Stands for the size of a member's record until that is known.
fn size_mark(member: usize) -> String {
    format!("<<record {member}>>")
}

impl Emitter<'_> {
    /// All functions of a machine.
    pub fn machine(mut self, number: usize) -> Result<(Head, String), TranslateError> {
        let members = self.plan.machines[number].clone();
        let (record, result) = (self.text.variable("i64"), self.text.variable("i64"));
        self.text.line(format!("store i64 %sp, ptr {record}"));
        let cases: Vec<String> = members.iter().map(|m| format!("i64 {m}, label %enter{m}")).collect();
        self.text.line(format!("switch i64 %which, label %nobody [{}]", cases.join(" ")));
        self.text.label("nobody");
        self.text.line("ret i64 0");
        let depths = vec![0; members.len()];
        self.machine = Some(Machine {
            number,
            record,
            result,
            members: members.clone(),
            slots: Vec::new(),
            depths,
            resumptions: Vec::new(),
        });
        for member in &members {
            let function = self.module.function(*member).expect("a function with a body");
            self.member(*member, function)?;
        }
        self.dispatch();
        let machine = self.machine.take().expect("set above");
        let name = self.machine_name(number);
        let mut text = self.text.finish();
        for (at, member) in members.iter().enumerate() {
            let function = self.module.function(*member).expect("a function with a body");
            let locals = function.signature.params.len() + function.locals.len();
            let size = (HEAD_BYTES + 8 * (locals + machine.depths[at])).next_multiple_of(16);
            text = text.replace(&size_mark(at), &size.to_string());
        }
        let mut params = Vec::new();
        if self.plan.machine_needs_context(number) {
            params.push("ptr %ctx".to_string());
        }
        params.extend(["i64 %sp".to_string(), "i64 %which".to_string()]);
        Ok((Head { name, params }, text))
    }

    fn machine_name(&self, number: usize) -> String {
        match self.hook.filter(|_| self.plan.machine_needs_context(number)) {
            Some(hook) => format!("@machine{number}_{}", hook.name()),
            None => format!("@machine{number}"),
        }
    }

    fn member(&mut self, number: u32, function: &Function) -> Result<(), TranslateError> {
        self.number = number;
        self.operands.clear();
        self.text.label(&format!("enter{number}"));
        let offset = function.code.first().map_or(0, |(at, _)| *at);
        self.may_go_on(offset);
        let record = self.current_record();
        let start = self.text.value(format!("trunc i64 {record} to i32"));
        self.stack_pointer = self.text.variable("i32");
        self.text.line(format!("store i32 {start}, ptr {}", self.stack_pointer));
        let types = function.signature.params.iter().chain(&function.locals);
        // The arguments are in the record already, where locals stay.
        self.locals = types.map(|ty| (*ty, String::new())).collect();
        for i in function.signature.params.len()..self.locals.len() {
            self.set_local(i, "0");
        }
        self.body(function)
    }

    fn the_machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("inside a machine")
    }

    fn current_record(&mut self) -> String {
        let variable = self.the_machine().record.clone();
        self.text.value(format!("load i64, ptr {variable}"))
    }

    /// The variable of the operand at that depth.
    pub(super) fn operand_slot(&mut self, depth: usize) -> String {
        let number = self.number;
        if self.the_machine().slots.len() <= depth {
            let slot = self.text.variable("i64");
            self.the_machine().slots.push(slot);
        }
        let machine = self.the_machine();
        let member = machine.members.iter().position(|m| *m == number).expect("a member");
        machine.depths[member] = machine.depths[member].max(depth + 1);
        machine.slots[depth].clone()
    }

    /// Pointer to a field of a record.
    fn field(&mut self, record: &str, offset: usize) -> String {
        let base = self.arena_pointer(record);
        self.text.value(format!("getelementptr i8, ptr {base}, i64 {offset}"))
    }

    /// Where a local of the current function is: in its record, so that little is in registers and in
    /// the frame, of which the verifier compares every byte.
    pub(super) fn local_in_record(&mut self, index: usize) -> String {
        let record = self.current_record();
        self.field(&record, HEAD_BYTES + 8 * index)
    }

    /// Stores the stack pointer and the operands of the current function in its record.
    fn save(&mut self, record: &str) {
        let sp = self.stack_pointer();
        let place = self.field(record, 8);
        self.text.line(format!("store i32 {sp}, ptr {place}, align 8"));
        for depth in 0..self.operands.len() {
            let slot = self.operands[depth].1.clone();
            let value = self.text.value(format!("load i64, ptr {slot}"));
            let place = self.field(record, HEAD_BYTES + 8 * (self.locals.len() + depth));
            self.text.line(format!("store i64 {value}, ptr {place}, align 8"));
        }
    }

    fn restore(&mut self, record: &str) {
        let place = self.field(record, 8);
        let sp = self.text.value(format!("load i32, ptr {place}, align 8"));
        self.text.line(format!("store i32 {sp}, ptr {}", self.stack_pointer));
        for depth in 0..self.operands.len() {
            let slot = self.operands[depth].1.clone();
            let place = self.field(record, HEAD_BYTES + 8 * (self.locals.len() + depth));
            let value = self.text.value(format!("load i64, ptr {place}, align 8"));
            self.text.line(format!("store i64 {value}, ptr {slot}"));
        }
    }

    /// Makes a record below the stack pointer with the arguments in it.
    fn new_record(&mut self, size: &str, arguments: &[String], offset: u32) -> String {
        let sp = self.stack_pointer();
        let start = self.text.value(format!("sub i32 {sp}, {size}"));
        let start = self.text.value(format!("and i32 {start}, -16"));
        let inside = self.text.value(format!("and i32 {start}, {}", crate::layout::REGION_BYTES - 1));
        let full = self.text.value(format!("icmp ult i32 {inside}, {}", crate::layout::STACK_LOW));
        self.trap_if(&full, Fault::StackOverflow, offset);
        let record = self.widen(Ty::I32, &start);
        for (i, argument) in arguments.iter().enumerate() {
            let place = self.field(&record, HEAD_BYTES + 8 * i);
            self.text.line(format!("store i64 {argument}, ptr {place}, align 8"));
        }
        record
    }

    /// A call of a member by a member.
    pub(super) fn call_inside(&mut self, number: u32, arguments: &[String], offset: u32) -> String {
        let caller = self.current_record();
        self.save(&caller);
        let machine = self.the_machine();
        let member = machine.members.iter().position(|m| *m == number).expect("a member");
        let (record_variable, result) = (machine.record.clone(), machine.result.clone());
        let state = machine.resumptions.len() + 1;
        let record = self.new_record(&size_mark(member), arguments, offset);
        let place = self.field(&record, 0);
        self.text.line(format!("store i32 {state}, ptr {place}, align 8"));
        let place = self.field(&record, 4);
        let narrow = self.text.value(format!("trunc i64 {caller} to i32"));
        self.text.line(format!("store i32 {narrow}, ptr {place}, align 4"));
        self.text.line(format!("store i64 {record}, ptr {record_variable}"));
        self.text.line(format!("br label %enter{number}"));
        let resumption = self.text.block("resume");
        self.text.label(&resumption);
        self.the_machine().resumptions.push(resumption);
        let caller = self.current_record();
        self.restore(&caller);
        self.text.value(format!("load i64, ptr {result}"))
    }

    /// The return of a member.
    pub(super) fn machine_return(&mut self, value: &str) {
        let result = self.the_machine().result.clone();
        self.text.line(format!("store i64 {value}, ptr {result}"));
        self.text.line("br label %dispatch");
    }

    /// Goes on where the returning function's record says.
    fn dispatch(&mut self) {
        self.text.label("dispatch");
        self.may_go_on(0);
        let record = self.current_record();
        let place = self.field(&record, 0);
        let state = self.text.value(format!("load i32, ptr {place}, align 8"));
        let place = self.field(&record, 4);
        let caller = self.text.value(format!("load i32, ptr {place}, align 4"));
        let caller = self.widen(Ty::I32, &caller);
        let machine = self.the_machine();
        let (variable, result) = (machine.record.clone(), machine.result.clone());
        let cases: Vec<String> =
            machine.resumptions.iter().enumerate().map(|(i, block)| format!("i32 {}, label %{block}", i + 1)).collect();
        self.text.line(format!("store i64 {caller}, ptr {variable}"));
        self.text.line(format!("switch i32 {state}, label %leave [{}]", cases.join(" ")));
        self.text.label("leave");
        let value = self.text.value(format!("load i64, ptr {result}"));
        self.text.line(format!("ret i64 {value}"));
    }

    /// A call of a member from outside.
    pub(super) fn call_machine(&mut self, machine: usize, number: u32, arguments: &[String], offset: u32) -> String {
        // Whoever enters does not know how large the record must be: the largest any function can have.
        let function = self.module.function(number).expect("a function with a body");
        let locals = function.signature.params.len() + function.locals.len();
        let size = (HEAD_BYTES + 8 * (locals + most_operands(function))).next_multiple_of(16);
        let record = self.new_record(&size.to_string(), arguments, offset);
        let place = self.field(&record, 0);
        self.text.line(format!("store i32 0, ptr {place}, align 8"));
        let context = if self.plan.machine_needs_context(machine) { "ptr %ctx, " } else { "" };
        let (name, dbg) = (self.machine_name(machine), self.place);
        self.text.value(format!("call i64 {name}({context}i64 {record}, i64 {number}), !dbg !{dbg}"))
    }
}

/// An upper bound of the operands that wait at any point: each operator pushes at most one.
fn most_operands(function: &Function) -> usize {
    function.code.len().min(512)
}
