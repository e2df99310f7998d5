//! What the kernel says of the result, and what is done about it.

use super::{Goal, Work};
use crate::engine::{self, Settings};
use crate::failure::Failure;
use crate::figures::Figures;
use crate::input::reachable;
use crate::interrupt;
use crate::judge::{self, Kernel, Loaded, Refused, Runs};
use crate::report::Verdict;
use crate::takeback::{Ledger, Opinion, TakenBack};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_elf::Object;
use karakoram_optimize::avoid::Avoided;
use karakoram_proof::apply::Proven;
use std::collections::BTreeMap;

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
    /// Instructions that the verifier processed until it rejected the result.
    pub wasted_insns: u64,
    pub notes: Vec<String>,
}

/// Times that work goes on after something was taken back from a program.
const MOST_RESUMPTIONS: usize = 4;

/// Instructions that the verifier may process for a program that is worked on again: longer ones ask
/// too much of a user's patience.
const MOST_VERIFIED_AGAIN: u64 = 100_000;

/// What was taken back from a program so far.
#[derive(Default)]
struct Objections {
    first: Option<String>,
    rules: BTreeMap<String, usize>,
    taken: usize,
    avoid: Avoided,
    resumptions: usize,
}

impl Objections {
    fn add(&mut self, objection: &str, taken: &TakenBack) {
        self.first.get_or_insert_with(|| objection.to_string());
        taken.rules.iter().for_each(|(rule, times)| *self.rules.entry(rule.clone()).or_default() += times);
        self.taken += taken.rewrites.0 - taken.rewrites.1;
        self.avoid.extend(&taken.minded);
    }

    /// What was taken back, and why.
    fn describe(&self) -> Option<String> {
        let objection = self.first.as_ref()?;
        let rules: Vec<String> = self.rules.iter().map(|(rule, times)| format!("{rule} x{times}")).collect();
        Some(format!("{} rewrites were taken back ({}): {objection}", self.taken, rules.join(", ")))
    }
}

impl Work<'_> {
    /// Judges every program, and takes back what a judge objects to until none does. What can be done
    /// without the rewrites that were minded is tried then.
    pub(super) fn judge_all(
        &self,
        kernel: Option<&Kernel>,
        ledger: &mut Ledger,
        notes: &mut [Vec<String>],
    ) -> Result<Vec<Judgement>, Failure> {
        let mut objections: Vec<Objections> = self.entries.iter().map(|_| Objections::default()).collect();
        'again: loop {
            let mut judgements = Vec::new();
            let object = self.rewritten(ledger.proven())?;
            for (&entry, objected) in self.entries.iter().zip(&mut objections) {
                let judgement = self.judge(kernel, ledger.proven().program(), object.as_ref(), entry, None);
                if let Some(objection) = &judgement.objection {
                    let taken = self.take_back(kernel, ledger, entry, &judgement.before);
                    objected.add(objection, &taken);
                    if !taken.is_rough && is_worth_another_try(&judgement, objected) {
                        self.go_on(ledger, entry, objected);
                    }
                    continue 'again;
                }
                judgements.push(judgement);
            }
            notes.iter_mut().zip(&objections).for_each(|(notes, objected)| notes.extend(objected.describe()));
            return Ok(judgements);
        }
    }

    fn take_back(&self, kernel: Option<&Kernel>, ledger: &mut Ledger, entry: FuncId, before: &Figures) -> TakenBack {
        let mut judge = |proven: &Proven| {
            let Ok(object) = self.rewritten(proven) else { return Opinion { accepts: false, work: 0 } };
            let judgement = self.judge(kernel, proven.program(), object.as_ref(), entry, Some(before));
            let work = judgement.after.verified_insns.unwrap_or(judgement.wasted_insns);
            Opinion { accepts: judgement.objection.is_none(), work }
        };
        ledger.take_back(entry, &mut judge)
    }

    /// Optimizes a program further, from where it stands and away from what is minded.
    fn go_on(&self, ledger: &mut Ledger, entry: FuncId, objected: &mut Objections) {
        objected.resumptions += 1;
        let functions = reachable(self.input.program(), entry);
        let settings = Settings { avoid: objected.avoid.clone(), ..self.settings.clone() };
        let outcome = engine::resume(ledger.proven(), &functions, &settings);
        let Some(object) = self.input.object() else { return ledger.replace(outcome.proven) };
        if object.write(&outcome.proven).is_ok() {
            ledger.replace(outcome.proven);
        }
    }

    /// The object with that program, as a loader will read it.
    pub(super) fn rewritten(&self, proven: &Proven) -> Result<Option<Object>, Failure> {
        let Some(object) = self.input.object() else { return Ok(None) };
        let bytes = object.write(proven).map_err(|e| Failure::input(e.to_string()).of_file(&self.input.path))?;
        Object::parse(bytes).map(Some).map_err(|e| Failure::input(e.to_string()).of_file(&self.input.path))
    }

    /// Asks the kernel about a result. `before`: the figures of the input, where it is known to load;
    /// then it is only loaded again when there is nothing else to say against the result.
    pub(super) fn judge(
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
            wasted_insns: 0,
            notes: Vec::new(),
        };
        let Some(kernel) = kernel else { return judgement };
        let load = |program: &Program, object: Option<&Object>, entry: FuncId| match object {
            Some(object) => kernel.load_object(object, entry),
            None if entry == FuncId(0) => kernel.load_program(program),
            None => Err(Refused::Unchecked("it is not the first function".into())),
        };
        // In an object that was written the removed functions are not there.
        let written = object.map(|o| (o.program(), place_without_removed(program, entry)));
        let (written, place) = written.unwrap_or((program, entry));
        let after = load(program, object, place);
        if let Err(Refused::Rejected { verified, .. }) = &after {
            judgement.wasted_insns = *verified;
        }
        if let Some(before) = before {
            judgement.before = before.clone();
            judgement.objection = match &after {
                Err(why) => Some(why.reason().to_string()),
                Ok(loaded) => {
                    judgement.after = judgement.after.with_kernel(written, place, loaded);
                    self.growth(&judgement)
                }
            };
            if judgement.objection.is_some() {
                return judgement;
            }
        }
        let before = load(original, self.input.object(), entry);
        if let Ok(loaded) = &before {
            judgement.before = judgement.before.with_kernel(original, entry, loaded);
        }
        if let Ok(loaded) = &after {
            judgement.after = judgement.after.with_kernel(written, place, loaded);
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
            (Err(Refused::Rejected { why, .. }), Err(_)) => {
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

/// The number of a function among those that have code.
fn place_without_removed(program: &Program, function: FuncId) -> FuncId {
    let before = &program.functions[..function.0 as usize];
    FuncId(before.iter().filter(|f| !f.nodes.is_empty()).count() as u32)
}

fn is_worth_another_try(judgement: &Judgement, objected: &Objections) -> bool {
    let verified = [judgement.before.verified_insns, judgement.after.verified_insns].into_iter().flatten().max();
    let verified = verified.unwrap_or(0).max(judgement.wasted_insns);
    objected.resumptions < MOST_RESUMPTIONS && verified <= MOST_VERIFIED_AGAIN && !interrupt::is_asked()
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
        let mut objections = Objections::default();
        assert_eq!(objections.describe(), None);
        let rules: BTreeMap<String, usize> = [("dead/store".to_string(), 2)].into();
        objections.add("no", &TakenBack { rules: rules.clone(), rewrites: (40, 35), ..TakenBack::default() });
        objections.add("also not", &TakenBack { rules, rewrites: (37, 35), ..TakenBack::default() });
        assert_eq!(objections.describe().unwrap(), "7 rewrites were taken back (dead/store x4): no");
    }
}
