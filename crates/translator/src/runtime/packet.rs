//! Access to packets. Everything that handles packet pointers is assembly, so that the verifier sees
//! exactly the comparison and the access that belong together, and no optimizer parts them.

use super::Assembler;
use super::blocks::assembly;
use crate::debug::Param;
use crate::function::{Emitter, distance};
use crate::hook::Hook;
use crate::layout;

/// Largest offset in a packet. The verifier stops following pointers at 65535.
const MOST_OFFSET: u32 = 65_000;
/// Copies up to this length are written out.
const SHORT_COPY: u32 = 64;

/// Offsets of the packet's start and end in the context.
fn bounds(hook: Hook) -> (u32, u32) {
    match hook {
        Hook::Xdp => (0, 4),
        _ => (76, 80),
    }
}

impl Emitter<'_> {
    fn bounds(&self) -> (u32, u32) {
        bounds(self.hook.expect("a function that needs a context"))
    }

    /// Bytes that can be accessed; of a tc packet all are made so first.
    pub(crate) fn packet_length(&mut self) -> String {
        let (place, hook) = (self.place, self.hook.expect("a function that needs a context"));
        match hook {
            Hook::Xdp => {
                let pair = self.text.value(
                    "call { i64, i64 } asm sideeffect \"$0 = *(u32 *)($2 + 4)\\0A$1 = *(u32 *)($2 + 0)\\0A$0 -= $1\", \"=&r,=&r,r\"(ptr %ctx)",
                );
                self.text.value(format!("extractvalue {{ i64, i64 }} {pair}, 0"))
            }
            Hook::Tc => self.text.value(format!("call i64 @kara_packet_length_tc(ptr %ctx), !dbg !{place}")),
            _ => {
                let pair = self.text.value(
                    "call { i64, i64 } asm sideeffect \"$0 = *(u32 *)($2 + 80)\\0A$1 = *(u32 *)($2 + 76)\\0A$0 -= $1\", \"=&r,=&r,r\"(ptr %ctx)",
                );
                self.text.value(format!("extractvalue {{ i64, i64 }} {pair}, 0"))
            }
        }
    }

    /// The part common to all accesses: `$1` points to the bytes when `$0` is not 0.
    ///
    /// Operands: 0 result, 1 pointer, 2 end, then offset and context.
    fn checked(&self, bytes: u32, access: &[String]) -> Vec<String> {
        let (data, end) = self.bounds();
        let after = access.len() as u32;
        let mut lines = vec![
            "$0 = 0".to_string(),
            format!("if $3 > {MOST_OFFSET} goto +{}", 9 + after),
            format!("$1 = *(u32 *)($4 + {data})"),
            format!("$2 = *(u32 *)($4 + {end})"),
            "$1 += $3".to_string(),
            "$0 = $1".to_string(),
            format!("$0 += {bytes}"),
            "if $0 > $2 goto +1".to_string(),
            "goto +2".to_string(),
            "$0 = 0".to_string(),
            format!("goto +{after}"),
        ];
        lines.extend(access.iter().cloned());
        lines
    }

    /// An offset that the verifier cannot trace back. It wants to know numbers that are added to packet
    /// pointers exactly, and with them all that they were computed from; it does not look into the arena.
    fn untraced(&mut self, offset: &str) -> String {
        if !offset.starts_with('%') {
            return offset.to_string();
        }
        let control = self.text.value(format!("and i64 %sp, {}", -(layout::REGION_BYTES as i64)));
        let pointer = self.arena_pointer(&control);
        let place = self.text.value(format!("getelementptr i8, ptr {pointer}, i64 {}", layout::control::SCRATCH));
        self.text.line(format!("store volatile i64 {offset}, ptr {place}, align 8"));
        self.text.value(format!("load volatile i64, ptr {place}, align 8"))
    }

    pub(crate) fn packet_load(&mut self, bytes: u32, offset: &str) -> String {
        let offset = &self.untraced(offset);
        let access = [format!("$0 = *(u{} *)($1 + 0)", 8 * bytes)];
        let lines = self.checked(bytes, &access).join("\\0A");
        let all = self.text.value(format!(
            "call {{ i64, i64, i64 }} asm sideeffect \"{lines}\", \"=&r,=&r,=&r,r,r\"(i64 {offset}, ptr %ctx)"
        ));
        self.text.value(format!("extractvalue {{ i64, i64, i64 }} {all}, 0"))
    }

    pub(crate) fn packet_store(&mut self, bytes: u32, offset: &str, value: &str) -> String {
        let offset = &self.untraced(offset);
        let access = [format!("*(u{} *)($1 + 0) = $5", 8 * bytes), "$0 = 1".to_string()];
        let lines = self.checked(bytes, &access).join("\\0A");
        let all = self.text.value(format!(
            "call {{ i64, i64, i64 }} asm sideeffect \"{lines}\", \"=&r,=&r,=&r,r,r,r\"(i64 {offset}, ptr %ctx, i64 {value})"
        ));
        self.text.value(format!("extractvalue {{ i64, i64, i64 }} {all}, 0"))
    }

    /// Copies between packet and arena.
    pub(crate) fn packet_copy(&mut self, reads: bool, offset: &str, memory: &str, length: &str) -> String {
        if let Ok(length @ 1..=SHORT_COPY) = length.parse::<u32>() {
            return match distance(memory) {
                Some(_) => self.own_packet_copy(reads, offset, memory, length),
                None => self.short_packet_copy(reads, offset, memory, length),
            };
        }
        if distance(memory).is_some() {
            self.fail_own();
            return "0".to_string();
        }
        let (place, what) = (self.place, if reads { "read" } else { "write" });
        let hook = self.hook.expect("a function that needs a context").name();
        self.text.value(format!(
            "call i64 @kara_packet_{what}_{hook}(ptr %ctx, i64 {offset}, i64 {memory}, i64 {length}), !dbg !{place}"
        ))
    }

    /// Copies between the packet and the function's own part of the stack: only what of it is accessed. What is
    /// not assembly here stays behind the comparison, as the pointer comes from there.
    fn own_packet_copy(&mut self, reads: bool, offset: &str, memory: &str, length: u32) -> String {
        let result = self.text.variable("i64");
        let [there, short, after] = ["there", "short", "after"].map(|name| self.text.block(name));
        let (data, end) = self.bounds();
        let mut lines = vec![format!("$0 = *(u32 *)($3 + {data})"), format!("$1 = *(u32 *)($3 + {end})")];
        let (bytes, more, input, target) = match offset.parse::<u32>() {
            Ok(offset) if offset <= MOST_OFFSET => (offset + length, String::new(), String::new(), 4),
            _ => {
                lines.insert(0, format!("if $4 > {MOST_OFFSET} goto ${{5:l}}"));
                lines.push("$0 += $4".to_string());
                let untraced = self.untraced(offset);
                (length, ",r".to_string(), format!(", i64 {untraced}"), 5)
            }
        };
        lines.extend(["$2 = $0".to_string(), format!("$2 += {bytes}"), format!("if $2 > $1 goto ${{{target}:l}}")]);
        let all = self.text.value(format!(
            "callbr {{ ptr, i64, i64 }} asm sideeffect \"{}\", \"=&r,=&r,=&r,r{more},!i\"(ptr %ctx{input}) to label %{there} [label %{short}]",
            lines.join("\\0A")
        ));
        self.text.label(&there);
        let mut pointer = self.text.value(format!("extractvalue {{ ptr, i64, i64 }} {all}, 0"));
        if bytes > length {
            pointer = self.text.value(format!("getelementptr i8, ptr {pointer}, i64 {}", bytes - length));
        }
        match reads {
            true => self.fill_own(memory, length, &pointer),
            false => {
                let from = self.wide_pointer_to(memory, length);
                self.copy_pieces(&pointer, &from, length);
            }
        }
        for (value, block) in [("1", None), ("0", Some(short))] {
            if let Some(block) = block {
                self.text.label(&block);
            }
            self.text.line(format!("store i64 {value}, ptr {result}"));
            self.text.line(format!("br label %{after}"));
        }
        self.text.label(&after);
        self.text.value(format!("load i64, ptr {result}"))
    }

    fn short_packet_copy(&mut self, reads: bool, offset: &str, memory: &str, length: u32) -> String {
        let offset = &self.untraced(offset);
        let pointer = self.arena_pointer(memory);
        let mut access = Vec::new();
        let mut at = 0;
        for bytes in [8, 4, 2, 1] {
            while length - at >= bytes {
                let (from, to) = if reads { ("$1", "$5") } else { ("$5", "$1") };
                access.push(format!("$2 = *(u{} *)({from} + {at})", 8 * bytes));
                access.push(format!("*(u{} *)({to} + {at}) = $2", 8 * bytes));
                at += bytes;
            }
        }
        access.push("$0 = 1".to_string());
        let lines = self.checked(length, &access).join("\\0A");
        let all = self.text.value(format!(
            "call {{ i64, i64, i64 }} asm sideeffect \"{lines}\", \"=&r,=&r,=&r,r,r,r,~{{memory}}\"(i64 {offset}, ptr %ctx, ptr {pointer})"
        ));
        self.text.value(format!("extractvalue {{ i64, i64, i64 }} {all}, 0"))
    }
}

impl Assembler<'_> {
    /// The functions about packets that the others call.
    pub(super) fn packet_functions(&mut self) {
        for (hook, param) in [(Hook::Xdp, Param::Xdp), (Hook::Tc, Param::Tc), (Hook::Cgroup, Param::Tc)] {
            for (what, reads) in [("read", true), ("write", false)] {
                let name = format!("kara_packet_{what}_{}", hook.name());
                if self.out.contains(&format!("@{name}(")) {
                    let params = ["ptr %ctx", "i64 %offset", "i64 %memory", "i64 %length"];
                    let types = [param, Param::Number, Param::Number, Param::Number];
                    self.define(&name, &params, &types, &long_copy(hook, reads));
                }
            }
        }
        if self.out.contains("@kara_packet_length_tc(") {
            self.define("kara_packet_length_tc", &["ptr %ctx"], &[Param::Tc], &pulled_length());
        }
    }
}

/// One loop of a copy: `bytes` at a time, in accesses of `width`. r6 context, r7 offset in the packet,
/// r8 address in the arena, r9 bytes left, r1 and r2 the packet's bounds.
fn copy_loop(name: &str, next: &str, bytes: u32, width: u32, reads: bool) -> Vec<String> {
    let label = |name: &str| format!(".L{name}_${{:uid}}");
    let mut lines = vec![
        format!("{}:", label(name)),
        // What counts is forgotten where the verifier compares states, which is at the next instruction.
        "r7 = le64 r7".to_string(),
        "r8 = le64 r8".to_string(),
        "r9 = le64 r9".to_string(),
        format!("may_goto {}", label("out")),
        format!("if r9 < {bytes} goto {}", label(next)),
        format!("if r7 > {MOST_OFFSET} goto {}", label("out")),
        "r3 = r1".to_string(),
        "r3 += r7".to_string(),
        "r4 = r3".to_string(),
        format!("r4 += {bytes}"),
        format!("if r4 > r2 goto {}", label("out")),
        "r5 = r8".to_string(),
        "r5 = addr_space_cast(r5, 0x0, 0x1)".to_string(),
    ];
    let (from, to) = if reads { ("r3", "r5") } else { ("r5", "r3") };
    for at in (0..bytes).step_by(width as usize) {
        lines.push(format!("r4 = *(u{} *)({from} + {at})", 8 * width));
        lines.push(format!("*(u{} *)({to} + {at}) = r4", 8 * width));
    }
    lines.extend([
        format!("r7 += {bytes}"),
        format!("r8 += {bytes}"),
        format!("r9 += -{bytes}"),
        format!("goto {}", label(name)),
    ]);
    lines
}

fn long_copy(hook: Hook, reads: bool) -> String {
    let (data, end) = bounds(hook);
    let out = ".Lout_${:uid}";
    let mut lines = vec![
        "r6 = r1".to_string(),
        "r7 = r2".to_string(),
        "r8 = r3".to_string(),
        "r9 = r4".to_string(),
        "*(u64 *)(r10 - 8) = r4".to_string(),
        "r0 = 0".to_string(),
        format!("if r7 > {MOST_OFFSET} goto {out}"),
        format!("if r9 > {MOST_OFFSET} goto {out}"),
        format!("r1 = *(u32 *)(r6 + {data})"),
        format!("r2 = *(u32 *)(r6 + {end})"),
        "r3 = r2".to_string(),
        "r3 -= r1".to_string(),
        "r4 = r7".to_string(),
        "r4 += r9".to_string(),
        format!("if r4 > r3 goto {out}"),
    ];
    lines.extend(copy_loop("wide", "eight", 64, 8, reads));
    lines.extend(copy_loop("eight", "tail", 8, 8, reads));
    // What is left over is copied by eight bytes that end where the area does, if it has as many.
    lines.push(".Ltail_${:uid}:".to_string());
    lines.push("if r9 == 0 goto .Ldone_${:uid}".to_string());
    lines.push("r3 = *(u64 *)(r10 - 8)".to_string());
    lines.push("if r3 < 8 goto .Lbyte_${:uid}".to_string());
    lines.extend(["r9 += -8", "r7 += r9", "r8 += r9", "r9 = 8", "goto .Leight_${:uid}"].map(String::from));
    lines.extend(copy_loop("byte", "done", 1, 1, reads));
    lines.push(".Ldone_${:uid}:".to_string());
    lines.push("r0 = 1".to_string());
    lines.push(format!("{out}:"));
    assembly(&lines, &["ptr %ctx", "i64 %offset", "i64 %memory", "i64 %length"])
}

/// The length of a tc packet, all of it made accessible (`bpf_skb_pull_data`, helper 39).
fn pulled_length() -> String {
    let lines: Vec<String> = [
        "r6 = r1",
        "r7 = *(u32 *)(r6 + 0)",
        "r2 = *(u32 *)(r6 + 76)",
        "r3 = *(u32 *)(r6 + 80)",
        "r3 -= r2",
        "if r3 >= r7 goto .Lout_${:uid}",
        "r1 = r6",
        "r2 = r7",
        "call 39",
        ".Lout_${:uid}:",
        "r2 = *(u32 *)(r6 + 76)",
        "r0 = *(u32 *)(r6 + 80)",
        "r0 -= r2",
    ]
    .map(String::from)
    .to_vec();
    assembly(&lines, &["ptr %ctx"])
}
