//! The probe runs anywhere, with or without privilege.

mod common;

use common::*;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::MapType;
use karakoram_kernel::probe::{Status, probe};

#[test]
fn finds_out_without_failing() {
    let report = probe();
    println!("kernel {}", report.release);
    for check in &report.checks {
        println!("{:20} {:14} {}", check.name, check.status.to_string(), check.detail);
        assert!(!check.disables.is_empty());
    }
    let names = |status| {
        let programs = report.program_types.iter().filter(move |t| t.1 == status).map(|t| t.0.name().to_string());
        let maps = report.map_types.iter().filter(move |t| t.1 == status).map(|t| t.0.name());
        (programs.collect::<Vec<_>>().join(" "), maps.collect::<Vec<_>>().join(" "))
    };
    for status in [Status::Yes, Status::No, Status::NotPermitted] {
        println!("{status}: {:?}", names(status));
    }
    assert!(!report.release.is_empty());
    let Some(()) = permitted("finds_out_without_failing") else { return };
    assert_eq!(report.checks[0].status, Status::Yes, "{:?}", report.checks[0]);
    assert_eq!(report.checks[1].status, Status::Yes, "{:?}", report.checks[1]);
    assert!(report.program_types.contains(&(ProgramType::XDP, Status::Yes)));
    assert!(report.map_types.contains(&(MapType::HASH, Status::Yes)));
}
