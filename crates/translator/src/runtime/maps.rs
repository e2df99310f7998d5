//! Access to maps of the kernel: one function for each map and operation, which copies key and value between the
//! arena and where the kernel takes them, its stack.

use super::Assembler;
use super::support::cast;
use crate::debug::Param;
use crate::function::{Emitter, distance};
use crate::maps::KernelMap;
use std::fmt::Write;

/// Numbers of helpers.
const LOOKUP: u32 = 1;
const UPDATE: u32 = 2;
const DELETE: u32 = 3;

/// What is done to a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// `get(map, key, to) -> i32`: 1 when it was there.
    Get,
    /// `set(map, key, value) -> i32`: 0 or what went wrong.
    Set,
    /// `remove(map, key) -> i32`: 0 or what went wrong.
    Remove,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Get, Operation::Set, Operation::Remove];

    fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Set => "set",
            Operation::Remove => "remove",
        }
    }

    /// Parameters besides the map.
    fn params(self) -> &'static [&'static str] {
        match self {
            Operation::Get => &["i64 %key", "i64 %to"],
            Operation::Set => &["i64 %key", "i64 %value"],
            Operation::Remove => &["i64 %key"],
        }
    }

    /// Bytes that it copies.
    fn bytes(self, map: &KernelMap) -> u32 {
        map.key_bytes + if self == Operation::Remove { 0 } else { map.value_bytes }
    }

    /// What it returns for something that is no map.
    fn of_nothing(self) -> i32 {
        match self {
            Operation::Get => 0,
            Operation::Set | Operation::Remove => -1,
        }
    }
}

impl Emitter<'_> {
    /// The call for the map at an address, which mostly is known here.
    pub(crate) fn map_call(&mut self, operation: Operation, arguments: &[String]) -> String {
        let known = self.plan.maps.iter().position(|m| arguments[0] == m.address.to_string());
        if let Some(number) = known.filter(|n| operation.bytes(&self.plan.maps[*n]) <= MOST_INLINE) {
            return self.map_access(operation, number, arguments);
        }
        if arguments.iter().any(|a| distance(a).is_some()) {
            self.fail_own();
            return "0".to_string();
        }
        let (name, given) = match known {
            Some(number) => (format!("kara_map_{}_{number}", operation.name()), &arguments[1..]),
            None => (format!("kara_map_{}_any", operation.name()), arguments),
        };
        let given: Vec<String> = given.iter().map(|a| format!("i64 {a}")).collect();
        let place = self.place;
        self.text.value(format!("call i64 @{name}({}), !dbg !{place}", given.join(", ")))
    }
}

/// Most bytes of key and value that are copied where they are wanted: a call takes longer.
const MOST_INLINE: u32 = 48;

impl Emitter<'_> {
    /// An access to a map of the kernel, here.
    fn map_access(&mut self, operation: Operation, number: usize, arguments: &[String]) -> String {
        let map = self.plan.maps[number].clone();
        let name = format!("@{}", map.name);
        let key = self.text.variable(&format!("[{} x i8]", map.key_bytes));
        let from = self.wide_pointer_to(&arguments[1], map.key_bytes);
        self.copy_pieces(&key, &from, map.key_bytes);
        match operation {
            Operation::Get => {
                let result = self.text.variable("i64");
                let [found, after] = ["found", "after"].map(|name| self.text.block(name));
                let at = self.text.value(format!("call ptr inttoptr (i64 {LOOKUP} to ptr)(ptr {name}, ptr {key})"));
                let none = self.text.value(format!("icmp eq ptr {at}, null"));
                self.text.line(format!("store i64 0, ptr {result}"));
                self.text.line(format!("br i1 {none}, label %{after}, label %{found}"));
                self.text.label(&found);
                let to = self.wide_pointer_to(&arguments[2], map.value_bytes);
                self.copy_pieces(&to, &at, map.value_bytes);
                self.text.line(format!("store i64 1, ptr {result}"));
                self.text.line(format!("br label %{after}"));
                self.text.label(&after);
                self.text.value(format!("load i64, ptr {result}"))
            }
            Operation::Set => {
                let value = self.text.variable(&format!("[{} x i8]", map.value_bytes));
                let from = self.wide_pointer_to(&arguments[2], map.value_bytes);
                self.copy_pieces(&value, &from, map.value_bytes);
                self.helper(UPDATE, &format!("ptr {name}, ptr {key}, ptr {value}, i64 0"))
            }
            Operation::Remove => self.helper(DELETE, &format!("ptr {name}, ptr {key}")),
        }
    }
}

impl Assembler<'_> {
    /// The functions that are called, and the maps that those use.
    pub(super) fn map_functions(&mut self) {
        for operation in Operation::ALL {
            let name = format!("kara_map_{}_any", operation.name());
            if self.out.contains(&format!("@{name}(")) {
                let body = any(operation, &self.plan.maps);
                let params = [&["i64 %map"], operation.params()].concat();
                self.define(&name, &params, &vec![Param::Number; params.len()], &body);
            }
        }
        for (number, map) in self.plan.maps.iter().enumerate() {
            for operation in Operation::ALL {
                let name = format!("kara_map_{}_{number}", operation.name());
                if self.out.contains(&format!("@{name}(")) {
                    let params = operation.params();
                    self.define(&name, params, &vec![Param::Number; params.len()], &body(operation, map));
                }
            }
            if self.out.contains(&format!("(ptr @{}, ", map.name)) {
                self.used_maps.insert(number);
            }
        }
    }

    /// The maps as the object has them.
    pub(super) fn map_definitions(&self) -> String {
        let used = self.used_maps.iter().map(|number| &self.plan.maps[*number]);
        let text = used.map(|m| {
            format!(
                "@{} = dso_local global {{ i32, i32, i32, i32, i32 }} {{ i32 {}, i32 {}, i32 {}, i32 {}, i32 0 }}, section \"maps\", align 4\n",
                m.name, m.kind, m.key_bytes, m.value_bytes, m.entries
            )
        });
        text.collect()
    }
}

/// Finds the map by its address.
fn any(operation: Operation, maps: &[KernelMap]) -> String {
    let mut text = "entry:\n  br label %try0\n".to_string();
    let arguments = operation.params().join(", ");
    for (n, map) in maps.iter().enumerate() {
        let _ = write!(
            text,
            "try{n}:\n  %is{n} = icmp eq i64 %map, {}\n  br i1 %is{n}, label %at{n}, label %try{}\n\
             at{n}:\n  %r{n} = call i64 @kara_map_{}_{n}({arguments}), !dbg !place\n  ret i64 %r{n}\n",
            map.address,
            n + 1,
            operation.name(),
        );
    }
    let _ = write!(text, "try{}:\n  ret i64 {}\n", maps.len(), operation.of_nothing());
    text
}

fn body(operation: Operation, map: &KernelMap) -> String {
    let (name, key_bytes, value_bytes) = (&map.name, map.key_bytes, map.value_bytes);
    let key = format!(
        "entry:\n  %k = alloca [{key_bytes} x i8], align 8\n  %from = {}\n{}",
        cast("%key"),
        copied("key", "%from", "%k", key_bytes)
    );
    let call = |helper: u32, more: &str| format!("call i64 inttoptr (i64 {helper} to ptr)(ptr @{name}, ptr %k{more})");
    match operation {
        Operation::Get => format!(
            "{key}  %at = call ptr inttoptr (i64 {LOOKUP} to ptr)(ptr @{name}, ptr %k)\n  %none = icmp eq ptr %at, null\n  \
             br i1 %none, label %missing, label %found\nfound:\n  %out = {}\n{}  ret i64 1\nmissing:\n  ret i64 0\n",
            cast("%to"),
            copied("value", "%at", "%out", value_bytes)
        ),
        Operation::Set => {
            let key = key.replacen("entry:\n", &format!("entry:\n  %v = alloca [{value_bytes} x i8], align 8\n"), 1);
            format!(
                "{key}  %in = {}\n{}  %done = {}\n  ret i64 %done\n",
                cast("%value"),
                copied("value", "%in", "%v", value_bytes),
                call(UPDATE, ", ptr %v, i64 0")
            )
        }
        Operation::Remove => format!("{key}  %done = {}\n  ret i64 %done\n", call(DELETE, "")),
    }
}

/// Copies so many bytes in the widest pieces that fit.
pub(super) fn copied(name: &str, from: &str, to: &str, bytes: u32) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < bytes {
        let width = [8, 4, 2, 1].into_iter().find(|w| at + w <= bytes).expect("a byte fits");
        let bits = 8 * width;
        let _ = write!(
            text,
            "  %{name}.from{at} = getelementptr i8, ptr {from}, i64 {at}\n  %{name}{at} = load i{bits}, ptr %{name}.from{at}, align 1\n  \
             %{name}.to{at} = getelementptr i8, ptr {to}, i64 {at}\n  store i{bits} %{name}{at}, ptr %{name}.to{at}, align 1\n"
        );
        at += width;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_of_the_widest_pieces_that_fit() {
        let text = copied("k", "%a", "%b", 15);
        let widths: Vec<&str> = text.lines().filter_map(|l| l.split("load ").nth(1)?.split(',').next()).collect();
        assert_eq!(widths, ["i64", "i32", "i16", "i8"]);
    }
}
