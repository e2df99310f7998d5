//! Every program of the corpus loads, and does to every packet what it does on the host.

use karakoram_corpus::PROGRAMS;
use karakoram_extension::testing;
use karakoram_installer::build::{Separate, separate};
use karakoram_installer::{BuildOptions, Installed};
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_translator::Options;
use karakoram_translator::launder::Launder;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The tracked table: `BLESS=1` writes it anew. What is refused there is a bug that is known.
const HEADER: &str = "\
# What the verifier has to do with each program of the corpus

Instructions that Linux 6.18's verifier processes, and bytes of machine code, with the LLVM of Rust 1.95.
Refused programs are bugs of the translator.

| program | verified instructions | JITed bytes |
|---|---:|---:|
";

/// What a program returns after a panic.
const ON_PANIC: u32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compiled() -> Separate {
    let options = BuildOptions {
        folder: root().join("programs/extensions/corpus"),
        target_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus"),
        extension: None,
        launder: Launder::default(),
        translation: Options::default(),
    };
    separate(&options).unwrap_or_else(|e| panic!("{e}"))
}

/// Random packets, some of which look like something.
struct Packets(u64);

impl Packets {
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn packet(&mut self) -> Vec<u8> {
        let length = match self.number() % 4 {
            0 => 14 + self.number() % 50,
            1 => 14 + self.number() % 400,
            _ => 60 + self.number() % 100,
        };
        let kind = self.number() % 5;
        let mut packet: Vec<u8> = (0..length)
            .map(|_| match kind {
                0 => self.number() as u8,
                1 => (self.number() % 8) as u8,
                2 => b"0123456789 getset\r\n{}[]\""[self.number() as usize % 24],
                3 => (self.number() % 64 + 60) as u8,
                _ => self.number() as u8 & self.number() as u8,
            })
            .collect();
        if self.number().is_multiple_of(2) {
            packet[12..14].copy_from_slice(&[8, 0]);
            if let Some(ip) = packet.get_mut(14..34) {
                ip[0] = 0x45;
                ip[9] = if ip[1] % 2 == 0 { 6 } else { 17 };
            }
        }
        packet
    }
}

/// What the host makes of a packet: the verdict and the packet, or nothing after a panic.
fn on_host(program: karakoram_corpus::Program, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| testing::xdp(program.1, &mut packet)));
    verdict.ok().map(|v| (v as u32, packet))
}

#[test]
fn loads_and_does_the_same_as_on_the_host() {
    let runs: u64 = std::env::var("RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let only = std::env::var("ONLY").ok();
    let compiled = compiled();
    if let Err(e) = karakoram_kernel::map::Map::create(
        &karakoram_bpf::map::MapDef {
            name: "probe".into(),
            kind: karakoram_bpf::map::MapType::ARENA,
            key_size: 0,
            value_size: 0,
            max_entries: 1,
            flags: 1 << 10,
            fd: None,
            initial: None,
            frozen: false,
            inner: None,
        },
        Default::default(),
    ) {
        eprintln!("SKIPPED: this kernel or user cannot have arenas: {e}");
        return;
    }
    let table_path = root().join("programs/extensions/corpus/verified.md");
    let known = std::fs::read_to_string(&table_path).unwrap_or_default();
    let bless = std::env::var_os("BLESS").is_some();
    let is_refused = |name: &str| !bless && only.is_none() && !is_accepted(&known, name);
    let refused = PROGRAMS.iter().filter(|p| is_refused(p.0)).count();
    let mut table = String::from(HEADER);
    let (mut failures, mut loaded) = (Vec::new(), 0);
    let wanted = |p: &&karakoram_corpus::Program| only.as_deref().is_none_or(|o| o.split(',').any(|n| n == p.0));
    for program in PROGRAMS.iter().filter(wanted).filter(|p| !is_refused(p.0)) {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.o", program.0));
        let loading = compiled.build(program.0).and_then(|built| {
            std::fs::write(&path, &built.object).expect("object");
            Installed::load(&path, &[program.0])
        });
        match loading {
            Ok(installed) => {
                loaded += 1;
                let kernel = installed.program(program.0);
                let info = kernel.info(false).expect("information");
                let _ = writeln!(table, "| {} | {} | {} |", program.0, info.verified_insns, info.jited_len);
                write_table(bless, &table_path, &table);
                if let Some(difference) = differs(*program, &installed, runs) {
                    failures.push(format!("{}: {difference}", program.0));
                }
            }
            Err(e) => {
                let _ = writeln!(table, "| {} | refused | |", program.0);
                write_table(bless, &table_path, &table);
                println!("{}: {e}", program.0);
                if !bless {
                    failures.push(format!("{}: {e}", program.0));
                }
            }
        }
    }
    println!("{table}\n{loaded} loaded, NOT CHECKED: {refused} that the table has as refused or not at all");
    assert!(failures.is_empty(), "{loaded} of {} loaded\n{}", PROGRAMS.len(), failures.join("\n"));
}

/// Whether the table has a program with its figures.
fn is_accepted(table: &str, name: &str) -> bool {
    let row = table.lines().find_map(|l| l.strip_prefix(&format!("| {name} | ")));
    row.is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
}

/// After every program, so that an interrupted run leaves what it found.
fn write_table(bless: bool, path: &Path, table: &str) {
    if bless {
        std::fs::write(path, table).expect("table");
    }
}

/// Runs the same packets on both, and says what is different first.
fn differs(program: karakoram_corpus::Program, installed: &Installed, runs: u64) -> Option<String> {
    let mut packets = Packets(0x0123_4567_89ab_cdef);
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let kernel = installed.program(program.0);
    for run in 0..runs {
        let packet = packets.packet();
        let panics = installed.state(program.0).panics;
        let input = RunInput { data: packet.clone(), repeat: 1, ..Default::default() };
        runner.run(kernel, &input, &mut output).expect("a run");
        let after = installed.state(program.0).panics;
        match on_host(program, &packet) {
            Some((verdict, changed)) if after != panics || output.retval != verdict || output.data != changed => {
                let places = installed.panics(program.0);
                return Some(format!(
                    "run {run}, {} bytes: verdict {} instead of {verdict}, {:02x?} instead of {:02x?}, {} panics {:?}\n  packet {packet:02x?}",
                    packet.len(),
                    output.retval,
                    &output.data[..8],
                    &changed[..8],
                    after - panics,
                    places.last(),
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
