//! Has the simplifications of the term layer confirmed by another solver.
//!
//! Each is a claim of its own, and mostly one that is seen to be right from what is near: what it was made of, which is
//! claimed in turn, and the bits that are known of the terms that it does not look into, which are claimed as well. A
//! claim never rests on one that comes after it, so when all are right, what they are about is. Near claims are small
//! and look alike in all programs: a claim is written in names that depend on nothing but itself ([`Question`]), and
//! what was confirmed once is not asked again.

use crate::smtlib::{Near, Question, mentions};
use crate::solver::Answer;
use crate::term::{Term, Terms};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// What a solver said of questions so far, by their text, and how much time it had for that.
#[derive(Default, Debug)]
pub(crate) struct Answers(Mutex<HashMap<Box<str>, (Answer, Patience)>>);

impl Answers {
    /// What is known; no answer counts as one where there was as much time for it.
    pub(crate) fn get(&self, question: &Question, patience: Patience) -> Option<Answer> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, had) = answers.get(question.text.as_str())?;
        (*answer != Answer::Unknown || *had >= patience).then(|| answer.clone())
    }

    pub(crate) fn keep(&self, question: &Question, answer: Answer, patience: Patience) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(question.text.as_str().into(), (answer, patience));
    }
}

/// What is claimed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Claim {
    /// A simplification, by its place among all.
    Step(usize),
    /// That bits that are known of a term are so.
    Bits(Term),
}

/// How far around a claim its question looks: steps down into terms, and whether known bits are taken for granted of
/// those that are not looked into.
const REACHES: [(usize, bool); 4] = [(1, false), (1, true), (4, true), (usize::MAX, false)];

/// How much time a question may take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Patience {
    /// Another question comes if there is no answer.
    Little,
    /// It is only of help.
    Some,
    /// Nothing else is left.
    Much,
}

/// Someone who answers questions, each for itself.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(&[&Question], Patience) -> Vec<Answer>;

/// Whether all simplifications that were asked for are right.
pub(crate) fn confirm(terms: &Terms, answers: &Answers, ask: Ask) -> Answer {
    let asked = (0..terms.steps().len()).filter(|i| terms.steps()[*i].is_asked).map(Claim::Step);
    let mut work =
        Work { terms, answers, reach: HashMap::new(), resting_on: BTreeMap::new(), refused: BTreeSet::new() };
    let mut pending: Vec<Claim> = asked.collect();
    while !pending.is_empty() {
        let open = match work.settle(pending) {
            Ok(open) => open,
            Err(answer) => return answer,
        };
        // Several claims may be one question.
        let mut questions: BTreeMap<(Patience, &str), (&Question, Patience)> = BTreeMap::new();
        for (claim, question) in &open {
            let patience = work.patience(*claim);
            questions.insert((patience, question.text.as_str()), (question, patience));
        }
        let all: Vec<(&Question, Patience)> = questions.into_values().collect();
        for same in all.chunk_by(|a, b| a.1 == b.1) {
            let batch: Vec<&Question> = same.iter().map(|(question, _)| *question).collect();
            for (question, answer) in batch.iter().zip(ask(&batch, same[0].1)) {
                answers.keep(question, answer, same[0].1);
            }
        }
        pending = open.into_iter().map(|(claim, _)| claim).collect();
    }
    Answer::Never
}

struct Work<'t> {
    terms: &'t Terms,
    answers: &'t Answers,
    /// How far the question of each claim looks, as a place in [`REACHES`].
    reach: HashMap<Claim, usize>,
    /// What confirmed claims take for granted.
    resting_on: BTreeMap<Claim, Vec<Claim>>,
    /// What could not be confirmed, so that nothing may rest on it.
    refused: BTreeSet<Claim>,
}

impl Work<'_> {
    /// Goes through claims and all that they rest on; returns those that have to be asked about. An answer is given
    /// when something that was asked for cannot be confirmed.
    fn settle(&mut self, mut pending: Vec<Claim>) -> Result<Vec<(Claim, Question)>, Answer> {
        let mut open: BTreeMap<Claim, Question> = BTreeMap::new();
        while let Some(claim) = pending.pop() {
            if self.resting_on.contains_key(&claim) || open.contains_key(&claim) || self.refused.contains(&claim) {
                continue;
            }
            let (question, given) = self.question(claim);
            match self.answers.get(&question, self.patience(claim)) {
                None => drop(open.insert(claim, question)),
                Some(Answer::Never) => {
                    pending.extend(&given);
                    self.resting_on.insert(claim, given);
                }
                Some(answer) => {
                    let reach = self.reach.entry(claim).or_default();
                    *reach += 1;
                    if *reach < REACHES.len() {
                        pending.push(claim);
                        continue;
                    }
                    if self.is_asked(claim) {
                        return Err(answer);
                    }
                    self.refused.insert(claim);
                    let fallen: Vec<Claim> =
                        self.resting_on.iter().filter(|(_, on)| on.contains(&claim)).map(|(c, _)| *c).collect();
                    fallen.iter().for_each(|c| drop(self.resting_on.remove(c)));
                    pending.extend(fallen);
                    let asking: Vec<Claim> = open.keys().copied().collect();
                    // Their questions may have taken it for granted.
                    open.clear();
                    pending.extend(asking);
                }
            }
        }
        Ok(open.into_iter().collect())
    }

    fn is_asked(&self, claim: Claim) -> bool {
        matches!(claim, Claim::Step(i) if self.terms.steps()[i].is_asked)
    }

    fn patience(&self, claim: Claim) -> Patience {
        let is_last = self.reach.get(&claim).is_some_and(|reach| reach + 1 == REACHES.len());
        match (is_last, self.is_asked(claim)) {
            (false, _) => Patience::Little,
            (true, false) => Patience::Some,
            (true, true) => Patience::Much,
        }
    }

    /// The question of a claim, and the claims that it takes for granted.
    fn question(&self, claim: Claim) -> (Question, Vec<Claim>) {
        let (depth, takes_bits) = REACHES[self.reach.get(&claim).copied().unwrap_or(0)];
        let steps = self.terms.steps();
        let is_given = |k: &usize| !self.refused.contains(&Claim::Step(*k));
        let (made_of, roots): (Vec<usize>, Vec<Term>) = match claim {
            Claim::Bits(t) => (Vec::new(), vec![t]),
            Claim::Step(i) => {
                let made_of: Vec<usize> = steps[i].made_of.steps.iter().copied().filter(is_given).collect();
                let about = [i].into_iter().chain(made_of.iter().copied());
                let mentioned: Vec<Term> = about.flat_map(|k| mentions(&steps[k].lemma)).collect();
                (made_of, [mentioned, steps[i].made_of.terms.clone()].concat())
            }
        };
        let near = Near::new(self.terms, roots.into_iter(), depth);
        let mut texts: Vec<String> = made_of.iter().map(|k| near.equation(&steps[*k].lemma)).collect();
        let mut given: Vec<Claim> = made_of.into_iter().map(Claim::Step).collect();
        for t in near.cut().filter(|t| takes_bits && !self.refused.contains(&Claim::Bits(*t))) {
            if let Some(text) = near.known_bits(t) {
                texts.push(text);
                given.push(Claim::Bits(t));
            }
        }
        let text = match claim {
            Claim::Step(i) => near.equation(&steps[i].lemma),
            Claim::Bits(t) => near.known_bits(t).unwrap_or_else(|| "true".to_string()),
        };
        (near.question(&texts, &text), given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::External;
    use crate::solver::Decide as _;
    use crate::term::{Lemma, Makings, Op, Step};

    /// A solver to ask, where there is one.
    fn solver(test: &str) -> Option<External> {
        let z3 = External::new("z3", 20);
        if !z3.is_available() {
            eprintln!("SKIPPED: {test}: there is no z3 program here");
            return None;
        }
        Some(z3)
    }

    fn journaled() -> (Terms, Term, Term) {
        let mut terms = Terms::default();
        terms.keep_journal();
        let (a, b) = (terms.var(32), terms.var(32));
        (terms, a, b)
    }

    fn step(op: Op, form: Term, steps: Vec<usize>, is_asked: bool) -> Step {
        let made_of = Makings { steps, terms: Vec::new() };
        Step { lemma: Lemma { op, width: 32, form }, made_of, is_asked }
    }

    /// What follows from a wrong simplification is not confirmed, though it follows.
    #[test]
    fn nothing_rests_on_what_is_wrong() {
        let Some(mut z3) = solver("nothing_rests_on_what_is_wrong") else { return };
        let (mut terms, a, b) = journaled();
        terms.pretend(step(Op::And(a, b), a, Vec::new(), true));
        assert_eq!(z3.check_lemmas(&terms), Answer::Sometimes);
        let (mut terms, a, b) = journaled();
        let wrong = terms.pretend(step(Op::And(a, b), a, Vec::new(), false));
        terms.pretend(step(Op::Or(a, b), b, vec![wrong], true));
        assert_eq!(z3.check_lemmas(&terms), Answer::Sometimes);
        let (mut terms, a, b) = journaled();
        let wrong = terms.pretend(step(Op::And(a, b), a, Vec::new(), false));
        terms.pretend(step(Op::Or(a, a), a, vec![wrong], true));
        assert_eq!(z3.check_lemmas(&terms), Answer::Never, "what does not need it stands");
    }

    /// Bits that are said to be known are claims as well.
    #[test]
    fn known_bits_are_looked_at() {
        let Some(mut z3) = solver("known_bits_are_looked_at") else { return };
        for (shift, verdict) in [(28, Answer::Never), (20, Answer::Sometimes)] {
            let (mut terms, a, b) = journaled();
            let by = terms.constant(32, shift);
            let (a, b) = (terms.lshr(a, by), terms.lshr(b, by));
            let product = terms.mul(a, b);
            // Deeper than a look goes that takes nothing for granted.
            let deep = (0..4).fold(product, |deep, _| {
                let either = terms.xor(deep, a);
                terms.ashr(either, b)
            });
            terms.pretend_zeros(deep, 0xffff_ff00);
            let low = terms.constant(32, 0xff);
            assert_eq!(terms.and(deep, low), deep, "the mask seems to do nothing");
            assert_eq!(z3.check_lemmas(&terms), verdict, "shifted by {shift}");
        }
    }

    /// Terms that were made in another order, of other unknowns: the same question, asked once. Another width or number
    /// is another question.
    #[test]
    fn what_is_the_same_is_asked_once() {
        let answers = Answers::default();
        let mut questions = 0;
        let mut shifted = |before: usize, width: u32, by: u64| {
            let mut terms = Terms::default();
            terms.keep_journal();
            (0..before).for_each(|_| _ = terms.var(16));
            let (x, y) = (terms.var(width), terms.var(width));
            let (sum, by) = (terms.xor(x, y), terms.constant(width, by));
            terms.lshr(sum, by);
            confirm(&terms, &answers, &mut |all, _| {
                questions += all.len();
                vec![Answer::Never; all.len()]
            });
            std::mem::take(&mut questions)
        };
        let first = shifted(0, 64, 8);
        assert!(first > 0);
        assert_eq!(shifted(5, 64, 8), 0);
        assert!(shifted(0, 64, 16) > 0 && shifted(0, 32, 8) > 0);
    }
}
