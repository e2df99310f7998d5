//! Our text against LLVM's, instruction by instruction, where its tools are installed.

use karakoram_bpf::encode::{self, Slot};
use karakoram_bpf::insn::RawInsn;
use karakoram_bpf::text::asm;
use std::path::PathBuf;
use std::process::Command;

const CLANG: &str = "clang-19";
const OBJDUMP: &str = "llvm-objdump-19";

const PROGRAM: &str = r#"
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef unsigned long long u64;
typedef signed char s8; typedef short s16; typedef int s32; typedef long long s64;
static u64 (*prandom)(void) = (void *)7;
__attribute__((noinline, section("xdp"))) static u64 work(u64 a, u64 b, u32 c) { return a * b / (c | 1) % 77 - (a >> (b & 31)); }
u64 shared[16];
__attribute__((section("xdp"))) u64 prog(u32 *ctx)
{
    u64 a = prandom(), b = ctx[0], i, sum = 0;
    s64 s = (s64)prandom();
    u32 w = ctx[1];
    volatile u8 stack[64];
    stack[3] = 7; *(volatile u16 *)(stack + 4) = w; *(volatile u32 *)(stack + 8) = a; *(volatile u64 *)(stack + 16) = b;
    if (a > b) sum += work(a, b, w); else if ((s32)w < -5) sum ^= __builtin_bswap32(w); else sum |= __builtin_bswap64(a);
    for (i = 0; i < w; i++) { sum += shared[i & 15] * 3; if (sum & 0x10000) break; }
    __sync_fetch_and_add(&shared[1], 5);
    sum += __sync_fetch_and_add(&shared[2], a);
#ifdef V3
    sum += __sync_val_compare_and_swap(&shared[3], a, b);
    sum ^= __sync_lock_test_and_set(&shared[4], b);
    *(u32 *)&shared[5] += __sync_fetch_and_or((u32 *)&shared[6], w);
    sum += __sync_fetch_and_and(&shared[6], w) + __sync_fetch_and_xor((u32 *)&shared[7], w);
    sum += __sync_val_compare_and_swap((u32 *)&shared[8], w, 7) + __sync_lock_test_and_set((u32 *)&shared[9], w);
#endif
    sum += s >> 3; sum ^= -a; sum += (s8)a + (s16)b + (s32)a;
    sum += *(volatile s8 *)(stack + 5) + *(volatile s16 *)(stack + 8) + (s64)*(volatile s32 *)(stack + 16);
#ifdef V4
    sum += s / 7 + (s32)w % 13 + __builtin_bswap16(w);
#endif
    if (sum == 0x123456789abcdefULL) sum <<= w & 31;
    if ((s64)sum <= 100 && (u32)sum != 7) sum %= 10;
    return sum;
}
"#;

#[test]
fn our_text_is_the_one_of_llvm() {
    for cpu in ["v1", "v2", "v3", "v4"] {
        let Some(listing) = listing(cpu) else { return };
        let mut compared = 0;
        for line in listing.lines() {
            let Some((bytes, text)) = instruction(line) else { continue };
            let slots: Vec<Slot> = bytes.chunks_exact(8).map(|c| Slot::from_bytes(c.try_into().unwrap())).collect();
            let insn = encode::decode(&slots, 0).unwrap_or_else(|e| panic!("{line}: {e}"));
            let ours = asm::print_raw(&insn);
            assert_eq!(tokens(&ours), tokens(&without_differences(text, &insn)), "mcpu {cpu}: {line}");
            assert_eq!(
                asm::parse_insns(text).map_err(|e| e.to_string()),
                Ok(vec![as_llvm(insn)]),
                "mcpu {cpu}: {line}"
            );
            compared += 1;
        }
        assert!(compared > 80, "mcpu {cpu}: only {compared} instructions");
        let program = asm::parse(&listing).unwrap_or_else(|e| panic!("mcpu {cpu}: {e}\n{listing}"));
        assert_eq!(program.functions.len(), 2, "mcpu {cpu}");
    }
}

/// The listing of the program, or nothing when LLVM is not there.
fn listing(cpu: &str) -> Option<String> {
    let object = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("text_llvm_{cpu}.o"));
    let source = object.with_extension("c");
    std::fs::write(&source, PROGRAM).unwrap();
    let mut clang = Command::new(CLANG);
    clang.args(["-O2", "-target", "bpf", "-c", "-o"]).arg(&object).arg(&source).arg(format!("-mcpu={cpu}"));
    clang.args(match cpu {
        "v3" => &["-DV3"][..],
        "v4" => &["-DV3", "-DV4"],
        _ => &[],
    });
    let status = match clang.status() {
        Ok(status) => status,
        Err(e) => {
            eprintln!("SKIPPED: {CLANG}: {e}, our text is not compared with LLVM's");
            return None;
        }
    };
    assert!(status.success(), "{CLANG} -mcpu={cpu} failed");
    let output = match Command::new(OBJDUMP).args(["-d", "--mcpu=v4", "--mattr=+alu32"]).arg(&object).output() {
        Ok(output) => output,
        Err(e) => {
            eprintln!("SKIPPED: {OBJDUMP}: {e}, our text is not compared with LLVM's");
            return None;
        }
    };
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Bytes and text of a line of a listing.
fn instruction(line: &str) -> Option<(Vec<u8>, &str)> {
    let (number, rest) = line.split_once(':')?;
    number.trim().parse::<u32>().ok()?;
    let (bytes, text) = rest.trim_start().split_once('\t')?;
    let bytes: Option<Vec<u8>> = bytes.split_whitespace().map(|b| u8::from_str_radix(b, 16).ok()).collect();
    Some((bytes?, text))
}

/// LLVM prints all calls alike: what its text of a call means.
fn as_llvm(insn: RawInsn) -> RawInsn {
    use karakoram_bpf::insn::{Callee, Insn};
    match insn {
        Insn::Call(Callee::Local(n)) => Insn::Call(Callee::Helper(n)),
        other => other,
    }
}

/// LLVM's text with the few differences that we want: helpers by name, calls in slots, and `rN` in
/// loads and stores that it writes with `wN` for the same bytes when 32-bit arithmetic is on.
fn without_differences(text: &str, insn: &RawInsn) -> String {
    use karakoram_bpf::insn::{Callee, Insn};
    match insn {
        Insn::Call(Callee::Helper(7)) => "call bpf_get_prandom_u32".into(),
        Insn::Call(Callee::Local(n)) => format!("call pc{n:+}"),
        Insn::Load { .. } | Insn::Store { .. } => text.replace('w', "r"),
        _ => text.to_string(),
    }
}

/// Words of a text, numbers by value, without the symbol after a target.
fn tokens(text: &str) -> Vec<String> {
    let text = text.split(" <").next().unwrap_or(text);
    let mut out = Vec::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            let value = word.strip_prefix("0x").map_or(word.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok());
            out.push(value.map_or(word.clone(), |v| v.to_string()));
            word.clear();
        }
        if !c.is_whitespace() {
            out.push(c.to_string());
        }
    }
    out
}
