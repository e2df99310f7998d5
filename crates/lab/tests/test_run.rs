//! How runs are timed: what changes its packet or its context can be run many times in one call.

mod support;

use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::text::asm;
use karakoram_kernel::load::{self, LoadRequest, LoadedProgram};
use karakoram_kernel::run::{RunInput, RunOutput};
use karakoram_lab::error::LabError;
use karakoram_lab::test_run::{Case, InKernel, Plan, Version, Way};

struct Text {
    kind: ProgramType,
    source: &'static str,
    packet: Vec<u8>,
}

struct InMemory {
    program: LoadedProgram,
    packet: Vec<u8>,
}

impl Version for Text {
    fn load(&self) -> Result<Box<dyn InKernel>, LabError> {
        let slots = asm::parse(self.source).unwrap().to_slots().unwrap();
        let request = LoadRequest::new("changing", self.kind, &slots);
        Ok(Box::new(InMemory { program: load::load(&request).unwrap(), packet: self.packet.clone() }))
    }
}

impl InKernel for InMemory {
    fn program(&self) -> &LoadedProgram {
        &self.program
    }

    fn set(&self, _: usize) -> Result<(), LabError> {
        Ok(())
    }

    fn input(&self, _: usize) -> RunInput {
        RunInput::packet(&self.program, self.packet.clone())
    }

    fn packet_after<'a>(&self, output: &'a RunOutput) -> &'a [u8] {
        &output.data
    }
}

fn way(kind: ProgramType, source: &'static str) -> Way {
    let packet: Vec<u8> = (0..70).collect();
    let text = Text { kind, source, packet: packet.clone() };
    let case = Case { name: "a packet".into(), packet, returns: None, is_measured: true };
    let plan = Plan::find(&[&text, &text], vec![case], Some(20_000)).unwrap();
    plan.cases[0].way
}

const SWAPS: &str = "
    r2 = *(u32 *)(r1 + 0)
    r3 = *(u32 *)(r1 + 4)
    r4 = r2
    r4 += 12
    if r4 > r3 goto out
    r4 = *(u32 *)(r2 + 0)
    r5 = *(u32 *)(r2 + 8)
    *(u32 *)(r2 + 0) = r5
    *(u32 *)(r2 + 8) = r4
out:
    r0 = 3
    exit
";

const LONGER: &str = "
    r2 = -20
    call bpf_xdp_adjust_head
    r0 = 3
    exit
";

const SHORTER: &str = "
    r2 = -20
    call bpf_xdp_adjust_tail
    r0 = 3
    exit
";

const ONCE: &str = "
    r2 = *(u32 *)(r1 + 0)
    r3 = *(u32 *)(r1 + 4)
    r0 = r3
    r0 -= r2
    exit
";

const MARKS: &str = "
    r2 = *(u32 *)(r1 + 8)
    r2 += 1
    *(u32 *)(r1 + 8) = r2
    r0 = 0
    exit
";

#[test]
fn what_runs_change_is_put_back() {
    if !support::may_load() {
        return;
    }
    assert_eq!(way(ProgramType::XDP, ONCE), Way::Batch);
    for source in [SWAPS, LONGER, SHORTER] {
        assert_eq!(way(ProgramType::XDP, source), Way::Restored, "{source}");
    }
    assert_eq!(way(ProgramType::SCHED_CLS, MARKS), Way::Restored);
}
