//! `kara bench --count`: executed instructions instead of time.

use super::Options;
use crate::arguments::Common;
use crate::commands::lab::count::Counting;
use crate::failure::{Answer, Failure};
use crate::output;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// When the guest is ended.
const LIMIT: Duration = Duration::from_secs(600);

impl Options {
    pub(super) fn run_counted(&self, common: &Common) -> Result<Answer, Failure> {
        let counting = Counting {
            versions: vec![Path::new(&self.first), Path::new(&self.second)],
            inputs: &self.input,
            program: self.prog.as_deref(),
            kernel: &self.kernel,
            limit: LIMIT,
            cache: &self.cache,
        };
        let counts = counting.run()?;
        let total = |version: usize| counts[version].iter().map(|(_, n)| n).sum::<u64>();
        let (a, b) = (total(0), total(1));
        if common.json {
            output::print_json(&json!({
                "schema": "kara/bench/count/1", "ok": true, "exit_code": 0, "kernel": self.kernel,
                "a": self.first, "b": self.second, "a_instructions": a, "b_instructions": b, "runs": counts,
            }));
        } else {
            output::print_text(&counting.to_text(&counts));
            output::print_text(&format!("{}\n", verdict(&self.first, &self.second, a, b)));
        }
        Ok(Answer::Yes)
    }
}

fn verdict(first: &str, second: &str, a: u64, b: u64) -> String {
    if a == b {
        return format!("{second} executes as many instructions as {first}");
    }
    let word = if b < a { "fewer" } else { "more" };
    let share = (b as f64 - a as f64).abs() / a.max(1) as f64 * 100.0;
    format!("{second} executes {} instructions {word} than {first} ({share:.1} %)", a.abs_diff(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_compared() {
        assert_eq!(verdict("a", "b", 200, 150), "b executes 50 instructions fewer than a (25.0 %)");
        assert_eq!(verdict("a", "b", 100, 150), "b executes 50 instructions more than a (50.0 %)");
        assert_eq!(verdict("a", "b", 7, 7), "b executes as many instructions as a");
    }
}
