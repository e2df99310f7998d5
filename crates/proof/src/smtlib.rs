//! Queries as SMT-LIB2 text, for a second opinion from any solver.

use crate::session::Session;
use crate::solver::{Answer, Decide, operands, parts};
use crate::term::{Lemma, Op, Term, Terms};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The script that asks whether all `conditions` (width 1) can hold at once; `unsat` means never.
pub fn script(terms: &Terms, conditions: &[Term]) -> String {
    let mut out = definitions(terms, &needed(terms, conditions.to_vec(), usize::MAX));
    for c in conditions {
        let _ = writeln!(out, "(assert (= t{} #b1))", c.index());
    }
    out.push_str("(check-sat)\n");
    out
}

/// The script that asks whether some simplification of the term layer is wrong; `unsat` means none is.
pub fn lemma_script(terms: &Terms) -> String {
    script_of(terms, &[], &terms.journal().collect::<Vec<_>>())
}

fn script_of(terms: &Terms, known: &[&Lemma], lemmas: &[&Lemma]) -> String {
    let mentioned = known.iter().chain(lemmas).flat_map(|lemma| mentions(lemma)).collect();
    ask(terms, &needed(terms, mentioned, usize::MAX), known, lemmas)
}

/// The script that asks whether some lemma is wrong while those that are `known` hold, with all that lies deeper than
/// [`NEAR`] taken to be anything: `unsat` says more than is asked for, `sat` says nothing.
fn near_script(terms: &Terms, known: &[&Lemma], lemmas: &[&Lemma]) -> String {
    let near = needed(terms, lemmas.iter().flat_map(|lemma| mentions(lemma)).collect(), NEAR);
    let is_near = |l: &&&Lemma| mentions(l).all(|t| near.contains_key(&t));
    let known: Vec<&Lemma> = known.iter().filter(is_near).copied().collect();
    ask(terms, &near, &known, lemmas)
}

fn ask(terms: &Terms, needed: &BTreeMap<Term, bool>, known: &[&Lemma], lemmas: &[&Lemma]) -> String {
    let mut equations: Vec<String> = lemmas.iter().map(|lemma| equation(terms, lemma)).collect();
    equations.sort_unstable();
    let mut out = definitions(terms, needed);
    for lemma in known {
        let _ = writeln!(out, "(assert {})", equation(terms, lemma));
    }
    let _ = writeln!(out, "(assert (not (and true {})))\n(check-sat)", equations.join("\n  "));
    out
}

fn equation(terms: &Terms, lemma: &Lemma) -> String {
    format!("(= t{} {})", lemma.form.index(), expression(terms, &lemma.op, lemma.width))
}

/// The terms that a lemma is about.
fn mentions(lemma: &Lemma) -> impl Iterator<Item = Term> {
    parts(&lemma.op).into_iter().chain([lemma.form])
}

/// Terms and what they are made of, so many steps down; whether what it is made of is there too.
fn needed(terms: &Terms, roots: Vec<Term>, depth: usize) -> BTreeMap<Term, bool> {
    let mut needed = BTreeMap::new();
    let mut pending = roots;
    for left in (0..=depth).rev() {
        pending.retain(|t| !needed.contains_key(t));
        pending.dedup();
        needed.extend(pending.iter().map(|t| (*t, left > 0)));
        if left > 0 {
            pending = pending.iter().flat_map(|t| operands(terms, *t)).collect();
            pending.sort_unstable();
        }
        if pending.is_empty() {
            break;
        }
    }
    needed
}

fn definitions(terms: &Terms, needed: &BTreeMap<Term, bool>) -> String {
    let mut out = String::from("(set-option :produce-models true)\n(set-logic QF_BV)\n");
    // Operands come before their users in the arena.
    for (&t, is_defined) in needed {
        let w = terms.width(t);
        // Writing to a string cannot fail.
        let _ = match terms.op(t) {
            Op::Var(n) => writeln!(out, "(declare-const v{n} (_ BitVec {w}))")
                .and_then(|_| define(&mut out, t, w, &format!("v{n}"))),
            op if *is_defined => define(&mut out, t, w, &expression(terms, op, w)),
            _ => writeln!(out, "(declare-const t{} (_ BitVec {w}))", t.index()),
        };
    }
    out
}

fn define(out: &mut String, t: Term, width: u32, text: &str) -> std::fmt::Result {
    writeln!(out, "(define-fun t{} () (_ BitVec {width}) {text})", t.index())
}

fn number(v: u64, width: u32) -> String {
    format!("(_ bv{v} {width})")
}

fn expression(terms: &Terms, op: &Op, w: u32) -> String {
    let name = |t: &Term| format!("t{}", t.index());
    let two = |f: &str, a: &Term, b: &Term| format!("({f} {} {})", name(a), name(b));
    let test = |f: &str, a: &Term, b: &Term| format!("(ite {} #b1 #b0)", two(f, a, b));
    match op {
        Op::Const(v) => number(*v, w),
        Op::Var(n) => format!("v{n}"),
        Op::Sum(k, parts) => parts
            .iter()
            .fold(number(*k, w), |sum, (p, c)| format!("(bvadd {sum} (bvmul {} {}))", number(*c, w), name(p))),
        Op::Mul(a, b) => two("bvmul", a, b),
        // The instruction set's results for a zero divisor differ from SMT-LIB's.
        Op::UDiv(a, b) => format!("(ite (= {} {}) {} {})", name(b), number(0, w), number(0, w), two("bvudiv", a, b)),
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
        Op::SignExtend(t) => format!("((_ sign_extend {}) {})", w - terms.width(*t), name(t)),
        Op::Ite(c, a, b) => format!("(ite (= {} #b1) {} {})", name(c), name(a), name(b)),
        Op::Eq(a, b) => test("=", a, b),
        Op::Ult(a, b) => test("bvult", a, b),
        Op::Slt(a, b) => test("bvslt", a, b),
    }
}

/// Lemmas that a solver is asked about together, the part of its time that it gets for that, and for a simplification
/// that is only of help.
const GROUP: usize = 8;
/// How deep into terms a question goes that takes what is known of them for granted.
const NEAR: usize = 3;
const TOGETHER: u32 = 30;
const ALONE: u32 = 10;

/// A solver that is a program: `z3` and `cvc5` run as long as this value and are asked one query after another, any
/// other that reads SMT-LIB2 on standard input is run for each query.
pub struct External {
    program: String,
    seconds: u32,
    session: Option<Session>,
}

impl External {
    /// That program, with a time limit for each query.
    pub fn new(program: &str, seconds: u32) -> External {
        External { program: program.to_string(), seconds, session: None }
    }

    /// Whether the program can be run at all.
    pub fn is_available(&self) -> bool {
        Command::new(&self.program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }

    fn ask(&mut self, script: &str, seconds: u32) -> std::io::Result<String> {
        let (arguments, option): (&[&str], _) = match self.program.rsplit('/').next().unwrap_or_default() {
            "z3" => (&["-in", "-smt2"], ":timeout"),
            "cvc5" => (&["--lang", "smt2", "--incremental", "-"], ":tlimit-per"),
            _ => return self.ask_once(script),
        };
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Session::start(Command::new(&self.program).args(arguments))?,
        };
        let answer = session.ask(script, option, Duration::from_secs(seconds.into()))?;
        self.session = Some(session);
        Ok(answer)
    }

    fn ask_once(&self, script: &str) -> std::io::Result<String> {
        let mut command = Command::new(&self.program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(script.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string())
    }

    /// Confirms lemmas that are hard: first the simplifications that they were made of, each from those before it. What
    /// is confirmed, as those that are `known` are from the beginning, may be taken as given from there on.
    fn check_by_steps<'t>(&mut self, terms: &'t Terms, lemmas: &[&'t Lemma], mut known: Vec<&'t Lemma>) -> Answer {
        let about = needed(terms, lemmas.iter().flat_map(|lemma| mentions(lemma)).collect(), usize::MAX);
        let is_about = |step: &&Lemma| mentions(step).all(|t| about.contains_key(&t)) && !known.contains(step);
        let steps: Vec<&Lemma> = terms.steps().iter().filter(is_about).collect();
        let (together, alone) = (self.part_of_time(TOGETHER), self.part_of_time(ALONE));
        for group in steps.chunks(GROUP) {
            if self.verdict(&near_script(terms, &known, group), together) == Answer::Never {
                known.extend(group);
                continue;
            }
            for step in group {
                let is_needed = lemmas.contains(step);
                let seconds = if is_needed { self.seconds } else { alone };
                match self.check_step(terms, &known, step, seconds) {
                    Answer::Never => known.push(step),
                    Answer::Unknown if !is_needed => {}
                    answer => return answer,
                }
            }
        }
        if lemmas.iter().all(|lemma| known.contains(lemma)) { Answer::Never } else { Answer::Unknown }
    }

    fn check_step(&mut self, terms: &Terms, known: &[&Lemma], step: &Lemma, seconds: u32) -> Answer {
        match self.verdict(&near_script(terms, known, &[step]), seconds) {
            Answer::Never => Answer::Never,
            _ => self.verdict(&script_of(terms, known, &[step]), seconds),
        }
    }

    fn part_of_time(&self, part: u32) -> u32 {
        (self.seconds / part).max(1)
    }

    fn verdict(&mut self, script: &str, seconds: u32) -> Answer {
        match self.ask(script, seconds).as_deref().map(str::trim) {
            Ok("unsat") => Answer::Never,
            Ok("sat") => Answer::Sometimes,
            _ => Answer::Unknown,
        }
    }
}

impl Decide for External {
    fn check(&mut self, terms: &Terms, conditions: &[Term]) -> Answer {
        self.verdict(&script(terms, conditions), self.seconds)
    }

    /// In groups, which saves queries; from the first that is hard at once on, step by step.
    fn check_lemmas(&mut self, terms: &Terms) -> Answer {
        let mut lemmas: Vec<&Lemma> = terms.journal().collect();
        lemmas.sort_unstable_by_key(|lemma| lemma.form);
        let together = self.part_of_time(TOGETHER);
        for (confirmed, group) in lemmas.chunks(GROUP).enumerate() {
            let known = &lemmas[..confirmed * GROUP];
            // What is near mostly says it, and is a small part of all that the lemmas are about.
            let mut answer = self.verdict(&near_script(terms, known, group), together);
            if answer == Answer::Sometimes {
                answer = self.verdict(&script_of(terms, &[], group), together);
            }
            match answer {
                Answer::Never => {}
                Answer::Unknown => return self.check_by_steps(terms, &lemmas, known.to_vec()),
                Answer::Sometimes => return Answer::Sometimes,
            }
        }
        Answer::Never
    }

    /// Not asked for: values come from the solver in this process.
    fn model(&mut self, _: &Terms) -> HashMap<u32, u64> {
        HashMap::new()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::Solver;

    /// Both solvers must give the same verdict on the same questions, and the second must not
    /// find a simplification of the first wrong.
    #[test]
    fn a_second_solver_agrees() {
        let mut z3 = External::new("z3", 20);
        if !z3.is_available() {
            eprintln!("SKIPPED: a_second_solver_agrees: there is no z3 program here");
            return;
        }
        let mut seed = 88172645463325252u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let (mut verdicts, mut by_steps) = ([0; 2], 0);
        for _ in 0..60 {
            let mut terms = Terms::default();
            terms.keep_journal();
            let mut pool = vec![terms.var(32), terms.var(32), terms.var(32)];
            let k = next() % 40;
            pool.push(terms.constant(32, k));
            for _ in 0..6 {
                let (a, b) = (pool[next() as usize % pool.len()], pool[next() as usize % pool.len()]);
                let t = match next() % 11 {
                    0 => terms.add(a, b),
                    1 => terms.sub(a, b),
                    2 => terms.and(a, b),
                    3 => terms.or(a, b),
                    4 => terms.xor(a, b),
                    5 => terms.shl(a, b),
                    6 => terms.lshr(a, b),
                    7 => terms.ashr(a, b),
                    8 => {
                        let low = terms.extract(15, 0, a);
                        terms.sign_extend(32, low)
                    }
                    9 => {
                        let c = terms.slt(a, b);
                        terms.ite(c, a, b)
                    }
                    _ => terms.urem(a, pool[3]),
                };
                pool.push(t);
            }
            let (a, b) = (pool[pool.len() - 1], pool[pool.len() - 2]);
            let questions = [terms.eq(a, b), terms.ult(b, pool[0])];
            let ours = Solver::new(100_000).check(&terms, &questions);
            let theirs = z3.check(&terms, &questions);
            if ours == Answer::Unknown || theirs == Answer::Unknown {
                continue;
            }
            assert_ne!(z3.check_lemmas(&terms), Answer::Sometimes, "{}", lemma_script(&terms));
            let lemmas: Vec<&Lemma> = terms.journal().collect();
            let answer = z3.check_by_steps(&terms, &lemmas, Vec::new());
            assert_ne!(answer, Answer::Sometimes, "{}", lemma_script(&terms));
            by_steps += (answer == Answer::Never) as i32;
            let wrong = Lemma { op: Op::Xor(pool[0], pool[1]), width: 32, form: pool[0] };
            assert_ne!(z3.check_by_steps(&terms, &[&wrong], Vec::new()), Answer::Never);
            assert_eq!(z3.check_step(&terms, &lemmas, &wrong, 20), Answer::Sometimes);
            let never = |a: &Answer| *a == Answer::Never;
            assert_eq!(never(&ours), never(&theirs), "{}", script(&terms, &questions));
            verdicts[never(&ours) as usize] += 1;
        }
        assert!(verdicts.iter().sum::<i32>() > 30 && by_steps > 30, "{verdicts:?}, {by_steps} by steps");
    }
}
