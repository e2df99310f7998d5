//! The runtime's own functions that are not about packets: the end of a failed run, locks that were
//! left, copying and filling memory, atomics of few bits.

use super::Assembler;
use super::blocks;
use super::calls::KERNEL_READ;
use super::maps::copied;
use crate::debug::Param;
use crate::layout::{self, SITE_PANIC, control};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What the functions use of LLVM.
pub(super) const INTRINSICS: &str = "\
declare i32 @llvm.ctlz.i32(i32, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.fshl.i32(i32, i32, i32)
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i32 @llvm.fshr.i32(i32, i32, i32)
declare i64 @llvm.fshr.i64(i64, i64, i64)
";

impl Assembler<'_> {
    /// Everything of the runtime that the functions call.
    pub(super) fn runtime(&mut self) {
        self.failure();
        self.define("kara_leaked", &["i64 %sp"], &[Param::Number], &leaked());
        let numbers = [Param::Number; 4];
        if self.out.contains("@kara_copy(") {
            self.define("kara_copy", &["i64 %to", "i64 %from", "i64 %n"], &numbers[..3], &blocks::copy());
        }
        if self.out.contains("@kara_fill(") {
            self.define("kara_fill", &["i64 %to", "i64 %byte", "i64 %n"], &numbers[..3], &blocks::fill());
        }
        if self.out.contains("@kara_compare(") {
            self.define("kara_compare", &["i64 %one", "i64 %other", "i64 %n"], &numbers[..3], &blocks::compare());
        }
        for what in ["add", "sub", "and", "or", "xor", "xchg", "cmpxchg"] {
            for bits in [8, 16] {
                let name = format!("kara_atomic_{what}{bits}");
                if self.out.contains(&format!("@{name}(")) {
                    let params = ["i64 %at", "i64 %value", "i64 %expected"];
                    self.define(&name, &params, &numbers[..3], &narrow_atomic(what, bits));
                }
            }
        }
        self.packet_functions();
        self.kernel_reads();
    }

    /// Functions that copy so many bytes of the kernel's memory, for the sizes that are wanted.
    fn kernel_reads(&mut self) {
        let name = format!("@{KERNEL_READ}");
        let rests = self.out.split(&name).skip(1);
        let sizes: BTreeSet<u32> = rests.filter_map(|rest| rest.split('(').next()?.parse().ok()).collect();
        for bytes in sizes {
            let params = ["i64 %from", "i64 %to"];
            self.define(&format!("{KERNEL_READ}{bytes}"), &params, &[Param::Number; 2], &kernel_read(bytes));
        }
    }

    /// A function of the runtime.
    pub(super) fn define(&mut self, name: &str, params: &[&str], types: &[Param], body: &str) {
        let place = self.debug.reserve();
        let function = self.debug.function(name, types, false, place);
        let body = body.replace("!place", &format!("!{place}"));
        let _ = writeln!(self.out, "define i64 @{name}({}) #0 !dbg !{function} {{\n{body}}}\n", params.join(", "));
    }

    /// What comes before the end of a failed run: the log, the locks; returns the verdict.
    fn failure(&mut self) {
        let body = |site: &str, file: &str, length: &str, line: &str| {
            format!(
                "entry:
  %region = and i64 %sp, {mask}
  %control = {cast_region}
  %countp = getelementptr i8, ptr %control, i64 {panics}
  %count = load i64, ptr %countp, align 8
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %countp, align 8
  %now = call i64 inttoptr (i64 5 to ptr)()
  %slot = and i64 %count, {last}
  %bytes = mul i64 %slot, {entry_bytes}
  %at = add i64 %region, %bytes
  %entry0 = {cast_at}
  %timep = getelementptr i8, ptr %entry0, i64 {log}
  store i64 %now, ptr %timep, align 8
  %sitep = getelementptr i8, ptr %timep, i64 8
  store i32 {site}, ptr %sitep, align 4
  %filep = getelementptr i8, ptr %timep, i64 12
  store i32 {file}, ptr %filep, align 4
  %lengthp = getelementptr i8, ptr %timep, i64 16
  store i32 {length}, ptr %lengthp, align 8
  %linep = getelementptr i8, ptr %timep, i64 20
  store i32 {line}, ptr %linep, align 4
{release}
  %busyp = getelementptr i8, ptr %control, i64 {busy}
  store volatile i64 0, ptr %busyp, align 8
  %verdictp = getelementptr i8, ptr %control, i64 {verdict}
  %verdict = load i64, ptr %verdictp, align 8
  ret i64 %verdict
",
                mask = -(layout::REGION_BYTES as i64),
                cast_region = cast("%region"),
                panics = control::PANICS,
                last = control::LOG_ENTRIES - 1,
                entry_bytes = control::LOG_ENTRY_BYTES,
                cast_at = cast("%at"),
                log = control::LOG,
                release = release(),
                busy = control::BUSY,
                verdict = control::VERDICT,
            )
        };
        let trap = body("%site32", "0", "0", "0");
        let trap = trap.replacen("entry:\n", "entry:\n  %site32 = trunc i64 %site to i32\n", 1);
        self.define("kara_trap", &["i64 %sp", "i64 %site"], &[Param::Number; 2], &trap);
        if self.out.contains("@kara_panic(") {
            let panic = body(&(SITE_PANIC as i32).to_string(), "%file32", "%length32", "%line32");
            let narrow = ["file", "length", "line"].map(|n| format!("  %{n}32 = trunc i64 %{n} to i32\n")).concat();
            let panic = panic.replacen("entry:\n", &format!("entry:\n{narrow}"), 1);
            let params = ["i64 %sp", "i64 %file", "i64 %length", "i64 %line"];
            self.define("kara_panic", &params, &[Param::Number; 4], &panic);
        }
    }
}

/// By way of the stack, where the helper (`bpf_probe_read_kernel`) takes it.
fn kernel_read(bytes: u32) -> String {
    format!(
        "entry:
  %room = alloca [{bytes} x i8], align 8
  %failed = call i64 inttoptr (i64 113 to ptr)(ptr %room, i64 {bytes}, i64 %from)
  %isgone = icmp ne i64 %failed, 0
  br i1 %isgone, label %gone, label %there
there:
  %out = {}
{}  ret i64 1
gone:
  ret i64 0
",
        cast("%to"),
        copied("byte", "%room", "%out", bytes)
    )
}

/// A pointer into the arena.
pub(super) fn cast(address: &str) -> String {
    format!("call ptr asm \"$0 = addr_space_cast($0, 0x0, 0x1)\", \"=r,0\"(i64 {address}) #2")
}

/// Releases the locks in the registry, with `%control` at hand.
fn release() -> String {
    let mut text = format!(
        "  %heldp = getelementptr i8, ptr %control, i64 {}\n  store i64 0, ptr %heldp, align 8\n",
        control::HELD
    );
    for n in 0..control::MOST_LOCKS {
        let next = n + 1;
        let _ = write!(
            text,
            "  %lockp{n} = getelementptr i8, ptr %control, i64 {at}
  %lock{n} = load i32, ptr %lockp{n}, align 4
  %isheld{n} = icmp ne i32 %lock{n}, 0
  br i1 %isheld{n}, label %held{n}, label %free{next}
held{n}:
  store i32 0, ptr %lockp{n}, align 4
  %wide{n} = zext i32 %lock{n} to i64
  %word{n} = {cast}
  %old{n} = atomicrmw xchg ptr %word{n}, i32 0 seq_cst
  br label %free{next}
free{next}:
",
            at = control::LOCKS + 4 * n,
            cast = cast(&format!("%wide{n}")),
        );
    }
    text
}

/// Locks that a run without a panic did not give back.
fn leaked() -> String {
    format!(
        "entry:
  %region = and i64 %sp, {mask}
  %control = {cast}
  %leakedp = getelementptr i8, ptr %control, i64 {leaked}
  %leaked = load i64, ptr %leakedp, align 8
  %leaked1 = add i64 %leaked, 1
  store i64 %leaked1, ptr %leakedp, align 8
{release}  ret i64 0
",
        mask = -(layout::REGION_BYTES as i64),
        cast = cast("%region"),
        leaked = control::LEAKED,
        release = release(),
    )
}

/// Changes some bits of a word, until nobody else has changed it meanwhile.
fn narrow_atomic(what: &str, bits: u32) -> String {
    let mask = (1u64 << bits) - 1;
    let new = match what {
        "xchg" => "add i32 %value32, 0".to_string(),
        "cmpxchg" => "select i1 %same, i32 %value32, i32 %old".to_string(),
        _ => format!("{what} i32 %old, %value32"),
    };
    format!(
        "entry:
  %base = and i64 %at, -4
  %inside = and i64 %at, 3
  %shift64 = shl i64 %inside, 3
  %shift = trunc i64 %shift64 to i32
  %value32 = trunc i64 %value to i32
  %expected32 = trunc i64 %expected to i32
  %expectedbits = and i32 %expected32, {mask}
  %ones = shl i32 {mask}, %shift
  %others = xor i32 %ones, -1
  %word = {cast}
  br label %again
again:
  callbr void asm sideeffect \"may_goto ${{0:l}}\", \"!i\"() to label %go [label %late]
go:
  %before = load volatile i32, ptr %word, align 4
  %moved = lshr i32 %before, %shift
  %old = and i32 %moved, {mask}
  %same = icmp eq i32 %old, %expectedbits
  %new = {new}
  %newbits = and i32 %new, {mask}
  %placed = shl i32 %newbits, %shift
  %kept = and i32 %before, %others
  %after = or i32 %kept, %placed
  %pair = cmpxchg ptr %word, i32 %before, i32 %after seq_cst seq_cst
  %seen = extractvalue {{ i32, i1 }} %pair, 0
  %done = icmp eq i32 %seen, %before
  br i1 %done, label %end, label %again
end:
  %result = zext i32 %old to i64
  ret i64 %result
late:
  ret i64 0
",
        cast = cast("%base"),
    )
}
