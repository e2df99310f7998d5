//! Every program of the corpus loads, and does to every packet what it does on the host.
//!
//! Variables change what is done: `RUNS` packets for each program, `ONLY` these programs (separated by
//! commas), `KERNEL` another kernel, in a virtual machine (6.12), `BLESS` writes the tracked table. The
//! long comparison, a million packets:
//!
//!     RUNS=8000 BLESS=1 cargo test --release -p karakoram-installer --test corpus -- --nocapture

mod guest;
mod packets;
mod table;

use karakoram_bpf::map::{MapDef, MapType};
use karakoram_corpus::{MAP_PROGRAMS, PROGRAMS, Program};
use karakoram_extension::testing;
use karakoram_installer::build::{Separate, separate};
use karakoram_installer::{BuildOptions, InstallError, Installed};
use karakoram_kernel::map::Map;
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_translator::Options;
use karakoram_translator::launder::Launder;
use packets::Packets;
use std::path::{Path, PathBuf};
use table::{Row, Table};

/// What a program returns after a panic.
const ON_PANIC: u32 = 2;
/// Packets for each program, when nobody says how many.
const RUNS: u64 = 200;
/// Bytes of an instruction.
const SLOT_BYTES: u32 = 8;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn runs() -> u64 {
    variable("RUNS").and_then(|n| n.parse().ok()).unwrap_or(RUNS)
}

#[test]
fn every_program_loads_and_does_the_same_as_on_the_host() {
    if let Some(kernel) = variable("KERNEL") {
        return in_guest(&kernel);
    }
    if let Err(e) = arenas() {
        eprintln!("SKIPPED: this kernel or user cannot have arenas: {e}");
        return;
    }
    let objects = variable("OBJECTS").map_or_else(|| built(&wanted()), PathBuf::from);
    let mut table = Table::new(&running_kernel());
    let mut failures = Vec::new();
    for program in wanted() {
        if let Err(what) = check(program, &objects, &mut table) {
            failures.push(format!("{}: {what}", program.0));
        }
    }
    let programs = wanted().len();
    if failures.is_empty() {
        table.compared(programs, runs());
    }
    println!("{}\n{} of {programs} as on the host", table.text(), programs - failures.len());
    match (variable("TABLE"), variable("BLESS")) {
        (Some(path), _) => std::fs::write(path, table.text()).expect("table"),
        (None, Some(_)) => std::fs::write(table.path(), table.text()).expect("table"),
        (None, None) => failures.extend(table.grown()),
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Builds here, loads and runs there.
fn in_guest(kernel: &str) {
    let done = guest::run(kernel, &built(&wanted()), runs());
    println!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let (_, table) = done.files.iter().find(|(name, _)| name == Path::new("table.md")).expect("a table");
    if variable("BLESS").is_some() {
        std::fs::write(Table::new(kernel).path(), table).expect("table");
    }
    assert_eq!(done.exit, 0, "in the guest");
}

fn wanted() -> Vec<Program> {
    let only = variable("ONLY");
    let is_wanted = |p: &&Program| only.as_deref().is_none_or(|o| o.split(',').any(|n| n == p.0));
    PROGRAMS.iter().chain(MAP_PROGRAMS).filter(is_wanted).copied().collect()
}

/// The version as in `6.18`.
fn running_kernel() -> String {
    let version = karakoram_kernel::running::version_code();
    format!("{}.{}", version >> 16, version >> 8 & 0xff)
}

fn arenas() -> Result<(), karakoram_kernel::error::KernelError> {
    let arena = MapDef {
        name: "probe".into(),
        kind: MapType::ARENA,
        key_size: 0,
        value_size: 0,
        max_entries: 1,
        flags: 1 << 10,
        fd: None,
        initial: None,
        frozen: false,
        inner: None,
    };
    Map::create(&arena, Default::default()).map(drop)
}

fn compiled() -> Separate {
    let options = BuildOptions {
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/extensions/corpus"),
        target_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus"),
        extension: None,
        features: Vec::new(),
        launder: Launder::default(),
        translation: Options::default(),
    };
    separate(&options).unwrap_or_else(|e| panic!("{e}"))
}

/// Builds the programs; returns the folder of their objects. One that is not built is not there.
fn built(programs: &[Program]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus-objects");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("folder");
    let compiled = compiled();
    for program in programs {
        match compiled.build(program.0) {
            Ok(built) => std::fs::write(object(&folder, *program), built.object).expect("object"),
            Err(e) => println!("{}: {e}", program.0),
        }
    }
    folder
}

fn object(folder: &Path, program: Program) -> PathBuf {
    folder.join(format!("{}.o", program.0))
}

/// Loads a program and compares it.
fn check(program: Program, objects: &Path, table: &mut Table) -> Result<(), String> {
    let installed = match Installed::load(&object(objects, program), &[program.0]) {
        Ok(installed) => installed,
        Err(e) => {
            table.refused(program.0);
            return Err(e.to_string());
        }
    };
    let info = installed.program(program.0).info(false).map_err(InstallError::from).map_err(|e| e.to_string())?;
    let row = Row { verified: info.verified_insns, slots: info.xlated_len / SLOT_BYTES, jited: info.jited_len };
    table.accepted(program.0, row);
    differs(program, &installed).map_or(Ok(()), Err)
}

/// What the host makes of a packet: the verdict and the packet, or nothing after a panic.
fn on_host(program: Program, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| testing::xdp(program.1, &mut packet)));
    verdict.ok().map(|v| (v as u32, packet))
}

/// Runs the same packets on both, and says what is different first.
fn differs(program: Program, installed: &Installed) -> Option<String> {
    let mut packets = Packets::new();
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let kernel = installed.program(program.0);
    for run in 0..runs() {
        let packet = packets.packet();
        let panics = installed.state(program.0).panics;
        let input = RunInput { data: packet.clone(), repeat: 1, ..Default::default() };
        runner.run(kernel, &input, &mut output).expect("a run");
        let after = installed.state(program.0).panics;
        match on_host(program, &packet) {
            Some((verdict, changed)) if after != panics || output.retval != verdict || output.data != changed => {
                return Some(format!(
                    "run {run}, {} bytes: verdict {} instead of {verdict}, {:02x?} instead of {:02x?}, {} panics {:?}\n  packet {packet:02x?}",
                    packet.len(),
                    output.retval,
                    &output.data[..8],
                    &changed[..8],
                    after - panics,
                    installed.panics(program.0).last(),
                ));
            }
            None if after != panics + 1 || output.retval != ON_PANIC => {
                return Some(format!("run {run}: no panic, verdict {}", output.retval));
            }
            _ => {}
        }
    }
    None
}
