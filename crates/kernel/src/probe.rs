//! What this machine permits, for `kara doctor`. Harmless: files are read, the shortest programs
//! and maps are loaded and dropped again, network namespaces are made for a thread and end with it.

mod machine;
mod network;
mod types;

use crate::errno::Errno;
use crate::load::{LoadRequest, load};
use crate::run::{RunInput, test_run};
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::MapType;
use std::fmt;

/// `r0 = 0; exit`.
pub(crate) const SHORTEST: [Slot; 2] =
    [Slot { code: 0xb7, dst: 0, src: 0, off: 0, imm: 0 }, Slot { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 }];

/// Whether a thing is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// It is, but not for this process.
    NotPermitted,
    /// It could not be found out.
    Unknown,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Status::Yes => "yes",
            Status::No => "no",
            Status::NotPermitted => "not permitted",
            Status::Unknown => "unknown",
        })
    }
}

impl Status {
    fn of(found: bool) -> Status {
        if found { Status::Yes } else { Status::No }
    }

    fn of_result<T>(result: Result<T, Errno>) -> Status {
        match result {
            Ok(_) => Status::Yes,
            Err(Errno::EPERM | Errno::EACCES) => Status::NotPermitted,
            Err(_) => Status::No,
        }
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// What was looked for, a few words.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// The value found, or the reason; may be empty.
    pub detail: String,
    /// What does not work without it.
    pub disables: &'static str,
}

impl Check {
    fn new(name: impl Into<String>, status: Status, detail: impl Into<String>, disables: &'static str) -> Check {
        Check { name: name.into(), status, detail: detail.into(), disables }
    }
}

/// Everything found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Kernel release, `6.18.1`; empty when it cannot be read.
    pub release: String,
    /// Findings, the most important first.
    pub checks: Vec<Check>,
    /// Which program types load.
    pub program_types: Vec<(ProgramType, Status)>,
    /// Which map types can be created.
    pub map_types: Vec<(MapType, Status)>,
}

impl Report {
    /// Findings that take something away.
    pub fn missing(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| c.status != Status::Yes)
    }
}

/// Looks at this machine. Takes some tens of milliseconds.
pub fn probe() -> Report {
    let mut checks = vec![load_check(), run_check()];
    checks.extend(machine::capabilities());
    checks.extend([
        machine::jit(),
        machine::btf(),
        machine::lockdown(),
        machine::kallsyms(),
        machine::memory_lock(),
        machine::unprivileged(),
        machine::cpus(),
    ]);
    checks.push(Check::new(
        "fentry programs",
        types::fentry(),
        "",
        "programs at kernel functions (fentry, fexit, lsm)",
    ));
    checks.extend(network::checks());
    Report {
        release: crate::running::release(),
        checks,
        program_types: types::program_types(),
        map_types: types::map_types(),
    }
}

const LOADING: &str =
    "the kernel as a judge of optimized programs, `kara stat` figures of the verifier, all runs on the kernel";

fn load_check() -> Check {
    let (status, detail) = match load(&LoadRequest::new("kara_probe", ProgramType::XDP, &SHORTEST)) {
        Ok(_) => (Status::Yes, String::new()),
        Err(e @ crate::load::LoadError::NotPermitted(_)) => (Status::NotPermitted, e.to_string()),
        Err(e) => (Status::No, e.to_string()),
    };
    Check::new("load programs", status, detail, LOADING)
}

fn run_check() -> Check {
    let disables = "running programs on the kernel: `kara run --on kernel`, differential runs, `kara bench`";
    let run = || {
        let program = load(&LoadRequest::new("kara_probe", ProgramType::XDP, &SHORTEST)).map_err(|e| e.to_string())?;
        test_run(&program, &RunInput { data: vec![0; 64], ..Default::default() }).map_err(|e| e.to_string())
    };
    let (status, detail) = match run() {
        Ok(output) if output.retval == 0 => (Status::Yes, String::new()),
        Ok(output) => (Status::No, format!("a program that returns 0 returned {}", output.retval)),
        Err(e) if e.starts_with("not permitted") => (Status::NotPermitted, e),
        Err(e) => (Status::No, e),
    };
    Check::new("test-run programs", status, detail, disables)
}
