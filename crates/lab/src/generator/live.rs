//! Packets made in the kernel by our own XDP programs on live frames, in an open loop: frames that carry the
//! time at which they were meant to be sent (`programs/lab/generator.c`), or requests to a server
//! (`programs/lab/requests.c`).

use super::clock::now_ns;
use super::lateness::Lateness;
use super::load::{Gaps, Load, Sent, most_late_ns};
use super::windows;
use crate::error::LabError;
use crate::object::{self, Loaded};
use crate::packet;
use crate::programs::{self, Build};
use crate::random::Random;
use crate::testbed::{Placed, Role, Testbed, WORK_PRIORITY};
use crate::trial::Workshop;
use karakoram_kernel::attach::{self, Attachment};
use karakoram_kernel::error::KernelError;
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
const LATENESS: usize = 8;
/// Length of the header that the generator writes.
const HEADER: usize = packet::HEADER_BYTES;
/// Longest request, and how many there are at most.
const MOST_REQUEST: usize = 80;
const REQUESTS: usize = 4096;

/// The generator, loaded.
pub struct LiveGenerator {
    loaded: Loaded,
    content: Content,
    /// While there is one, what becomes of frames is counted by the millisecond.
    watch: Option<Attachment>,
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
        LiveGenerator::new(workshop, "lab/generator", Content::Stamp, &[])
    }

    /// The same, watching what becomes of them in each millisecond.
    pub fn watching(workshop: &Workshop) -> Result<LiveGenerator, LabError> {
        const WATCH: &str = "watch";
        let generator = LiveGenerator::new(workshop, "lab/generator", Content::Stamp, &[WATCH])?;
        let watch = attach::tracepoint(generator.loaded.program(WATCH));
        let failed = |e: KernelError| LabError::Machine(e.to_string(), "a kernel with BTF permits it".into());
        Ok(LiveGenerator { watch: Some(watch.map_err(failed)?), ..generator })
    }

    /// Compiles and loads the one that asks a server on that UDP port; these are the requests, all of one
    /// length and 80 bytes long at most.
    pub fn of_requests(workshop: &Workshop, port: u16, requests: &[Vec<u8>]) -> Result<LiveGenerator, LabError> {
        let bytes = requests.first().map_or(0, Vec::len);
        if requests.len() > REQUESTS || bytes > MOST_REQUEST || requests.iter().any(|r| r.len() != bytes) {
            let what = format!("at most {REQUESTS} requests of one length of at most {MOST_REQUEST} bytes can be sent");
            return Err(LabError::Request(what));
        }
        let generator = LiveGenerator::new(workshop, "lab/requests", Content::Request { bytes, port }, &[])?;
        for (place, request) in requests.iter().enumerate() {
            generator.write("requests", place * MOST_REQUEST, request)?;
        }
        Ok(generator)
    }

    fn new(workshop: &Workshop, name: &str, content: Content, others: &[&str]) -> Result<LiveGenerator, LabError> {
        let object = programs::build(workshop, name, Build::Original)?;
        let programs = [&[content.program()], others].concat();
        let generator = LiveGenerator { loaded: object::load(&object, &programs)?, content, watch: None };
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
                self.wait(load.whole(), &|| sender.is_finished())?;
                while !sender.is_finished() {
                    let _ = interrupt(thread);
                    std::thread::sleep(ASK);
                }
            }
            sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(drop)
        })?;
        self.sent(load)
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
        let (paced_ns, all_ns) = (load.duration.as_nanos() as u64, load.whole().as_nanos() as u64);
        config.extend([all_ns, paced_ns, LEAD_NS, gap].iter().flat_map(|n| n.to_ne_bytes()));
        let random = u32::from(load.gaps == Gaps::Poisson);
        let cpu = bed.placement.cpu(Role::Generator) as u32;
        config.extend(
            [flows.len() as u32 - 1, random, load.work, most_late_ns(load), cpu].iter().flat_map(|n| n.to_ne_bytes()),
        );
        config.extend(&self.content.frame(bed, load)[..HEADER]);
        self.write("config", 0, &config)?;
        self.clear("state")?;
        if self.watch.is_some() {
            self.clear("windows")?;
        }
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

    fn sent(&self, load: &Load) -> Result<Sent, LabError> {
        let numbers = self.state()?;
        let sent = Sent {
            frames: numbers[SENT],
            elapsed_ns: numbers[LAST].saturating_sub(numbers[START]),
            lateness: Lateness::new(numbers[LATENESS..].to_vec()),
            missed: numbers[MISSED],
            windows: match self.watch {
                Some(_) => windows::parse(&self.read("windows")?, load.whole()),
                None => Vec::new(),
            },
        };
        // What others send from now on is nothing to watch.
        self.clear("state")?;
        Ok(sent)
    }

    fn state(&self) -> Result<Vec<u64>, LabError> {
        let bytes = self.read("state")?;
        Ok(bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect())
    }

    fn read(&self, map: &str) -> Result<Vec<u8>, LabError> {
        let mut bytes = vec![0; self.size(map)?];
        let read = self.loaded.mapping(map)?.read(0, &mut bytes);
        read.map_err(|e| LabError::Machine(format!("could not read map {map}: {e}"), String::new()))?;
        Ok(bytes)
    }

    fn clear(&self, map: &str) -> Result<(), LabError> {
        self.write(map, 0, &vec![0; self.size(map)?])
    }

    fn size(&self, map: &str) -> Result<usize, LabError> {
        let map = self.loaded.map(map)?.def();
        Ok(map.value_size as usize * map.max_entries as usize)
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
