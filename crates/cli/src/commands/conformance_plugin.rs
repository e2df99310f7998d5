//! `kara conformance-plugin`: the interpreter, as the public conformance suite asks for it.

use crate::failure::{Answer, Failure};
use crate::output;
use karakoram_bpf::interpreter::conformance;

/// Options of `kara conformance-plugin`; they are the suite's.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Memory in hexadecimal, and `--program HEX`; without the latter the program comes on stdin
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl Options {
    /// Runs one program and prints `r0`.
    pub fn run(&self) -> Result<Answer, Failure> {
        let input = || std::io::read_to_string(std::io::stdin()).unwrap_or_default();
        let answer = conformance::answer(&self.arguments, input).map_err(|e| Failure::input(e.to_string()))?;
        output::print_text(&format!("{answer}\n"));
        Ok(Answer::Yes)
    }
}
