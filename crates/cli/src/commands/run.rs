//! `kara run`: a program on packets, in the interpreter or on the kernel.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{self, Input, Sidecars};
use crate::judge::{Kernel, Loaded, TypeOption};
use crate::output;
use crate::pcap;
use karakoram_bpf::hook::{Hook, ProgramType};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::interpreter::{self, Interpreter, Step};
use karakoram_bpf::program::{Entry, Program};
use karakoram_bpf::text::asm::{self, Targets};
use karakoram_kernel::run::{RunInput, default_context, shape, test_run};
use serde::Serialize;
use serde_json::json;

const AFTER_HELP: &str = "\
Examples:
  kara run prog.o --input capture.pcap            one run for each packet; maps keep their contents
  kara run prog.o --input hex:ffffffffffff...     bytes on the command line
  kara run prog.o --input packet.bin --on kernel  BPF_PROG_TEST_RUN
  kara run prog.o --input a.bin --map counts=00000000:0100000000000000
  kara run prog.s --input hex:01020304 --trace    every instruction, with what it changed

An input is a capture (pcap, pcapng), a file of hexadecimal text, or a file of bytes.

Exit status: 0 done, 1 a run ended in a fault, 2 wrong request or input, 3 not possible on this machine.";

/// Options of `kara run`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Object (.o), .k2, .bpf, assembly (.s) or raw instructions (.insns); - is stdin
    #[arg(value_name = "IN")]
    program: String,
    /// What it runs on: a capture, a file, or hex:BYTES; may be repeated
    #[arg(short, long, value_name = "FILE|hex:BYTES", required = true)]
    input: Vec<String>,
    /// The program, by function or section, when there are several
    #[arg(long, value_name = "NAME")]
    prog: Option<String>,
    /// Where it runs
    #[arg(long, value_enum, default_value_t = Place::Interpreter)]
    on: Place,
    /// Element of a map before the first run, in hexadecimal; may be repeated
    #[arg(long, value_name = "NAME=KEY:VALUE", value_parser = element)]
    map: Vec<Element>,
    /// Show every instruction (interpreter only)
    #[arg(long, conflicts_with = "on")]
    trace: bool,
    #[command(flatten)]
    program_type: TypeOption,
    #[command(flatten)]
    sidecars: Sidecars,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Place {
    /// kara's own machine: checks every access, needs no privilege
    Interpreter,
    /// The kernel's test run
    Kernel,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Element {
    map: String,
    key: Vec<u8>,
    value: Vec<u8>,
}

fn element(text: &str) -> Result<Element, String> {
    let parts = text.split_once('=').and_then(|(map, rest)| Some((map, rest.split_once(':')?)));
    let (map, (key, value)) = parts.ok_or("expected NAME=KEY:VALUE, both in hexadecimal")?;
    Ok(Element { map: map.to_string(), key: hex(key)?, value: hex(value)? })
}

/// Bytes from hexadecimal text; white space and colons only separate.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let byte = |pair: &[char]| Some((pair[0].to_digit(16)? << 4 | pair.get(1)?.to_digit(16)?) as u8);
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| "not hexadecimal bytes".to_string())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// What one run gave.
#[derive(Clone, Debug, Default, Serialize)]
struct RunReport {
    input_bytes: usize,
    value: Option<u64>,
    fault: Option<String>,
    /// After the run, when it is not as before.
    packet: Option<String>,
    context: Option<String>,
    instructions: Option<u64>,
    duration_ns: Option<u32>,
    events: Vec<String>,
    trace: Vec<String>,
}

/// An element of a map that is not as before.
#[derive(Clone, Debug, Serialize)]
struct Change {
    map: String,
    key: String,
    before: Option<String>,
    after: Option<String>,
}

/// Contents of a map under its name.
type Dump = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

impl Options {
    /// Runs.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let program = Input::read(&self.program, &self.sidecars)?;
        let entry = self.entry(&program)?;
        let mut packets = Vec::new();
        for path in &self.input {
            packets.extend(read_packets(path)?);
        }
        let (runs, changes) = match self.on {
            Place::Interpreter => self.interpret(&program, entry, packets)?,
            Place::Kernel => self.on_kernel(&program, entry, packets)?,
        };
        let faulty = runs.iter().any(|r| r.fault.is_some());
        let name = &program.program().function(entry).name;
        if common.json {
            output::print_json(&json!({
                "schema": "kara/run/1", "ok": !faulty, "exit_code": faulty as u8, "program": name,
                "on": if self.on == Place::Kernel { "kernel" } else { "interpreter" },
                "runs": runs, "map_changes": changes,
            }));
        } else {
            output::print_text(&to_text(&runs, &changes, hook(program.program(), entry)));
        }
        Ok(if faulty { Answer::No } else { Answer::Yes })
    }

    fn entry(&self, program: &Input) -> Result<FuncId, Failure> {
        let only: Vec<String> = self.prog.iter().cloned().collect();
        match program.entries(&only)?.as_slice() {
            [entry] => Ok(*entry),
            several => {
                let names: Vec<&str> = several.iter().map(|f| program.program().function(*f).name.as_str()).collect();
                Err(Failure::usage("there are several programs")
                    .of_file(&self.program)
                    .help(format!("choose one with --prog: {}", names.join(", "))))
            }
        }
    }

    fn interpret(
        &self,
        input: &Input,
        entry: FuncId,
        packets: Vec<Vec<u8>>,
    ) -> Result<(Vec<RunReport>, Vec<Change>), Failure> {
        let program = input.program();
        let mut interpreter = Interpreter::new(program, interpreter::Options::default());
        for element in &self.map {
            let map = interpreter.state.map_mut(&element.map).ok_or_else(|| no_map(element, input))?;
            map.set(&element.key, &element.value)
                .map_err(|e| Failure::usage(format!("map {}: {e}", element.map)).of_file(&input.path))?;
        }
        let dump =
            |i: &Interpreter| -> Dump { i.state.maps.iter().map(|m| (m.def().name.clone(), m.entries())).collect() };
        let before = dump(&interpreter);
        let hook = hook(program, entry);
        let runs = packets.into_iter().map(|packet| {
            let mut report = RunReport { input_bytes: packet.len(), ..Default::default() };
            let is_buffer = matches!(hook, Hook::Buffer(_));
            let input = match is_buffer {
                true => interpreter::Input { context: packet.clone(), ..Default::default() },
                false => interpreter::Input { packet: packet.clone(), ..Default::default() },
            };
            let result = if self.trace {
                let mut tracer = Tracer::new(program);
                let result = interpreter.run_observed(entry, input, &mut |step: &Step| tracer.step(step));
                report.trace = tracer.lines;
                result
            } else {
                interpreter.run(entry, input)
            };
            match result {
                Ok(outcome) => {
                    report.value = Some(outcome.value);
                    report.instructions = Some(outcome.instructions);
                    report.events = outcome.events.iter().map(|e| e.to_string()).collect();
                    report.packet = (!is_buffer && outcome.packet != packet).then(|| to_hex(&outcome.packet));
                    let same = outcome.context.starts_with(&packet);
                    report.context = (is_buffer && !same).then(|| to_hex(&outcome.context));
                }
                Err(fault) => report.fault = Some(fault.to_string()),
            }
            report
        });
        let runs: Vec<RunReport> = runs.collect();
        Ok((runs, changes(&before, &dump(&interpreter))))
    }

    fn on_kernel(
        &self,
        input: &Input,
        entry: FuncId,
        packets: Vec<Vec<u8>>,
    ) -> Result<(Vec<RunReport>, Vec<Change>), Failure> {
        let kernel = Kernel::open(self.program_type.program_type).map_err(Failure::machine)?;
        let loaded = match input.object() {
            Some(object) => kernel.load_object(object, entry),
            None => kernel.load_program(input.program()),
        };
        let loaded = loaded.map_err(|why| {
            Failure::machine(format!("the kernel did not take the program: {}", why.reason()))
                .of_file(&input.path)
                .of_program(&input.program().function(entry).name)
        })?;
        for element in &self.map {
            let map = loaded.maps.named(&element.map).ok_or_else(|| no_map(element, input))?;
            map.update(&element.key, &element.value).map_err(|e| Failure::usage(e.to_string()).of_file(&input.path))?;
        }
        let before = dump(&loaded)?;
        let kind = loaded.program.prog_type;
        let mut runs = Vec::new();
        for packet in packets {
            let ctx = match shape(kind) {
                Some(shape) if shape.ctx_out => default_context(kind, packet.len()),
                _ => Vec::new(),
            };
            let given = RunInput { data: packet.clone(), ctx, ..Default::default() };
            let output = test_run(&loaded.program, &given).map_err(|e| Failure::machine(e.to_string()))?;
            runs.push(RunReport {
                input_bytes: packet.len(),
                value: Some(output.retval.into()),
                packet: (output.data != packet).then(|| to_hex(&output.data)),
                duration_ns: Some(output.duration_ns),
                ..Default::default()
            });
        }
        Ok((runs, changes(&before, &dump(&loaded)?)))
    }
}

fn no_map(element: &Element, input: &Input) -> Failure {
    let names: Vec<&str> = input.program().maps.iter().map(|m| m.name.as_str()).collect();
    Failure::usage(format!("there is no map {}", element.map))
        .of_file(&input.path)
        .help(format!("it has: {}", names.join(", ")))
}

fn hook(program: &Program, entry: FuncId) -> Hook {
    match program.function(entry).entry {
        Entry::Hook(hook) => hook,
        Entry::Subprogram { .. } => Hook::Constant,
    }
}

fn dump(loaded: &Loaded) -> Result<Dump, Failure> {
    let contents = loaded.maps.dump().map_err(|e| Failure::machine(e.to_string()))?;
    let named = loaded.maps.maps().iter().zip(contents);
    Ok(named.map(|(m, c)| (m.def().name.clone(), c.iter().map(|(k, v)| (k, v.to_vec())).collect())).collect())
}

fn changes(before: &Dump, after: &Dump) -> Vec<Change> {
    let mut out = Vec::new();
    for ((map, old), (_, new)) in before.iter().zip(after) {
        let mut keys: Vec<&Vec<u8>> = old.iter().chain(new).map(|(k, _)| k).collect();
        keys.sort();
        keys.dedup();
        let old: std::collections::BTreeMap<_, _> = old.iter().map(|(k, v)| (k, v)).collect();
        let new: std::collections::BTreeMap<_, _> = new.iter().map(|(k, v)| (k, v)).collect();
        for key in keys.into_iter().filter(|k| old.get(k) != new.get(k)) {
            let value = |side: Option<&&Vec<u8>>| side.map(|v| to_hex(v));
            out.push(Change {
                map: map.clone(),
                key: to_hex(key),
                before: value(old.get(key)),
                after: value(new.get(key)),
            });
        }
    }
    out
}

fn read_packets(path: &str) -> Result<Vec<Vec<u8>>, Failure> {
    if let Some(text) = path.strip_prefix("hex:") {
        return Ok(vec![hex(text).map_err(|e| Failure::usage(format!("--input {path}: {e}")))?]);
    }
    let bytes = input::read_bytes(path)?;
    if pcap::is_capture(&bytes) {
        return pcap::packets(&bytes).map_err(|e| Failure::input(e).of_file(path));
    }
    match std::str::from_utf8(&bytes).map(hex) {
        Ok(Ok(packet)) => Ok(vec![packet]),
        _ => Ok(vec![bytes]),
    }
}

/// Instructions as they are executed, with the registers that the one before changed.
struct Tracer {
    texts: Vec<(String, Vec<String>)>,
    registers: Option<[u64; 11]>,
    lines: Vec<String>,
}

/// Longest trace that is kept; after that the run goes on without.
const MOST_LINES: usize = 100_000;

impl Tracer {
    fn new(program: &Program) -> Tracer {
        let texts = program.functions.iter().enumerate().map(|(i, f)| {
            let lines = asm::lines(program, FuncId(i as u32), Targets::Relative);
            (f.name.clone(), lines.into_iter().map(|l| l.text).collect())
        });
        Tracer { texts: texts.collect(), registers: None, lines: Vec::new() }
    }

    fn step(&mut self, step: &Step) -> bool {
        if let (Some(before), Some(last)) = (self.registers, self.lines.last_mut()) {
            for (i, (old, new)) in before.iter().zip(step.registers).enumerate() {
                if old != new {
                    *last += &format!("  ; r{i}={new:#x}");
                }
            }
        }
        self.registers = Some(*step.registers);
        if self.lines.len() < MOST_LINES {
            let (name, texts) = &self.texts[step.function.0 as usize];
            let text = texts.get(step.position).map_or("?", String::as_str);
            self.lines.push(format!("{}{name} {}: {text}", "  ".repeat(step.depth), step.position));
        }
        true
    }
}

fn to_text(runs: &[RunReport], changes: &[Change], hook: Hook) -> String {
    let mut out = String::new();
    for (number, run) in runs.iter().enumerate() {
        run.trace.iter().for_each(|line| out += &format!("{line}\n"));
        out += &format!("run {}: ", number + 1);
        out += &match (&run.fault, run.value) {
            (Some(fault), _) => format!("fault: {fault}"),
            (None, Some(value)) => format!("returned {}", value_text(hook, value)),
            (None, None) => "no result".to_string(),
        };
        if let Some(n) = run.instructions {
            out += &format!(", {n} instructions");
        }
        if let Some(ns) = run.duration_ns {
            out += &format!(", {ns} ns");
        }
        out.push('\n');
        run.packet.iter().for_each(|p| out += &format!("  packet: {p}\n"));
        run.context.iter().for_each(|p| out += &format!("  buffer: {p}\n"));
        run.events.iter().for_each(|e| out += &format!("  event: {e}\n"));
    }
    for change in changes {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_string());
        let (before, after) = (side(&change.before), side(&change.after));
        out += &format!("map {}, key {}: {before} -> {after}\n", change.map, change.key);
    }
    out
}

/// Verdicts have names at some hooks.
fn value_text(hook: Hook, value: u64) -> String {
    const XDP: [&str; 5] = ["XDP_ABORTED", "XDP_DROP", "XDP_PASS", "XDP_TX", "XDP_REDIRECT"];
    match (hook, XDP.get(value as usize)) {
        (Hook::Kernel(ProgramType::XDP), Some(name)) => format!("{value} ({name})"),
        _ if value > 9 => format!("{value} ({value:#x})"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        assert_eq!(hex("01 02:ff\n"), Ok(vec![1, 2, 255]));
        assert!(hex("0").is_err() && hex("xy").is_err());
        assert_eq!(element("m=00:0102").unwrap().value, [1, 2]);
    }
}
