//! From terms to clauses to a verdict: bit-blasting with structural hashing, solved by CaDiCaL.
//!
//! One solver lives as long as one check; gates are translated once and queries are assumptions.

use crate::external::External;
use crate::term::{Op, Term, Terms, mask};
use std::collections::HashMap;

/// The answer to "can all of these hold at once?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No assignment makes them all true.
    Never,
    /// Some assignment does; [`Decide::model`] tells which.
    Sometimes,
    /// The solver gave up within its budget.
    Unknown,
}

/// Something that decides conjunctions of width-1 terms.
pub trait Decide {
    /// Whether all of `conditions` can hold at once.
    fn check(&mut self, terms: &Terms, conditions: &[Term]) -> Answer;

    /// Whether some [`crate::term::Lemma`] in the journal of `terms` is wrong.
    fn check_lemmas(&mut self, terms: &Terms) -> Answer;

    /// After [`Answer::Sometimes`]: values of the unknowns by number, as far as the solver tells.
    fn model(&mut self, terms: &Terms) -> HashMap<u32, u64>;
}

/// Which solver decides, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// CaDiCaL in this process, giving up on a query after that many conflicts, or fewer where each takes longer.
    Cadical {
        /// Budget of a query of few gates.
        conflicts: i32,
    },
    /// A program that reads SMT-LIB2, asked by all checks together.
    External(External),
    /// Another backend, with every query written to a directory.
    Exporting(Box<Backend>, std::path::PathBuf),
}

impl Backend {
    /// Whether simplifications of the term layer are to be checked as well.
    pub fn checks_lemmas(&self) -> bool {
        !matches!(self, Backend::Cadical { .. })
    }

    /// A fresh solver, for one check.
    pub fn start(&self) -> Box<dyn Decide> {
        match self {
            Backend::Cadical { conflicts } => Box::new(Solver::new(*conflicts)),
            Backend::External(external) => Box::new(external.clone()),
            Backend::Exporting(inner, directory) => {
                Box::new(crate::smtlib::Exporting::new(inner.start(), directory.clone()))
            }
        }
    }
}

/// Gates up to which a conflict takes next to no time.
const FEW_GATES: i64 = 2_000;

/// A gate input or output: a literal in the solver's numbering, negative when inverted.
type Lit = i32;

/// Decides conjunctions of width-1 terms.
pub struct Solver {
    sat: cadical::Solver,
    next: Lit,
    truth: Lit,
    bits: HashMap<Term, Box<[Lit]>>,
    ands: HashMap<(Lit, Lit), Lit>,
    xors: HashMap<(Lit, Lit), Lit>,
    /// Largest number of conflicts a query of few gates may cost.
    pub conflicts: i32,
}

impl Default for Solver {
    fn default() -> Solver {
        Solver::new(20_000)
    }
}

impl Solver {
    /// A solver that gives up on a query after that many conflicts.
    pub fn new(conflicts: i32) -> Solver {
        let mut solver = Solver {
            sat: cadical::Solver::new(),
            next: 1,
            truth: 1,
            bits: HashMap::new(),
            ands: HashMap::new(),
            xors: HashMap::new(),
            conflicts,
        };
        solver.truth = solver.fresh();
        solver.sat.add_clause([solver.truth]);
        solver
    }

    fn decide(&mut self, terms: &Terms, conditions: &[Term]) -> Answer {
        if conditions.iter().any(|c| terms.as_const(*c) == Some(0)) {
            return Answer::Never;
        }
        let assumptions: Vec<Lit> = conditions.iter().map(|c| self.literal(terms, *c)).collect();
        if self.sat.set_limit("conflicts", self.patience()).is_err() {
            return Answer::Unknown;
        }
        match self.sat.solve_with(assumptions) {
            Some(false) => Answer::Never,
            Some(true) => Answer::Sometimes,
            None => Answer::Unknown,
        }
    }

    /// Conflicts that a query may cost: fewer where there are many gates, as each takes longer there.
    fn patience(&self) -> i32 {
        let scaled = self.conflicts as i64 * FEW_GATES / FEW_GATES.max(self.next as i64);
        scaled.max(1) as i32
    }

    fn holds(&self, lit: Lit) -> bool {
        self.sat.value(lit).unwrap_or(false)
    }

    fn fresh(&mut self) -> Lit {
        self.next += 1;
        self.next - 1
    }

    fn lit(&self, value: bool) -> Lit {
        if value { self.truth } else { -self.truth }
    }

    // ---- gates ---------------------------------------------------------------------------

    fn and(&mut self, a: Lit, b: Lit) -> Lit {
        let t = self.truth;
        match (a, b) {
            _ if a == -t || b == -t || a == -b => return -t,
            _ if a == t || a == b => return b,
            _ if b == t => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(out) = self.ands.get(&key) {
            return *out;
        }
        let out = self.fresh();
        self.sat.add_clause([-out, a]);
        self.sat.add_clause([-out, b]);
        self.sat.add_clause([out, -a, -b]);
        self.ands.insert(key, out);
        out
    }

    fn or(&mut self, a: Lit, b: Lit) -> Lit {
        -self.and(-a, -b)
    }

    fn xor(&mut self, a: Lit, b: Lit) -> Lit {
        let t = self.truth;
        match (a, b) {
            _ if a == t => return -b,
            _ if a == -t => return b,
            _ if b == t => return -a,
            _ if b == -t => return a,
            _ if a == b => return -t,
            _ if a == -b => return t,
            _ => {}
        }
        let inverted = (a < 0) != (b < 0);
        let (a, b) = (a.abs(), b.abs());
        let key = (a.min(b), a.max(b));
        let out = match self.xors.get(&key) {
            Some(out) => *out,
            None => {
                let out = self.fresh();
                self.sat.add_clause([-out, a, b]);
                self.sat.add_clause([-out, -a, -b]);
                self.sat.add_clause([out, -a, b]);
                self.sat.add_clause([out, a, -b]);
                self.xors.insert(key, out);
                out
            }
        };
        if inverted { -out } else { out }
    }

    fn mux(&mut self, c: Lit, a: Lit, b: Lit) -> Lit {
        if a == b {
            return a;
        }
        let (x, y) = (self.and(c, a), self.and(-c, b));
        self.or(x, y)
    }

    fn add(&mut self, a: &[Lit], b: &[Lit], mut carry: Lit) -> Vec<Lit> {
        let mut out = Vec::with_capacity(a.len());
        for (x, y) in a.iter().zip(b) {
            let half = self.xor(*x, *y);
            out.push(self.xor(half, carry));
            let (generate, propagate) = (self.and(*x, *y), self.and(half, carry));
            carry = self.or(generate, propagate);
        }
        out
    }

    fn less(&mut self, a: &[Lit], b: &[Lit]) -> Lit {
        let mut below = self.lit(false);
        for (x, y) in a.iter().zip(b) {
            let differ = self.xor(*x, *y);
            below = self.mux(differ, *y, below);
        }
        below
    }

    fn equal(&mut self, a: &[Lit], b: &[Lit]) -> Lit {
        let mut all = self.lit(true);
        for (x, y) in a.iter().zip(b) {
            let differ = self.xor(*x, *y);
            all = self.and(all, -differ);
        }
        all
    }

    fn multiply(&mut self, a: &[Lit], b: &[Lit]) -> Vec<Lit> {
        let zero = self.lit(false);
        let mut total = vec![zero; a.len()];
        for (i, bit) in b.iter().enumerate() {
            if *bit == zero {
                continue;
            }
            let row: Vec<Lit> = (0..a.len()).map(|k| if k < i { zero } else { self.and(a[k - i], *bit) }).collect();
            total = self.add(&total, &row, zero);
        }
        total
    }

    /// `factor · a` for a constant factor, as a sum of shifts.
    fn scale(&mut self, a: &[Lit], factor: u64) -> Vec<Lit> {
        let bits: Vec<Lit> = (0..a.len()).map(|i| self.lit(factor >> i & 1 == 1)).collect();
        self.multiply(a, &bits)
    }

    fn shift(&mut self, a: &[Lit], amount: &[Lit], fill: Lit, left: bool) -> Vec<Lit> {
        let mut value = a.to_vec();
        let n = value.len();
        for (k, bit) in amount.iter().enumerate().take_while(|(k, _)| 1usize << k < n) {
            let by = 1usize << k;
            value = (0..n)
                .map(|i| {
                    let moved = match left {
                        true => i.checked_sub(by).map_or(fill, |j| value[j]),
                        false => value.get(i + by).copied().unwrap_or(fill),
                    };
                    self.mux(*bit, moved, value[i])
                })
                .collect();
        }
        value
    }

    /// Quotient and remainder by restoring division; a zero divisor gives `(0, a)`.
    fn divide(&mut self, a: &[Lit], b: &[Lit]) -> (Vec<Lit>, Vec<Lit>) {
        let n = a.len();
        let (zero, one) = (self.lit(false), self.lit(true));
        // One bit wider, so that the shifted remainder fits.
        let mut rest = vec![zero; n + 1];
        let mut wide: Vec<Lit> = b.to_vec();
        wide.push(zero);
        let inverted: Vec<Lit> = wide.iter().map(|x| -x).collect();
        let mut quotient = vec![zero; n];
        for i in (0..n).rev() {
            rest.insert(0, a[i]);
            rest.pop();
            let too_small = self.less(&rest, &wide);
            let difference = self.add(&rest, &inverted, one);
            quotient[i] = -too_small;
            rest = (0..=n).map(|k| self.mux(too_small, rest[k], difference[k])).collect();
        }
        let zeros = vec![zero; n];
        let by_zero = self.equal(b, &zeros);
        let quotient = quotient.into_iter().map(|q| self.and(-by_zero, q)).collect();
        let remainder = (0..n).map(|k| self.mux(by_zero, a[k], rest[k])).collect();
        (quotient, remainder)
    }

    // ---- terms ---------------------------------------------------------------------------

    fn literal(&mut self, terms: &Terms, t: Term) -> Lit {
        self.blast(terms, t)[0]
    }

    /// Literals of all bits, lowest first. Iterative: terms can be deep.
    fn blast(&mut self, terms: &Terms, root: Term) -> Box<[Lit]> {
        let mut stack = vec![root];
        while let Some(&t) = stack.last() {
            if self.bits.contains_key(&t) {
                stack.pop();
                continue;
            }
            let before = stack.len();
            for x in operands(terms, t) {
                if !self.bits.contains_key(&x) {
                    stack.push(x);
                }
            }
            if stack.len() == before {
                let bits = self.translate(terms, t);
                debug_assert_eq!(bits.len(), terms.width(t) as usize);
                self.bits.insert(t, bits.into_boxed_slice());
                stack.pop();
            }
        }
        self.bits[&root].clone()
    }

    fn translate(&mut self, terms: &Terms, t: Term) -> Vec<Lit> {
        let w = terms.width(t) as usize;
        let bits = |s: &Solver, x: Term| s.bits[&x].clone();
        match terms.op(t) {
            Op::Const(v) => (0..w).map(|i| self.lit(v >> i & 1 == 1)).collect(),
            Op::Var(_) => (0..w).map(|_| self.fresh()).collect(),
            Op::Sum(constant, parts) => {
                let mut total: Vec<Lit> = (0..w).map(|i| self.lit(constant >> i & 1 == 1)).collect();
                for (p, c) in parts.iter() {
                    let p = bits(self, *p);
                    // A subtraction is cheaper than a product with a number full of ones.
                    let negative = c.wrapping_neg() & mask(w as u32);
                    total = if negative.count_ones() < c.count_ones() {
                        let inverted: Vec<Lit> = self.scale(&p, negative).into_iter().map(|x| -x).collect();
                        let one = self.lit(true);
                        self.add(&total, &inverted, one)
                    } else {
                        let scaled = self.scale(&p, *c);
                        let zero = self.lit(false);
                        self.add(&total, &scaled, zero)
                    };
                }
                total
            }
            Op::Mul(a, b) => {
                let (a, b) = (bits(self, *a), bits(self, *b));
                self.multiply(&a, &b)
            }
            Op::UDiv(a, b) => {
                let (a, b) = (bits(self, *a), bits(self, *b));
                self.divide(&a, &b).0
            }
            Op::URem(a, b) => {
                let (a, b) = (bits(self, *a), bits(self, *b));
                self.divide(&a, &b).1
            }
            Op::And(a, b) => self.zip(*a, *b, Solver::and),
            Op::Or(a, b) => self.zip(*a, *b, Solver::or),
            Op::Xor(a, b) => self.zip(*a, *b, Solver::xor),
            Op::Shl(a, b) => {
                let (a, b, zero) = (bits(self, *a), bits(self, *b), self.lit(false));
                self.shift(&a, &b, zero, true)
            }
            Op::Lshr(a, b) => {
                let (a, b, zero) = (bits(self, *a), bits(self, *b), self.lit(false));
                self.shift(&a, &b, zero, false)
            }
            Op::Ashr(a, b) => {
                let (a, b) = (bits(self, *a), bits(self, *b));
                self.shift(&a, &b, a[w - 1], false)
            }
            Op::Concat(parts) => parts.iter().rev().flat_map(|p| bits(self, *p)).collect(),
            Op::Extract(hi, lo, x) => self.bits[x][*lo as usize..=*hi as usize].to_vec(),
            Op::SignExtend(x) => {
                let x = bits(self, *x);
                (0..w).map(|i| x[i.min(x.len() - 1)]).collect()
            }
            Op::Ite(c, a, b) => {
                let (c, a, b) = (bits(self, *c)[0], bits(self, *a), bits(self, *b));
                a.iter().zip(&b).map(|(x, y)| self.mux(c, *x, *y)).collect()
            }
            Op::Eq(a, b) => {
                let (a, b) = (bits(self, *a), bits(self, *b));
                vec![self.equal(&a, &b)]
            }
            Op::Ult(a, b) => {
                let (a, b) = (bits(self, *a), bits(self, *b));
                vec![self.less(&a, &b)]
            }
            Op::Slt(a, b) => {
                let (mut a, mut b) = (bits(self, *a), bits(self, *b));
                let top = a.len() - 1;
                // Signed order is unsigned order with the sign bits exchanged.
                std::mem::swap(&mut a[top], &mut b[top]);
                vec![self.less(&a, &b)]
            }
        }
    }

    fn zip(&mut self, a: Term, b: Term, gate: fn(&mut Solver, Lit, Lit) -> Lit) -> Vec<Lit> {
        let (a, b) = (self.bits[&a].clone(), self.bits[&b].clone());
        a.iter().zip(&b).map(|(x, y)| gate(self, *x, *y)).collect()
    }
}

impl Decide for Solver {
    /// The solver in this process belongs to the term layer and takes its word.
    fn check_lemmas(&mut self, _: &Terms) -> Answer {
        Answer::Never
    }

    fn check(&mut self, terms: &Terms, conditions: &[Term]) -> Answer {
        self.decide(terms, conditions)
    }

    fn model(&mut self, terms: &Terms) -> HashMap<u32, u64> {
        let mut model = HashMap::new();
        for (t, bits) in &self.bits {
            if let Op::Var(n) = terms.op(*t) {
                let value = bits.iter().enumerate().fold(0u64, |v, (i, b)| v | (self.holds(*b) as u64) << i);
                model.insert(*n, value);
            }
        }
        model
    }
}

/// The terms a term is made of.
pub fn operands(terms: &Terms, t: Term) -> Vec<Term> {
    parts(terms.op(t))
}

/// The terms that an operation is applied to.
pub fn parts(op: &Op) -> Vec<Term> {
    match op {
        Op::Const(_) | Op::Var(_) => vec![],
        Op::Sum(_, parts) => parts.iter().map(|(p, _)| *p).collect(),
        Op::Concat(parts) => parts.to_vec(),
        Op::Extract(_, _, a) | Op::SignExtend(a) => vec![*a],
        Op::Ite(c, a, b) => vec![*c, *a, *b],
        Op::Mul(a, b)
        | Op::UDiv(a, b)
        | Op::URem(a, b)
        | Op::And(a, b)
        | Op::Or(a, b)
        | Op::Xor(a, b)
        | Op::Shl(a, b)
        | Op::Lshr(a, b)
        | Op::Ashr(a, b)
        | Op::Eq(a, b)
        | Op::Ult(a, b)
        | Op::Slt(a, b) => vec![*a, *b],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Build = fn(&mut Terms, Term, Term) -> Term;

    /// Every gate network against `Terms::eval`: pinned operands must force the evaluated result.
    #[test]
    fn networks_compute_what_terms_mean() {
        let builders: [Build; 16] = [
            Terms::add,
            Terms::sub,
            Terms::mul,
            Terms::udiv,
            Terms::urem,
            Terms::and,
            Terms::or,
            Terms::xor,
            Terms::shl,
            Terms::lshr,
            Terms::ashr,
            Terms::eq,
            Terms::ult,
            Terms::slt,
            |t, a, b| {
                let c = t.slt(a, b);
                t.ite(c, a, b)
            },
            |t, a, b| {
                let k = t.constant(t.width(a), 0xffff_fff1);
                let x = t.mul(a, k);
                let low = t.extract(7, 0, b);
                let low = t.sign_extend(t.width(a), low);
                t.sub(x, low)
            },
        ];
        let samples =
            [0u64, 1, 2, 7, 10, 31, 33, 63, 255, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX, 0x1234_5678_9abc_def0];
        for width in [32, 64] {
            for (i, build) in builders.iter().enumerate() {
                let mut terms = Terms::default();
                let (x, y) = (terms.var(width), terms.var(width));
                let result = build(&mut terms, x, y);
                let mut solver = Solver::default();
                for a in samples {
                    for b in samples {
                        let vars = [a & mask(width), b & mask(width)];
                        let value = terms.eval(result, &|n| vars[n as usize], &mut HashMap::new());
                        let (ka, kb) = (terms.constant(width, a), terms.constant(width, b));
                        let expected = terms.constant(terms.width(result), value);
                        let (ea, eb) = (terms.eq(x, ka), terms.eq(y, kb));
                        let same = terms.eq(result, expected);
                        let differ = terms.not(same);
                        let answer = solver.check(&terms, &[ea, eb, differ]);
                        assert_eq!(answer, Answer::Never, "builder {i} width {width} on {a:#x} {b:#x}");
                        let answer = solver.check(&terms, &[ea, eb, same]);
                        assert!(matches!(answer, Answer::Sometimes), "builder {i} width {width} on {a:#x} {b:#x}");
                    }
                }
            }
        }
    }

    /// A question with many gates has fewer conflicts, but always some; one with few has all.
    #[test]
    fn many_gates_mean_fewer_conflicts() {
        let mut t = Terms::default();
        let (x, y) = (t.var(64), t.var(64));
        let mut solver = Solver::new(4_000);
        let small = t.ult(x, y);
        solver.check(&t, &[small]);
        assert_eq!(solver.patience(), 4_000);
        let (product, wanted) = (t.mul(x, y), t.constant(64, 0x1234_5678_9abc_def1));
        let large = t.eq(product, wanted);
        solver.check(&t, &[large]);
        assert!((1..2_000).contains(&solver.patience()), "{}", solver.patience());
    }

    #[test]
    fn models_make_the_conditions_true() {
        let mut t = Terms::default();
        let (x, y) = (t.var(64), t.var(64));
        let (sum, product) = (t.add(x, y), t.mul(x, y));
        let wanted = t.constant(64, 143);
        let (big, limit) = (t.constant(64, 1), t.constant(64, 100));
        let conditions = [t.eq(product, wanted), t.ult(big, x), t.ult(x, limit), t.ult(y, limit), t.ult(sum, limit)];
        let mut solver = Solver::default();
        assert_eq!(solver.check(&t, &conditions), Answer::Sometimes, "11 and 13 exist");
        let model = solver.model(&t);
        for c in conditions {
            assert_eq!(t.eval(c, &|n| model[&n], &mut HashMap::new()), 1);
        }
    }
}
