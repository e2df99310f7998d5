//! `kara run`: a program on packets, in the interpreter or on the kernel.

use crate::arguments::Common;
use crate::bytes::{self, to_hex};
use crate::changes::{self, Change, Dump};
use crate::coverage::{Coverage, Covered};
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::judge::{Kernel, Loaded, TypeOption};
use crate::output;
use crate::scenario::{Case, Scenario, Setting};
use crate::tracer::Tracer;
use karakoram_bpf::hook::{Hook, ProgramType};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::interpreter::{self, Interpreter, Step};
use karakoram_bpf::program::{Entry, Program};
use karakoram_kernel::run::test_run;
use serde::Serialize;
use serde_json::json;

const AFTER_HELP: &str = "\
Examples:
  kara run prog.o --input capture.pcap            one run for each packet; maps keep their contents
  kara run prog.o --input hex:ffffffffffff...     bytes on the command line
  kara run prog.o --input 'packet:eth / ipv4 dst=10.0.0.2 / udp dst=53'
  kara run prog.o --input prog.toml --coverage    packets, map contents and what must come back
  kara run prog.o --input packet.bin --on kernel  BPF_PROG_TEST_RUN
  kara run prog.o --input a.bin --map counts=00000000:0100000000000000
  kara run prog.s --input hex:01020304 --trace    every instruction, with what it changed

An input is a capture (pcap, pcapng), a scenario (.toml), a file of hexadecimal text, or a file of
bytes. docs/inputs.md describes packets and scenarios.

Exit status: 0 done, 1 a run ended in a fault or returned what its scenario does not expect, 2 wrong request or input, 3 not possible on this machine.";

/// Options of `kara run`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Object (.o), .k2, .bpf, assembly (.s) or raw instructions (.insns); - is stdin
    #[arg(value_name = "IN")]
    program: String,
    /// What it runs on: a capture, a scenario, a file, hex:BYTES or packet:LAYERS; may be repeated
    #[arg(short, long, value_name = "FILE|hex:BYTES|packet:LAYERS", required = true)]
    input: Vec<String>,
    /// The program, by function or section, when there are several
    #[arg(long, value_name = "NAME")]
    prog: Option<String>,
    /// Where it runs
    #[arg(long, value_enum, default_value_t = Place::Interpreter)]
    on: Place,
    /// Element of a map before the first run, in hexadecimal; may be repeated
    #[arg(long, value_name = "NAME=KEY:VALUE", value_parser = element)]
    map: Vec<Setting>,
    /// Show every instruction (interpreter only)
    #[arg(long, conflicts_with = "on")]
    trace: bool,
    /// Say how many instructions and ways of conditional jumps were executed (interpreter only; -v:
    /// also which were not)
    #[arg(long, conflicts_with = "on")]
    coverage: bool,
    /// Take functions of the kernel that the interpreter does not know for ones that do nothing and
    /// return a number of their own, instead of stopping there (interpreter only)
    #[arg(long, conflicts_with = "on")]
    model_unknown: bool,
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

fn element(text: &str) -> Result<Setting, String> {
    let parts = text.split_once('=').and_then(|(map, rest)| Some((map, rest.split_once(':')?)));
    let (map, (key, value)) = parts.ok_or("expected NAME=KEY:VALUE, both in hexadecimal")?;
    Ok(Setting { map: map.to_string(), key: Some(bytes::hex(key)?), value: bytes::hex(value)? })
}

/// What one run gave.
#[derive(Clone, Debug, Default, Serialize)]
struct RunReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    input_bytes: usize,
    value: Option<u64>,
    /// What should have come back, when something else did.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<u64>,
    fault: Option<String>,
    /// After the run, when it is not as before.
    packet: Option<String>,
    context: Option<String>,
    instructions: Option<u64>,
    duration_ns: Option<u32>,
    events: Vec<String>,
    trace: Vec<String>,
}

/// What all runs gave.
struct Results {
    runs: Vec<RunReport>,
    changes: Vec<Change>,
    covered: Option<Covered>,
}

impl Options {
    /// Runs.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let program = Input::read(&self.program, &self.sidecars)?;
        let entry = program.entry(self.prog.as_deref())?;
        let mut scenario = Scenario::read(&self.input)?;
        scenario.settings.extend(self.map.iter().cloned());
        let results = match self.on {
            Place::Interpreter => self.interpret(&program, entry, &scenario)?,
            Place::Kernel => self.on_kernel(&program, entry, &scenario)?,
        };
        let is_good = results.runs.iter().all(|r| r.fault.is_none() && r.expected.is_none());
        if common.json {
            output::print_json(&self.to_json(&results, is_good, &program.program().function(entry).name));
        } else {
            let hook = hook(program.program(), entry);
            output::print_text(&results.to_text(hook, common.verbose > 0));
        }
        Ok(if is_good { Answer::Yes } else { Answer::No })
    }

    fn to_json(&self, results: &Results, is_good: bool, program: &str) -> serde_json::Value {
        let mut out = json!({
            "schema": "kara/run/1", "ok": is_good, "exit_code": !is_good as u8, "program": program,
            "on": if self.on == Place::Kernel { "kernel" } else { "interpreter" },
            "runs": results.runs, "map_changes": results.changes,
        });
        if let Some(covered) = &results.covered {
            out["coverage"] = json!(covered);
        }
        out
    }

    fn interpret(&self, input: &Input, entry: FuncId, scenario: &Scenario) -> Result<Results, Failure> {
        let program = input.program();
        let options = interpreter::Options { model_unknown_calls: self.model_unknown, ..Default::default() };
        let mut interpreter = Interpreter::new(program, options);
        let dump =
            |i: &Interpreter| -> Dump { i.state.maps.iter().map(|m| (m.def().name.clone(), m.entries())).collect() };
        set_interpreted(&mut interpreter, input, &scenario.settings)?;
        let before = dump(&interpreter);
        let mut coverage = self.coverage.then(|| Coverage::new(program, entry));
        let mut runs = Vec::new();
        for case in &scenario.cases {
            set_interpreted(&mut interpreter, input, &case.settings)?;
            runs.push(self.interpret_one(&mut interpreter, program, entry, case, &mut coverage));
        }
        let covered = coverage.map(|c| c.covered(program));
        Ok(Results { runs, changes: changes::between(&before, &dump(&interpreter)), covered })
    }

    fn interpret_one(
        &self,
        interpreter: &mut Interpreter,
        program: &Program,
        entry: FuncId,
        case: &Case,
        coverage: &mut Option<Coverage>,
    ) -> RunReport {
        let is_buffer = matches!(hook(program, entry), Hook::Buffer(_));
        let mut context = if is_buffer { case.packet.clone() } else { Vec::new() };
        bytes::apply(&case.context, &mut context);
        let packet = if is_buffer { Vec::new() } else { case.packet.clone() };
        interpreter.state.fib_result = case.fib.unwrap_or(0);
        let given = interpreter::Input { context: context.clone(), packet, ..Default::default() };
        let mut tracer = self.trace.then(|| Tracer::new(program));
        let mut watch = |step: &Step| {
            tracer.iter_mut().for_each(|t| t.step(step));
            coverage.iter_mut().for_each(|c| c.step(step));
            true
        };
        let result = match self.trace || self.coverage {
            true => interpreter.run_observed(entry, given, &mut watch),
            false => interpreter.run(entry, given),
        };
        coverage.iter_mut().for_each(Coverage::end_run);
        let mut report = RunReport { trace: tracer.map_or(Vec::new(), |t| t.lines), ..RunReport::of(case) };
        match result {
            Ok(outcome) => {
                report.returned(case, outcome.value);
                report.instructions = Some(outcome.instructions);
                report.events = outcome.events.iter().map(|e| e.to_string()).collect();
                report.packet = (!is_buffer && outcome.packet != case.packet).then(|| to_hex(&outcome.packet));
                let same = outcome.context.starts_with(&context);
                report.context = (!context.is_empty() && !same).then(|| to_hex(&outcome.context));
            }
            Err(fault) => report.fault = Some(fault.to_string()),
        }
        report
    }

    fn on_kernel(&self, input: &Input, entry: FuncId, scenario: &Scenario) -> Result<Results, Failure> {
        let kernel = Kernel::open(self.program_type.program_type).map_err(Failure::machine)?;
        let loaded = kernel.load_input(input, entry)?;
        loaded.set(&scenario.settings).map_err(|e| e.of_file(&input.path))?;
        let before = dump(&loaded)?;
        let mut runs = Vec::new();
        for case in scenario.cases.iter().filter(|c| !c.is_only_interpreted) {
            loaded.set(&case.settings).map_err(|e| e.of_file(&input.path))?;
            let output = test_run(&loaded.program, &loaded.run_input(case))
                .map_err(|e| Failure::machine(e.to_string()).of_file(&input.path))?;
            let mut report = RunReport { duration_ns: Some(output.duration_ns), ..RunReport::of(case) };
            report.returned(case, output.retval.into());
            let packet = loaded.packet_after(&output);
            report.packet = (packet != case.packet).then(|| to_hex(packet));
            runs.push(report);
        }
        Ok(Results { runs, changes: changes::between(&before, &dump(&loaded)?), covered: None })
    }
}

impl RunReport {
    fn of(case: &Case) -> RunReport {
        RunReport { name: case.name.clone(), input_bytes: case.packet.len(), ..RunReport::default() }
    }

    fn returned(&mut self, case: &Case, value: u64) {
        self.value = Some(value);
        self.expected = case.returns.filter(|expected| *expected != value & 0xffff_ffff);
    }

    fn to_text(&self, number: usize, hook: Hook) -> String {
        let mut out: String = self.trace.iter().map(|line| format!("{line}\n")).collect();
        out += &match &self.name {
            Some(name) => format!("run {number}, {name}: "),
            None => format!("run {number}: "),
        };
        out += &match (&self.fault, self.value) {
            (Some(fault), _) => format!("fault: {fault}"),
            (None, Some(value)) => format!("returned {}", value_text(hook, value)),
            (None, None) => "no result".to_string(),
        };
        if let Some(expected) = self.expected {
            out += &format!(", NOT {}", value_text(hook, expected));
        }
        if let Some(n) = self.instructions {
            out += &format!(", {n} instructions");
        }
        if let Some(ns) = self.duration_ns {
            out += &format!(", {ns} ns");
        }
        out.push('\n');
        self.packet.iter().for_each(|p| out += &format!("  packet: {p}\n"));
        self.context.iter().for_each(|p| out += &format!("  buffer: {p}\n"));
        self.events.iter().for_each(|e| out += &format!("  event: {e}\n"));
        out
    }
}

impl Results {
    fn to_text(&self, hook: Hook, with_missing: bool) -> String {
        let mut out = String::new();
        for (number, run) in self.runs.iter().enumerate() {
            out += &run.to_text(number + 1, hook);
        }
        self.changes.iter().for_each(|c| out += &c.to_text());
        out += &self.covered.as_ref().map_or(String::new(), |c| c.to_text(with_missing));
        out
    }
}

fn set_interpreted(interpreter: &mut Interpreter, input: &Input, settings: &[Setting]) -> Result<(), Failure> {
    for setting in settings {
        let map = interpreter.state.map_mut(&setting.map).ok_or_else(|| {
            let names: Vec<&str> = input.program().maps.iter().map(|m| m.name.as_str()).collect();
            setting.no_map(&names).of_file(&input.path)
        })?;
        let wrong = |e: String| Failure::usage(format!("map {}: {e}", setting.map)).of_file(&input.path);
        for key in setting.keys(map.def()).map_err(wrong)? {
            map.set(&key, &setting.value).map_err(|e| wrong(e.to_string()))?;
        }
    }
    Ok(())
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
    fn elements() {
        assert_eq!(element("m=00:0102").unwrap().value, [1, 2]);
    }
}
