//! `shrink`: what cutting packets short before they reach the application is worth (Figure 10 of
//! "Demystifying Performance of eBPF Network Applications"). Long packets come as fast as they can; what
//! counts is how many the application gets, and what one costs it. The same with programs that let everything
//! pass is what entering and leaving a hook costs (Table 1).

use crate::error::LabError;
use crate::generator::{Generator, Load, Source};
use crate::hook::{self, AtHook, Hook, Place};
use crate::object::{self, Loaded};
use crate::packet::{HEADER_BYTES, PORT};
use crate::programs::{self, Build};
use crate::server::{self, Counted};
use crate::testbed::{Placement, Role, Testbed, udp};
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kind.
pub struct Shrink;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// Share of the payload that is cut off at XDP, in percent.
    cut: Option<f64>,
    /// Without `cut`: where there is a program that lets everything pass.
    #[serde(default = "none")]
    hook: Hook,
    #[serde(default)]
    generator: Source,
    #[serde(default)]
    build: Build,
    #[serde(default = "inline")]
    placement: Placement,
    #[serde(default = "payload")]
    payload_bytes: usize,
    /// Packets per second; as many as the generator can, when left out.
    rate: Option<f64>,
    #[serde(default = "duration")]
    duration_ms: u64,
}

fn none() -> Hook {
    Hook::Socket
}
fn inline() -> Placement {
    Placement::Inline
}
fn payload() -> usize {
    1458
}
fn duration() -> u64 {
    300
}

/// What the program leaves at least: the stamp.
const SHORTEST: u64 = 16;

impl Kind for Shrink {
    fn name(&self) -> &'static str {
        "shrink"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if plan.cut.is_some() && plan.hook != Hook::Socket {
            return Err(LabError::Request("packets are cut at XDP; leave out `hook`".into()));
        }
        let program = if plan.cut.is_some() { "lab/shrink" } else { "lab/hooks" };
        let object = programs::build(workshop, program, plan.build)?;
        let generator = Generator::load(plan.generator, workshop)?;
        Ok(Box::new(Prepared { plan, object, generator }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    generator: Generator,
}

impl Prepared {
    /// Bytes of the payload that the application gets.
    fn left(&self) -> usize {
        let whole = self.plan.payload_bytes as f64;
        let left = self.plan.cut.map_or(whole, |cut| (whole * (1.0 - cut / 100.0)).round());
        (left as u64).max(SHORTEST) as usize
    }
}

impl Prepared {
    /// The program that cuts, if there is one.
    fn cutter(&self) -> Result<Option<Loaded>, LabError> {
        let Some(_) = self.plan.cut else { return Ok(None) };
        let loaded = object::load(&self.object, &["shrink"])?;
        let left = (self.left() as u64).to_ne_bytes();
        loaded.map("keep")?.update(&0u32.to_ne_bytes(), &left).map_err(|e| LabError::Request(e.to_string()))?;
        Ok(Some(loaded))
    }
}

impl Trial for Prepared {
    fn run(&mut self, _: &Request) -> Result<Outcome, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        bed.poll_without_xdp(true)?;
        let cutter = self.cutter()?;
        let passing = AtHook::load(&self.object, "pass", self.plan.hook)?;
        let server = udp(&bed.tested.namespace, SocketAddrV4::new(bed.tested.host.ip, PORT))?;
        let program = cutter.as_ref().map(|cutter| cutter.program("shrink")).or(passing.as_ref().map(AtHook::program));
        let hook = if cutter.is_some() { Hook::Xdp } else { self.plan.hook };
        let place = Place { socket: Some(server.as_fd()), sockets: None };
        let _attached = hook::attach(&bed, hook, program, place)?;
        bed.pin_receiver()?;
        let load = Load {
            frame_bytes: self.plan.payload_bytes + HEADER_BYTES,
            ..Load::new(self.plan.rate, Duration::from_millis(self.plan.duration_ms))
        };
        let is_over = AtomicBool::new(false);
        let (sent, counted) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| server::count(&server, bed.placement.cpu(Role::Server), &is_over));
            let sent = self.generator.send(&bed, &load);
            is_over.store(true, Ordering::Relaxed);
            (sent, serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (sent, counted) = (sent?, counted?);
        let mut outcome = self.report(&counted, sent.elapsed_ns);
        outcome.notes.insert("placement".into(), bed.placement.describe());
        outcome.notes.insert("offered".into(), format!("{:.0} packets/s", sent.rate()));
        if !sent.is_punctual() {
            outcome.void.get_or_insert(format!("the generator was late: {}", sent.lateness));
        }
        Ok(outcome)
    }
}

impl Prepared {
    fn report(&self, counted: &Counted, elapsed_ns: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let (datagrams, bytes) = (counted.datagrams, counted.bytes);
        // A verdict program joins datagrams: the application reads several at once.
        let packets = bytes / self.left() as u64;
        if packets == 0
            || bytes != packets * self.left() as u64
            || (packets != datagrams && self.plan.hook != Hook::SkSkb)
        {
            outcome.void = Some(format!("{datagrams} datagrams of {} bytes had {bytes} bytes", self.left()));
        }
        let rate = packets as f64 * 1e9 / elapsed_ns.max(1) as f64;
        outcome.samples.push(Samples::one("rate", "packets/s", rate));
        outcome.samples.push(Samples::one("packet", "ns", 1e9 / rate.max(1e-9)));
        let each = counted.processor_ns as f64 / packets.max(1) as f64;
        outcome.samples.push(Samples::one("processor", "ns", each));
        outcome
    }
}
