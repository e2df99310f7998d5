//! Questions as SMT-LIB2 text, for a second opinion from any solver.

use crate::solver::{Answer, Decide, operands, parts};
use crate::term::{Lemma, Op, Term, Terms};
use std::collections::HashMap;
use std::path::PathBuf;

/// The script that asks whether all `conditions` (width 1) can hold at once; `unsat` means never.
pub fn script(terms: &Terms, conditions: &[Term]) -> String {
    Question::of_conditions(terms, conditions).script()
}

/// The script that asks whether some simplification of the term layer is wrong; `unsat` means none is.
pub fn lemma_script(terms: &Terms) -> String {
    let lemmas: Vec<&Lemma> = terms.journal().collect();
    let near = Near::new(terms, lemmas.iter().flat_map(|lemma| mentions(lemma)), usize::MAX);
    let equations: Vec<String> = lemmas.iter().map(|lemma| near.equation(lemma)).collect();
    near.question(&[], &format!("(and true {})", equations.join("\n  "))).script()
}

/// Stands before the number of a name in a question, and is replaced in a script by what tells questions apart.
const MARK: char = '@';

/// A claim that is right or wrong by itself, whatever the names in it are: the same text is the same claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    /// What the names stand for, operands first.
    definitions: String,
    claim: String,
    /// All of it, in an order that depends on names only.
    pub(crate) text: String,
}

impl Question {
    /// That some of the conditions (width 1) does not hold.
    pub(crate) fn of_conditions(terms: &Terms, conditions: &[Term]) -> Question {
        let near = Near::new(terms, conditions.iter().copied(), usize::MAX);
        let conditions: Vec<String> = conditions.iter().map(|c| format!("(= {} #b1)", near.name(*c))).collect();
        near.question(&conditions, "false")
    }

    /// The script for which `unsat` says that it is right.
    pub(crate) fn script(&self) -> String {
        Question::script_of(&[self])
    }

    /// The script for which `unsat` says that all of them are right.
    pub(crate) fn script_of(questions: &[&Question]) -> String {
        let mut out = String::from("(set-logic QF_BV)\n");
        let named = |i: usize, text: &str| text.replace(MARK, &format!("q{i}t"));
        questions.iter().enumerate().for_each(|(i, q)| out += &named(i, &q.definitions));
        out += "(assert (not (and true";
        for (i, q) in questions.iter().enumerate() {
            out += "\n  ";
            out += &named(i, &q.claim);
        }
        out += ")))\n(check-sat)\n";
        out
    }
}

/// The terms that a lemma is about.
pub(crate) fn mentions(lemma: &Lemma) -> impl Iterator<Item = Term> {
    parts(&lemma.op).into_iter().chain([lemma.form])
}

/// Some terms and what they are made of, so many steps down; what is deeper may be anything.
pub(crate) struct Near<'t> {
    terms: &'t Terms,
    /// In the order in which they were come by, which does not depend on the order in which terms were made.
    order: Vec<Term>,
    /// Place in that order, and whether what it is made of is there too.
    places: HashMap<Term, (usize, bool)>,
}

impl<'t> Near<'t> {
    pub(crate) fn new(terms: &'t Terms, roots: impl Iterator<Item = Term>, depth: usize) -> Near<'t> {
        let mut near = Near { terms, order: Vec::new(), places: HashMap::new() };
        let mut level: Vec<Term> = roots.collect();
        for left in (0..=depth).rev() {
            let first = near.order.len();
            for t in level {
                // Numbers are written as such.
                if terms.as_const(t).is_none() && !near.places.contains_key(&t) {
                    near.places.insert(t, (near.order.len(), left > 0));
                    near.order.push(t);
                }
            }
            if left == 0 || first == near.order.len() {
                break;
            }
            level = near.order[first..].iter().flat_map(|t| operands(terms, *t)).collect();
        }
        near
    }

    /// The terms that it says nothing about, though they are made of something.
    pub(crate) fn cut(&self) -> impl Iterator<Item = Term> {
        let is_open = |t: &&Term| !self.places[t].1 && !matches!(self.terms.op(**t), Op::Var(_));
        self.order.iter().filter(is_open).copied()
    }

    pub(crate) fn name(&self, t: Term) -> String {
        match self.terms.as_const(t) {
            Some(v) => number(v, self.terms.width(t)),
            None => format!("{MARK}{}", self.places[&t].0),
        }
    }

    pub(crate) fn equation(&self, lemma: &Lemma) -> String {
        format!("(= {} {})", self.name(lemma.form), self.expression(&lemma.op, lemma.width))
    }

    /// That a term has the bits that are known of it; `None` where none are.
    pub(crate) fn known_bits(&self, t: Term) -> Option<String> {
        let ((zeros, ones), w) = (self.terms.known(t), self.terms.width(t));
        let is_known = zeros | ones != 0 && self.terms.as_const(t).is_none();
        is_known.then(|| format!("(= (bvand {} {}) {})", self.name(t), number(zeros | ones, w), number(ones, w)))
    }

    /// That the claim holds where all of those that are given do.
    pub(crate) fn question(&self, given: &[String], claim: &str) -> Question {
        let claim = match given {
            [] => claim.to_string(),
            _ => format!("(=> (and true {}) {claim})", given.join(" ")),
        };
        let lines: Vec<(Term, String)> = self.order.iter().map(|t| (*t, self.definition(*t))).collect();
        let text = lines.iter().map(|(_, line)| line.as_str()).chain([claim.as_str()]).collect();
        let mut lines = lines;
        // Operands come before their users in the arena.
        lines.sort_unstable_by_key(|(t, _)| *t);
        Question { definitions: lines.into_iter().map(|(_, line)| line).collect(), claim, text }
    }

    fn definition(&self, t: Term) -> String {
        let (w, name) = (self.terms.width(t), self.name(t));
        match self.terms.op(t) {
            op if self.places[&t].1 && !matches!(op, Op::Var(_)) => {
                format!("(define-fun {name} () (_ BitVec {w}) {})\n", self.expression(op, w))
            }
            _ => format!("(declare-const {name} (_ BitVec {w}))\n"),
        }
    }

    fn expression(&self, op: &Op, w: u32) -> String {
        let name = |t: &Term| self.name(*t);
        let two = |f: &str, a: &Term, b: &Term| format!("({f} {} {})", name(a), name(b));
        let test = |f: &str, a: &Term, b: &Term| format!("(ite {} #b1 #b0)", two(f, a, b));
        match op {
            Op::Const(v) => number(*v, w),
            // Only ever a name.
            Op::Var(n) => format!("v{n}"),
            Op::Sum(k, parts) => parts
                .iter()
                .fold(number(*k, w), |sum, (p, c)| format!("(bvadd {sum} (bvmul {} {}))", number(*c, w), name(p))),
            Op::Mul(a, b) => two("bvmul", a, b),
            // The instruction set's results for a zero divisor differ from SMT-LIB's.
            Op::UDiv(a, b) => {
                format!("(ite (= {} {}) {} {})", name(b), number(0, w), number(0, w), two("bvudiv", a, b))
            }
            Op::URem(a, b) => format!("(ite (= {} {}) {} {})", name(b), number(0, w), name(a), two("bvurem", a, b)),
            Op::And(a, b) => two("bvand", a, b),
            Op::Or(a, b) => two("bvor", a, b),
            Op::Xor(a, b) => two("bvxor", a, b),
            Op::Shl(a, b) => two("bvshl", a, b),
            Op::Lshr(a, b) => two("bvlshr", a, b),
            Op::Ashr(a, b) => two("bvashr", a, b),
            Op::Concat(parts) => {
                let names: Vec<String> = parts.iter().map(name).collect();
                names.into_iter().reduce(|high, low| format!("(concat {high} {low})")).unwrap_or_default()
            }
            Op::Extract(hi, lo, t) => format!("((_ extract {hi} {lo}) {})", name(t)),
            Op::SignExtend(t) => format!("((_ sign_extend {}) {})", w - self.terms.width(*t), name(t)),
            Op::Ite(c, a, b) => format!("(ite (= {} #b1) {} {})", name(c), name(a), name(b)),
            Op::Eq(a, b) => test("=", a, b),
            Op::Ult(a, b) => test("bvult", a, b),
            Op::Slt(a, b) => test("bvslt", a, b),
        }
    }
}

fn number(v: u64, width: u32) -> String {
    format!("(_ bv{v} {width})")
}

/// Writes each query to a file of its own before it is decided.
pub struct Exporting {
    inner: Box<dyn Decide>,
    directory: PathBuf,
}

impl Exporting {
    /// Files go to that directory, which must exist.
    pub fn new(inner: Box<dyn Decide>, directory: PathBuf) -> Exporting {
        Exporting { inner, directory }
    }
}

impl Exporting {
    /// A query that cannot be written is one that nobody can re-check: that is not a proof.
    fn export(&self, answer: Answer, script: &str) -> Answer {
        let number = std::fs::read_dir(&self.directory).map(|d| d.count()).unwrap_or(0);
        let expected = match answer {
            Answer::Never => "unsat",
            Answer::Sometimes => "sat",
            Answer::Unknown => "unknown",
        };
        let text = format!("(set-info :status {expected})\n{script}");
        match std::fs::write(self.directory.join(format!("query-{number:05}.smt2")), text) {
            Ok(()) => answer,
            Err(_) => Answer::Unknown,
        }
    }
}

impl Decide for Exporting {
    fn check(&mut self, terms: &Terms, conditions: &[Term]) -> Answer {
        let answer = self.inner.check(terms, conditions);
        self.export(answer, &script(terms, conditions))
    }

    fn check_lemmas(&mut self, terms: &Terms) -> Answer {
        let answer = self.inner.check_lemmas(terms);
        self.export(answer, &lemma_script(terms))
    }

    fn model(&mut self, terms: &Terms) -> HashMap<u32, u64> {
        self.inner.model(terms)
    }
}
