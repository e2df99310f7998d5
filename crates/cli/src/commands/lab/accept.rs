//! `kara lab accept`: which programs the verifiers of several kernels accept, before and after.

use super::guest::quoted;
use super::machine::{CacheOption, Target};
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input;
use crate::judge::{Kernel, Refused};
use crate::output;
use karakoram_elf::Object;
use karakoram_lab::guest::Job;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  kara lab accept prog.o prog.opt.o --kernel running,6.1,6.12
  kara lab accept before/ after/ --kernel 6.1       objects of the same name in two folders

Kernels other than the running one are Debian's, in a guest (see `kara lab guest`). Objects are bound
to the kernel that they are loaded into, also with its types (CO-RE).

Exit status: 0 every program that loads before also loads after, 1 some do not, 2 wrong request or
input, 3 not possible on this machine.";

/// Options of `kara lab accept`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Object, or folder of objects, before
    before: PathBuf,
    /// Object, or folder of objects, after
    after: PathBuf,
    /// Kernels: `running`, or versions for guests
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "running", value_parser = Target::parse)]
    kernel: Vec<Target>,
    /// End a guest after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    time_limit: u64,
    #[command(flatten)]
    cache: CacheOption,
}

/// What one kernel says of all programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Report {
    kernel: String,
    programs: Vec<Verdict>,
}

/// What a kernel says of both versions of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Verdict {
    object: String,
    program: String,
    before: State,
    after: State,
}

/// What a kernel says of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Loads,
    Rejected(String),
    /// It cannot be bound to that kernel, or is of a type that is not there.
    Unchecked(String),
}

impl Verdict {
    fn is_lost(&self) -> bool {
        self.before == State::Loads && self.after != State::Loads
    }
}

impl Options {
    /// Asks all kernels.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let pairs = self.pairs()?;
        let mut reports = Vec::new();
        for target in &self.kernel {
            reports.push(match target {
                Target::Running => on_this_kernel(&pairs)?,
                Target::Guest(version) => self.in_guest(version, &pairs)?,
            });
        }
        if common.json {
            output::print_json(&serde_json::json!({ "schema": "kara/lab/accept/1", "reports": reports }));
        } else {
            output::print_text(&to_text(&reports, common.verbose > 0));
        }
        let is_lost = reports.iter().flat_map(|r| &r.programs).any(Verdict::is_lost);
        Ok(if is_lost { Answer::No } else { Answer::Yes })
    }

    /// Name, before and after of every object.
    fn pairs(&self) -> Result<Vec<(String, PathBuf, PathBuf)>, Failure> {
        if !self.before.is_dir() {
            return Ok(vec![("object.o".to_string(), self.before.clone(), self.after.clone())]);
        }
        let mut names = Vec::new();
        objects(&self.before, Path::new(""), &mut names)
            .map_err(|e| Failure::file(&self.before.display().to_string(), "read", &e))?;
        names.sort();
        let pair = |name: &PathBuf| (name.display().to_string(), self.before.join(name), self.after.join(name));
        let pairs: Vec<_> = names.iter().map(pair).filter(|(_, _, after)| after.is_file()).collect();
        match pairs.is_empty() {
            true => Err(Failure::usage("there is no object of which both folders have a version")),
            false => Ok(pairs),
        }
    }

    fn in_guest(&self, version: &str, pairs: &[(String, PathBuf, PathBuf)]) -> Result<Report, Failure> {
        let both = pairs.iter().flat_map(|(name, before, after)| {
            [(format!("before/{name}"), before.clone()), (format!("after/{name}"), after.clone())]
        });
        let words = ["kara", "--json", "lab", "accept", "before", "after"].map(String::from);
        let mut job =
            Job { files: both.collect(), time_limit: Duration::from_secs(self.time_limit), ..Job::new(quoted(&words)) };
        let done = self.cache.run(version, &mut job)?;
        let answer: Result<BTreeMap<String, serde_json::Value>, _> = serde_json::from_slice(&done.stdout);
        let report = answer.ok().and_then(|mut a| serde_json::from_value::<Vec<Report>>(a.remove("reports")?).ok());
        report.and_then(|mut reports| reports.pop()).ok_or_else(|| {
            let said = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
            Failure::machine(format!("kara did not work in the guest: {}", said.trim()))
        })
    }
}

/// Paths of the objects below a folder, relative to it.
fn objects(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let path = below.join(entry?.file_name());
        if root.join(&path).is_dir() {
            objects(root, &path, found)?;
        } else if path.extension().is_some_and(|e| e == "o") {
            found.push(path);
        }
    }
    Ok(())
}

fn on_this_kernel(pairs: &[(String, PathBuf, PathBuf)]) -> Result<Report, Failure> {
    let kernel = Kernel::open(None).map_err(|e| {
        Failure::machine(format!("the kernel cannot be asked about programs here: {e}")).help("run kara as root")
    })?;
    let mut programs = Vec::new();
    for (name, before, after) in pairs {
        let (before, after) = (read(before)?, read(after)?);
        for entry in input::entries(before.program()) {
            let function = &before.program().function(entry).name;
            let same = after.program().functions.iter().position(|f| f.name == *function);
            programs.push(Verdict {
                object: name.clone(),
                program: function.clone(),
                before: state(&kernel, &before, entry),
                after: match same {
                    Some(place) => state(&kernel, &after, karakoram_bpf::insn::FuncId(place as u32)),
                    None => State::Unchecked("it is not there any more".to_string()),
                },
            });
        }
    }
    Ok(Report { kernel: Kernel::name(), programs })
}

fn read(path: &Path) -> Result<Object, Failure> {
    let name = path.display().to_string();
    let bytes = input::read_bytes(&name)?;
    Object::parse(bytes).map_err(|e| Failure::input(e.to_string()).of_file(&name))
}

fn state(kernel: &Kernel, object: &Object, entry: karakoram_bpf::insn::FuncId) -> State {
    match kernel.load_object(object, entry) {
        Ok(_) => State::Loads,
        Err(Refused::Rejected { why, .. }) => State::Rejected(why),
        Err(Refused::Unchecked(why)) => State::Unchecked(why),
    }
}

fn to_text(reports: &[Report], verbose: bool) -> String {
    let mut out = String::new();
    for report in reports {
        let load = |state: fn(&Verdict) -> &State| report.programs.iter().filter(|v| *state(v) == State::Loads).count();
        let (before, after) = (load(|v| &v.before), load(|v| &v.after));
        out += &format!("{}: {} programs; {before} load before, {after} after\n", report.kernel, report.programs.len());
        for v in report.programs.iter().filter(|v| v.is_lost()) {
            out += &format!("  LOST {} {}: {}\n", v.object, v.program, reason(&v.after));
        }
        for v in report.programs.iter().filter(|v| verbose && v.before != State::Loads) {
            out += &format!("  {} {} does not load as it is: {}\n", v.object, v.program, reason(&v.before));
        }
    }
    out
}

fn reason(state: &State) -> &str {
    match state {
        State::Loads => "",
        State::Rejected(why) | State::Unchecked(why) => why,
    }
}
