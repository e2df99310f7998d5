//! Programs the verifier must refuse, on the running kernel: what the log parser makes of each
//! refusal. `BLESS=1` writes the logs to `tests/log`, where another test reads them without a kernel.

mod common;

use common::*;
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_kernel::load::{LoadError, LoadRequest, load};
use karakoram_kernel::map::{MapSet, MapSetOptions};

struct Bad {
    name: &'static str,
    kind: ProgramType,
    slots: Vec<Slot>,
    insn: Option<usize>,
    reason: &'static str,
}

fn bad(name: &'static str, slots: &[Slot], insn: usize, reason: &'static str) -> Bad {
    Bad { name, kind: ProgramType::XDP, slots: slots.to_vec(), insn: Some(insn), reason }
}

/// Map 0 is a hash table of eight-byte values, 1 a ring buffer, 2 read-only data.
fn maps() -> Vec<MapDef> {
    vec![
        map_def("table", MapType::HASH, 4, 8, 4),
        map_def("events", MapType::RINGBUF, 0, 0, 4096),
        MapDef { initial: Some(vec![1; 8]), frozen: true, ..map_def(".rodata", MapType::ARRAY, 4, 8, 1) },
    ]
}

fn lookup(after: &[Slot]) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    let mut slots = vec![stw(R10, -4, 1), mov_reg(R2, R10), add(R2, -4), low, high, call(1)];
    slots.extend(after);
    slots
}

fn programs() -> Vec<Bad> {
    let [ring_low, ring_high] = map(R1, 1);
    let [data_low, data_high] = map_value(R1, 2, 0);
    let local_call = |distance| Slot { src: 1, ..call(distance) };
    vec![
        bad("packet_unbounded", &[ldxw(R2, R1, 0), ldxb(R0, R2, 5), exit()], 1, "R2 offset is outside of the packet"),
        bad(
            "packet_after_branch",
            &[
                ldxw(R2, R1, 0),
                ldxw(R3, R1, 4),
                mov_reg(R4, R2),
                add(R4, 8),
                mov(R0, 0),
                jgt_reg(R4, R3, 1),
                ldxb(R0, R2, 8),
                exit(),
            ],
            6,
            "R2 offset is outside of the packet",
        ),
        bad("register_uninitialised", &[exit()], 0, "R0 !read_ok"),
        bad("helper_argument", &[mov_reg(R2, R10), call(1), exit()], 1, "R1 type=ctx expected=map_ptr"),
        bad("helper_unknown", &[call(9999), exit()], 0, "invalid func unknown#9999"),
        bad("helper_not_for_type", &[call(26), exit()], 0, "cannot use helper bpf_skb_load_bytes#26"),
        bad("stack_misaligned", &[mov(R0, 0), stxd(R10, -12, R0), exit()], 1, "misaligned stack access"),
        bad(
            "stack_too_deep",
            &[mov(R0, 0), stxd(R10, -520, R0), exit()],
            1,
            "invalid write to stack R10 off=-520 size=8",
        ),
        bad("unreachable", &[mov(R0, 0), exit(), mov(R0, 1), exit()], 2, "unreachable insn 2"),
        bad("endless_loop", &[mov(R0, 0), jeq(R1, 0, 1), goto(-2), exit()], 1, "infinite loop detected at insn 1"),
        bad("jump_out_of_range", &[mov(R0, 0), goto(5), exit()], 1, "jump out of range from insn 1 to 7"),
        Bad { insn: None, ..bad("falls_off_the_end", &[mov(R0, 0)], 0, "last insn is not an exit or jmp") },
        bad("context_field", &[ldxw(R0, R1, 1000), exit()], 0, "invalid bpf_context access off=1000 size=4"),
        bad("value_maybe_null", &lookup(&[ldxd(R0, R0, 0), exit()]), 6, "R0 invalid mem access 'map_value_or_null'"),
        bad(
            "value_too_far",
            &lookup(&[jeq(R0, 0, 1), ldxd(R0, R0, 8), exit()]),
            7,
            "R0 min value is outside of the allowed memory range",
        ),
        bad("read_only_data", &[data_low, data_high, stb(R1, 0, 1), mov(R0, 0), exit()], 2, "write into map forbidden"),
        bad(
            "reference_leaked",
            &[ring_low, ring_high, mov(R2, 8), mov(R3, 0), call(131), mov(R0, 0), exit()],
            6,
            "Unreleased reference",
        ),
        bad(
            "in_a_subprogram",
            &[mov(R1, 1), local_call(1), exit(), ldxd(R0, R1, 0), exit()],
            3,
            "R1 invalid mem access 'scalar'",
        ),
        bad(
            "state_on_the_same_line",
            &[call(5), jeq(R0, 5, 1), mov(R1, 0), stxd(R10, -8, R1), exit()],
            3,
            "R1 !read_ok",
        ),
        Bad {
            name: "return_value",
            kind: ProgramType::CGROUP_SKB,
            slots: vec![mov(R0, 9), exit()],
            insn: Some(1),
            reason: "At program exit the register R0 has",
        },
    ]
}

#[test]
fn every_refusal_is_understood() {
    let Some(()) = permitted("every_refusal_is_understood") else { return };
    let maps = MapSet::create(&maps(), &MapSetOptions::default()).unwrap();
    let mut wrong = Vec::new();
    for bad in programs() {
        let request = LoadRequest::new(bad.name, bad.kind, &bad.slots).with_maps(&maps);
        let rejection = match load(&request) {
            Err(LoadError::Rejected(r)) => r,
            other => panic!("{}: {other:?}", bad.name),
        };
        let analysis = &rejection.analysis;
        if analysis.insn != bad.insn || !analysis.reason.iter().any(|r| r.contains(bad.reason)) {
            wrong.push(format!("{}: {:?} {:?}\n{}", bad.name, analysis.insn, analysis.reason, rejection.log));
        }
        if std::env::var_os("BLESS").is_some() {
            let insn = analysis.insn.map_or("-".into(), |n| n.to_string());
            let reason: String = analysis.reason.iter().map(|r| format!("# reason: {r}\n")).collect();
            let state: String = analysis.state.iter().map(|s| format!("# state: {s}\n")).collect();
            let text = format!("# insn: {insn}\n{reason}{state}\n{}", rejection.log);
            let path =
                format!("{}/tests/log/linux-6.18-{}.txt", env!("CARGO_MANIFEST_DIR"), bad.name.replace('_', "-"));
            std::fs::write(path, text).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
