//! Kernel TCP between two namespaces, over a link that loses frames on purpose. Needs root; says so
//! loudly where it is not.

mod bench;

use bench::{Link, settings, testbed};
use karakoram_lab::testbed::{Namespace, Testbed};
use karakoram_link::monitor::MonitorConfig;
use karakoram_link::wire::Profile;
use karakoram_link::{LossTrace, Mode, Probability};
use karakoram_tunnel::{LossModel, Settings};
use std::fs;
use std::path::Path;

/// A counter of the kernel's TCP in a namespace.
fn counter(namespace: &Namespace, name: &str) -> u64 {
    let read = |file| fs::read_to_string(Path::new("/proc/thread-self/net").join(file)).expect("counters");
    let text = namespace.run(|| read("snmp") + &read("netstat")).expect("a namespace");
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).flat_map(|c| c[0].split_whitespace().zip(c.get(1).unwrap_or(&"").split_whitespace()));
    pairs.filter(|(n, _)| *n == name).find_map(|(_, v)| v.parse().ok()).expect("a counter of that name")
}

/// Nothing came out of order, and nothing was sent again for a gap. (On a busy machine TCP may well send
/// something again because an acknowledgement is late.)
fn check_that_tcp_saw_no_loss(bed: &Testbed) {
    for side in [&bed.generator, &bed.tested] {
        for name in ["TCPOFOQueue", "TCPSackRecovery", "TCPFastRetrans", "TCPLostRetransmit"] {
            assert_eq!(counter(&side.namespace, name), 0, "{name}");
        }
    }
}

fn lossy(rate: Probability, settings: Settings) -> Settings {
    Settings { loss: LossModel::Random { rate, seed: 5 }, ..settings }
}

#[test]
fn tcp_sees_no_loss_over_a_protected_link() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "ordered");
    let ends = [settings("kl0", &near, Some(Mode::Ordered)), settings("kl1", &far, Some(Mode::Ordered))];
    let ends = ends.map(|s| lossy(Probability::of(1, 100), s));
    let [sender, receiver] = link.around(ends, || link.transfer(8 << 20));
    assert!(sender.get("link.lost_on_purpose") > Some(20), "{sender:?}");
    assert!(receiver.get("receiver.recovered_frames") > Some(20), "{receiver:?}");
    assert_eq!(receiver.get("receiver.skipped_frames"), Some(0), "{receiver:?}");
    check_that_tcp_saw_no_loss(&bed);
}

#[test]
fn a_lossy_line_is_protected_when_the_other_end_asks() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "on-demand");
    let monitor = MonitorConfig { window_frames: 2_000, least_losses: 3, ..MonitorConfig::prototype() };
    let on_demand = Settings { on_demand: Some(Mode::Ordered), ..settings("kl0", &near, None) };
    let ends = [lossy(Probability::of(1, 100), on_demand), Settings { monitor, ..settings("kl1", &far, None) }];
    let [sender, receiver] = link.around(ends, || link.transfer(8 << 20));
    assert_eq!(sender.get("link.is_protecting"), Some(1), "{sender:?}");
    assert!(sender.get("sender.plain_frames") > Some(0) && receiver.get("receiver.recovered_frames") > Some(0));
}

#[test]
fn the_layout_of_the_authors_carries_tcp_too() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "authors").knowing_neighbours();
    let ends = [settings("kl0", &near, Some(Mode::Ordered)), settings("kl1", &far, Some(Mode::Ordered))];
    let ends = ends.map(|s| lossy(Probability::of(1, 100), Settings { profile: Profile::Authors, ..s }));
    // This layout takes everything for IPv4, so nobody may ask for addresses.
    let [_, receiver] = link.around(ends, || link.transfer(4 << 20));
    assert!(receiver.get("receiver.recovered_frames") > Some(5), "{receiver:?}");
    check_that_tcp_saw_no_loss(&bed);
}

#[test]
fn tcp_mends_what_an_unprotected_link_loses() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "off");
    let ends = [lossy(Probability::of(1, 200), settings("kl0", &near, None)), settings("kl1", &far, None)];
    link.around(ends, || link.transfer(2 << 20));
    assert!(counter(&bed.generator.namespace, "RetransSegs") > 0);
}

#[test]
fn frames_of_a_trace_are_lost_and_recovered() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "trace");
    let trace = LossTrace::parse("100\n200 0 1\n300\n301\n302\n").expect("a trace");
    let ends = [
        Settings { loss: LossModel::Trace(trace), ..settings("kl0", &near, Some(Mode::Ordered)) },
        settings("kl1", &far, Some(Mode::Ordered)),
    ];
    link.around(ends, || link.transfer(2 << 20));
    let far_events = fs::read_to_string(link.events(1)).expect("events");
    let lines = |kind: &str| -> Vec<String> {
        let events = far_events.lines().filter_map(|l| l.split_once(' ').map(|(_, event)| event.to_string()));
        events.filter(|e| e.starts_with(kind)).collect()
    };
    assert_eq!(lines("lost"), ["lost 100 count 1", "lost 200 count 1", "lost 300 count 3"]);
    assert_eq!(lines("skipped"), [""; 0]);
    let delivered = lines("delivered");
    let expected: Vec<String> = (0..delivered.len()).map(|i| format!("delivered {i}")).collect();
    assert_eq!(delivered, expected);
}
