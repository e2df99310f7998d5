//! A machine whose members are one BPF function. A call of a member is a jump to where it begins, its arguments and
//! its result are variables, and what it looks at again behind the call is all that is put on record. Where
//! a caller goes on is written in the record of what it calls, as a processor has it on the stack.
//!
//! A record is like that of other machines: u32 where the caller goes on (0: outside), u32 the caller's record, u32
//! the stack pointer while it waits, u32 whose it is when it comes from outside, then eight bytes that stay free
//! and eight for each local and waiting operand.

use super::live;
use super::machine::{CALLER, HEAD_BYTES, MEMBER, Machine, STACK_POINTER, STATE, record_bytes};
use super::{Emitter, Head};
use crate::error::TranslateError;
use crate::manifest::Fault;
use crate::module::{Function, Ty};
use std::collections::BTreeMap;
use wasmparser::Operator as O;

/// What the members of one function share while it is written.
pub(super) struct Fused {
    /// Variable of the current record.
    record: String,
    /// Variable of the result of the member that returns.
    result: String,
    /// Where members begin.
    begins: BTreeMap<u32, String>,
    /// Variables of the members' locals.
    locals: BTreeMap<u32, Vec<(Ty, String)>>,
    /// Whose calls the resumptions are behind.
    callers: Vec<u32>,
    /// Where members return to.
    back: String,
    /// Of the member being written: what is live behind each of its calls.
    live: BTreeMap<u32, Vec<usize>>,
    /// Of the member being written: whether it sets the stack pointer.
    sets_stack_pointer: bool,
}

impl Emitter<'_> {
    /// The machine: its text. How large its members' records are is added to `records`.
    pub fn fused_machine(
        mut self,
        number: usize,
        records: &mut BTreeMap<u32, usize>,
    ) -> Result<(Head, String), TranslateError> {
        let params = self.machine_params(number);
        self.keep(&params);
        let members = self.plan.machines[number].clone();
        self.stack_pointer = self.text.variable("i32");
        let mut fused = Fused {
            record: self.text.variable("i64"),
            result: self.text.variable("i64"),
            begins: members.iter().map(|m| (*m, self.text.block("begin"))).collect(),
            locals: BTreeMap::new(),
            callers: Vec::new(),
            back: self.text.block("back"),
            live: BTreeMap::new(),
            sets_stack_pointer: false,
        };
        for member in &members {
            let function = self.module.function(*member).expect("a function with a body");
            let types = function.signature.params.iter().chain(&function.locals);
            let locals = types.map(|ty| (*ty, self.text.variable(ty.name()))).collect();
            fused.locals.insert(*member, locals);
        }
        self.machine = Some(Machine::new(number, Some(fused)));
        self.enter(&members);
        for member in &members {
            let function = self.module.function(*member).expect("a function with a body");
            records.insert(*member, self.fused_member(*member, function)?);
        }
        self.go_back();
        Ok((Head { name: self.fused_name(number), params }, self.text.finish()))
    }

    /// Name of the function: that of its first member, by which it is known when its frame is too large.
    pub(super) fn fused_name(&self, number: usize) -> String {
        let members = &self.plan.machines[number];
        format!("@m{}{}", members[0], self.machine_suffix(number))
    }

    fn the_fused(&mut self) -> &mut Fused {
        self.the_machine().fused.as_mut().expect("a fused machine")
    }

    /// From outside: the arguments are in the record.
    fn enter(&mut self, members: &[u32]) {
        let record = self.the_fused().record.clone();
        self.text.line(format!("store i64 %sp, ptr {record}"));
        let entries: Vec<String> = members.iter().map(|_| self.text.block("enter")).collect();
        match &entries[..] {
            [only] => self.text.line(format!("br label %{only}")),
            _ => {
                let member = self.load_field("%sp", MEMBER);
                let cases = members.iter().zip(&entries).map(|(m, block)| format!("i32 {m}, label %{block}"));
                let cases: Vec<String> = cases.collect();
                let nobody = self.text.block("nobody");
                self.text.line(format!("switch i32 {member}, label %{nobody} [{}]", cases.join(" ")));
                self.text.label(&nobody);
                self.text.line("ret i64 0");
            }
        }
        for (member, entry) in members.iter().zip(&entries) {
            self.text.label(entry);
            let count = self.module.function(*member).map_or(0, |f| f.signature.params.len());
            for i in 0..count {
                let place = self.field("%sp", HEAD_BYTES + 8 * i);
                let wide = self.text.value(format!("load i64, ptr {place}, align 8"));
                self.set_argument(*member, i, &wide);
            }
            let begin = self.the_fused().begins[member].clone();
            self.text.line(format!("br label %{begin}"));
        }
    }

    /// Sets a local of any member.
    fn set_argument(&mut self, member: u32, index: usize, wide: &str) {
        let (ty, place) = self.the_fused().locals[&member][index].clone();
        let value = self.narrow(ty, wide);
        self.text.line(format!("store {} {value}, ptr {place}", ty.name()));
    }

    /// Writes a member; returns the bytes of its records.
    fn fused_member(&mut self, number: u32, function: &Function) -> Result<usize, TranslateError> {
        let fused = self.the_fused();
        let (begin, locals) = (fused.begins[&number].clone(), fused.locals[&number].clone());
        fused.live = live::behind_calls(&function.code, locals.len());
        fused.sets_stack_pointer = function.code.iter().any(|(_, o)| matches!(o, O::GlobalSet { global_index: 0 }));
        self.the_machine().slots.clear();
        self.number = number;
        self.locals = locals;
        self.operands.clear();
        self.text.label(&begin);
        self.may_go_on(function.code.first().map_or(0, |(at, _)| *at));
        let record = self.record();
        self.start_stack(&record);
        for i in function.signature.params.len()..self.locals.len() {
            self.set_local(i, "0");
        }
        self.body(function)?;
        Ok(record_bytes(self.locals.len(), self.the_machine().slots.len()))
    }

    /// The current record.
    fn record(&mut self) -> String {
        let record = self.the_fused().record.clone();
        self.text.value(format!("load i64, ptr {record}"))
    }

    /// The stack of a member starts below its record.
    fn start_stack(&mut self, record: &str) {
        let start = self.text.value(format!("trunc i64 {record} to i32"));
        self.text.line(format!("store i32 {start}, ptr {}", self.stack_pointer));
    }

    /// The return of a member.
    pub(super) fn fused_return(&mut self, value: &str) {
        let (result, back) = (self.the_fused().result.clone(), self.the_fused().back.clone());
        self.text.line(format!("store i64 {value}, ptr {result}"));
        self.text.line(format!("br label %{back}"));
    }

    /// A call of a member by a member.
    pub(super) fn fused_call(&mut self, number: u32, arguments: &[String], offset: u32) -> String {
        let caller = self.number;
        let live = self.the_fused().live.get(&offset).cloned().unwrap_or_default();
        let own = self.record();
        let sets_stack_pointer = self.the_fused().sets_stack_pointer;
        let sp = self.stack_pointer();
        if sets_stack_pointer {
            self.store_field(&own, STACK_POINTER, &sp);
        }
        for local in &live {
            let (ty, value) = self.get_local(*local);
            let place = self.field(&own, HEAD_BYTES + 8 * local);
            self.text.line(format!("store {} {value}, ptr {place}, align 8", ty.name()));
        }
        self.save_operands(&own);
        let start = self.text.value(format!("sub i32 {sp}, {}", super::size_mark(number)));
        // A record and its size are multiples of this.
        let start = if sets_stack_pointer { self.text.value(format!("and i32 {start}, -16")) } else { start };
        self.check_stack(&start, offset);
        let record = self.widen(Ty::I32, &start);
        let narrow = self.text.value(format!("trunc i64 {own} to i32"));
        let state = self.the_machine().resumptions.len() + 1;
        self.store_field(&record, STATE, &state.to_string());
        self.store_field(&record, CALLER, &narrow);
        for (i, argument) in arguments.iter().enumerate() {
            self.set_argument(number, i, argument);
        }
        let (variable, begin) = (self.the_fused().record.clone(), self.the_fused().begins[&number].clone());
        self.text.line(format!("store i64 {record}, ptr {variable}"));
        self.text.line(format!("br label %{begin}"));

        let resumption = self.text.block("resume");
        self.text.label(&resumption);
        self.the_machine().resumptions.push(resumption);
        self.the_fused().callers.push(caller);
        let own = self.record();
        if sets_stack_pointer {
            let sp = self.load_field(&own, STACK_POINTER);
            self.text.line(format!("store i32 {sp}, ptr {}", self.stack_pointer));
        } else {
            self.start_stack(&own);
        }
        for local in live {
            let ty = self.locals[local].0;
            let place = self.field(&own, HEAD_BYTES + 8 * local);
            let value = self.text.value(format!("load {}, ptr {place}, align 8", ty.name()));
            self.set_local(local, &value);
        }
        self.restore_operands(&own);
        let result = self.the_fused().result.clone();
        self.text.value(format!("load i64, ptr {result}"))
    }

    /// From where a member returns to behind the call.
    fn go_back(&mut self) {
        let back = self.the_fused().back.clone();
        self.text.label(&back);
        let record = self.record();
        let state = self.load_field(&record, STATE);
        let caller = self.load_field(&record, CALLER);
        let caller = self.widen(Ty::I32, &caller);
        let variable = self.the_fused().record.clone();
        self.text.line(format!("store i64 {caller}, ptr {variable}"));
        let on = self.may_return(&state);
        self.text.label(&on);
        let resumptions = self.the_machine().resumptions.iter().enumerate();
        let cases: Vec<String> = resumptions.map(|(i, block)| format!("i32 {}, label %{block}", i + 1)).collect();
        let leave = self.text.block("leave");
        self.text.line(format!("switch i32 {state}, label %{leave} [{}]", cases.join(" ")));
        self.text.label(&leave);
        let result = self.the_fused().result.clone();
        let value = self.text.value(format!("load i64, ptr {result}"));
        self.text.line(format!("ret i64 {value}"));
    }

    /// A loop of returns that takes too long is reported where the function begins that was next.
    fn may_return(&mut self, state: &str) -> String {
        let callers = self.the_fused().callers.clone();
        let members = self.the_fused().begins.keys().copied().collect::<Vec<u32>>();
        let (late, on, end) = (self.text.block("late"), self.text.block("on"), self.text.block("end"));
        self.text
            .line(format!("callbr void asm sideeffect \"may_goto ${{0:l}}\", \"!i\"() to label %{on} [label %{late}]"));
        self.text.label(&late);
        let site = self.text.variable("i64");
        let blocks: BTreeMap<u32, String> = members.iter().map(|m| (*m, self.text.block("overdue"))).collect();
        let states = callers.iter().enumerate();
        let cases: Vec<String> = states.map(|(i, m)| format!("i32 {}, label %{}", i + 1, blocks[m])).collect();
        self.text.line(format!("switch i32 {state}, label %{} [{}]", blocks[&members[0]], cases.join(" ")));
        for member in members {
            self.number = member;
            let code = &self.module.function(member).expect("a function with a body").code;
            let n = self.site(Fault::Timeout, code.first().map_or(0, |(at, _)| *at));
            self.text.label(&blocks[&member]);
            self.text.line(format!("store i64 {n}, ptr {site}"));
            self.text.line(format!("br label %{end}"));
        }
        self.text.label(&end);
        let n = self.text.value(format!("load i64, ptr {site}"));
        self.trap_at(&n);
        on
    }
}
