//! Taking rewrites back that another judge does not agree with.
//!
//! The prover has accepted every rewrite, but the kernel's verifier may know less than the prover,
//! and running both versions may show what all of us missed. The first rewrite after which the judge
//! says no is looked for by bisection over the prefixes of what was done. Its rule is then refused
//! for that function, and the function is optimized anew without it. After [`MOST_RULES`] rules the
//! function stays as it was in the input. Functions do not depend on each other in this, so the
//! rewrites of the others are kept, judged once more by the prover.

use crate::engine::{self, Settings};
use crate::input::reachable;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_proof::apply::{Applied, Proven};
use std::collections::BTreeSet;

/// Rules refused for one function before it is left alone altogether.
const MOST_RULES: usize = 4;

/// Above so many rewrites of a program, the last ones are taken back together.
const MANY_STEPS: usize = 300;

/// What was done to each function, and what is no longer tried.
pub struct Ledger<'a> {
    input: &'a Program,
    settings: &'a Settings,
    steps: Vec<Vec<Applied>>,
    refused: Vec<BTreeSet<String>>,
    proven: Proven,
}

/// A rewrite that was taken back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakenBack {
    /// The function it was in.
    pub function: FuncId,
    /// The rule; `None` when all of the function's rewrites were taken back.
    pub rule: Option<String>,
}

impl<'a> Ledger<'a> {
    /// Begins with what the optimizer did.
    pub fn new(input: &'a Program, settings: &'a Settings, proven: Proven) -> Ledger<'a> {
        let functions = (0..input.functions.len() as u32).map(FuncId);
        Ledger {
            input,
            settings,
            steps: functions.map(|f| engine::steps_of(&proven, f)).collect(),
            refused: vec![BTreeSet::new(); input.functions.len()],
            proven,
        }
    }

    /// The program as it is now.
    pub fn proven(&self) -> &Proven {
        &self.proven
    }

    /// Takes back what makes `accepts` say no of the program that `entry` begins. The judge is known
    /// to accept the input.
    pub fn take_back(&mut self, entry: FuncId, accepts: &mut dyn FnMut(&Proven) -> bool) -> TakenBack {
        let mut steps: Vec<Applied> = Vec::new();
        for f in reachable(self.input, entry) {
            steps.extend(self.steps[f.0 as usize].iter().cloned());
        }
        // Between `good` and `bad` steps the judge changes its mind; 0 is the input.
        let (mut good, mut bad) = (0, steps.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            let prefix = engine::replay(self.input, &steps[..middle], self.settings.prover);
            if accepts(&prefix) { good = middle } else { bad = middle }
        }
        if steps.len() > MANY_STEPS {
            return self.keep_first(entry, good, steps.len() - good);
        }
        match bad.checked_sub(1).and_then(|i| steps.get(i)) {
            Some(culprit) => self.refuse(culprit.rewrite.function, culprit.rewrite.rule.clone()),
            None => TakenBack { function: entry, rule: None },
        }
    }

    /// Keeps the first `count` steps of the functions that `entry` reaches: where there are very many,
    /// optimizing anew without one rule takes too long, and what the verifier minds is seldom one rule.
    fn keep_first(&mut self, entry: FuncId, count: usize, dropped: usize) -> TakenBack {
        let mut left = count;
        for f in reachable(self.input, entry) {
            let steps = &mut self.steps[f.0 as usize];
            steps.truncate(left);
            left -= steps.len();
        }
        self.replay();
        TakenBack { function: entry, rule: Some(format!("(the last {dropped} rewrites)")) }
    }

    /// Keeps a function as it was in the input.
    pub fn give_up(&mut self, function: FuncId) {
        self.steps[function.0 as usize].clear();
        self.replay();
    }

    /// Whether anything of a function was changed.
    pub fn is_changed(&self, function: FuncId) -> bool {
        !self.steps[function.0 as usize].is_empty()
    }

    fn refuse(&mut self, function: FuncId, rule: String) -> TakenBack {
        let place = function.0 as usize;
        let refused = &mut self.refused[place];
        // A rule that comes back in spite of being refused would make this go on for ever.
        if !refused.insert(rule.clone()) || refused.len() > MOST_RULES {
            self.give_up(function);
            return TakenBack { function, rule: None };
        }
        let name = self.input.function(function).name.clone();
        let settings = Settings {
            skip: self.settings.skip.union(refused).cloned().collect(),
            only: Some(BTreeSet::from([name])),
            ..self.settings.clone()
        };
        let outcome = engine::run(self.input, &settings);
        self.steps[place] = engine::steps_of(&outcome.proven, function);
        self.replay();
        TakenBack { function, rule: Some(rule) }
    }

    fn replay(&mut self) {
        // Rounds are counted over all functions; here each function has its own.
        let steps: Vec<Applied> = self.steps.iter().flatten().cloned().collect();
        self.proven = engine::replay(self.input, &steps, self.settings.prover);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_bpf::text::asm;

    const PROGRAM: &str = ".func main\n.hook buffer=16\nr2 = 1\nr2 += 2\nr0 = r2\nr0 += 0\ncall sub\nexit\n\
                           .func sub\n.local\nr3 = 7\nr0 = 5\nexit\n";

    fn optimized<'a>(input: &'a Program, settings: &'a Settings) -> Ledger<'a> {
        Ledger::new(input, settings, engine::run(input, settings).proven)
    }

    /// A judge that does not want the main function to lose any instruction.
    #[test]
    fn what_the_judge_refuses_is_taken_back_and_the_rest_stays() {
        let input = asm::parse(PROGRAM).unwrap();
        let settings = Settings { quiet: true, ..Settings::default() };
        let mut ledger = optimized(&input, &settings);
        let length = input.functions[0].nodes.len();
        let mut accepts = |p: &Proven| p.program().functions[0].nodes.len() == length;
        assert!(!accepts(ledger.proven()), "there is something to take back");
        for _ in 0..=MOST_RULES {
            if accepts(ledger.proven()) {
                break;
            }
            let taken = ledger.take_back(FuncId(0), &mut accepts);
            assert_eq!(taken.function, FuncId(0));
        }
        assert!(accepts(ledger.proven()));
        assert_eq!(ledger.proven().program().functions[1].nodes.len(), 2, "the other function stays optimized");
    }

    #[test]
    fn replaying_gives_the_same_program() {
        let input = asm::parse(PROGRAM).unwrap();
        let proven = engine::run(&input, &Settings { quiet: true, ..Settings::default() }).proven;
        let again = engine::replay(&input, proven.applied(), Default::default());
        assert_eq!(again.program(), proven.program());
    }
}
