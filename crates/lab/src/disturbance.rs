//! Who else uses the machine: processes that are not ours, and the host.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

/// How long the machine is looked at before anything is measured.
const LOOK: Duration = Duration::from_secs(2);
/// How long each processor spins to find out whether it is taken away.
const SPIN: Duration = Duration::from_millis(500);
/// Share of one processor that others may use.
pub const OTHERS: f64 = 0.02;
/// Share of time that the host may take.
pub const STOLEN: f64 = 0.005;
/// Longest gap in spinning.
const GAP: Duration = Duration::from_micros(200);
/// Ticks in a second, of all times in `/proc`.
const TICKS: f64 = 100.0;
/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What others used during some time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Disturbance {
    /// Share of one processor that processes used that are neither ours nor the kernel's.
    pub others: f64,
    /// Share of all processors' time that the host took away.
    pub stolen: f64,
}

/// Counters at the beginning of some time.
pub struct Watch {
    started: Instant,
    processes: HashMap<u32, u64>,
    machine: (u64, u64),
}

impl Watch {
    /// Begins.
    pub fn start() -> Watch {
        let processes = strangers().into_iter().collect();
        Watch { started: Instant::now(), processes, machine: machine() }
    }

    /// What was used since.
    pub fn finish(&self) -> Disturbance {
        let seconds = self.started.elapsed().as_secs_f64().max(1e-9);
        let before = |id: &u32| self.processes.get(id).copied().unwrap_or(0);
        let ticks: u64 = strangers().iter().map(|(id, used)| used.saturating_sub(before(id))).sum();
        let (stolen, all) = machine();
        let all = all.saturating_sub(self.machine.1).max(1);
        Disturbance {
            others: ticks as f64 / TICKS / seconds,
            stolen: stolen.saturating_sub(self.machine.0) as f64 / all as f64,
        }
    }
}

/// Looks at the machine for some seconds; says what speaks against measuring now.
pub fn preflight() -> Vec<String> {
    let watch = Watch::start();
    std::thread::sleep(LOOK);
    let found = watch.finish();
    let mut complaints = complaints(&found);
    let gap = longest_gap();
    if gap > GAP {
        let text =
            format!("a processor that should spin stood still for {} µs (most: {})", gap.as_micros(), GAP.as_micros());
        complaints.push(text);
    }
    complaints
}

/// What is wrong with that much.
pub fn complaints(found: &Disturbance) -> Vec<String> {
    let mut all = Vec::new();
    if found.others > OTHERS {
        let text = "other processes use";
        all.push(format!("{text} {:.0} % of a processor (most: {:.0})", found.others * 100.0, OTHERS * 100.0));
    }
    if found.stolen > STOLEN {
        let text = "the host takes";
        all.push(format!("{text} {:.1} % of the time (most: {:.1})", found.stolen * 100.0, STOLEN * 100.0));
    }
    all
}

/// Processes that are not ours, with the ticks they have used.
fn strangers() -> Vec<(u32, u64)> {
    let all: HashMap<u32, Process> = processes();
    let mut ours = HashSet::from([std::process::id()]);
    // Children may come before their parents; a few rounds find all that are below us.
    for _ in 0..4 {
        ours.extend(all.iter().filter(|(_, p)| ours.contains(&p.parent)).map(|(id, _)| *id).collect::<Vec<_>>());
    }
    let foreign = all.iter().filter(|(id, p)| !ours.contains(id) && !p.is_kernel);
    foreign.map(|(id, p)| (*id, p.ticks)).collect()
}

struct Process {
    parent: u32,
    is_kernel: bool,
    ticks: u64,
}

fn processes() -> HashMap<u32, Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return HashMap::new() };
    let numbers = folder.flatten().filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
    numbers.filter_map(|id| Some((id, process(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?))).collect()
}

/// Reads a line of `/proc/ID/stat`; the name in it may hold anything.
fn process(line: &str) -> Option<Process> {
    let (_, rest) = line.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |place: usize| words.get(place)?.parse::<u64>().ok();
    let is_kernel = number(6)? & KERNEL_THREAD != 0;
    Some(Process { parent: number(1)? as u32, is_kernel, ticks: number(11)? + number(12)? })
}

/// Ticks the host took, and all ticks there were.
fn machine() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let numbers: Vec<u64> = line.split_ascii_whitespace().skip(1).filter_map(|w| w.parse().ok()).collect();
    (numbers.get(7).copied().unwrap_or(0), numbers.iter().take(8).sum())
}

/// All processors spin; the longest time that one of them did not.
fn longest_gap() -> Duration {
    let count = std::thread::available_parallelism().map_or(1, |n| n.get());
    let spin = || {
        let end = Instant::now() + SPIN;
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        while last < end {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        longest
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(spin)).collect();
        all.into_iter().filter_map(|one| one.join().ok()).max().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_an_odd_name_is_read() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        let process = process(line).unwrap();
        assert_eq!((process.parent, process.is_kernel, process.ticks), (1, false, 42));
    }

    #[test]
    fn our_own_work_is_no_disturbance() {
        let ours: HashSet<u32> = strangers().into_iter().map(|(id, _)| id).collect();
        assert!(!ours.contains(&std::process::id()) && machine().1 > 0);
        assert_eq!(complaints(&Disturbance { others: 0.001, stolen: 0.0 }), Vec::<String>::new());
        assert_eq!(complaints(&Disturbance { others: 0.5, stolen: 0.1 }).len(), 2);
    }
}
