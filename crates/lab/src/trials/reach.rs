//! `reach`: time from the entry of a packet, where native XDP sees it, to one of the hooks (Table 1 of
//! "Demystifying Performance of eBPF Network Applications").
//!
//! Programs write the time into a slot found by the packet's sequence number, so packets stay as they are.
//! At the hook the clock is read twice: the difference (`clock`) is what one reading adds.

use crate::error::LabError;
use crate::generator::{Generator, Load, Sent, Source};
use crate::hook::{self, Hook, Place};
use crate::object::{self, Loaded};
use crate::packet::PORT;
use crate::programs::{self, Build};
use crate::server;
use crate::testbed::{Placement, Role, Testbed, udp};
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop, histogram};
use hdrhistogram::Histogram;
use serde::Deserialize;
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kind.
pub struct Reach;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    hook: Hook,
    #[serde(default)]
    generator: Source,
    #[serde(default)]
    build: Build,
    #[serde(default = "inline")]
    placement: Placement,
    /// Packets per second.
    #[serde(default = "rate")]
    rate: f64,
    /// Packets in a trial, 65536 at most.
    #[serde(default = "packets")]
    packets: u64,
}

fn inline() -> Placement {
    Placement::Inline
}
fn rate() -> f64 {
    20_000.0
}
fn packets() -> u64 {
    20_000
}

/// Slots of the programs, and bytes of one.
const SLOTS: u64 = 65536;
const SLOT_BYTES: usize = 32;
/// Packets that are warm-up, as a share.
const WARM_UP: f64 = 0.1;
/// Time for the last packets to get through.
const DRAIN: Duration = Duration::from_millis(30);
/// Share of the packets that may be missing.
const MISSING: f64 = 0.001;

impl Kind for Reach {
    fn name(&self) -> &'static str {
        "reach"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if plan.packets > SLOTS || plan.hook == Hook::XdpGeneric {
            return Err(LabError::Request("`reach` takes 65536 packets at most, and not generic XDP".into()));
        }
        let object = programs::build(workshop, "lab/reach", plan.build)?;
        let generator = Generator::load(plan.generator, workshop)?;
        Ok(Box::new(Prepared { plan, object, generator }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    generator: Generator,
}

impl Trial for Prepared {
    fn run(&mut self, _: &Request) -> Result<Outcome, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        let begin = if self.plan.hook == Hook::Xdp { "begin_and_reach" } else { "begin" };
        let name = self.plan.hook.ending().filter(|_| self.plan.hook != Hook::Xdp).map(|e| format!("reach_{e}"));
        let names: Vec<&str> = [Some(begin), name.as_deref()].into_iter().flatten().collect();
        let loaded = object::load(&self.object, &names)?;
        let server = udp(&bed.tested.namespace, SocketAddrV4::new(bed.tested.host.ip, PORT))?;
        let place = Place { socket: Some(server.as_fd()), sockets: None };
        let program = name.as_deref().map(|name| loaded.program(name));
        let _hook = hook::attach(&bed, self.plan.hook, program, place)?;
        let _begin = hook::attach(&bed, Hook::Xdp, Some(loaded.program(begin)), Place::default())?;
        let is_over = AtomicBool::new(false);
        let (sent, arrived) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| server::arrivals(&server, bed.placement.cpu(Role::Server), &is_over));
            let duration = Duration::from_secs_f64(self.plan.packets as f64 / self.plan.rate);
            let sent = self.generator.send(&bed, &Load::new(Some(self.plan.rate), duration));
            std::thread::sleep(DRAIN);
            is_over.store(true, Ordering::Relaxed);
            (sent, serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        self.report(&bed, &loaded, &sent?, &arrived?)
    }
}

impl Prepared {
    fn report(&self, bed: &Testbed, loaded: &Loaded, sent: &Sent, arrived: &[(u32, u64)]) -> Result<Outcome, LabError> {
        let slots = read_slots(loaded)?;
        let counted = sent.frames.min(SLOTS) as usize;
        let first = (counted as f64 * WARM_UP) as usize;
        let reached: Vec<(usize, u64)> = match self.plan.hook {
            Hook::Socket => arrived.iter().map(|(number, at)| (*number as usize, *at)).collect(),
            _ => (0..counted).map(|number| (number, slots[number].1)).collect(),
        };
        let (mut reach, mut clock, mut missing) = (histogram(), histogram(), 0);
        for (number, at) in reached.iter().filter(|(number, _)| (first..counted).contains(number)) {
            match at.checked_sub(slots[*number].0) {
                Some(ns) if slots[*number].0 != 0 => reach.record(ns).expect("the histogram grows"),
                _ => missing += 1,
            }
            if self.plan.hook != Hook::Socket {
                clock.record(slots[*number].2.saturating_sub(*at)).expect("the histogram grows");
            }
        }
        missing += (counted - first) as u64 - (reach.len() + missing).min((counted - first) as u64);
        Ok(self.outcome(bed, sent, reach, clock, missing))
    }

    fn outcome(
        &self,
        bed: &Testbed,
        sent: &Sent,
        reach: Histogram<u64>,
        clock: Histogram<u64>,
        missing: u64,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if missing as f64 > MISSING * sent.frames as f64 || reach.is_empty() {
            outcome.void = Some(format!("{missing} of {} packets did not get to the hook", sent.frames));
        } else if !sent.is_punctual() {
            outcome.void = Some(format!("the generator was late: {}, {} left out", sent.lateness, sent.missed));
        }
        outcome.notes.insert("placement".into(), bed.placement.describe());
        outcome.notes.insert("lateness".into(), sent.lateness.to_string());
        outcome.samples.push(Samples::many("reach", "ns", reach));
        if !clock.is_empty() {
            outcome.samples.push(Samples::many("clock", "ns", clock));
        }
        outcome
    }
}

/// Times at the beginning, at the hook, and of the second reading there, by sequence number; 0 for none.
fn read_slots(loaded: &Loaded) -> Result<Vec<(u64, u64, u64)>, LabError> {
    let mut bytes = vec![0; SLOTS as usize * SLOT_BYTES];
    let read = loaded.mapping("slots")?.read(0, &mut bytes);
    read.map_err(|e| LabError::Machine(format!("could not read the times: {e}"), String::new()))?;
    let number = |slot: &[u8], at: usize| u64::from_ne_bytes(slot[at * 8..][..8].try_into().expect("eight bytes"));
    Ok(bytes.chunks_exact(SLOT_BYTES).map(|s| (number(s, 0), number(s, 1), number(s, 2))).collect())
}
