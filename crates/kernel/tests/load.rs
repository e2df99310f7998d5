//! Loading, statistics, refusals and test runs on the running kernel.

mod common;

use common::*;
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_kernel::load::{LoadError, LoadRequest, LogDetail, Rejection, load};
use karakoram_kernel::map::{MapSet, MapSetOptions};
use karakoram_kernel::run::{RunInput, RunOutput, Runner, test_run};

fn rejected(kind: ProgramType, slots: &[Slot]) -> Rejection {
    match load(&LoadRequest::new("bad", kind, slots)) {
        Err(LoadError::Rejected(r)) => *r,
        other => panic!("expected a rejection, got {other:?}"),
    }
}

#[test]
fn statistics_of_a_load() {
    let Some(()) = permitted("statistics_of_a_load") else { return };
    let slots = [std(R10, -32, 7), mov(R0, 2), exit()];
    let program = load_with(ProgramType::XDP, &slots, &MapSet::default());
    assert_eq!(program.statistics.processed_insns, Some(3));
    assert_eq!(program.statistics.stack_depth, [32]);
    let info = program.info(true).unwrap();
    assert_eq!(info.prog_type, ProgramType::XDP.0);
    assert_eq!(info.xlated_len as usize, info.xlated.len());
    assert!(info.xlated_len >= 24);
    assert_eq!(info.jited.len(), info.function_lengths.iter().sum::<u32>() as usize);
}

#[test]
fn everything_in_the_log() {
    let Some(()) = permitted("everything_in_the_log") else { return };
    let slots = [mov(R0, 2), exit()];
    let request = LoadRequest { log: LogDetail::Everything, ..LoadRequest::new("t", ProgramType::XDP, &slots) };
    let program = load(&request).unwrap();
    assert!(program.log.contains("(b7) r0 = 2"), "{}", program.log);
    assert_eq!(program.statistics.processed_insns, Some(2));
}

#[test]
fn a_rejection_names_the_instruction() {
    let Some(()) = permitted("a_rejection_names_the_instruction") else { return };
    let r = rejected(ProgramType::XDP, &[ldxw(R2, R1, 0), ldxb(R0, R2, 5), exit()]);
    assert_eq!(r.analysis.insn, Some(1));
    assert_eq!(r.analysis.reason.last().map(String::as_str), Some("R2 offset is outside of the packet"));
    assert!(r.log.contains("processed 2 insns"), "{}", r.log);
}

#[test]
fn requests_that_make_no_sense() {
    let slots = [map(R1, 0)[0], map(R1, 0)[1], exit()];
    let error = load(&LoadRequest::new("t", ProgramType::XDP, &slots)).unwrap_err();
    assert!(matches!(error, LoadError::Other(_)), "{error}");
    let error = load(&LoadRequest { license: "G\0L", ..LoadRequest::new("t", ProgramType::XDP, &[exit()]) });
    assert!(matches!(error, Err(LoadError::Other(_))));
}

#[test]
fn types_that_do_not_exist() {
    let Some(()) = permitted("types_that_do_not_exist") else { return };
    let slots = [mov(R0, 0), exit()];
    let error = load(&LoadRequest::new("t", ProgramType(9999), &slots)).unwrap_err();
    assert!(matches!(error, LoadError::NoKernelSupport(_)), "{error}");
}

#[test]
fn empty_and_cut_programs() {
    let Some(()) = permitted("empty_and_cut_programs") else { return };
    for slots in [&[][..], &[map(R1, 0)[0]][..], &[Slot { code: 0xff, ..exit() }][..], &[mov(R0, 0)][..]] {
        assert!(load(&LoadRequest::new("t", ProgramType::XDP, slots)).is_err());
    }
}

#[test]
fn xdp_run() {
    let Some(()) = permitted("xdp_run") else { return };
    let slots = [
        ldxw(R2, R1, 0),
        ldxw(R3, R1, 4),
        mov_reg(R4, R2),
        add(R4, 14),
        mov(R0, 1),
        jgt_reg(R4, R3, 2),
        stb(R2, 3, 0xee),
        mov(R0, 2),
        exit(),
    ];
    let program = load_with(ProgramType::XDP, &slots, &MapSet::default());
    let input = RunInput::packet(&program, (0..64).collect());
    let output = test_run(&program, &input).unwrap();
    assert_eq!(output.retval, 2);
    assert_eq!(output.data.len(), 64);
    assert_eq!(output.data[..5], [0, 1, 2, 0xee, 4]);
    assert_eq!(output.ctx.len(), 24);
    let error = test_run(&program, &RunInput { data: vec![0; 3], ..Default::default() }).unwrap_err();
    assert!(error.to_string().contains("shorter than an Ethernet header"), "{error}");
}

#[test]
fn skb_runs() {
    let Some(()) = permitted("skb_runs") else { return };
    // r0 = skb->len; skb->mark = 7 where allowed.
    let filter = [ldxw(R0, R1, 0), exit()];
    let program = load_with(ProgramType::SOCKET_FILTER, &filter, &MapSet::default());
    let output = test_run(&program, &RunInput::packet(&program, vec![0; 60])).unwrap();
    assert_eq!(output.retval, 60 - 14);
    let tc = [mov(R2, 7), stxw(R1, 8, R2), mov(R0, 0), exit()];
    let program = load_with(ProgramType::SCHED_CLS, &tc, &MapSet::default());
    let output = test_run(&program, &RunInput::packet(&program, vec![0; 60])).unwrap();
    assert_eq!(output.ctx[8..12], 7u32.to_ne_bytes());
}

#[test]
fn raw_tracepoint_and_syscall_runs() {
    let Some(()) = permitted("raw_tracepoint_and_syscall_runs") else { return };
    let slots = [ldxd(R0, R1, 8), exit()];
    let program = load_with(ProgramType::RAW_TRACEPOINT, &slots, &MapSet::default());
    let ctx = [5u64, 77].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let output = test_run(&program, &RunInput { ctx, ..Default::default() }).unwrap();
    assert_eq!(output.retval, 77);

    let slots = [std(R1, 0, 9), mov(R0, 3), exit()];
    let request = LoadRequest { flags: 16, ..LoadRequest::new("t", ProgramType::SYSCALL, &slots) };
    let program = load(&request).unwrap();
    let output = test_run(&program, &RunInput { ctx: vec![1; 16], ..Default::default() }).unwrap();
    assert_eq!(output.retval, 3);
    assert_eq!(output.ctx, [9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn global_data() {
    let Some(()) = permitted("global_data") else { return };
    let rodata =
        MapDef { initial: Some(vec![1, 2, 3, 4]), frozen: true, ..map_def(".rodata", MapType::ARRAY, 4, 4, 1) };
    let data = MapDef { initial: Some(vec![9]), ..map_def(".data", MapType::ARRAY, 4, 8, 1) };
    let maps = MapSet::create(&[rodata, data], &MapSetOptions::default()).unwrap();
    let mut slots = map_value(R1, 0, 2).to_vec();
    slots.extend(map_value(R2, 1, 0));
    slots.extend([ldxb(R0, R1, 0), ldxb(R3, R2, 0), stxb(R2, 1, R3), exit()]);
    let program = load_with(ProgramType::XDP, &slots, &maps);
    assert_eq!(test_run(&program, &RunInput::packet(&program, vec![0; 64])).unwrap().retval, 3);
    assert_eq!(maps.named(".data").unwrap().lookup(&[0; 4]).unwrap().unwrap(), [9, 9, 0, 0, 0, 0, 0, 0]);
    assert!(maps.named(".rodata").unwrap().update(&[0; 4], &[0; 4]).is_err());
}

#[test]
fn maps_by_descriptor_number() {
    let Some(()) = permitted("maps_by_descriptor_number") else { return };
    let def = MapDef { fd: Some(4711), ..map_def("numbered", MapType::ARRAY, 4, 8, 1) };
    let maps = MapSet::create(&[def], &MapSetOptions::default()).unwrap();
    let [low, high] = map_value(R1, 0, 0);
    let slots = [Slot { src: 2, imm: 4711, ..low }, high, std(R1, 0, 5), mov(R0, 0), exit()];
    let program = load_with(ProgramType::XDP, &slots, &maps);
    test_run(&program, &RunInput::packet(&program, vec![0; 64])).unwrap();
    assert_eq!(maps.maps()[0].lookup(&[0; 4]).unwrap().unwrap()[0], 5);
}

#[test]
fn machine_code_by_function() {
    let Some(()) = permitted("machine_code_by_function") else { return };
    let slots = [mov(R1, 1), Slot { src: 1, ..call(1) }, exit(), mov_reg(R0, R1), exit()];
    let program = load_with(ProgramType::XDP, &slots, &MapSet::default());
    let image = program.jit_image().unwrap();
    assert_eq!(image.bytes, program.jited_len().unwrap());
    if image.bytes == 0 {
        eprintln!("SKIPPED machine_code_by_function: this kernel interprets programs");
        return;
    }
    assert_eq!(image.functions.len(), 2);
    assert_eq!(image.functions.iter().map(|f| f.code.len()).sum::<usize>(), image.bytes as usize);
}

#[test]
fn every_type_with_a_test_run() {
    use karakoram_kernel::run::{default_context, shape};
    let Some(()) = permitted("every_type_with_a_test_run") else { return };
    let slots = [mov(R0, 1), exit()];
    for (kind, name, expected_attach_type) in [
        (ProgramType::SCHED_ACT, "action", 0),
        (ProgramType::CGROUP_SKB, "cgroup_skb", 1),
        (ProgramType::LWT_IN, "lwt_in", 0),
        (ProgramType::LWT_OUT, "lwt_out", 0),
        (ProgramType::LWT_XMIT, "lwt_xmit", 0),
        (ProgramType::FLOW_DISSECTOR, "flow_dissector", 17),
        (ProgramType::SK_LOOKUP, "sk_lookup", 36),
        (ProgramType::NETFILTER, "netfilter", 45),
    ] {
        let request = LoadRequest { expected_attach_type, ..LoadRequest::new("t", kind, &slots) };
        let program = match load(&request) {
            Ok(program) => program,
            Err(e @ LoadError::NoKernelSupport(_)) => {
                eprintln!("SKIPPED {name}: {e}");
                continue;
            }
            Err(e) => panic!("{name}: {e}"),
        };
        // An IPv4 packet behind its Ethernet header.
        let mut packet = vec![0; 64];
        packet[12] = 8;
        packet[14] = 0x45;
        let data = if shape(kind).unwrap().data { packet } else { Vec::new() };
        let ctx = default_context(kind, data.len());
        let output = test_run(&program, &RunInput { data, ctx, ..Default::default() });
        assert_eq!(output.unwrap_or_else(|e| panic!("{name}: {e}")).retval, 1, "{name}");
    }
    let program = load_with(ProgramType::SK_SKB, &slots, &MapSet::default());
    let error = test_run(&program, &RunInput::packet(&program, vec![0; 64])).unwrap_err();
    assert!(error.to_string().contains("no test run for this type"), "{error}");
}

#[test]
fn timed_runs_use_processor_time() {
    let Some(()) = permitted("timed_runs_use_processor_time") else { return };
    let program = load_with(ProgramType::XDP, &[mov(0, 2), exit()], &MapSet::default());
    let mut output = RunOutput::default();
    let input = RunInput { repeat: 1000, ..RunInput::packet(&program, vec![0; 60]) };
    let spent = Runner::default().run_timed(&program, &input, &mut output).unwrap();
    assert!(spent > 0);
    assert_eq!(output.retval, 2);
}
