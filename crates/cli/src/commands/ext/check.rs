//! `kara ext check`: would the kernel take it?

use super::loaded::{self, Fallback, Loaded};
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use karakoram_installer::InstallError;
use serde_json::json;
use std::path::PathBuf;

/// Options of `kara ext check`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Object or module that `kara ext build` made
    #[arg(value_name = "OBJECT")]
    object: PathBuf,
}

/// What the verifier looks at before it gives up.
const MOST_VERIFIED: u32 = 1_000_000;

/// A program that the kernel took, or why not.
struct Checked {
    name: String,
    hook: String,
    result: Result<Accepted, String>,
}

/// What the kernel made of a program.
struct Accepted {
    verified_insns: u32,
    jited_bytes: u32,
    fallback: Option<Fallback>,
}

impl Options {
    /// Asks.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let named = loaded::names(&self.object)?;
        karakoram_kernel::load::load(&karakoram_kernel::load::LoadRequest::new(
            "kara",
            karakoram_bpf::hook::ProgramType::XDP,
            &karakoram_kernel::load::NOTHING,
        ))
        .map_err(|e| Failure::machine(e.to_string()).help("`kara doctor` says what this kernel permits"))?;
        let mut checked = Vec::new();
        let programs = match named {
            Some(programs) => programs,
            None => Loaded::load(&self.object, &[]).map_err(super::failure)?.programs(),
        };
        for (name, hook) in programs {
            let result = self.ask(&name)?;
            checked.push(Checked { name, hook, result });
        }
        let is_good = checked.iter().all(|c| c.result.is_ok());
        match common.json {
            true => output::print_json(&to_json(&checked, is_good)),
            false => output::print_text(&checked.iter().map(Checked::to_text).collect::<String>()),
        }
        Ok(if is_good { Answer::Yes } else { Answer::No })
    }

    fn ask(&self, program: &str) -> Result<Result<Accepted, String>, Failure> {
        match Loaded::load(&self.object, &[program.to_string()]) {
            Ok(loaded) => {
                let info = loaded.program(program).info(false).map_err(|e| Failure::machine(e.to_string()))?;
                let (verified_insns, jited_bytes) = (info.verified_insns, info.jited_len);
                Ok(Ok(Accepted { verified_insns, jited_bytes, fallback: loaded.fallback() }))
            }
            Err(InstallError::Refused(refusal)) => Ok(Err(format!("{}\n  {}", refusal.why, refusal.help))),
            Err(e @ (InstallError::Object(_) | InstallError::Machine(..))) => Ok(Err(e.to_string())),
            Err(e) => Err(super::failure(e)),
        }
    }
}

fn to_json(checked: &[Checked], is_good: bool) -> serde_json::Value {
    let programs: Vec<_> = checked
        .iter()
        .map(|c| match &c.result {
            Ok(Accepted { verified_insns, jited_bytes, fallback }) => json!({
                "name": c.name, "hook": c.hook, "accepted": true, "verified_insns": verified_insns,
                "jited_bytes": jited_bytes, "fallback": fallback,
            }),
            Err(why) => json!({ "name": c.name, "hook": c.hook, "accepted": false, "reason": why }),
        })
        .collect();
    json!({ "schema": "kara/ext-check/1", "ok": is_good, "exit_code": !is_good as u8, "programs": programs })
}

impl Checked {
    fn to_text(&self) -> String {
        match &self.result {
            Ok(Accepted { verified_insns, jited_bytes, fallback }) => {
                let fallback = fallback.as_ref().map_or(String::new(), |f| format!("\n  {f}"));
                format!(
                    "{} ({}): accepted, {verified_insns} of at most {MOST_VERIFIED} instructions verified, {jited_bytes} bytes of machine code{fallback}\n",
                    self.name, self.hook
                )
            }
            Err(why) => format!("{} ({}): REFUSED: {why}\n", self.name, self.hook),
        }
    }
}
