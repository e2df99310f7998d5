//! `shrink`: what cutting packets short before they reach the application is worth (Figure 10 of
//! "Demystifying Performance of eBPF Network Applications"). Long packets come as fast as they can; what
//! counts is how many the application gets, and what one costs it. The same with programs that let everything
//! pass is what entering and leaving a hook costs (Table 1).

use crate::error::LabError;
use crate::generator::{Generator, Load, Sent, Source};
use crate::hook::{self, AtHook, Hook, Place};
use crate::object::{self, Loaded};
use crate::packet::{HEADER_BYTES, PORT};
use crate::programs::{self, Build};
use crate::server::{self, Counted};
use crate::statistics::median;
use crate::testbed::{Placement, Role, Testbed, udp};
use crate::trial::{Kind, Outcome, Parameters, Request, SliceValues, Sliced, Slices, Trial, Workshop};
use serde::Deserialize;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
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
    /// For how long, in all slices together.
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
/// Time for a slice.
const SLICE_MS: u64 = 20;
/// How often a slice is made again in which the generator was late.
const AGAIN: usize = 5;

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
        Ok(Box::new(Prepared(Rc::new(Parts { plan, object, generator }))))
    }
}

struct Prepared(Rc<Parts>);

/// What all trials of a variant share.
struct Parts {
    plan: Plan,
    object: PathBuf,
    generator: Generator,
}

impl Parts {
    /// Bytes of the payload that the application gets.
    fn left(&self) -> usize {
        let whole = self.plan.payload_bytes as f64;
        let left = self.plan.cut.map_or(whole, |cut| (whole * (1.0 - cut / 100.0)).round());
        (left as u64).max(SHORTEST) as usize
    }

    /// The program that cuts, if there is one.
    fn cutter(&self) -> Result<Option<Loaded>, LabError> {
        let Some(_) = self.plan.cut else { return Ok(None) };
        let loaded = object::load(&self.object, &["shrink"])?;
        let left = (self.left() as u64).to_ne_bytes();
        loaded.map("keep")?.update(&0u32.to_ne_bytes(), &left).map_err(|e| LabError::Request(e.to_string()))?;
        Ok(Some(loaded))
    }

    fn slices(&self) -> usize {
        (self.plan.duration_ms / SLICE_MS).max(1) as usize
    }

    fn load(&self) -> Load {
        let duration = Duration::from_millis(self.plan.duration_ms / self.slices() as u64);
        Load { frame_bytes: self.plan.payload_bytes + HEADER_BYTES, ..Load::new(self.plan.rate, duration) }
    }
}

impl Sliced for Prepared {
    fn begin(&self, _: &Request) -> Result<Box<dyn Slices>, LabError> {
        let plan = &self.0.plan;
        let bed = Testbed::build(plan.placement)?;
        bed.poll_without_xdp(true)?;
        let cutter = self.0.cutter()?;
        let passing = AtHook::load(&self.0.object, "pass", plan.hook)?;
        let server = udp(&bed.tested.namespace, SocketAddrV4::new(bed.tested.host.ip, PORT))?;
        let program = cutter.as_ref().map(|cutter| cutter.program("shrink")).or(passing.as_ref().map(AtHook::program));
        let hook = if cutter.is_some() { Hook::Xdp } else { plan.hook };
        let attached = hook::attach(&bed, hook, program, Place { socket: Some(server.as_fd()), sockets: None })?;
        bed.pin_receiver()?;
        let (rate, packet) = (SliceValues::new("rate", "packets/s"), SliceValues::new("packet", "ns"));
        let processor = SliceValues::new("processor", "ns");
        let parts = self.0.clone();
        let flow =
            Flow { _attached: attached, parts, bed, server, void: None, offered: Vec::new(), rate, packet, processor };
        flow.send()?;
        Ok(Box::new(flow))
    }
}

/// A trial under way.
struct Flow {
    _attached: hook::Attached,
    parts: Rc<Parts>,
    bed: Testbed,
    server: UdpSocket,
    /// Why nothing may be concluded from it.
    void: Option<String>,
    /// Packets per second, slice by slice.
    offered: Vec<f64>,
    rate: SliceValues,
    packet: SliceValues,
    processor: SliceValues,
}

impl Slices for Flow {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        for again in (0..AGAIN).rev() {
            request.check()?;
            let (sent, counted) = self.send()?;
            if sent.is_punctual() || again == 0 {
                self.take(&sent, &counted);
                break;
            }
        }
        Ok(self.void.is_none() && self.rate.values.len() < self.parts.slices())
    }

    fn finish(self: Box<Self>, _: &Request) -> Result<Outcome, LabError> {
        let mut outcome = Outcome { void: self.void, ..Outcome::default() };
        outcome.notes.insert("placement".into(), self.bed.placement.describe());
        outcome.notes.insert("offered".into(), format!("{:.0} packets/s", median(&self.offered)));
        outcome.slices.extend([self.rate, self.packet, self.processor]);
        Ok(outcome)
    }
}

impl Flow {
    /// Sends packets, and counts what the application gets meanwhile.
    fn send(&self) -> Result<(Sent, Counted), LabError> {
        let is_over = AtomicBool::new(false);
        let (server, cpu) = (&self.server, self.bed.placement.cpu(Role::Server));
        let (sent, counted) = std::thread::scope(|scope| {
            let serving = scope.spawn(|| server::count(server, cpu, &is_over));
            let sent = self.parts.generator.send(&self.bed, &self.parts.load());
            is_over.store(true, Ordering::Relaxed);
            (sent, serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        // What waits still is nothing that the next slice got.
        server::empty(server);
        Ok((sent?, counted?))
    }

    fn take(&mut self, sent: &Sent, counted: &Counted) {
        let left = self.parts.left() as u64;
        let (datagrams, bytes) = (counted.datagrams, counted.bytes);
        // A verdict program joins datagrams: the application reads several at once.
        let packets = bytes / left;
        let is_joined = self.parts.plan.hook == Hook::SkSkb;
        if packets == 0 || bytes != packets * left || (packets != datagrams && !is_joined) {
            self.void.get_or_insert(format!("{datagrams} datagrams of {left} bytes had {bytes} bytes"));
        } else if !sent.is_punctual() {
            self.void.get_or_insert(format!("the generator was late: {}", sent.lateness));
        }
        let rate = (packets as f64 * 1e9 / sent.elapsed_ns.max(1) as f64).max(1e-9);
        self.offered.push(sent.rate());
        self.rate.values.push(rate);
        self.packet.values.push(1e9 / rate);
        self.processor.values.push(counted.processor_ns as f64 / packets.max(1) as f64);
    }
}
