//! Packets made in the kernel by our own XDP programs on live frames, in an open loop: frames that carry the
//! time at which they were meant to be sent (`programs/lab/generator.c`), or requests to a server
//! (`programs/lab/requests.c`).

use super::clock::now_ns;
use super::lateness::Lateness;
use crate::error::LabError;
use crate::object::{self, Loaded};
use crate::packet;
use crate::programs::{self, Build};
use crate::random::Random;
use crate::testbed::{Placed, Role, Testbed, WORK_PRIORITY};
use crate::trial::Workshop;
use karakoram_kernel::live::{self, Frames};
use karakoram_kernel::sys::thread::{ThreadId, interrupt};
use std::sync::mpsc;
use std::time::Duration;

/// Entries of the generator's table of gaps.
const GAPS: usize = 65536;
/// Entries of its table of flows.
const FLOWS: usize = 1 << 20;
/// From the generator's first run to the first frame.
const LEAD_NS: u64 = 1_000_000;
/// How often it is asked whether the generator has begun, and whether it has ended.
const ASK: Duration = Duration::from_micros(200);
/// Runs at a time, after which frames leave: few, so that no frame waits long for that, but at high rates
/// enough to not wake the receiver for each frame, which costs this side more than the frame.
const BATCH_SLOW: u32 = 16;
const BATCH_FAST: u32 = 64;
const FAST: f64 = 500_000.0;
/// Places of the numbers in `struct state`.
const START: usize = 0;
const SENT: usize = 2;
const LAST: usize = 4;
const MISSED: usize = 5;
const LATENESS: usize = 6;
/// Length of the header that the generator writes.
const HEADER: usize = packet::HEADER_BYTES;
/// Longest request, and how many there are at most.
const MOST_REQUEST: usize = 80;
const REQUESTS: usize = 4096;

/// Times between frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gaps {
    /// All alike.
    #[default]
    Constant,
    /// Exponentially distributed (a Poisson process).
    Poisson,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Frames per second; none is as fast as possible.
    pub rate: Option<f64>,
    /// Times between them.
    pub gaps: Gaps,
    /// Bytes of a frame; requests have their own length.
    pub frame_bytes: usize,
    /// For how long.
    pub duration: Duration,
    /// Number that programs find in the stamp.
    pub work: u32,
    /// Flow of the n-th frame (or number of its request), repeated from the start at the end; as many as a
    /// power of two.
    pub flows: Vec<u32>,
}

impl Load {
    /// The shortest frames, evenly spaced, of one flow.
    pub fn new(rate: Option<f64>, duration: Duration) -> Load {
        Load {
            rate,
            gaps: Gaps::Constant,
            frame_bytes: 64,
            duration,
            work: 0,
            flows: vec![u32::from(packet::SOURCE_PORT)],
        }
    }
}

/// What was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// Over this time.
    pub elapsed_ns: u64,
    /// How late they were.
    pub lateness: Lateness,
    /// Frames that were not sent, because the generator was held up for too long.
    pub missed: u64,
}

impl Sent {
    /// Frames per second.
    pub fn rate(&self) -> f64 {
        self.frames as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// Whether the generator kept to its times: at most one frame in ten left out, and 99.9 % of the rest sent
    /// within 131 us.
    pub fn is_punctual(&self) -> bool {
        const LATE_NS: u64 = 1 << 17;
        const MISSED: f64 = 0.1;
        self.missed as f64 <= MISSED * self.frames as f64 && self.lateness.is_within(LATE_NS)
    }
}

/// The generator, loaded.
pub struct LiveGenerator {
    loaded: Loaded,
    content: Content,
}

/// What frames have behind their headers.
enum Content {
    /// A stamp.
    Stamp,
    /// A request of so many bytes, to that port.
    Request { bytes: usize, port: u16 },
}

impl LiveGenerator {
    /// Compiles and loads the one whose frames carry stamps.
    pub fn load(workshop: &Workshop) -> Result<LiveGenerator, LabError> {
        LiveGenerator::new(workshop, "lab/generator", Content::Stamp)
    }

    /// Compiles and loads the one that asks a server on that UDP port; these are the requests, all of one
    /// length and 80 bytes long at most.
    pub fn of_requests(workshop: &Workshop, port: u16, requests: &[Vec<u8>]) -> Result<LiveGenerator, LabError> {
        let bytes = requests.first().map_or(0, Vec::len);
        if requests.len() > REQUESTS || bytes > MOST_REQUEST || requests.iter().any(|r| r.len() != bytes) {
            let what = format!("at most {REQUESTS} requests of one length of at most {MOST_REQUEST} bytes can be sent");
            return Err(LabError::Request(what));
        }
        let generator = LiveGenerator::new(workshop, "lab/requests", Content::Request { bytes, port })?;
        for (place, request) in requests.iter().enumerate() {
            generator.write("requests", place * MOST_REQUEST, request)?;
        }
        Ok(generator)
    }

    fn new(workshop: &Workshop, name: &str, content: Content) -> Result<LiveGenerator, LabError> {
        let object = programs::build(workshop, name, Build::Original)?;
        let generator = LiveGenerator { loaded: object::load(&object, &[content.program()])?, content };
        generator.write("gaps", 0, &exponential_gaps())?;
        Ok(generator)
    }

    fn write(&self, map: &str, offset: usize, bytes: &[u8]) -> Result<(), LabError> {
        let mapping = self.loaded.mapping(map)?;
        mapping
            .write(offset, bytes)
            .map_err(|e| LabError::Machine(format!("could not fill map {map}: {e}"), String::new()))
    }

    /// Sends from the testbed's generator side, and returns when all is sent.
    pub fn send(&self, bed: &Testbed, load: &Load) -> Result<Sent, LabError> {
        self.configure(bed, load)?;
        let room = self.content.room(bed, load);
        let frames = Frames {
            frame: &room,
            device: bed.generator.device.index,
            repeat: u32::MAX,
            batch: if load.rate.is_some_and(|rate| rate < FAST) { BATCH_SLOW } else { BATCH_FAST },
        };
        let program = self.loaded.program(self.content.program());
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let sender = scope.spawn(move || {
                bed.generator.namespace.enter()?;
                let _placed = Placed::on(bed.placement.cpu(Role::Generator), WORK_PRIORITY)?;
                let _ = tell.send(ThreadId::current());
                live::run(program, frames).map_err(|e| LabError::Machine(e.to_string(), String::new()))
            });
            if let Ok(thread) = told.recv() {
                self.wait(load.duration, &|| sender.is_finished())?;
                while !sender.is_finished() {
                    let _ = interrupt(thread);
                    std::thread::sleep(ASK);
                }
            }
            sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(drop)
        })?;
        self.sent()
    }

    /// Sends while `work` goes on in a thread of its own, which starts when the first frames are under way; the
    /// load should last a little longer than that.
    pub fn send_beside<T: Send>(
        &self,
        bed: &Testbed,
        load: &Load,
        work: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<(Sent, T), LabError> {
        const HEAD_START: Duration = Duration::from_millis(20);
        std::thread::scope(|scope| {
            let working = scope.spawn(|| {
                std::thread::sleep(HEAD_START);
                work()
            });
            let sent = self.send(bed, load);
            let done = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((sent?, done?))
        })
    }

    /// The layout of `struct config`.
    fn configure(&self, bed: &Testbed, load: &Load) -> Result<(), LabError> {
        let gap = load.rate.map_or(0, |rate| (1e9 / rate * 65536.0) as u64);
        let flows = &load.flows[..load.flows.len().min(FLOWS)];
        if !flows.len().is_power_of_two() {
            return Err(LabError::Request(format!("a table of {} flows; it must be a power of two", flows.len())));
        }
        let mut config = Vec::new();
        let duration_ns = load.duration.as_nanos() as u64;
        config.extend([duration_ns, LEAD_NS, gap].iter().flat_map(|n| n.to_ne_bytes()));
        let random = u32::from(load.gaps == Gaps::Poisson);
        config.extend(
            [flows.len() as u32 - 1, random, load.work, most_late_ns(load)].iter().flat_map(|n| n.to_ne_bytes()),
        );
        config.extend(&self.content.frame(bed, load)[..HEADER]);
        self.write("config", 0, &config)?;
        self.write("state", 0, &vec![0; self.loaded.map("state")?.def().value_size as usize])?;
        // Array elements are eight bytes apart at least.
        let table: Vec<u8> = flows.iter().flat_map(|f| u64::from(*f).to_ne_bytes()).collect();
        self.write("flows", 0, &table)
    }

    /// Until everything should have been sent, or `is_over`.
    fn wait(&self, duration: Duration, is_over: &dyn Fn() -> bool) -> Result<(), LabError> {
        while !is_over() {
            let start_ns = self.state()?[START];
            if start_ns != 0 {
                let stop_ns = start_ns + duration.as_nanos() as u64;
                std::thread::sleep(Duration::from_nanos(stop_ns.saturating_sub(now_ns())));
                return Ok(());
            }
            std::thread::sleep(ASK);
        }
        Ok(())
    }

    fn sent(&self) -> Result<Sent, LabError> {
        let numbers = self.state()?;
        Ok(Sent {
            frames: numbers[SENT],
            elapsed_ns: numbers[LAST].saturating_sub(numbers[START]),
            lateness: Lateness::new(numbers[LATENESS..].to_vec()),
            missed: numbers[MISSED],
        })
    }

    fn state(&self) -> Result<Vec<u64>, LabError> {
        let mut bytes = vec![0; self.loaded.map("state")?.def().value_size as usize];
        let read = self.loaded.mapping("state")?.read(0, &mut bytes);
        read.map_err(|e| LabError::Machine(format!("could not read map state: {e}"), String::new()))?;
        Ok(bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect())
    }
}

impl Content {
    fn program(&self) -> &'static str {
        match self {
            Content::Stamp => "generate",
            Content::Request { .. } => "ask",
        }
    }

    /// A frame as it is sent.
    fn frame(&self, bed: &Testbed, load: &Load) -> Vec<u8> {
        let (from, to) = (bed.generator.host, bed.tested.host);
        match self {
            Content::Stamp => packet::frame(from, to, load.frame_bytes),
            Content::Request { bytes, port } => packet::datagram(from, to, *port, &vec![0; *bytes]),
        }
    }

    /// What the kernel is given to make frames of: programs that send requests cut it to their length.
    fn room(&self, bed: &Testbed, load: &Load) -> Vec<u8> {
        match self {
            Content::Stamp => self.frame(bed, load),
            Content::Request { .. } => vec![0; HEADER + MOST_REQUEST + 1],
        }
    }
}

/// What makes a burst of 64 frames (veth rings have room for 256), but no less than frames take to leave, and no more than matters.
pub(super) fn most_late_ns(load: &Load) -> u32 {
    const BURST: f64 = 64.0;
    load.rate.map_or(u32::MAX, |rate| (BURST * 1e9 / rate).clamp(5e3, 1e5) as u32)
}

/// Shares of the mean, << 16, eight bytes apart, in random order: the quantiles of the exponential
/// distribution, so that their mean is right.
fn exponential_gaps() -> Vec<u8> {
    let quantile = |i: usize| -(1.0 - (i as f64 + 0.5) / GAPS as f64).ln();
    let mut shares: Vec<u64> = (0..GAPS).map(|i| (quantile(i) * 65536.0) as u64).collect();
    Random::new(0).shuffle(&mut shares);
    shares.iter().flat_map(|s| s.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_right_mean() {
        let sum: u64 = exponential_gaps().chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap())).sum();
        let mean = sum as f64 / GAPS as f64 / 65536.0;
        assert!((mean - 1.0).abs() < 1e-3, "{mean}");
    }
}
