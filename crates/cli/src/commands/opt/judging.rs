//! What the kernel says of the result, and what is done about it.

use super::{Goal, Work};
use crate::failure::Failure;
use crate::figures::Figures;
use crate::input::reachable;
use crate::judge::{self, Kernel, Loaded, Refused, Runs};
use crate::report::Verdict;
use crate::takeback::{Ledger, TakenBack};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_elf::Object;
use karakoram_proof::apply::Proven;

/// How much more work the verifier may have, unless it is said, in percent.
const DEFAULT_GROWTH: u32 = 10;

/// Instructions that it may process more, however small a program is.
const SLACK_INSNS: u64 = 2;

/// What the judges say of one program.
pub(super) struct Judgement {
    pub before: Figures,
    pub after: Figures,
    pub verdict: Verdict,
    /// Why the result cannot stay as it is.
    pub objection: Option<String>,
    pub notes: Vec<String>,
}

impl Work<'_> {
    /// Judges every program, and takes back what a judge objects to until none does.
    pub(super) fn judge_all(
        &self,
        kernel: Option<&Kernel>,
        ledger: &mut Ledger,
        notes: &mut [Vec<String>],
    ) -> Result<Vec<Judgement>, Failure> {
        'again: loop {
            let mut judgements = Vec::new();
            let object = self.rewritten(ledger.proven())?;
            for (place, &entry) in self.entries.iter().enumerate() {
                let judgement = self.judge(kernel, ledger.proven().program(), object.as_ref(), entry, None);
                if let Some(objection) = &judgement.objection {
                    let taken = self.take_back(kernel, ledger, entry, &judgement.before);
                    notes[place].push(describe(&taken, objection));
                    continue 'again;
                }
                judgements.push(judgement);
            }
            return Ok(judgements);
        }
    }

    fn take_back(&self, kernel: Option<&Kernel>, ledger: &mut Ledger, entry: FuncId, before: &Figures) -> TakenBack {
        let mut accepts = |proven: &Proven| {
            let Ok(object) = self.rewritten(proven) else { return false };
            self.judge(kernel, proven.program(), object.as_ref(), entry, Some(before)).objection.is_none()
        };
        ledger.take_back(entry, &mut accepts)
    }

    /// The object with that program, as a loader will read it.
    fn rewritten(&self, proven: &Proven) -> Result<Option<Object>, Failure> {
        let Some(object) = self.input.object() else { return Ok(None) };
        let bytes = object.write(proven).map_err(|e| Failure::input(e.to_string()).of_file(&self.input.path))?;
        Object::parse(bytes).map(Some).map_err(|e| Failure::input(e.to_string()).of_file(&self.input.path))
    }

    /// Asks the kernel about a result. `before`: the figures of the input, where it is known to load;
    /// then it is only loaded again when there is nothing else to say against the result.
    fn judge(
        &self,
        kernel: Option<&Kernel>,
        program: &Program,
        object: Option<&Object>,
        entry: FuncId,
        before: Option<&Figures>,
    ) -> Judgement {
        let original = self.input.program();
        let mut judgement = Judgement {
            before: Figures::of(original, entry),
            after: Figures::of(program, entry),
            verdict: Verdict::Unchecked,
            objection: None,
            notes: Vec::new(),
        };
        let Some(kernel) = kernel else { return judgement };
        let load = |program: &Program, object: Option<&Object>| match object {
            Some(object) => kernel.load_object(object, entry),
            None if entry == FuncId(0) => kernel.load_program(program),
            None => Err(Refused::Unchecked("it is not the first function".into())),
        };
        let after = load(program, object);
        if let Some(before) = before {
            judgement.before = before.clone();
            judgement.objection = match &after {
                Err(why) => Some(why.reason().to_string()),
                Ok(loaded) => {
                    judgement.after = judgement.after.with_kernel(program, entry, loaded);
                    self.growth(&judgement)
                }
            };
            if judgement.objection.is_some() {
                return judgement;
            }
        }
        let before = load(original, self.input.object());
        if let Ok(loaded) = &before {
            judgement.before = judgement.before.with_kernel(original, entry, loaded);
        }
        if let Ok(loaded) = &after {
            judgement.after = judgement.after.with_kernel(program, entry, loaded);
            judgement.verdict = Verdict::Accepted;
            if loaded.is_guess {
                let guess = judge::GUESSED_TYPE.name();
                judgement.notes.push(format!("its section names no program type; it was loaded as {guess} (--type)"));
            }
        }
        match (before, after) {
            (Ok(a), Ok(b)) => {
                self.compare(&a, &b, program, entry, &mut judgement);
                let growth = self.growth(&judgement);
                judgement.objection = judgement.objection.or(growth);
            }
            (Ok(_), Err(why)) => judgement.objection = Some(why.reason().to_string()),
            (Err(Refused::Rejected(why)), Err(_)) => {
                judgement.verdict = Verdict::Rejected;
                judgement.notes.push(format!("the kernel rejects the input already: {why}"));
            }
            (Err(Refused::Unchecked(why)), Err(_)) => {
                judgement.notes.push(format!("the kernel was not asked: {why}"));
            }
            (Err(_), Ok(_)) => {}
        }
        judgement
    }

    /// What there is to say against the work that the verifier has with the result.
    fn growth(&self, judgement: &Judgement) -> Option<String> {
        let (before, after) = (judgement.before.verified_insns?, judgement.after.verified_insns?);
        let percent = match (self.options.verifier_growth, self.options.goal) {
            (Some(percent), _) => percent,
            (None, Goal::Slots) => return None,
            (None, _) => DEFAULT_GROWTH,
        };
        (after > most_verified(before, percent)).then(|| {
            format!("the verifier processed {after} instructions instead of {before} (--verifier-growth {percent})")
        })
    }

    fn compare(&self, a: &Loaded, b: &Loaded, program: &Program, entry: FuncId, judgement: &mut Judgement) {
        let functions = reachable(program, entry);
        let same = |f: &FuncId| program.function(*f) == self.input.program().function(*f);
        if self.options.runs == 0 || functions.iter().all(same) {
            return;
        }
        match judge::run_both(a, b, self.options.runs, self.options.seed) {
            Runs::Agree(runs) if self.verbose => {
                judgement.notes.push(format!("no difference in {runs} runs of both versions on the kernel"));
            }
            Runs::Agree(_) => {}
            Runs::Differ(how) => {
                judgement.objection = Some(format!(
                    "the two versions behaved differently on the kernel, which is a bug in kara; please report it: {how}"
                ));
            }
            Runs::NotCompared(why) if self.verbose => {
                judgement.notes.push(format!("not run side by side: {why}"));
            }
            Runs::NotCompared(_) => {}
        }
    }
}

/// The most instructions that the verifier may process where it processed `before` of the input.
fn most_verified(before: u64, percent: u32) -> u64 {
    let slack = if percent == 0 { 0 } else { SLACK_INSNS };
    before + (before.saturating_mul(percent as u64) / 100).max(slack)
}

/// What was taken back, and why.
fn describe(taken: &TakenBack, objection: &str) -> String {
    let rules: Vec<String> = taken.rules.iter().map(|(rule, times)| format!("{rule} x{times}")).collect();
    let (before, after) = taken.rewrites;
    format!("{} of {before} rewrites were taken back ({}): {objection}", before - after, rules.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_programs_have_slack() {
        assert_eq!(most_verified(15, 10), 17);
        assert_eq!(most_verified(1000, 10), 1100);
        assert_eq!(most_verified(15, 0), 15);
    }

    #[test]
    fn what_was_taken_back_is_named() {
        let taken = TakenBack { rules: [("dead/store".to_string(), 2)].into(), rewrites: (40, 35) };
        assert_eq!(describe(&taken, "no"), "5 of 40 rewrites were taken back (dead/store x2): no");
    }
}
