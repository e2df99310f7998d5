//! `kara bench --testbed`: loss-free rates of two versions, behind real packets.

use super::Options;
use crate::arguments::Common;
use crate::commands::lab::experiments::FolderOption;
use crate::failure::Failure;
use crate::input::Input;
use crate::scenario::{Scenario, Setting};
use crate::timing::failure;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Entry;
use karakoram_lab::analysis::Analysis;
use karakoram_lab::comparison::{Comparison, Finding};
use karakoram_lab::experiment::Experiment;
use karakoram_lab::results::Results;
use karakoram_lab::trial::Workshop;
use karakoram_lab::trials;
use serde_json::{Value, json};
use std::path::Path;

/// `XDP_TX` and `XDP_REDIRECT`: frames go on from there.
const SENDING: [u64; 2] = [3, 4];

/// What is attached.
pub struct Program {
    /// Name of its function.
    pub name: String,
    /// Its type, if its section says one.
    pub kind: Option<ProgramType>,
}

impl Program {
    /// A program of an input.
    pub fn of(input: &Input, entry: FuncId) -> Program {
        let function = input.program().function(entry);
        let kind = match &function.entry {
            Entry::Hook(hook) => hook.program_type(),
            Entry::Subprogram { .. } => None,
        };
        Program { name: function.name.clone(), kind }
    }
}

/// Loss-free rates of B over A.
pub struct Rates {
    /// Everything that was measured.
    pub results: Results,
    found: Option<Comparison>,
    text: String,
}

impl Options {
    /// Searches for the rates of both. `returns` is what the program returns on the first input.
    pub(super) fn rates(
        &self,
        program: &Program,
        scenario: &Scenario,
        returns: u64,
        common: &Common,
    ) -> Result<Rates, Failure> {
        let text = self.rate_definition(program, scenario, returns)?;
        let experiment = Experiment::parse("rates", &text).map_err(failure)?;
        let kind = trials::named("rate").ok_or_else(|| Failure::machine("this kara cannot search for rates"))?;
        let scratch = tempfile::tempdir().map_err(|e| Failure::machine(format!("could not make a folder: {e}")))?;
        let programs = FolderOption::default().find()?.join("../programs");
        let optimize = |object: &Path| Ok(object.to_path_buf());
        let workshop = Workshop { programs: &programs, scratch: scratch.path(), optimize: &optimize };
        let results = self.run_rounds(kind, &experiment, &workshop, ("rates", "search"), common)?;
        if let Some((version, why)) = results.unavailable.iter().next() {
            return Err(Failure::machine(format!("the rate of {version} cannot be measured here: {why}")));
        }
        let analysis = Analysis::of(&results).map_err(failure)?;
        let text = self.say_rates(&analysis);
        Ok(Rates { found: analysis.metrics[0].between("B", "A"), results, text })
    }

    fn rate_definition(&self, program: &Program, scenario: &Scenario, returns: u64) -> Result<String, Failure> {
        let (hook, is_sending) = match program.kind.or(self.program_type.program_type) {
            Some(ProgramType::XDP) => ("xdp", SENDING.contains(&returns)),
            Some(ProgramType::SCHED_CLS) => ("tc", false),
            _ => {
                let what = format!("{} is neither of XDP nor of tc", program.name);
                return Err(Failure::usage(what).help("--testbed sends packets to those; leave it out for others"));
            }
        };
        let text = |s: &str| Value::from(s).to_string();
        let way = if is_sending { "return" } else { "drop" };
        let mut out = format!(
            "title = \"Loss-free rate of {0}\"\nkind = \"rate\"\nrounds = {1}\n\
             parameters = {{ entry = \"{0}\", hook = \"{hook}\", way = \"{way}\", set = [{2}] }}\n",
            program.name,
            self.searches,
            scenario.settings.iter().map(setting).collect::<Result<Vec<_>, _>>()?.join(", "),
        );
        for (name, path) in [("A", &self.first), ("B", &self.second)] {
            if !path.ends_with(".o") {
                return Err(Failure::usage("--testbed takes objects").of_file(path));
            }
            let path = Path::new(path).canonicalize().map_err(|e| Failure::file(path, "find", &e))?;
            let path = text(&path.display().to_string());
            out += &format!("[[variant]]\nname = \"{name}\"\nparameters = {{ program = {path} }}\n");
        }
        out += "[[metric]]\nname = \"rate\"\ntitle = \"loss-free rate\"\nsamples = \"loss_free_rate\"\nbetter = \"higher\"\n\
                [[figure]]\nform = \"values\"\nof = \"rate\"\n[[figure]]\nform = \"curve\"\nof = \"received over offered\"\n";
        Ok(out)
    }

    fn say_rates(&self, analysis: &Analysis) -> String {
        let metric = &analysis.metrics[0];
        let (a, b) = (&self.first, &self.second);
        let mut out = String::new();
        for (name, path) in [("A", a), ("B", b)] {
            if let Some(figures) = metric.named(name) {
                let e = &figures.estimate;
                out += &format!(
                    "{path}: loss-free rate {:.0} [{:.0}, {:.0}] packets/s, {} searches\n",
                    e.value,
                    e.low,
                    e.high,
                    figures.rounds()
                );
            }
        }
        let ratio = |c: &Comparison| format!("{:.3}x ± {:.3}", c.ratio.value, c.ratio.plus_minus());
        out += &match metric.between("B", "A") {
            None => "no search came to an end in both; nothing can be said of rates\n".to_string(),
            Some(c) if c.finding == Finding::Different => format!("the rate of {b} is {} that of {a}\n", ratio(&c)),
            Some(c) => format!("no difference between the rates was measured: {}\n", ratio(&c)),
        };
        if let Some(control) = &metric.control {
            out += &format!("{a} against itself: {:.3}x ± {:.3}\n", control.value, control.plus_minus());
        }
        out
    }
}

/// A map's content as trials take it.
fn setting(setting: &Setting) -> Result<String, Failure> {
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let key = setting.key.as_ref().ok_or_else(|| {
        Failure::usage(format!("map {}: --testbed takes single elements, not all of an array", setting.map))
    })?;
    let (map, key, value) = (&setting.map, digits(key), digits(&setting.value));
    Ok(format!("{{ map = \"{map}\", key = \"{key}\", value = \"{value}\" }}"))
}

impl Rates {
    /// In words.
    pub fn to_text(&self) -> &str {
        &self.text
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({ "comparison": self.found, "contamination": self.results.contamination })
    }
}
