//! `footprint`: what programs take of the kernel's memory, as the kernel itself says it, and the pages of an
//! extension's memory, of which it says nothing.

use crate::programs::{Compiled, InKernel, Language, Source};
use karakoram_kernel::charge;
use karakoram_lab::error::LabError;
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::os::fd::{AsFd, BorrowedFd};

/// The kind.
pub struct Footprint;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    unit: Unit,
    /// How many programs that do nothing: up to eight.
    programs: usize,
}

/// What programs are compiled and loaded together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
enum Unit {
    /// All of them, in C.
    C,
    /// All of them, one extension.
    Rust,
    /// Each of them, an extension of its own.
    #[serde(rename = "Rust apart")]
    Apart,
}

/// Programs that do nothing.
const EMPTY: [&str; 8] = ["empty1", "empty2", "empty3", "empty4", "empty5", "empty6", "empty7", "empty8"];

struct Prepared {
    plan: Plan,
    compiled: Compiled,
}

impl Kind for Footprint {
    fn name(&self) -> &'static str {
        "footprint"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if !(1..=EMPTY.len()).contains(&plan.programs) {
            return Err(LabError::Request(format!("programs: 1 to {}, not {}", EMPTY.len(), plan.programs)));
        }
        let language = if plan.unit == Unit::C { Language::C } else { Language::Rust };
        let compiled = Source::plain(language).compile("empty", workshop)?;
        Ok(Box::new(Prepared { plan, compiled }))
    }
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        request.check()?;
        let names = &EMPTY[..self.plan.programs];
        let units: Vec<&[&str]> = match self.plan.unit {
            Unit::C | Unit::Rust => vec![names],
            Unit::Apart => names.chunks(1).collect(),
        };
        // All are loaded before anything is counted.
        let loaded = units.iter().map(|names| self.compiled.load(names)).collect::<Result<Vec<_>, _>>()?;
        let mut taken = Taken::default();
        for (loaded, names) in loaded.iter().zip(&units) {
            taken.count(loaded, names)?;
        }
        Ok(Outcome { samples: taken.samples(), ..Outcome::default() })
    }
}

/// Bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Taken {
    /// Pages of instructions.
    instructions: u64,
    /// Machine code.
    machine_code: u64,
    /// Maps.
    maps: u64,
    /// Pages of arenas.
    arenas: u64,
}

impl Taken {
    fn count(&mut self, loaded: &InKernel, names: &[&str]) -> Result<(), LabError> {
        for name in names {
            let program = loaded.program(name);
            let info = program.info(false).map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
            self.instructions += charged(program.as_fd())?;
            self.machine_code += u64::from(info.jited_len);
        }
        for map in loaded.maps() {
            self.maps += charged(map.as_fd())?;
        }
        self.arenas += loaded.arena_bytes();
        Ok(())
    }

    fn samples(&self) -> Vec<Samples> {
        let all = [
            ("instructions", self.instructions),
            ("machine code", self.machine_code),
            ("maps", self.maps),
            ("arenas", self.arenas),
            ("code", self.instructions + self.machine_code),
            ("together", self.instructions + self.machine_code + self.maps + self.arenas),
        ];
        all.into_iter().map(|(name, bytes)| Samples::one(name, "bytes", bytes as f64)).collect()
    }
}

fn charged(object: BorrowedFd) -> Result<u64, LabError> {
    charge::bytes(object).ok_or_else(|| {
        let what = "the kernel does not say what its objects take (memlock in /proc/self/fdinfo)".to_string();
        LabError::Machine(what, "is /proc mounted?".into())
    })
}
