//! `kara opt`: the optimizer, the prover, the kernel, and the result under its name.

use super::cache;
use crate::arguments::Common;
use crate::engine::Settings;
use crate::failure::{Answer, Failure};
use crate::figures;
use crate::input::{Form, Input, Sidecars, reachable};
use crate::interrupt;
use crate::judge::{Kernel, TypeOption};
use crate::latencies;
use crate::output::{self, Artefact};
use crate::replay;
use crate::report::{ProgramReport, Report};
use crate::takeback::Ledger;
use judging::Judgement;
use karakoram_bpf::barrier::barriers;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::text::{self, Format, asm};
use karakoram_optimize::Level;
use karakoram_optimize::avoid::Avoided;
use karakoram_optimize::cost;
use karakoram_optimize::pipeline::{FunctionStats, SlotWindow};
use karakoram_optimize::search::McmcOptions;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Proven;
use karakoram_proof::certificate::Certificate;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

mod judging;
mod reshaping;

const AFTER_HELP: &str = "\
Examples:
  kara opt prog.o -o prog.opt.o               every program of an object
  kara opt prog.o -o prog.opt.o --prog xdp    the programs of one section, or one function
  kara opt prog.k2 -o -                       K2's language; prog.desc and prog.maps are picked up
  kara opt - -o - -t <prog.o                  as a filter, with assembly as the result
  kara opt prog.bpf -o out.bpf --window 0:3   only slots 0 to 3 may change

The kernel of this machine is asked whether it accepts the result (--kernel none: it is not).
Rewrites that it rejects, or that make its verifier work harder (--verifier-growth), are taken back,
each by itself; in the worst case a program stays as it was.
The proof goes to OUT.proof, for `kara check`. Ctrl-C ends the search and writes the best proven
result.

Exit status: 0 done, 2 wrong request or input, 3 not possible on this machine, 101 a bug.";

/// Options of `kara opt`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Object (.o), .k2, .bpf, assembly (.s) or raw instructions (.insns); - is stdin
    #[arg(value_name = "IN")]
    input: String,
    /// Where the result goes; - is stdout. The ending says the format, default that of IN
    #[arg(short, long, value_name = "OUT")]
    output: Option<String>,
    /// Write assembly
    #[arg(short, long, help_heading = "Output")]
    text: bool,
    /// How hard to try: 0 nothing, 1 cheap passes, 2 all passes, 3 with search
    #[arg(short = 'O', value_name = "LEVEL", default_value = "2", value_parser = clap::value_parser!(u8).range(0..=3))]
    level: u8,
    /// What is to become smaller
    #[arg(long, value_enum, default_value_t = Goal::Size)]
    goal: Goal,
    /// Only change slots A to B, both included, of the one program (see --prog)
    #[arg(long, value_name = "A:B", value_parser = window)]
    window: Option<(usize, usize)>,
    /// Only this program, by function or section; may be repeated
    #[arg(long, value_name = "NAME")]
    prog: Vec<String>,
    /// Kernel that must accept the result
    #[arg(long, value_enum, default_value_t = Target::Running)]
    kernel: Target,
    /// Instructions that the kernel's verifier may process more than of the input, in percent and at
    /// least 2 [default: 10; for the goal `slots` any number]
    #[arg(long, value_name = "PERCENT")]
    verifier_growth: Option<u32>,
    /// Packets to run both versions on, where the kernel can run that type of program
    #[arg(long, value_name = "N", default_value_t = 300, hide_short_help = true)]
    runs: u64,
    /// Most questions to the prover; the result depends on nothing else
    #[arg(long, value_name = "N", conflicts_with = "time", help_heading = "Search")]
    effort: Option<u64>,
    /// Stop after so long (`10s`, `500ms`, `2m`) with the best so far; not reproducible
    #[arg(long, value_name = "T", value_parser = duration, help_heading = "Search")]
    time: Option<Duration>,
    /// Rule or family of rules not to use; may be repeated
    #[arg(long, value_name = "ID", help_heading = "Search")]
    skip_rule: Vec<String>,
    /// Also write the next K-1 smallest programs on the way, as OUT.1, OUT.2, ...
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), hide_short_help = true, help_heading = "Search")]
    top: u32,
    /// Also search by K2's Markov chain: LIST is name=value,... with K2's names, `n` iterations
    #[arg(long, value_name = "LIST", num_args = 0..=1, default_missing_value = "", hide_short_help = true, help_heading = "Search")]
    walk: Option<McmcOptions>,
    /// Seed of the search and of the packets
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true, help_heading = "Search")]
    seed: u64,
    /// Functions worked on at once (default: one for each processor); the result is the same with any number
    #[arg(short, long, value_name = "N", help_heading = "Search", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// File that keeps what searches came to from run to run; the result is the same with and without
    #[arg(long, value_name = "PATH|none", default_value = "none", help_heading = "Search")]
    cache: Option<String>,
    /// Where the proof goes; `none` for nowhere (default: OUT.proof)
    #[arg(long, value_name = "FILE|none", help_heading = "Output")]
    proof: Option<String>,
    /// Memory models of the prover to switch off, to see what they are worth
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LIST",
        hide_short_help = true,
        help_heading = "Search"
    )]
    prover_without: Vec<Model>,
    #[command(flatten)]
    program_type: TypeOption,
    #[command(flatten)]
    sidecars: Sidecars,
}

/// What is to become smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Goal {
    /// Slots of eight bytes
    Size,
    /// Slots of eight bytes at any price: also locked additions in place of plain ones, as K2 does
    Slots,
    /// The time that a run takes, as a model of the machine code tells it
    Latency,
}

impl From<Goal> for cost::Goal {
    fn from(goal: Goal) -> cost::Goal {
        match goal {
            Goal::Size => cost::Goal::Size,
            Goal::Slots => cost::Goal::Slots,
            Goal::Latency => cost::Goal::Latency,
        }
    }
}

/// Which kernel is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Target {
    /// The one of this machine, where it lets us
    Running,
    /// None
    None,
}

/// Parts of the prover's model of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Model {
    /// I: kinds of memory apart
    MemoryRegions,
    /// II: a table for each map
    MapTables,
    /// III: offsets as numbers
    Offsets,
    /// IV: windows instead of whole functions
    Windows,
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn window(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.filter(|(a, b)| a <= b).ok_or_else(|| "expected two slot numbers, as in 0:3".to_string())
}

/// A time with its unit; without one it is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 10s, 500ms or 2m".to_string();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

impl Options {
    /// Optimizes.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let started = Instant::now();
        let out = self.output.as_deref().ok_or_else(|| {
            Failure::usage("it is not said where the result goes: -o OUT is missing")
                .of_file(&self.input)
                .help("add -o FILE, or -o - for stdout")
        })?;
        let given = if self.text { Some(Form::Text(Format::Asm)) } else { Form::of_path(out) };
        if given.is_some_and(|f| !f.is_binary()) || out != "-" {
            output::check(out, false)?;
        }
        if common.json && out == "-" {
            return Err(Failure::usage("stdout cannot take both the result and the JSON").help("name a file with -o"));
        }
        let input = Input::read(&self.input, &self.sidecars)?;
        let form = given.unwrap_or(input.form);
        output::check(out, form.is_binary())?;
        if form == Form::Object && input.object().is_none() {
            return Err(Failure::usage("a program that comes as text cannot become an object")
                .of_file(out)
                .help("use an ending such as .s, .k2, .bpf or .insns"));
        }
        if let Some(time) = self.time {
            interrupt::stop_after(time);
        }
        let work = Work::new(self, common, &input, form)?;
        let (proven, mut report) = work.optimize()?;
        output::write(out, &work.artefact(&proven)?)?;
        work.write_proof(out, &proven)?;
        work.write_others(out, &proven)?;
        report.seconds = started.elapsed().as_secs_f64();
        if common.json {
            output::print_json(&report);
        } else if !common.quiet {
            eprint!("{}", report.to_text(out));
        }
        Ok(Answer::Yes)
    }

    fn settings(&self, common: &Common, input: &Input, entries: &[FuncId]) -> Result<Settings, Failure> {
        let program = input.program();
        let only = (!self.prog.is_empty()).then(|| {
            let functions = entries.iter().flat_map(|e| reachable(program, *e));
            functions.map(|f| program.function(f).name.clone()).collect::<BTreeSet<String>>()
        });
        let off = |m: Model| !self.prover_without.contains(&m);
        Ok(Settings {
            level: [Level::O0, Level::O1, Level::O2, Level::O3][self.level as usize],
            goal: self.goal.into(),
            latencies: if self.goal == Goal::Latency { latencies::read()? } else { None },
            effort: self.effort,
            window: self.slot_window(input, entries)?,
            skip: self.skip_rule.iter().cloned().collect(),
            avoid: Avoided::default(),
            only,
            stop_after: None,
            prover: ProverOptions {
                memory_regions: off(Model::MemoryRegions),
                map_tables: off(Model::MapTables),
                offsets: off(Model::Offsets),
                windows: off(Model::Windows),
            },
            walk: self.walk.clone(),
            // 1 is the default of the packets' seed and the search's own.
            seed: self.seed.wrapping_sub(1),
            jobs: self.jobs.map_or_else(processors, usize::from),
            cache: self.cache.as_deref().filter(|c| *c != "none").map(cache::open).transpose()?,
            quiet: common.quiet || common.json,
        })
    }

    fn slot_window(&self, input: &Input, entries: &[FuncId]) -> Result<Option<SlotWindow>, Failure> {
        let Some((first, last)) = self.window else { return Ok(None) };
        let [function] = entries else {
            let names: Vec<&str> = entries.iter().map(|f| input.program().function(*f).name.as_str()).collect();
            return Err(Failure::usage("a window is about one program, and there are several")
                .of_file(&self.input)
                .help(format!("choose one with --prog: {}", names.join(", "))));
        };
        let slots = input.program().function(*function).slots();
        if last >= slots {
            return Err(Failure::usage(format!("the window ends at slot {last}, the program at slot {}", slots - 1))
                .of_file(&self.input));
        }
        Ok(Some(SlotWindow { function: *function, first, last }))
    }
}

/// One run of the command.
struct Work<'a> {
    options: &'a Options,
    input: &'a Input,
    form: Form,
    entries: Vec<FuncId>,
    settings: Settings,
    verbose: bool,
}

impl<'a> Work<'a> {
    fn new(options: &'a Options, common: &Common, input: &'a Input, form: Form) -> Result<Work<'a>, Failure> {
        let entries = input.entries(&options.prog)?;
        let settings = options.settings(common, input, &entries)?;
        Ok(Work { options, input, form, entries, settings, verbose: common.verbose > 0 })
    }

    fn optimize(&self) -> Result<(Proven, Report), Failure> {
        let program = self.input.program();
        let kernel = match self.options.kernel {
            Target::None => Err("--kernel none".to_string()),
            Target::Running => Kernel::open(self.options.program_type.program_type),
        };
        let (start, mut reshaping) = self.reshaped(kernel.as_ref().ok())?;
        let outcome = self.better_of(start, &mut reshaping);
        let mut ledger = Ledger::new(program, self.settings.prover, outcome.proven);
        let mut notes: Vec<Vec<String>> = vec![Vec::new(); self.entries.len()];
        let mut general = self.general_notes(outcome.is_partial);
        general.extend(reshaping);
        if self.verbose {
            general.extend(rule_notes(&outcome.functions));
        }
        self.make_writable(&mut ledger, &mut general);
        let judgements = self.judge_all(kernel.as_ref().ok(), &mut ledger, &mut notes)?;
        if let (Err(why), Target::Running) = (&kernel, self.options.kernel) {
            general.push(format!("the kernel was not asked: {why}"));
        }
        let proven = ledger.proven().clone();
        let programs = self.entries.iter().zip(judgements).zip(notes).map(|((entry, judgement), mut notes)| {
            notes.extend(judgement.notes.clone());
            self.program_report(*entry, &proven, judgement, notes)
        });
        let report = Report {
            schema: "kara/opt/1",
            ok: true,
            exit_code: 0,
            seconds: 0.0,
            kernel: kernel.is_ok().then(Kernel::name),
            interrupted: interrupt::is_asked(),
            programs: programs.collect(),
            notes: general,
        };
        Ok((proven, report))
    }

    fn general_notes(&self, is_partial: bool) -> Vec<String> {
        let mut notes = Vec::new();
        for opaque in self.input.object().map_or(&[][..], |o| o.opaque()) {
            notes.push(format!("function {} is kept as it is: {}", opaque.name, opaque.reason));
        }
        if !self.input.program().constants.is_empty() {
            notes.push("read-only data is taken to be as in the object: do not set it before loading".to_string());
        }
        if self.entries.is_empty() {
            notes.push("there is no code in it that is understood".to_string());
        }
        if interrupt::is_asked() {
            notes.push("interrupted: this is the best result that was proven until then".to_string());
        } else if is_partial {
            notes.push("the budget was used up before all was tried (--effort, --time)".to_string());
        }
        notes
    }

    /// Keeps the functions of the input that the object cannot hold in their new form.
    fn make_writable(&self, ledger: &mut Ledger, notes: &mut Vec<String>) {
        let Some(object) = self.input.object() else { return };
        while let Err(error) = object.write(ledger.proven()) {
            let changed = (0..self.input.program().functions.len() as u32).map(FuncId).rfind(|f| ledger.is_changed(*f));
            let Some(function) = changed else { return };
            ledger.give_up(function);
            let name = &self.input.program().function(function).name;
            notes.push(format!("function {name} is kept as it is: {error}"));
        }
    }

    fn program_report(
        &self,
        entry: FuncId,
        proven: &Proven,
        judgement: Judgement,
        notes: Vec<String>,
    ) -> ProgramReport {
        let function = self.input.program().function(entry);
        let functions = reachable(self.input.program(), entry);
        let rewrites = proven.applied().iter().filter(|a| functions.contains(&a.rewrite.function)).count();
        ProgramReport {
            name: function.name.clone(),
            section: function.section.clone(),
            kind: figures::kind(function),
            before: judgement.before,
            after: judgement.after,
            rewrites,
            proven: rewrites,
            kernel: judgement.verdict,
            barriers: barriers(self.input.program(), &functions),
            notes,
        }
    }

    /// The program in the form that was asked for.
    fn artefact(&self, proven: &Proven) -> Result<Artefact, Failure> {
        let program = proven.program();
        let wrong = |e: &dyn std::fmt::Display| Failure::input(e.to_string()).of_file(&self.input.path);
        if proven.applied().is_empty() && proven.changes().is_empty() && self.form == self.input.form {
            // Nothing was done to it: comments, names and all.
            return Ok(match self.form {
                Form::Text(_) => Artefact::Text(String::from_utf8_lossy(&self.input.bytes).into_owned()),
                _ => Artefact::Binary(self.input.bytes.clone()),
            });
        }
        match (self.form, self.input.object()) {
            (Form::Object, Some(object)) => Ok(Artefact::Binary(object.write(proven).map_err(|e| wrong(&e))?)),
            (Form::Text(Format::Asm), _) => Ok(Artefact::Text(asm::print(program))),
            (Form::Text(format), _) => Ok(Artefact::Text(text::write(format, program).map_err(|e| wrong(&e))?)),
            _ => {
                let slots = program.to_slots().map_err(|e| wrong(&e))?;
                Ok(Artefact::Binary(slots.into_iter().flat_map(|s| s.to_bytes()).collect()))
            }
        }
    }

    fn write_proof(&self, out: &str, proven: &Proven) -> Result<(), Failure> {
        let path = match (self.options.proof.as_deref(), out) {
            (Some("none"), _) | (None, "-") => return Ok(()),
            (None, out) if !Path::new(out).is_file() => return Ok(()),
            (Some(path), _) => path.to_string(),
            (None, out) => format!("{out}.proof"),
        };
        let certificate = Certificate::of(self.input.program(), proven);
        output::write(&path, &Artefact::Text(certificate.to_string()))
    }

    /// The programs one rewrite short of the best, two short, and so on, as `stem.N.ending`.
    fn write_others(&self, out: &str, proven: &Proven) -> Result<(), Failure> {
        if out == "-" {
            return Ok(());
        }
        for n in 1..self.options.top as usize {
            let Some(steps) = proven.applied().len().checked_sub(n).filter(|left| *left > 0) else { break };
            let other = replay::again(proven, &proven.applied()[..steps], self.settings.prover);
            let ending = Path::new(out).extension().map_or(String::new(), |e| format!(".{}", e.to_string_lossy()));
            let path = Path::new(out).with_extension("");
            output::write(&format!("{}.{n}{ending}", path.display()), &self.artefact(&other)?)?;
        }
        Ok(())
    }
}

/// What each rule was worth, over all functions.
fn rule_notes(functions: &[FunctionStats]) -> Vec<String> {
    let mut rules: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for (name, stats) in functions.iter().flat_map(|f| &f.rules) {
        let sum = rules.entry(name).or_default();
        *sum = (sum.0 + stats.accepted, sum.1 + stats.saved_slots);
    }
    let used = rules.into_iter().filter(|(_, (times, _))| *times > 0);
    used.map(|(name, (times, saved))| format!("rule {name}: used {times} times, {saved} slots less")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_windows() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(duration("10 days").is_err() && duration("").is_err());
        assert_eq!(window("0:3"), Ok((0, 3)));
        assert!(window("3:0").is_err() && window("3").is_err());
    }
}
