//! `kara lab predict`: what the model of `--goal latency` says a run takes.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::latencies;
use crate::output;
use crate::table;
use karakoram_bpf::insn::FuncId;
use karakoram_optimize::cost::{Goal, Latencies, Prices};
use serde_json::json;

const AFTER_HELP: &str = "\
Examples:
  kara lab predict prog.o
  kara lab predict prog.o prog.opt.o

How often an instruction runs is estimated from the shape of the code; calls of other functions of the
program count as calls, without what is in them. See `kara lab calibrate` for the model.

Exit status: 0 done, 2 wrong request or input.";

/// Options of `kara lab predict`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The program
    #[arg(value_name = "A")]
    first: String,
    /// Another version of it
    #[arg(value_name = "B")]
    second: Option<String>,
}

impl Options {
    /// Predicts.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let own = latencies::read()?;
        let model = own.as_deref().unwrap_or_else(|| Latencies::builtin());
        let a = Input::read(&self.first, &Sidecars::default())?;
        let b = self.second.as_ref().map(|path| Input::read_version(path, &a)).transpose()?;
        let rows: Vec<(String, u64, Option<u64>)> = (0..a.program().functions.len() as u32)
            .map(FuncId)
            .map(|f| {
                let name = a.program().function(f).name.clone();
                let same = b.as_ref().and_then(|b| Some((b, position(b, &name)?)));
                let second = same.map(|(b, f)| predicted_ps(b, f, model));
                (name, predicted_ps(&a, f, model), second)
            })
            .collect();
        if common.json {
            let function = |(name, a, b): &(String, u64, Option<u64>)| json!({ "name": name, "a_ps": a, "b_ps": b });
            output::print_json(&json!({
                "schema": "kara/lab/predict/1", "ok": true, "exit_code": 0, "model": model.provenance,
                "functions": rows.iter().map(function).collect::<Vec<_>>(),
            }));
            return Ok(Answer::Yes);
        }
        let text = |(name, a, b): &(String, u64, Option<u64>)| {
            vec![name.clone(), if b.is_some() { table::change(Some(*a), *b) } else { a.to_string() }]
        };
        let p = &model.provenance;
        output::print_text(&table::markdown(&["function", "picoseconds"], &rows.iter().map(text).collect::<Vec<_>>()));
        output::print_text(&format!("by the model of {}, Linux {}, {}\n", p.cpu, p.kernel, p.date));
        Ok(Answer::Yes)
    }
}

fn position(input: &Input, name: &str) -> Option<FuncId> {
    let place = input.program().functions.iter().position(|f| f.name == name)?;
    Some(FuncId(place as u32))
}

fn predicted_ps(input: &Input, function: FuncId, model: &Latencies) -> u64 {
    let program = input.program();
    let prices = Prices::new(Goal::Latency, model, program, function);
    prices.of_function(program.function(function)).time_fs / 1000
}
