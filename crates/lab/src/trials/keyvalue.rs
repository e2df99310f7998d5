//! `keyvalue`: memcached over UDP, alone and behind a fast path that answers in the kernel (Figure 4 of
//! "Demystifying Performance of eBPF Network Applications", which used BMC). Every reply is compared with
//! what it has to be, byte for byte: a fast path that answers with less than the value voids the trial.

use crate::error::LabError;
use crate::generator::{Exchange, Exchanged, Pace, Waiting, exchange};
use crate::hook::{self, Hook, Place};
use crate::memcached::{Contents, Gets, MOST_VALUE, Memcached, PORT};
use crate::object::{self, Loaded};
use crate::packet::SOURCE_PORT;
use crate::programs::{self, Build};
use crate::sink::Sink;
use crate::testbed::{Placed, Placement, Role, Testbed, WORK_PRIORITY, connected_udp};
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use crate::trials::echo::fault;
use karakoram_kernel::attach::{self, Attachment, Direction};
use serde::Deserialize;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

/// The kind.
pub struct KeyValue;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    path: Path,
    #[serde(default)]
    build: Build,
    #[serde(default = "threaded")]
    placement: Placement,
    #[serde(default = "one")]
    keys: usize,
    #[serde(default = "key_bytes")]
    key_bytes: usize,
    #[serde(default = "value_bytes")]
    value_bytes: usize,
    /// Requests under way, in a closed loop.
    #[serde(default = "outstanding")]
    outstanding: usize,
    /// Requests per second, in an open loop.
    rate: Option<f64>,
    #[serde(default = "duration")]
    duration_ms: u64,
}

/// Who answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Path {
    /// memcached, nothing else.
    Memcached,
    /// memcached, after a program has parsed the request in vain: what the fast path costs those it
    /// does not serve.
    OnlyParse,
    /// The fast path, in one program.
    Fast,
    /// The fast path, in two programs with a tail call between.
    TailCalls,
}

fn threaded() -> Placement {
    Placement::Threaded
}
fn one() -> usize {
    1
}
fn key_bytes() -> usize {
    16
}
fn value_bytes() -> usize {
    256
}
fn outstanding() -> usize {
    16
}
fn duration() -> u64 {
    500
}

/// Share of the requests that the fast path must have answered.
const HITS: f64 = 0.999;

impl Path {
    fn programs(self) -> &'static [&'static str] {
        match self {
            Path::Memcached => &[],
            Path::OnlyParse => &["only_parse"],
            Path::Fast => &["answer", "learn"],
            Path::TailCalls => &["answer_by_calls", "answer_second", "learn"],
        }
    }

    fn answers(self) -> bool {
        matches!(self, Path::Fast | Path::TailCalls)
    }
}

impl Kind for KeyValue {
    fn name(&self) -> &'static str {
        "keyvalue"
    }

    fn check_machine(&self) -> Result<(), LabError> {
        let found = std::process::Command::new("memcached").arg("-V").output();
        found.map(drop).map_err(|e| LabError::tool("memcached", &e))
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if plan.value_bytes > MOST_VALUE || plan.key_bytes > 63 || plan.keys == 0 {
            return Err(LabError::Request("`keyvalue` takes values of 1300 bytes and keys of 63 at most".into()));
        }
        let object = programs::build(workshop, "lab/keyvalue", plan.build)?;
        let contents = Contents::new(plan.keys, plan.key_bytes, plan.value_bytes);
        Ok(Box::new(Prepared { plan, object, contents, sink: Sink::load(workshop)? }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    contents: Contents,
    sink: Sink,
}

/// Programs in place.
struct InPlace<'a> {
    loaded: Option<Loaded>,
    _answer: hook::Attached<'a>,
    _learn: Option<Attachment>,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        if (request.is_interrupted)() {
            return Err(LabError::Interrupted);
        }
        let bed = Testbed::build(self.plan.placement)?;
        let _near = self.sink.attach_open(&bed)?;
        let mut memcached = Memcached::start(&bed)?;
        let in_place = self.attach(&bed)?;
        memcached.store(&self.contents)?;
        let from = SocketAddrV4::new(bed.generator.host.ip, SOURCE_PORT);
        let to = SocketAddrV4::new(bed.tested.host.ip, PORT);
        let client = connected_udp(&bed.generator.namespace, from, to)?;
        // Whatever the fast path has to learn it learns here, one request at a time.
        let teach = self.exchange(&bed, &client, Pace::Closed { outstanding: 1, think: Duration::ZERO }, 20, 0)?;
        let before = hits(&in_place)?;
        let pace = match self.plan.rate {
            Some(rate) => Pace::Open { rate, poisson: true },
            None => Pace::Closed { outstanding: self.plan.outstanding, think: Duration::ZERO },
        };
        let exchanged = self.exchange(&bed, &client, pace, self.plan.duration_ms, request.seed)?;
        let answered = hits(&in_place)? - before;
        Ok(self.report(&bed, fault(&teach), exchanged, answered))
    }
}

impl Prepared {
    fn attach<'a>(&self, bed: &'a Testbed) -> Result<InPlace<'a>, LabError> {
        let names = self.plan.path.programs();
        let Some(first) = names.first() else {
            let attached = hook::attach(bed, Hook::Socket, None, Place::default())?;
            bed.pin_receiver()?;
            return Ok(InPlace { loaded: None, _answer: attached, _learn: None });
        };
        let loaded = object::load(&self.object, names)?;
        if self.plan.path == Path::TailCalls {
            let second = loaded.program("answer_second");
            let put = loaded.map("programs")?.update_fd(&0u32.to_ne_bytes(), std::os::fd::AsFd::as_fd(second));
            put.map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
        }
        let answer = hook::attach(bed, Hook::Xdp, Some(loaded.program(first)), Place::default())?;
        let learn = names.contains(&"learn").then(|| loaded.program("learn"));
        let device = bed.tested.device.index;
        let learn = learn
            .map(|program| bed.tested.namespace.run(|| attach::tcx(program, device, Direction::Egress)))
            .transpose()?
            .transpose()
            .map_err(|e| LabError::Machine(e.to_string(), "tcx needs Linux 6.6 or later".into()))?;
        Ok(InPlace { loaded: Some(loaded), _answer: answer, _learn: learn })
    }

    fn exchange(
        &self,
        bed: &Testbed,
        client: &std::net::UdpSocket,
        pace: Pace,
        duration_ms: u64,
        seed: u64,
    ) -> Result<Exchanged, LabError> {
        let duration = Duration::from_millis(duration_ms);
        let contents = &self.contents;
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let _placed = Placed::on(bed.placement.cpu(Role::Generator), WORK_PRIORITY)?;
                let plan = Exchange { pace, waiting: Waiting::Awake, duration, seed };
                exchange(client, plan, &mut Gets::new(contents))
            });
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn report(&self, bed: &Testbed, taught: Option<String>, exchanged: Exchanged, answered: u64) -> Outcome {
        let mut outcome = Outcome { void: taught.or(fault(&exchanged)), ..Outcome::default() };
        let share = answered as f64 / exchanged.sent.max(1) as f64;
        if self.plan.path.answers() {
            outcome.notes.insert("answered by the fast path".into(), format!("{:.2} %", share * 100.0));
            if share < HITS && outcome.void.is_none() {
                outcome.void = Some(format!("the fast path answered only {:.2} %", share * 100.0));
            }
        }
        outcome.notes.insert("placement".into(), bed.placement.describe());
        outcome.notes.insert("requests".into(), exchanged.sent.to_string());
        outcome.notes.insert("lateness".into(), exchanged.lateness.to_string());
        outcome.samples.push(Samples::one("rate", "requests/s", exchanged.rate));
        outcome.samples.push(Samples::many("response", "ns", exchanged.response));
        outcome
    }
}

/// Requests that the fast path has answered: the first number of its counters.
fn hits(in_place: &InPlace) -> Result<u64, LabError> {
    let Some(loaded) = &in_place.loaded else { return Ok(0) };
    let mut number = [0; 8];
    let read = loaded.mapping("counters")?.read(0, &mut number);
    read.map_err(|e| LabError::Machine(format!("could not read the counters: {e}"), String::new()))?;
    Ok(u64::from_ne_bytes(number))
}
