//! The testbed, its generators and hooks on the running kernel: functional, not timed.

mod support;

use karakoram_lab::generator::{Generator, LiveGenerator, Load, Source};
use karakoram_lab::hook::{self, Hook, Place};
use karakoram_lab::memcached::{self, Contents, Memcached};
use karakoram_lab::object;
use karakoram_lab::programs::{self, Build};
use karakoram_lab::replies::Replies;
use karakoram_lab::testbed::{Offload, Placement};
use std::time::Duration;
use support::with_workshop;

#[test]
fn a_testbed_is_built_as_described() {
    let Some(bed) = support::testbed(Placement::Threaded) else { return };
    for side in [&bed.generator, &bed.tested] {
        for offload in Offload::ALL {
            let on = side.namespace.run(|| side.device.offload(offload)).unwrap();
            let polled = offload == Offload::Gro && side.device.name == bed.tested.device.name;
            assert_eq!(on, Some(polled), "{offload:?} of {}", side.device.name);
        }
        let list = side.namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
        let devices: Vec<&str> = list.lines().skip(2).filter_map(|l| l.split(':').next()).map(str::trim).collect();
        assert!(devices.contains(&side.device.name.as_str()), "{devices:?}");
        assert!(!devices.contains(&"eth0"), "a namespace of our own has none of the machine's devices");
    }
    assert!(bed.pin_receiver().unwrap().is_some());
}

/// What a generator says it sent is what the other end received, at a rate that is no trouble.
fn frames_arrive(source: Source) {
    let Some(bed) = support::testbed(Placement::Threaded) else { return };
    with_workshop(|workshop| {
        let generator = Generator::load(source, workshop).unwrap();
        let object = programs::build(workshop, "lab/hooks", Build::Original).unwrap();
        let loaded = object::load(&object, &["drop_xdp"]).unwrap();
        let _attached = hook::attach(&bed, Hook::Xdp, Some(loaded.program("drop_xdp")), Place::default()).unwrap();
        let before = bed.tested.counters().unwrap();
        let sent = generator.send(&bed, &Load::new(Some(20_000.0), Duration::from_millis(200))).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let after = bed.tested.counters().unwrap().since(before);
        let seen = support::number(&loaded, "seen");
        eprintln!("{sent:?} {after:?}, program saw {seen}");
        assert!(sent.frames > 3_000, "{sent:?}");
        assert_eq!(sent.lateness.count(), sent.frames);
        assert_eq!(after.received, seen);
        assert_eq!(after.received + after.ring_full, sent.frames);
    });
}

#[test]
fn live_frames_arrive() {
    frames_arrive(Source::Live);
}

#[test]
fn frames_of_an_af_xdp_socket_arrive() {
    frames_arrive(Source::AfXdp);
}

/// XDP_TX on veth only works when the other end has an XDP program too.
fn echoed_frames_come_back(source: Source, placement: Placement) {
    let Some(bed) = support::testbed(placement) else { return };
    with_workshop(|workshop| {
        let generator = Generator::load(source, workshop).unwrap();
        let echo =
            object::load(&programs::build(workshop, "lab/echo", Build::Original).unwrap(), &["echo_xdp"]).unwrap();
        let sink = object::load(&programs::build(workshop, "lab/sink", Build::Original).unwrap(), &["sink"]).unwrap();
        let _sink = hook::attach_near(&bed, sink.program("sink")).unwrap();
        let _echo = hook::attach(&bed, Hook::Xdp, Some(echo.program("echo_xdp")), Place::default()).unwrap();
        let sent = generator.send(&bed, &Load::new(Some(20_000.0), Duration::from_millis(100))).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(support::number(&sink, "counters"), sent.frames);
    });
}

#[test]
fn echoed_live_frames_come_back() {
    echoed_frames_come_back(Source::Live, Placement::Threaded);
}

#[test]
fn echoed_frames_of_an_af_xdp_socket_come_back() {
    echoed_frames_come_back(Source::AfXdp, Placement::Threaded);
    echoed_frames_come_back(Source::AfXdp, Placement::Inline);
}

#[test]
fn nothing_is_left_of_a_testbed() {
    let Some(bed) = support::testbed(Placement::Threaded) else { return };
    let name = bed.tested.device.name.clone();
    assert_eq!(support::receivers_of(&name), 1);
    drop(bed);
    support::wait_until(|| support::receivers_of(&name) == 0);
}

/// Every kind of trial at every hook, short: does it measure, are all replies right, is nothing lost?
#[test]
fn trials_measure_at_every_hook() {
    if support::testbed(Placement::Inline).is_none() {
        return;
    }
    let hooks = ["xdp", "af-xdp", "xdp-generic", "tc", "tcx", "sk-skb", "socket"];
    for hook in hooks {
        support::trial("echo", &format!("hook = '{hook}'\nduration-ms = 60"), "rtt");
    }
    let beside = "background = { rate = 20_000, work = 500 }\nplacement = 'threaded'";
    support::trial("echo", &format!("hook = 'socket'\nduration-ms = 60\n{beside}"), "rtt");
    for hook in ["xdp", "tc", "tcx", "socket-filter", "sk-skb", "socket"] {
        support::trial("reach", &format!("hook = '{hook}'\npackets = 1000"), "reach");
    }
}

#[test]
fn a_rate_is_searched() {
    if support::testbed(Placement::Threaded).is_none() {
        return;
    }
    let coarse = "step = 0.2\ntry-ms = 20\ntries = 5\nloss = 0.5";
    support::trial(
        "rate",
        &format!("program = 'lab/hooks'\nentry = 'drop_xdp'\nway = 'drop'\n{coarse}"),
        "loss_free_rate",
    );
    let forward =
        format!("program = 'lab/forward'\nway = 'return'\nloads = [0.5]\nflows = 64\npoisson = true\n{coarse}");
    support::trial("rate", &forward, "loss_free_rate");
    let fib = format!("program = 'lab/router'\nentry = 'fib'\nway = 'return'\n{coarse}");
    support::trial("rate", &fib, "loss_free_rate");
}

#[test]
fn replies_of_memcached_and_of_the_fast_path_are_right() {
    if support::testbed(Placement::Threaded).is_none() {
        return;
    }
    let hits = "hits = { map = 'counters' }";
    let fronts = [
        String::new(),
        "front = { receive = 'only_parse' }".to_string(),
        format!("front = {{ receive = 'answer', send = 'learn', {hits} }}"),
        format!(
            "front = {{ receive = 'answer_by_calls', send = 'learn', calls = {{ programs = ['answer_second'] }}, {hits} }}"
        ),
    ];
    for front in fronts {
        let short = "keys = 10\nduration-ms = 100\ntry-ms = 10";
        support::trial("keyvalue", &format!("{front}\n{short}"), "capacity");
        support::trial("keyvalue", &format!("{front}\nbackground = 4000\nduration-ms = 100"), "response");
    }
}

/// A server that answers with other values of the same length is found out.
#[test]
fn wrong_replies_to_requests_of_the_kernel_are_counted() {
    let Some(bed) = support::testbed(Placement::Threaded) else { return };
    let [stored, asked] = [300, 301].map(|keys| {
        let mut contents = Contents::new(keys, 16, 100);
        contents.entries.truncate(1);
        contents
    });
    with_workshop(|workshop| {
        let asking = LiveGenerator::of_requests(workshop, memcached::PORT, &memcached::requests(&asked)).unwrap();
        let replies = Replies::load(workshop, &memcached::replies(&asked)).unwrap();
        let _near = replies.attach(&bed).unwrap();
        bed.pin_receiver().unwrap();
        let mut server = Memcached::start(&bed).unwrap();
        for (contents, is_right) in [(&asked, true), (&stored, false)] {
            server.store(contents).unwrap();
            replies.take().unwrap();
            let load = Load { flows: vec![0], ..Load::new(Some(2_000.0), Duration::from_millis(100)) };
            asking.send(&bed, &load).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let counted = replies.counted().unwrap();
            replies.pass().unwrap();
            assert!(counted.compared > 0, "{counted:?}");
            assert_eq!(counted.wrong, if is_right { 0 } else { counted.compared }, "{counted:?}");
        }
    });
}

#[test]
fn packets_arrive_as_short_as_they_were_cut() {
    if support::testbed(Placement::Inline).is_none() {
        return;
    }
    for cut in ["", "cut = 0.0", "cut = 99.0", "hook = 'tc'", "hook = 'sk-skb'"] {
        support::trial("shrink", &format!("duration-ms = 50\n{cut}"), "rate");
    }
}

#[test]
fn operations_have_prices() {
    if support::testbed(Placement::Inline).is_none() {
        return;
    }
    for operation in ["lookup_hash", "spin_lock", "call_global", "loop_by_helper", "copy_probe_read"] {
        support::trial("probe", &format!("operation = '{operation}'\nslices = 3"), "cost");
    }
    let few = "counts = [0, 16, 32]\nslices = 3";
    support::trial("probe", &format!("operation = 'tail_call'\n{few}"), "cost");
}

#[test]
fn iperf3_runs_with_a_verdict_program() {
    if support::testbed(Placement::Threaded).is_none() {
        return;
    }
    for hook in ["socket", "sk-skb"] {
        support::trial("bandwidth", &format!("hook = '{hook}'\nseconds = 1\nstreams = 2"), "rate");
    }
}
