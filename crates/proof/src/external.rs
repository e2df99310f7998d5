//! A solver that is a program, for a second opinion.

use crate::confirm::{Answers, Patience, confirm};
use crate::session::Session;
use crate::smtlib::Question;
use crate::solver::{Answer, Decide};
use crate::term::{Term, Terms};
use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Questions that a solver is asked about together.
const GROUP: usize = 16;
/// The part of its time that it gets for a question that another one comes after, and for one that is only of help.
const LITTLE: u32 = 30;
const SOME: u32 = 10;

/// What several checks have of one solver: its processes, and what it said.
#[derive(Default, Debug)]
pub struct Acquaintance {
    idle: Mutex<Vec<Session>>,
    answers: Answers,
}

/// A solver that is a program: processes of `z3` and `cvc5` are asked one query after another, any other that reads
/// SMT-LIB2 on standard input is run for each query.
#[derive(Clone, Debug)]
pub struct External {
    program: String,
    seconds: u32,
    shared: Arc<Acquaintance>,
}

impl External {
    /// That program, with a time limit for each query. Copies share its processes and what it said.
    pub fn new(program: &str, seconds: u32) -> External {
        External { program: program.to_string(), seconds, shared: Arc::default() }
    }

    /// Whether the program can be run at all.
    pub fn is_available(&self) -> bool {
        Command::new(&self.program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }

    fn ask(&self, script: &str, seconds: u32) -> std::io::Result<String> {
        let (arguments, option): (&[&str], _) = match self.program.rsplit('/').next().unwrap_or_default() {
            "z3" => (&["-in", "-smt2"], ":timeout"),
            "cvc5" => (&["--lang", "smt2", "--incremental", "-"], ":tlimit-per"),
            _ => return self.ask_once(script),
        };
        let idle = || self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let mut session = match waiting {
            Some(session) => session,
            None => Session::start(Command::new(&self.program).args(arguments))?,
        };
        let answer = session.ask(script, option, Duration::from_secs(seconds.into()))?;
        idle().push(session);
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

    fn verdict(&self, questions: &[&Question], seconds: u32) -> Answer {
        match self.ask(&Question::script_of(questions), seconds).as_deref().map(str::trim) {
            Ok("unsat") => Answer::Never,
            Ok("sat") => Answer::Sometimes,
            _ => Answer::Unknown,
        }
    }

    /// All together, which saves queries, and by halves where that is not answered.
    fn verdicts(&self, questions: &[&Question], seconds: u32) -> Vec<Answer> {
        match (self.verdict(questions, seconds), questions.len()) {
            (Answer::Never, n) => vec![Answer::Never; n],
            (answer, 0 | 1) => vec![answer],
            (_, n) => {
                let (first, second) = questions.split_at(n / 2);
                [self.verdicts(first, seconds), self.verdicts(second, seconds)].concat()
            }
        }
    }

    fn answer_all(&self, questions: &[&Question], patience: Patience) -> Vec<Answer> {
        let (seconds, group) = match patience {
            Patience::Little => ((self.seconds / LITTLE).max(1), GROUP),
            Patience::Some => ((self.seconds / SOME).max(1), 1),
            Patience::Much => (self.seconds, 1),
        };
        questions.chunks(group).flat_map(|group| self.verdicts(group, seconds)).collect()
    }
}

impl PartialEq for External {
    fn eq(&self, other: &External) -> bool {
        (&self.program, self.seconds) == (&other.program, other.seconds)
    }
}

impl Eq for External {}

impl Decide for External {
    fn check(&mut self, terms: &Terms, conditions: &[Term]) -> Answer {
        let question = Question::of_conditions(terms, conditions);
        if let Some(answer) = self.shared.answers.get(&question, Patience::Much) {
            return answer;
        }
        let answer = self.verdict(&[&question], self.seconds);
        self.shared.answers.keep(&question, answer.clone(), Patience::Much);
        answer
    }

    fn check_lemmas(&mut self, terms: &Terms) -> Answer {
        confirm(terms, &self.shared.answers, &mut |questions, patience| self.answer_all(questions, patience))
    }

    /// Not asked for: values come from the solver in this process.
    fn model(&mut self, _: &Terms) -> HashMap<u32, u64> {
        HashMap::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smtlib::{lemma_script, script};
    use crate::solver::Solver;
    use crate::term::{Lemma, Makings, Op, Step};

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
        let (mut verdicts, mut all_confirmed) = ([0; 2], 0);
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
            let confirmed = z3.check_lemmas(&terms);
            assert_ne!(confirmed, Answer::Sometimes, "{}", lemma_script(&terms));
            all_confirmed += (confirmed == Answer::Never) as i32;
            let lemma = Lemma { op: Op::Xor(pool[0], pool[1]), width: 32, form: pool[0] };
            terms.pretend(Step { lemma, made_of: Makings::default(), is_asked: true });
            assert_eq!(z3.check_lemmas(&terms), Answer::Sometimes, "a wrong one among them");
            let never = |a: &Answer| *a == Answer::Never;
            assert_eq!(never(&ours), never(&theirs), "{}", script(&terms, &questions));
            verdicts[never(&ours) as usize] += 1;
        }
        assert!(verdicts.iter().sum::<i32>() > 30 && all_confirmed > 30, "{verdicts:?}, {all_confirmed} confirmed");
    }
}
