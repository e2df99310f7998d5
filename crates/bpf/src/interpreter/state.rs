//! What outlives a run: maps, clock, random numbers, the task and the machine it runs on.

use super::Limits;
use super::address::MAX_INDEX;
use super::kernel::KernelMemory;
use super::maps::Map;
use super::random::Random;
use crate::map::MapDef;
use crate::program::Program;

/// The world a program runs in. Cloning it takes a snapshot.
#[derive(Clone, Debug)]
pub struct State {
    /// Maps of the program, in its order, then the ones that were added.
    pub maps: Vec<Map>,
    /// Nanoseconds since boot.
    pub clock_ns: u64,
    /// CPU that programs run on.
    pub cpu: u32,
    /// CPUs of the machine.
    pub cpus: u32,
    /// The current task.
    pub task: Task,
    /// What `bpf_fib_lookup` returns, 0 for a route that was found.
    pub fib_result: i64,
    /// Kernel and user memory.
    pub kernel: KernelMemory,
    pub(super) random: Random,
    map_bytes: usize,
}

/// A task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Thread number.
    pub pid: u32,
    /// Process number.
    pub tgid: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Name, zero-terminated.
    pub comm: [u8; 16],
    /// Control group.
    pub cgroup_id: u64,
}

impl Default for Task {
    fn default() -> Task {
        Task { pid: 4243, tgid: 4242, uid: 1000, gid: 1000, comm: *b"karakoram\0\0\0\0\0\0\0", cgroup_id: 77 }
    }
}

impl State {
    /// The world of a program before its first run, with one value of per-CPU maps for each of `cpus` CPUs.
    pub fn new(program: &Program, limits: &Limits, cpus: u32) -> State {
        let mut state = State {
            maps: Vec::new(),
            clock_ns: 1_000_000_000_000,
            cpu: 0,
            cpus: cpus.max(1),
            task: Task::default(),
            fib_result: 0,
            kernel: KernelMemory::default(),
            random: Random::new(0),
            map_bytes: limits.map_bytes,
        };
        for def in &program.maps {
            state.add_map(def);
        }
        state
    }

    /// Adds a map, for instance one to be put into a map of maps; returns its number. `None` when
    /// there are too many.
    pub fn add_map(&mut self, def: &MapDef) -> Option<u32> {
        let number = u32::try_from(self.maps.len()).ok().filter(|n| *n <= MAX_INDEX)?;
        self.maps.push(Map::new(def, number, self.cpus, self.map_bytes));
        Some(number)
    }

    /// The map of that name.
    pub fn map(&self, name: &str) -> Option<&Map> {
        self.maps.iter().find(|m| m.def().name == name)
    }

    /// The map of that name, to be changed.
    pub fn map_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.maps.iter_mut().find(|m| m.def().name == name)
    }

    /// Starts the sequence of random numbers anew, and makes up other kernel memory.
    pub fn seed(&mut self, seed: u64) {
        self.random = Random::new(seed);
        self.kernel.seed = seed;
    }

    /// The first difference in map contents, in words.
    pub fn difference(&self, other: &State) -> Option<String> {
        if self.maps.len() != other.maps.len() {
            return Some(format!("{} maps and {} maps", self.maps.len(), other.maps.len()));
        }
        self.maps.iter().zip(&other.maps).find_map(|(a, b)| {
            let (left, right) = (a.entries(), b.entries());
            if left == right {
                return None;
            }
            let at = (0..).find(|i| left.get(*i) != right.get(*i))?;
            let key = |entries: &[(Vec<u8>, Vec<u8>)]| entries.get(at).map(|(k, _)| k.clone());
            let key = key(&left).into_iter().chain(key(&right)).min()?;
            Some(format!("map {}, key {key:02x?}: {:02x?} and {:02x?}", a.def().name, a.get(&key), b.get(&key)))
        })
    }
}
