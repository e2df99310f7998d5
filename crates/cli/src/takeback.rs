//! Taking rewrites back that another judge does not agree with.
//!
//! The prover has accepted every rewrite, but the kernel's verifier may know less than the prover, or
//! have more work with the result, and running both versions may show what all of us missed. Then the
//! rewrites are done once more, in halves of halves: what the judge still says yes to stays, and of the
//! rest the halves are tried, down to single rewrites. So those that do harm are found by bisection, and
//! with them go only the later ones that build on them. Where there are very many, harm that is spread
//! over them is mostly done by one rule, as when the verifier comes by branches in another order: first
//! each rule is left out, those about jumps first and then the rarest, and if that helps only its
//! rewrites are looked at. Functions do not depend on each other in this, so those that the program does
//! not reach keep theirs.

use crate::input::reachable;
use crate::replay::{self, Step};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_optimize::avoid::Avoided;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use std::collections::BTreeMap;

/// Questions to the judge about one program; what is not settled then is taken back with the rest.
const MOST_QUESTIONS: usize = 48;

/// Instructions that the verifier may process for all these questions, where it is the judge.
const MOST_WORK: u64 = 10_000_000;

/// From so many rewrites on it is first asked which rule does harm.
const MANY_STEPS: usize = 100;

/// What was done to the input, as far as all judges agree.
pub struct Ledger<'a> {
    input: &'a Program,
    prover: Prover,
    proven: Proven,
}

/// What was taken back of one program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TakenBack {
    /// The rewrites that the judge minds, by rule; also those that were not looked at apart.
    pub rules: BTreeMap<String, usize>,
    /// Rewrites before, and after.
    pub rewrites: (usize, usize),
    /// Each of those that the judge minds by itself.
    pub minded: Avoided,
    /// Whether questions ran out, so that others may have gone with them.
    pub is_rough: bool,
}

/// What a judge says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opinion {
    /// Whether it has nothing against the program.
    pub accepts: bool,
    /// What it took to find out: instructions that the verifier processed.
    pub work: u64,
}

/// A judge of programs.
type Judge<'j> = &'j mut dyn FnMut(&Proven) -> Opinion;

impl<'a> Ledger<'a> {
    /// Begins with what the optimizer did.
    pub fn new(input: &'a Program, options: ProverOptions, proven: Proven) -> Ledger<'a> {
        Ledger { input, prover: Prover::new(proven.base(), options), proven }
    }

    /// The program as it is now.
    pub fn proven(&self) -> &Proven {
        &self.proven
    }

    /// Takes back what makes `judge` say no of the program that `entry` begins. The judge is known
    /// to accept the input, and to say no now.
    pub fn take_back(&mut self, entry: FuncId, judge: Judge) -> TakenBack {
        let functions = reachable(self.input, entry);
        let steps = replay::steps(self.proven.base(), self.proven.applied(), &functions);
        let mut kept = self.proven.clone();
        functions.iter().for_each(|f| kept.revert(*f));
        let mut search =
            Search { prover: &self.prover, judge, questions: 0, work: 0, lost: 0, taken: TakenBack::default() };
        let kept = match search.without_one_rule(&kept, &steps) {
            Some(kept) => kept,
            None => search.settle(kept, &steps, true),
        };
        let mine = kept.applied().iter().filter(|a| functions.contains(&a.rewrite.function)).count();
        let taken = TakenBack { rewrites: (steps.len(), mine), ..search.taken };
        self.proven = kept;
        taken
    }

    /// Goes on from another result for the same input.
    pub fn replace(&mut self, proven: Proven) {
        self.proven = proven;
    }

    /// Keeps a function as it was before all rewrites.
    pub fn give_up(&mut self, function: FuncId) {
        self.proven.revert(function);
    }

    /// Whether anything of a function was changed.
    pub fn is_changed(&self, function: FuncId) -> bool {
        self.proven.applied().iter().any(|a| a.rewrite.function == function)
    }
}

struct Search<'s, 'j> {
    prover: &'s Prover,
    judge: Judge<'j>,
    questions: usize,
    work: u64,
    /// Steps dropped so far.
    lost: usize,
    taken: TakenBack,
}

impl Search<'_, '_> {
    fn accepts(&mut self, proven: &Proven) -> bool {
        let opinion = (self.judge)(proven);
        self.questions += 1;
        self.work += opinion.work;
        opinion.accepts
    }

    fn is_tired(&self) -> bool {
        self.questions >= MOST_QUESTIONS || self.work >= MOST_WORK
    }

    /// All steps but some of one rule, where leaving out that rule helps; `None` where none does.
    fn without_one_rule(&mut self, kept: &Proven, steps: &[Step]) -> Option<Proven> {
        if steps.len() < MANY_STEPS {
            return None;
        }
        let mut rules: BTreeMap<&str, (bool, usize)> = BTreeMap::new();
        for step in steps {
            let entry = rules.entry(step.name().1).or_insert((true, 0));
            *entry = (entry.0 && !step.is_about_jumps(), entry.1 + 1);
        }
        let mut rules: Vec<_> = rules.into_iter().map(|(rule, rank)| (rank, rule)).collect();
        rules.sort();
        for (_, rule) in rules {
            // Half of what may be asked is for the bisection.
            if self.work >= MOST_WORK / 2 {
                return None;
            }
            let (suspects, others): (Vec<Step>, Vec<Step>) = steps.iter().cloned().partition(|s| s.name().1 == rule);
            let mut most = kept.clone();
            replay::extend(self.prover, &mut most, &others);
            if self.accepts(&most) {
                self.questions = 0;
                let kept = self.settle(most, &suspects, false);
                // Those that no longer fit were not asked about.
                self.taken.rules.entry(rule.to_string()).or_insert(suspects.len());
                return Some(kept);
            }
        }
        self.questions = 0;
        None
    }

    /// Adds to `kept`, which the judge accepts, as many of the steps as it accepts too. `refused`: it is
    /// known not to accept all of them.
    fn settle(&mut self, kept: Proven, steps: &[Step], refused: bool) -> Proven {
        if steps.is_empty() {
            return kept;
        }
        if self.is_tired() {
            self.taken.is_rough = true;
            return self.drop(kept, steps);
        }
        if !refused {
            let mut all = kept.clone();
            replay::extend(self.prover, &mut all, steps);
            if all.applied().len() == kept.applied().len() {
                return kept;
            }
            if self.accepts(&all) {
                return all;
            }
        }
        let [_, _, ..] = steps else { return self.drop(kept, steps) };
        let (first, second) = steps.split_at(steps.len() / 2);
        let before = self.lost;
        let kept = self.settle(kept, first, false);
        // With all of the first half there, both together are what was refused.
        self.settle(kept, second, self.lost == before)
    }

    fn drop(&mut self, kept: Proven, steps: &[Step]) -> Proven {
        self.lost += steps.len();
        for step in steps {
            let (function, rule) = step.name();
            *self.taken.rules.entry(rule.to_string()).or_default() += 1;
            self.taken.minded.insert(function, step.likeness());
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{self, Settings};
    use karakoram_bpf::insn::Insn;
    use karakoram_bpf::text::asm;

    const PROGRAM: &str = ".func main\n.hook buffer=16\nr2 = 1\nr2 += 2\nr0 = r2\nr0 += 0\nr3 = *(u8 *)(r1 + 1)\n\
                           r4 = r3\nr0 += r4\ncall sub\nexit\n.func sub\n.local\nr3 = 7\nr0 = 5\nexit\n";

    fn optimized(input: &Program) -> Ledger<'_> {
        let settings = Settings { quiet: true, ..Settings::default() };
        Ledger::new(input, settings.prover, engine::run(&Proven::input(input.clone()), &settings).proven)
    }

    fn loads(proven: &Proven) -> usize {
        proven.program().functions[0].nodes.iter().filter(|n| matches!(n.insn, Insn::Load { .. })).count()
    }

    fn opinion(accepts: bool) -> Opinion {
        Opinion { accepts, work: 0 }
    }

    /// A judge that wants the load to stay: what removed it is taken back, and nothing else of it.
    #[test]
    fn what_the_judge_minds_is_taken_back_and_the_rest_stays() {
        let input = asm::parse(PROGRAM).unwrap();
        let mut ledger = optimized(&input);
        let mut accepts = |p: &Proven| opinion(loads(p) == 1);
        assert!(!accepts(ledger.proven()).accepts, "there is something to take back");
        let everything = ledger.proven().applied().len();
        let taken = ledger.take_back(FuncId(0), &mut accepts);
        assert!(accepts(ledger.proven()).accepts);
        assert_eq!(taken.rewrites.0, everything);
        assert!(taken.rewrites.1 > 0 && taken.rewrites.1 < everything, "{taken:?}");
        assert!(taken.rules.values().sum::<usize>() <= everything - taken.rewrites.1, "{taken:?}");
        assert!(ledger.proven().program().functions[0].nodes.len() < input.functions[0].nodes.len());
        assert_eq!(ledger.proven().program().functions[1].nodes.len(), 2, "the other function stays optimized");
    }

    /// Very many rewrites, and a judge that minds those of the rarest rule, wherever they are.
    #[test]
    fn of_very_many_only_those_of_one_rule_are_looked_at() {
        let piece = |i: usize| format!("r2 = {i}\nr2 += 1\nr0 += r2\nr3 = r0\nr0 = r3\n");
        let text: String = (0..40).map(piece).collect();
        let input = asm::parse(&format!(".func main\n.hook buffer=16\nr0 = *(u8 *)(r1 + 0)\n{text}exit\n")).unwrap();
        let mut ledger = optimized(&input);
        let rules = |p: &Proven| {
            let mut rules: BTreeMap<String, usize> = BTreeMap::new();
            p.applied().iter().for_each(|a| *rules.entry(a.rewrite.rule.clone()).or_default() += 1);
            rules
        };
        let before = rules(ledger.proven());
        assert!(before.len() > 1 && before.values().sum::<usize>() >= MANY_STEPS, "{before:?}");
        let (rarest, times) = before.iter().min_by_key(|(rule, times)| (**times, (*rule).clone())).unwrap();
        let mut questions = 0;
        let taken = ledger.take_back(FuncId(0), &mut |p| {
            questions += 1;
            opinion(p.applied().iter().all(|a| a.rewrite.rule != *rarest))
        });
        assert_eq!(taken.rules.keys().collect::<Vec<_>>(), [rarest]);
        assert!(
            taken.rules[rarest] <= *times && questions <= 2 * times + before.len(),
            "{questions} questions, {taken:?}"
        );
        assert!(!rules(ledger.proven()).contains_key(rarest) && !ledger.proven().applied().is_empty());
    }

    #[test]
    fn a_judge_that_wants_nothing_changed_gets_the_input() {
        let input = asm::parse(PROGRAM).unwrap();
        let mut ledger = optimized(&input);
        ledger.take_back(FuncId(0), &mut |p| opinion(p.program() == &input));
        assert_eq!(ledger.proven().program(), &input);
        assert!(ledger.proven().applied().is_empty());
    }

    #[test]
    fn doing_it_again_gives_the_same_program() {
        let input = asm::parse(PROGRAM).unwrap();
        let ledger = optimized(&input);
        let again = replay::again(ledger.proven(), ledger.proven().applied(), ProverOptions::default());
        assert_eq!(again.program(), ledger.proven().program());
    }
}
