//! `kara asm`: text to raw instructions, or to text of another format.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Form, Input, Sidecars};
use crate::output::{self, Artefact};
use karakoram_bpf::text;
use serde_json::json;

const AFTER_HELP: &str = "\
Examples:
  kara asm prog.s -o prog.insns       raw instructions, eight bytes each
  kara asm prog.s -o prog.bpf         C macros; .k2 and .bpf_insns work the same way
  kara asm prog.k2 -o prog.s          to assembly, with hook and maps in it
  echo exit | kara asm - -o - -f s    as a filter

Exit status: 0 done, 2 wrong request or input.";

/// Options of `kara asm`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Assembly (.s), .k2, .bpf, .bpf_insns or .insns; - is stdin
    #[arg(value_name = "IN")]
    input: String,
    /// Where the result goes; - is stdout. The ending says the format
    #[arg(short, long, value_name = "OUT")]
    output: Option<String>,
    /// Format of the result, by its ending: s, k2, bpf, bpf_insns, insns
    #[arg(short, long, value_name = "ENDING")]
    format: Option<String>,
    #[command(flatten)]
    sidecars: Sidecars,
}

impl Options {
    /// Converts.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let out = self.output.as_deref().ok_or_else(|| {
            Failure::usage("it is not said where the result goes: -o OUT is missing").help("add -o FILE, or -o -")
        })?;
        let form = self.form(out)?;
        output::check(out, form.is_binary())?;
        if common.json && out == "-" {
            return Err(Failure::usage("stdout cannot take both the result and the JSON").help("name a file with -o"));
        }
        let input = Input::read(&self.input, &self.sidecars)?;
        let program = input.program();
        let wrong = |e: &dyn std::fmt::Display| Failure::input(e.to_string()).of_file(&input.path);
        let artefact = match form {
            Form::Text(format) => Artefact::Text(text::write(format, program).map_err(|e| wrong(&e))?),
            _ => {
                let slots = program.to_slots().map_err(|e| wrong(&e))?;
                Artefact::Binary(slots.into_iter().flat_map(|s| s.to_bytes()).collect())
            }
        };
        output::write(out, &artefact)?;
        if common.json {
            output::print_json(
                &json!({ "schema": "kara/asm/1", "ok": true, "exit_code": 0, "slots": program.slots() }),
            );
        }
        Ok(Answer::Yes)
    }

    fn form(&self, out: &str) -> Result<Form, Failure> {
        let form = match &self.format {
            Some(ending) => Form::of_path(&format!("x.{}", ending.trim_start_matches('.'))),
            None => Form::of_path(out),
        };
        match form {
            Some(Form::Object) | None => Err(Failure::usage("the ending of the output names no format")
                .of_file(out)
                .help("use .s, .k2, .bpf, .bpf_insns or .insns, or say -f ENDING; objects are made by compilers")),
            Some(form) => Ok(form),
        }
    }
}
