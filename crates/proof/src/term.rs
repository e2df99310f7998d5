//! Bit-vector terms: hash-consed, kept in canonical form, so that most equalities hold by identity.
//!
//! Canonical forms: sums and products by constants are linear combinations modulo 2^width over
//! other terms; masks, constant shifts and zero extensions are concatenations of extracts; every
//! term knows which of its bits are fixed. A constructor returns a term that means the same as its
//! operands combined, whichever form it chooses; `eval` is the meaning, and the tests compare
//! every constructor with it on random operands.

use std::collections::HashMap;

/// A term of a [`Terms`] arena. Equal handles mean equal values; the converse does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Term(u32);

impl Term {
    /// Position in the arena, operands before users.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a term is made of. Operands have the term's width unless said otherwise.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A number.
    Const(u64),
    /// An unknown, by number.
    Var(u32),
    /// `constant + Σ coefficient·part`; parts sorted, coefficients not zero.
    Sum(u64, Box<[(Term, u64)]>),
    /// Product of two unknown factors.
    Mul(Term, Term),
    /// Unsigned quotient, 0 when the divisor is 0.
    UDiv(Term, Term),
    /// Unsigned remainder, the dividend when the divisor is 0.
    URem(Term, Term),
    /// Bitwise and.
    And(Term, Term),
    /// Bitwise or.
    Or(Term, Term),
    /// Bitwise exclusive or.
    Xor(Term, Term),
    /// Shift left; the amount is below the width.
    Shl(Term, Term),
    /// Logical shift right; the amount is below the width.
    Lshr(Term, Term),
    /// Arithmetic shift right; the amount is below the width.
    Ashr(Term, Term),
    /// Pieces side by side, the highest first; their widths add up.
    Concat(Box<[Term]>),
    /// Bits `lo` to `hi` of a wider term.
    Extract(u8, u8, Term),
    /// A narrower term, sign-extended.
    SignExtend(Term),
    /// `if .0 { .1 } else { .2 }`; the condition has width 1.
    Ite(Term, Term, Term),
    /// Width 1: operands of any equal width are equal.
    Eq(Term, Term),
    /// Width 1: unsigned below.
    Ult(Term, Term),
    /// Width 1: signed below.
    Slt(Term, Term),
}

struct Node {
    op: Op,
    width: u8,
    zeros: u64,
    ones: u64,
}

/// All ones in the low `width` bits.
pub fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The arena.
#[derive(Default)]
pub struct Terms {
    nodes: Vec<Node>,
    ids: HashMap<(Op, u8), Term>,
    vars: u32,
    journal: Option<Journal>,
}

/// The simplifications made, each after those that it was made of.
#[derive(Default)]
struct Journal {
    steps: Vec<Step>,
    noted: HashMap<Lemma, usize>,
    /// What those that are being made now were made of so far, the outermost first.
    open: Vec<Makings>,
}

/// What a simplification is made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Makings {
    /// Simplifications made on the way to it, by their place among all; they come before it.
    pub steps: Vec<usize>,
    /// Terms made on the way to it.
    pub terms: Vec<Term>,
}

impl Journal {
    fn made(&mut self, t: Term) {
        self.open.last_mut().into_iter().for_each(|outer| outer.terms.push(t));
    }

    fn note(&mut self, lemma: Lemma, mut made_of: Makings) {
        let at = *self.noted.entry(lemma).or_insert_with_key(|lemma| {
            made_of.steps.sort_unstable();
            made_of.steps.dedup();
            made_of.terms.sort_unstable();
            made_of.terms.dedup();
            self.steps.push(Step { lemma: lemma.clone(), made_of, is_asked: false });
            self.steps.len() - 1
        });
        match self.open.last_mut() {
            Some(outer) => outer.steps.push(at),
            None => self.steps[at].is_asked = true,
        }
    }
}

/// A simplification that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What it says.
    pub lemma: Lemma,
    /// What was made on the way to it.
    pub made_of: Makings,
    /// Whether it was asked for, and not only made on the way to another one.
    pub is_asked: bool,
}

/// A claim of this module: that operation, at that width, is equal to that term.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lemma {
    /// The operation as it was asked for.
    pub op: Op,
    /// Its width.
    pub width: u32,
    /// The canonical form it was given.
    pub form: Term,
}

impl Terms {
    /// What it is made of.
    pub fn op(&self, t: Term) -> &Op {
        &self.nodes[t.index()].op
    }

    /// Bits, 1 to 64.
    pub fn width(&self, t: Term) -> u32 {
        self.nodes[t.index()].width as u32
    }

    /// From now on, notes every simplification as a [`Lemma`], for another solver to check.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Journal::default());
    }

    /// The simplifications asked for so far: what the meaning of terms rests on.
    pub fn journal(&self) -> impl Iterator<Item = &Lemma> {
        self.steps().iter().filter(|step| step.is_asked).map(|step| &step.lemma)
    }

    /// All simplifications, also those that were only made on the way to others.
    pub fn steps(&self) -> &[Step] {
        self.journal.as_ref().map_or(&[], |j| &j.steps)
    }

    /// Makes a term by `make` and notes that it is `op`.
    fn noted(&mut self, width: u32, op: impl FnOnce() -> Op, make: impl FnOnce(&mut Terms) -> Term) -> Term {
        let Some(journal) = &mut self.journal else { return make(self) };
        journal.open.push(Makings::default());
        let form = make(self);
        let op = op();
        let is_simplified = *self.op(form) != op;
        if let Some(journal) = &mut self.journal {
            let made_of = journal.open.pop().unwrap_or_default();
            if is_simplified {
                journal.note(Lemma { op, width, form }, made_of);
            } else {
                journal.made(form);
            }
        }
        form
    }

    /// Notes a simplification that nobody made, and returns its place.
    #[cfg(test)]
    pub(crate) fn pretend(&mut self, step: Step) -> usize {
        let steps = &mut self.journal.as_mut().expect("a journal is kept").steps;
        steps.push(step);
        steps.len() - 1
    }

    /// Claims to know bits of a term.
    #[cfg(test)]
    pub(crate) fn pretend_zeros(&mut self, t: Term, zeros: u64) {
        self.nodes[t.index()].zeros |= zeros;
    }

    /// Number of terms made so far.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number it is, when it is one.
    pub fn as_const(&self, t: Term) -> Option<u64> {
        match self.op(t) {
            Op::Const(v) => Some(*v),
            _ => None,
        }
    }

    /// Bits known to be 0 and bits known to be 1.
    pub fn known(&self, t: Term) -> (u64, u64) {
        let n = &self.nodes[t.index()];
        (n.zeros, n.ones)
    }

    /// Smallest and largest value that the known bits allow, unsigned.
    pub fn bounds(&self, t: Term) -> (u64, u64) {
        let (zeros, ones) = self.known(t);
        (ones, !zeros & mask(self.width(t)))
    }

    /// A number of that width.
    pub fn constant(&mut self, width: u32, v: u64) -> Term {
        self.intern(Op::Const(v & mask(width)), width)
    }

    /// A truth value.
    pub fn bool(&mut self, v: bool) -> Term {
        self.constant(1, v as u64)
    }

    /// A new unknown.
    pub fn var(&mut self, width: u32) -> Term {
        self.vars += 1;
        self.intern(Op::Var(self.vars - 1), width)
    }

    fn intern(&mut self, op: Op, width: u32) -> Term {
        let t = self.find(op, width);
        self.journal.iter_mut().for_each(|journal| journal.made(t));
        t
    }

    fn find(&mut self, op: Op, width: u32) -> Term {
        if let Some(t) = self.ids.get(&(op.clone(), width as u8)) {
            return *t;
        }
        let (zeros, ones) = self.derive_known(&op, width);
        debug_assert!(zeros & ones == 0);
        if zeros | ones == mask(width) && !matches!(op, Op::Const(_)) {
            return self.constant(width, ones);
        }
        let t = Term(self.nodes.len() as u32);
        self.ids.insert((op.clone(), width as u8), t);
        self.nodes.push(Node { op, width: width as u8, zeros, ones });
        t
    }

    fn derive_known(&self, op: &Op, width: u32) -> (u64, u64) {
        let m = mask(width);
        match op {
            Op::Const(v) => (!v & m, *v),
            Op::And(a, b) => {
                let ((az, ao), (bz, bo)) = (self.known(*a), self.known(*b));
                (az | bz, ao & bo)
            }
            Op::Or(a, b) => {
                let ((az, ao), (bz, bo)) = (self.known(*a), self.known(*b));
                (az & bz, ao | bo)
            }
            Op::Xor(a, b) => {
                let ((az, ao), (bz, bo)) = (self.known(*a), self.known(*b));
                (az & bz | ao & bo, az & bo | ao & bz)
            }
            Op::Concat(parts) => parts.iter().fold((0, 0), |(z, o), p| {
                let (w, (pz, po)) = (self.width(*p), self.known(*p));
                if w == 64 { (pz, po) } else { (z << w | pz, o << w | po) }
            }),
            Op::Extract(hi, lo, t) => {
                let (z, o) = self.known(*t);
                let m = mask((hi - lo + 1) as u32);
                (z >> lo & m, o >> lo & m)
            }
            Op::SignExtend(t) => {
                let (w, (z, o)) = (self.width(*t), self.known(*t));
                let high = m & !mask(w);
                let sign = 1u64 << (w - 1);
                (z | if z & sign != 0 { high } else { 0 }, o | if o & sign != 0 { high } else { 0 })
            }
            Op::Ite(_, a, b) => {
                let ((az, ao), (bz, bo)) = (self.known(*a), self.known(*b));
                (az & bz, ao & bo)
            }
            Op::Sum(constant, parts) => {
                // Common trailing zeros, and no carry out of the largest possible total.
                let low = parts
                    .iter()
                    .map(|(t, c)| (self.known(*t).0.trailing_ones() + c.trailing_zeros()).min(width))
                    .min()
                    .unwrap_or(width);
                let mut total = Some(*constant);
                for (t, c) in parts {
                    total = total.and_then(|s| s.checked_add(self.bounds(*t).1.checked_mul(*c)?));
                }
                let high = match total {
                    Some(max) if max <= m => m & !mask(64 - max.leading_zeros()),
                    _ => 0,
                };
                let fixed = mask(low);
                (high | !constant & fixed & m, constant & fixed)
            }
            Op::URem(_, b) => match self.as_const(*b) {
                Some(d) if d > 0 => (m & !mask(64 - (d - 1).leading_zeros()), 0),
                _ => (0, 0),
            },
            Op::UDiv(a, b) => {
                let max = match self.as_const(*b) {
                    Some(d) if d > 0 => self.bounds(*a).1 / d,
                    _ => self.bounds(*a).1,
                };
                (m & !mask(64 - max.leading_zeros()), 0)
            }
            Op::Lshr(a, _) => {
                let max = self.bounds(*a).1;
                (m & !mask(64 - max.leading_zeros()), 0)
            }
            _ => (0, 0),
        }
    }

    // ---- linear combinations -------------------------------------------------------------

    /// Adds `factor · t` to a linear combination.
    fn accumulate(&self, t: Term, factor: u64, constant: &mut u64, parts: &mut Vec<(Term, u64)>) {
        match self.op(t) {
            Op::Const(v) => *constant = constant.wrapping_add(v.wrapping_mul(factor)),
            Op::Sum(c, ps) => {
                *constant = constant.wrapping_add(c.wrapping_mul(factor));
                parts.extend(ps.iter().map(|(p, k)| (*p, k.wrapping_mul(factor))));
            }
            _ => parts.push((t, factor)),
        }
    }

    fn linear(&mut self, width: u32, constant: u64, mut parts: Vec<(Term, u64)>) -> Term {
        let m = mask(width);
        parts.sort_unstable_by_key(|(t, _)| *t);
        let mut merged: Vec<(Term, u64)> = Vec::with_capacity(parts.len());
        for (t, c) in parts {
            match merged.last_mut() {
                Some((last, k)) if *last == t => *k = k.wrapping_add(c),
                _ => merged.push((t, c)),
            }
        }
        merged.retain_mut(|(_, c)| {
            *c &= m;
            *c != 0
        });
        let constant = constant & m;
        match merged.as_slice() {
            [] => self.constant(width, constant),
            [(t, 1)] if constant == 0 => *t,
            // A shifted term whose lost bits are zero is a concatenation: bytes being put together.
            [(t, c)] if constant == 0 && c.is_power_of_two() && self.is_bits(*t) => {
                let shift = c.trailing_zeros();
                let (t, low) = (self.extract(width - 1 - shift, 0, *t), self.constant(shift, 0));
                self.concat(&[t, low])
            }
            // A number times `0x1_0000_0001`: two halves that are alike.
            [(t, c)] if constant == 0 && self.is_side_by_side(*t, *c) => {
                let (t, c, none) = (*t, *c, self.constant(width, 0));
                (0..width).filter(|k| c >> k & 1 == 1).fold(none, |all, k| {
                    let factor = self.constant(width, 1 << k);
                    let copy = self.mul(t, factor);
                    self.or(all, copy)
                })
            }
            _ => self.intern(Op::Sum(constant, merged.into_boxed_slice()), width),
        }
    }

    /// Whether a term is naturally a string of bits, not the result of arithmetic.
    fn is_bits(&self, t: Term) -> bool {
        match self.op(t) {
            Op::Concat(_) | Op::Extract(..) => true,
            Op::Ite(_, a, b) => self.is_bits(*a) || self.is_bits(*b),
            _ => self.width(t) < 32,
        }
    }

    /// Whether a factor puts copies of a short string of bits next to each other, so that none overlap.
    fn is_side_by_side(&self, t: Term, factor: u64) -> bool {
        let length = u64::BITS - (!self.known(t).0 & mask(self.width(t))).leading_zeros();
        let places: Vec<u32> = (0..u64::BITS).filter(|k| factor >> k & 1 == 1).collect();
        let is_apart = places.windows(2).all(|pair| pair[1] - pair[0] >= length);
        places.len() > 1 && is_apart && matches!(self.op(t), Op::Concat(_))
    }

    /// `a + b`.
    pub fn add(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::Sum(0, Box::new([(a, 1), (b, 1)])), |s| s.add_form(a, b))
    }

    fn add_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        if !self.known_disjoint(a, b) {
            let (mut k, mut parts) = (0, Vec::new());
            self.accumulate(a, 1, &mut k, &mut parts);
            self.accumulate(b, 1, &mut k, &mut parts);
            return self.linear(w, k, parts);
        }
        self.or(a, b)
    }

    /// Whether both are concatenations with no bit set in both: their sum has no carries.
    fn known_disjoint(&self, a: Term, b: Term) -> bool {
        let bits = |t: Term| matches!(self.op(t), Op::Concat(_));
        let (az, bz) = (self.known(a).0, self.known(b).0);
        bits(a) && bits(b) && az | bz == mask(self.width(a))
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::Sum(0, Box::new([(a, 1), (b, mask(w))])), |s| s.sub_form(a, b))
    }

    fn sub_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let (mut k, mut parts) = (0, Vec::new());
        self.accumulate(a, 1, &mut k, &mut parts);
        self.accumulate(b, u64::MAX, &mut k, &mut parts);
        self.linear(w, k, parts)
    }

    /// `-a`.
    pub fn neg(&mut self, a: Term) -> Term {
        let zero = self.constant(self.width(a), 0);
        self.sub(zero, a)
    }

    /// `a · b`; distributes over sums of few parts.
    pub fn mul(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::Mul(a, b), |s| s.mul_form(a, b))
    }

    fn mul_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let (a, b) = if self.as_const(a).is_some() { (b, a) } else { (a, b) };
        if let Some(c) = self.as_const(b) {
            let (mut k, mut parts) = (0, Vec::new());
            self.accumulate(a, c, &mut k, &mut parts);
            return self.linear(w, k, parts);
        }
        let (pa, pb) = (self.summands(a), self.summands(b));
        if pa.len() * pb.len() <= 8 && pa.len() + pb.len() > 2 {
            let mut total = self.constant(w, 0);
            for (x, cx) in &pa {
                for (y, cy) in &pb {
                    let product = match (x, y) {
                        (Some(x), Some(y)) => self.product(*x, *y),
                        (Some(t), None) | (None, Some(t)) => *t,
                        (None, None) => self.constant(w, 1),
                    };
                    let factor = self.constant(w, cx.wrapping_mul(*cy));
                    let scaled = self.mul(product, factor);
                    total = self.add(total, scaled);
                }
            }
            return total;
        }
        self.product(a, b)
    }

    fn product(&mut self, a: Term, b: Term) -> Term {
        self.intern(Op::Mul(a.min(b), a.max(b)), self.width(a))
    }

    /// A term as summands; `None` stands for the number 1.
    fn summands(&self, t: Term) -> Vec<(Option<Term>, u64)> {
        match self.op(t) {
            Op::Sum(c, parts) => {
                let constant = (*c != 0).then_some((None, *c));
                parts.iter().map(|(t, k)| (Some(*t), *k)).chain(constant).collect()
            }
            _ => vec![(Some(t), 1)],
        }
    }

    /// Splits into a term without constant part, and the constant.
    pub fn split_offset(&mut self, t: Term) -> (Term, u64) {
        match self.op(t).clone() {
            Op::Const(v) => (self.constant(self.width(t), 0), v),
            Op::Sum(c, parts) if c != 0 => (self.linear(self.width(t), 0, parts.into_vec()), c),
            _ => (t, 0),
        }
    }

    // ---- strings of bits -----------------------------------------------------------------

    /// Bits `lo` to `hi` of `t`, inclusive.
    pub fn extract(&mut self, hi: u32, lo: u32, t: Term) -> Term {
        let w = hi - lo + 1;
        self.noted(w, || Op::Extract(hi as u8, lo as u8, t), |s| s.extract_form(hi, lo, t))
    }

    fn extract_form(&mut self, hi: u32, lo: u32, t: Term) -> Term {
        let (w, n) = (self.width(t), hi - lo + 1);
        if n == w {
            return t;
        }
        let (zeros, ones) = self.known(t);
        if (zeros | ones) >> lo & mask(n) == mask(n) {
            return self.constant(n, ones >> lo);
        }
        match self.op(t).clone() {
            Op::Extract(_, l, inner) => self.extract(hi + l as u32, lo + l as u32, inner),
            Op::Concat(parts) => {
                let mut selected = Vec::new();
                let mut top = w;
                for p in parts.iter().copied() {
                    let bottom = top - self.width(p);
                    if hi >= bottom && lo < top {
                        selected.push(self.extract(hi.min(top - 1) - bottom, lo.max(bottom) - bottom, p));
                    }
                    top = bottom;
                }
                self.concat(&selected)
            }
            Op::SignExtend(inner) if hi < self.width(inner) => self.extract(hi, lo, inner),
            Op::SignExtend(inner) if lo < self.width(inner) => {
                let inner = self.extract(self.width(inner) - 1, lo, inner);
                self.sign_extend(n, inner)
            }
            Op::Ite(c, a, b) => {
                let (a, b) = (self.extract(hi, lo, a), self.extract(hi, lo, b));
                self.ite(c, a, b)
            }
            Op::And(a, b) => {
                let (a, b) = (self.extract(hi, lo, a), self.extract(hi, lo, b));
                self.and(a, b)
            }
            Op::Or(a, b) => {
                let (a, b) = (self.extract(hi, lo, a), self.extract(hi, lo, b));
                self.or(a, b)
            }
            Op::Xor(a, b) => {
                let (a, b) = (self.extract(hi, lo, a), self.extract(hi, lo, b));
                self.xor(a, b)
            }
            // Low bits of sums and products only depend on low bits.
            Op::Sum(k, parts) if lo == 0 => {
                let (mut constant, mut all) = (k, Vec::new());
                for (p, c) in parts.iter() {
                    let p = self.extract(hi, 0, *p);
                    self.accumulate(p, *c, &mut constant, &mut all);
                }
                self.linear(n, constant, all)
            }
            Op::Sum(k, parts) if k & mask(lo) == 0 && parts.iter().all(|(_, c)| c & mask(lo) == 0) => {
                // Everything is a multiple of 2^lo: divide, the lost bits were zero.
                let scaled: Vec<(Term, u64)> = parts.iter().map(|(p, c)| (*p, c >> lo)).collect();
                let whole = self.linear(w, k >> lo, scaled);
                self.extract(n - 1, 0, whole)
            }
            Op::Mul(a, b) if lo == 0 => {
                let (a, b) = (self.extract(hi, 0, a), self.extract(hi, 0, b));
                self.mul(a, b)
            }
            _ => self.intern(Op::Extract(hi as u8, lo as u8, t), n),
        }
    }

    /// Pieces side by side, the highest first.
    pub fn concat(&mut self, pieces: &[Term]) -> Term {
        let w = pieces.iter().map(|t| self.width(*t)).sum();
        self.noted(w, || Op::Concat(pieces.into()), |s| s.concat_form(pieces))
    }

    fn concat_form(&mut self, pieces: &[Term]) -> Term {
        let mut flat: Vec<Term> = Vec::with_capacity(pieces.len());
        for p in pieces {
            match self.op(*p).clone() {
                Op::Concat(inner) => inner.iter().for_each(|t| self.append(&mut flat, *t)),
                _ => self.append(&mut flat, *p),
            }
        }
        if let [only] = flat[..] {
            return only;
        }
        let width = flat.iter().map(|t| self.width(*t)).sum();
        self.intern(Op::Concat(flat.into_boxed_slice()), width)
    }

    /// Appends a piece below the last one, joining the two where they are neighbours in one term.
    fn append(&mut self, flat: &mut Vec<Term>, low: Term) {
        if let Some(&high) = flat.last()
            && let Some(joined) = self.join(high, low)
        {
            flat.pop();
            self.append(flat, joined);
            return;
        }
        flat.push(low);
    }

    fn join(&mut self, high: Term, low: Term) -> Option<Term> {
        let (wh, wl) = (self.width(high), self.width(low));
        if let (Some(a), Some(b)) = (self.as_const(high), self.as_const(low)) {
            return Some(self.constant(wh + wl, a << wl | b));
        }
        match (self.op(high).clone(), self.op(low).clone()) {
            (Op::Extract(h, l, t), _) if l as u32 >= wl && self.extract(l as u32 - 1, l as u32 - wl, t) == low => {
                Some(self.extract(h as u32, l as u32 - wl, t))
            }
            (Op::Ite(c, a, b), Op::Ite(d, x, y)) if c == d => {
                let (a, b) = (self.concat(&[a, x]), self.concat(&[b, y]));
                Some(self.ite(c, a, b))
            }
            _ => None,
        }
    }

    /// Zero-extends to `width`.
    pub fn zero_extend(&mut self, width: u32, t: Term) -> Term {
        let w = self.width(t);
        if w == width {
            return t;
        }
        let zero = self.constant(width - w, 0);
        self.concat(&[zero, t])
    }

    /// Sign-extends to `width`.
    pub fn sign_extend(&mut self, width: u32, t: Term) -> Term {
        let w = width;
        self.noted(w, || Op::SignExtend(t), |s| s.sign_extend_form(width, t))
    }

    fn sign_extend_form(&mut self, width: u32, t: Term) -> Term {
        let w = self.width(t);
        if w == width {
            return t;
        }
        let sign = 1u64 << (w - 1);
        let (zeros, _) = self.known(t);
        if zeros & sign != 0 {
            return self.zero_extend(width, t);
        }
        match self.op(t).clone() {
            Op::SignExtend(inner) => self.sign_extend(width, inner),
            Op::Ite(c, a, b) if self.as_const(a).is_some() || self.as_const(b).is_some() => {
                let (a, b) = (self.sign_extend(width, a), self.sign_extend(width, b));
                self.ite(c, a, b)
            }
            _ => self.intern(Op::SignExtend(t), width),
        }
    }

    /// The pieces of two terms cut at the same places, highest first; `None` when neither is a concatenation.
    fn aligned(&mut self, a: Term, b: Term) -> Option<Vec<(Term, Term)>> {
        let width = self.width(a);
        let mut cuts = Vec::new();
        for t in [a, b] {
            if let Op::Concat(parts) = self.op(t) {
                let mut at = width;
                for p in parts.iter() {
                    at -= self.width(*p);
                    cuts.push(at);
                }
            }
        }
        if cuts.is_empty() {
            return None;
        }
        cuts.sort_unstable_by(|x, y| y.cmp(x));
        cuts.dedup();
        let mut top = width;
        let mut pairs = Vec::with_capacity(cuts.len());
        for low in cuts {
            pairs.push((self.extract(top - 1, low, a), self.extract(top - 1, low, b)));
            top = low;
        }
        Some(pairs)
    }

    /// Runs of equal bits of a constant as `(bit, length)`, highest first; `None` when there are too many to be worth cutting.
    fn runs(value: u64, width: u32) -> Option<Vec<(bool, u32)>> {
        let mut runs: Vec<(bool, u32)> = Vec::new();
        for i in (0..width).rev() {
            let bit = value >> i & 1 == 1;
            match runs.last_mut() {
                Some((b, n)) if *b == bit => *n += 1,
                _ => runs.push((bit, 1)),
            }
            if runs.len() > 8 {
                return None;
            }
        }
        Some(runs)
    }

    /// Cuts `t` along the runs of a constant: for each run, the piece of `t` or a constant.
    fn cut(&mut self, t: Term, runs: &[(bool, u32)], mut piece: impl FnMut(&mut Terms, bool, Term) -> Term) -> Term {
        let mut top = self.width(t);
        let mut pieces = Vec::with_capacity(runs.len());
        for (bit, n) in runs {
            let part = self.extract(top - 1, top - n, t);
            pieces.push(piece(self, *bit, part));
            top -= n;
        }
        self.concat(&pieces)
    }

    /// `a & b`.
    pub fn and(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::And(a, b), |s| s.and_form(a, b))
    }

    fn and_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let (a, b) = if self.as_const(a).is_some() { (b, a) } else { (a, b) };
        if a == b {
            return a;
        }
        if let Some(c) = self.as_const(b) {
            if c == 0 {
                return b;
            }
            // Bits that are zero anyway need no mask.
            if (c | self.known(a).0) & mask(w) == mask(w) {
                return a;
            }
            if let Some(runs) = Terms::runs(c, w) {
                return self.cut(
                    a,
                    &runs,
                    |terms, bit, part| {
                        if bit { part } else { terms.constant(terms.width(part), 0) }
                    },
                );
            }
        }
        if self.complement(a) == Some(b) || self.complement(b) == Some(a) {
            return self.constant(w, 0);
        }
        self.bitwise(a, b, Terms::and, Op::And)
    }

    /// `a | b`.
    pub fn or(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::Or(a, b), |s| s.or_form(a, b))
    }

    fn or_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let (a, b) = if self.as_const(a).is_some() { (b, a) } else { (a, b) };
        if a == b {
            return a;
        }
        if let Some(c) = self.as_const(b) {
            if c == 0 {
                return a;
            }
            if c == mask(w) {
                return b;
            }
            if let Some(runs) = Terms::runs(c, w) {
                return self.cut(a, &runs, |terms, bit, part| {
                    let n = terms.width(part);
                    if bit { terms.constant(n, u64::MAX) } else { part }
                });
            }
        }
        if self.complement(a) == Some(b) || self.complement(b) == Some(a) {
            return self.constant(w, u64::MAX);
        }
        self.bitwise(a, b, Terms::or, Op::Or)
    }

    /// `a ^ b`.
    pub fn xor(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::Xor(a, b), |s| s.xor_form(a, b))
    }

    fn xor_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let (a, b) = if self.as_const(a).is_some() { (b, a) } else { (a, b) };
        if a == b {
            return self.constant(w, 0);
        }
        if let Some(c) = self.as_const(b) {
            if c == 0 {
                return a;
            }
            if let Op::Xor(x, y) = *self.op(a)
                && let Some(k) = self.as_const(y)
            {
                let k = self.constant(w, k ^ c);
                return self.xor(x, k);
            }
        }
        self.bitwise(a, b, Terms::xor, Op::Xor)
    }

    /// Where concatenations meet, works piece by piece; constants stay on the right.
    fn bitwise(
        &mut self,
        a: Term,
        b: Term,
        again: fn(&mut Terms, Term, Term) -> Term,
        op: fn(Term, Term) -> Op,
    ) -> Term {
        if let Some(pairs) = self.aligned(a, b) {
            let pieces: Vec<Term> = pairs.into_iter().map(|(x, y)| again(self, x, y)).collect();
            return self.concat(&pieces);
        }
        let (a, b) = if self.as_const(b).is_some() { (a, b) } else { (a.min(b), a.max(b)) };
        self.intern(op(a, b), self.width(a))
    }

    /// `~a`.
    pub fn not(&mut self, a: Term) -> Term {
        let ones = self.constant(self.width(a), u64::MAX);
        self.xor(a, ones)
    }

    /// `x` when `t` is `~x`.
    fn complement(&self, t: Term) -> Option<Term> {
        match *self.op(t) {
            Op::Xor(x, y) if self.as_const(y) == Some(mask(self.width(t))) => Some(x),
            _ => None,
        }
    }

    /// The amount of a shift, reduced modulo the width (32 or 64).
    fn amount(&mut self, w: u32, b: Term) -> Term {
        let m = self.constant(w, (w - 1) as u64);
        self.and(b, m)
    }

    /// `a << b`; the amount counts modulo the width, which is a power of two.
    pub fn shl(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let b = self.amount(w, b);
        self.noted(w, || Op::Shl(a, b), |s| s.shl_form(a, b))
    }

    fn shl_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        match self.as_const(b) {
            Some(k) => {
                let factor = self.constant(w, 1 << k);
                self.mul(a, factor)
            }
            None => self.intern(Op::Shl(a, b), w),
        }
    }

    /// `a >> b`, logical.
    pub fn lshr(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let b = self.amount(w, b);
        self.noted(w, || Op::Lshr(a, b), |s| s.lshr_form(a, b))
    }

    fn lshr_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        match self.as_const(b) {
            Some(0) => a,
            Some(k) => {
                let high = self.extract(w - 1, k as u32, a);
                self.zero_extend(w, high)
            }
            None => self.intern(Op::Lshr(a, b), w),
        }
    }

    /// `a >> b`, arithmetic.
    pub fn ashr(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let b = self.amount(w, b);
        self.noted(w, || Op::Ashr(a, b), |s| s.ashr_form(a, b))
    }

    fn ashr_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        match self.as_const(b) {
            Some(0) => a,
            Some(k) => {
                let high = self.extract(w - 1, k as u32, a);
                self.sign_extend(w, high)
            }
            None => self.intern(Op::Ashr(a, b), w),
        }
    }

    /// `a / b` unsigned, 0 when `b` is 0.
    pub fn udiv(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::UDiv(a, b), |s| s.udiv_form(a, b))
    }

    fn udiv_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        match (self.as_const(a), self.as_const(b)) {
            (_, Some(0)) => b,
            (Some(x), Some(y)) => self.constant(w, x / y),
            (_, Some(1)) => a,
            (_, Some(d)) if d.is_power_of_two() => {
                let k = self.constant(w, d.trailing_zeros() as u64);
                self.lshr(a, k)
            }
            _ => self.intern(Op::UDiv(a, b), w),
        }
    }

    /// `a % b` unsigned, `a` when `b` is 0.
    pub fn urem(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::URem(a, b), |s| s.urem_form(a, b))
    }

    fn urem_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        match (self.as_const(a), self.as_const(b)) {
            (_, Some(0)) => a,
            (Some(x), Some(y)) => self.constant(w, x % y),
            (_, Some(d)) if d.is_power_of_two() => {
                let m = self.constant(w, d - 1);
                self.and(a, m)
            }
            _ => self.intern(Op::URem(a, b), w),
        }
    }

    /// The low `bits` of `t` with their bytes reversed.
    pub fn swap_bytes(&mut self, t: Term, bits: u32) -> Term {
        let bytes: Vec<Term> = (0..bits / 8).map(|i| self.extract(8 * i + 7, 8 * i, t)).collect();
        self.concat(&bytes)
    }

    // ---- conditions ----------------------------------------------------------------------

    /// `if c { a } else { b }`.
    pub fn ite(&mut self, c: Term, a: Term, b: Term) -> Term {
        let w = self.width(a);
        self.noted(w, || Op::Ite(c, a, b), |s| s.ite_form(c, a, b))
    }

    fn ite_form(&mut self, c: Term, a: Term, b: Term) -> Term {
        if a == b {
            return a;
        }
        match self.as_const(c) {
            Some(0) => return b,
            Some(_) => return a,
            None => {}
        }
        if let Some(negated) = self.complement(c) {
            return self.ite(negated, b, a);
        }
        if self.width(a) == 1
            && let (Some(x), Some(_)) = (self.as_const(a), self.as_const(b))
        {
            return if x == 1 { c } else { self.not(c) };
        }
        // A choice under the same condition has been made already.
        let a = match *self.op(a) {
            Op::Ite(d, x, _) if d == c => x,
            _ => a,
        };
        let b = match *self.op(b) {
            Op::Ite(d, _, y) if d == c => y,
            _ => b,
        };
        if a == b {
            return a;
        }
        self.intern(Op::Ite(c, a, b), self.width(a))
    }

    /// `a == b`.
    pub fn eq(&mut self, a: Term, b: Term) -> Term {
        let w = 1;
        self.noted(w, || Op::Eq(a, b), |s| s.eq_form(a, b))
    }

    fn eq_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        if a == b {
            return self.bool(true);
        }
        let ((az, ao), (bz, bo)) = (self.known(a), self.known(b));
        if az & bo | ao & bz != 0 {
            return self.bool(false);
        }
        if w == 1 {
            let different = self.xor(a, b);
            return self.not(different);
        }
        if let Some(pairs) = self.aligned(a, b) {
            let mut all = self.bool(true);
            for (x, y) in pairs {
                let piece = self.eq(x, y);
                all = self.and(all, piece);
            }
            return all;
        }
        if let (Op::SignExtend(x), Op::SignExtend(y)) = (self.op(a), self.op(b))
            && self.width(*x) == self.width(*y)
        {
            let (x, y) = (*x, *y);
            return self.eq(x, y);
        }
        // Both sides as one combination; positive coefficients stay left, negative ones go right.
        let difference = self.sub(a, b);
        match self.op(difference).clone() {
            Op::Const(v) => self.bool(v == 0),
            Op::Sum(k, parts) => {
                // The sign is chosen so that a == b and b == a give the same term.
                let top = 1u64 << (w - 1);
                let flip = parts[0].1 > top;
                let m = mask(w);
                let sign = if flip { u64::MAX } else { 1 };
                let (mut left, mut right) = (Vec::new(), Vec::new());
                for (t, c) in parts.iter() {
                    let c = c.wrapping_mul(sign) & m;
                    if c <= top { left.push((*t, c)) } else { right.push((*t, c.wrapping_neg() & m)) }
                }
                let constant = k.wrapping_mul(sign).wrapping_neg();
                let (l, r) = (self.linear(w, 0, left), self.linear(w, constant, right));
                self.intern_eq(l, r)
            }
            _ => self.intern_eq(a, b),
        }
    }

    fn intern_eq(&mut self, a: Term, b: Term) -> Term {
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b)) {
            return self.bool(x == y);
        }
        if let (Op::Ite(c, x, y), Some(k)) = (self.op(a).clone(), self.as_const(b))
            && let (Some(x), Some(y)) = (self.as_const(x), self.as_const(y))
        {
            let (x, y) = (self.bool(x == k), self.bool(y == k));
            return self.ite(c, x, y);
        }
        self.intern(Op::Eq(a, b), 1)
    }

    /// `a < b`, unsigned.
    pub fn ult(&mut self, a: Term, b: Term) -> Term {
        let w = 1;
        self.noted(w, || Op::Ult(a, b), |s| s.ult_form(a, b))
    }

    fn ult_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let ((amin, amax), (bmin, bmax)) = (self.bounds(a), self.bounds(b));
        if a == b || amin >= bmax {
            return self.bool(false);
        }
        if amax < bmin {
            return self.bool(true);
        }
        if w == 1 {
            let not_a = self.not(a);
            return self.and(not_a, b);
        }
        if self.as_const(b) == Some(1) {
            let zero = self.constant(w, 0);
            return self.eq(a, zero);
        }
        if self.as_const(a) == Some(0) {
            let zero = self.eq(b, a);
            return self.not(zero);
        }
        // Leading bits that are zero in both do not matter.
        let live = 64 - (amax | bmax).leading_zeros();
        if live < w {
            let (a, b) = (self.extract(live - 1, 0, a), self.extract(live - 1, 0, b));
            return self.ult(a, b);
        }
        self.intern(Op::Ult(a, b), 1)
    }

    /// `a < b`, signed.
    pub fn slt(&mut self, a: Term, b: Term) -> Term {
        let w = 1;
        self.noted(w, || Op::Slt(a, b), |s| s.slt_form(a, b))
    }

    fn slt_form(&mut self, a: Term, b: Term) -> Term {
        let w = self.width(a);
        let sign = 1u64 << (w - 1);
        if a == b {
            return self.bool(false);
        }
        let ((az, ao), (bz, bo)) = (self.known(a), self.known(b));
        if (az & bz | ao & bo) & sign != 0 {
            return self.ult(a, b);
        }
        if az & bo & sign != 0 {
            return self.bool(false);
        }
        if ao & bz & sign != 0 {
            return self.bool(true);
        }
        self.intern(Op::Slt(a, b), 1)
    }

    // ---- meaning -------------------------------------------------------------------------

    /// The values of all terms when unknown number `i` is `vars(i)`, lazily from `t` down.
    pub fn eval(&self, t: Term, vars: &dyn Fn(u32) -> u64, memo: &mut HashMap<Term, u64>) -> u64 {
        if let Some(v) = memo.get(&t) {
            return *v;
        }
        let w = self.width(t);
        let mut at = |x: Term| self.eval(x, vars, memo);
        let value = match self.op(t) {
            Op::Const(v) => *v,
            Op::Var(n) => vars(*n),
            Op::Sum(k, parts) => parts.iter().fold(*k, |s, (p, c)| s.wrapping_add(at(*p).wrapping_mul(*c))),
            Op::Mul(a, b) => at(*a).wrapping_mul(at(*b)),
            Op::UDiv(a, b) => at(*a).checked_div(at(*b)).unwrap_or(0),
            Op::URem(a, b) => {
                let x = at(*a);
                x.checked_rem(at(*b)).unwrap_or(x)
            }
            Op::And(a, b) => at(*a) & at(*b),
            Op::Or(a, b) => at(*a) | at(*b),
            Op::Xor(a, b) => at(*a) ^ at(*b),
            Op::Shl(a, b) => at(*a) << at(*b),
            Op::Lshr(a, b) => at(*a) >> at(*b),
            Op::Ashr(a, b) => (signed(at(*a), w) >> at(*b)) as u64,
            Op::Concat(parts) => parts.iter().fold(0, |v, p| match self.width(*p) {
                64 => at(*p),
                n => v << n | at(*p),
            }),
            Op::Extract(_, lo, x) => at(*x) >> lo,
            Op::SignExtend(x) => signed(at(*x), self.width(*x)) as u64,
            Op::Ite(c, a, b) => {
                if at(*c) == 1 {
                    at(*a)
                } else {
                    at(*b)
                }
            }
            Op::Eq(a, b) => (at(*a) == at(*b)) as u64,
            Op::Ult(a, b) => (at(*a) < at(*b)) as u64,
            Op::Slt(a, b) => {
                let w = self.width(*a);
                (signed(at(*a), w) < signed(at(*b), w)) as u64
            }
        } & mask(w);
        memo.insert(t, value);
        value
    }
}

/// A number of that width as a signed one.
pub fn signed(v: u64, width: u32) -> i64 {
    ((v << (64 - width)) as i64) >> (64 - width)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);
    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
        fn below(&mut self, n: u64) -> u64 {
            self.next() % n
        }
        fn value(&mut self) -> u64 {
            match self.below(7) {
                0 => self.below(4),
                5 => 1 | 1 << self.below(64),
                1 => 1 << self.below(64),
                2 => mask(self.below(65) as u32),
                3 => u64::MAX - self.below(4),
                4 => 0xff << (8 * self.below(8)),
                _ => self.next(),
            }
        }
    }

    /// Grows random terms beside their values computed directly, and compares.
    #[test]
    fn constructors_mean_what_they_say() {
        let mut r = Random(0x9e37_79b9_7f4a_7c15);
        for round in 0..4000 {
            let mut terms = Terms::default();
            let vars: Vec<u64> = (0..6).map(|_| r.value()).collect();
            // Pairs of term and expected value.
            let mut pool: Vec<(Term, u64)> = Vec::new();
            for (i, w) in [64, 64, 32, 8, 16, 8].into_iter().enumerate() {
                let t = terms.var(w);
                assert!(matches!(terms.op(t), Op::Var(n) if *n == i as u32));
                pool.push((t, vars[i] & mask(w)));
            }
            for _ in 0..25 {
                let (mut a, mut av) = pool[r.below(pool.len() as u64) as usize];
                let (mut b, mut bv) = pool[r.below(pool.len() as u64) as usize];
                if r.below(3) == 0 {
                    bv = r.value() & mask(terms.width(a));
                    b = terms.constant(terms.width(a), bv);
                }
                let w = if r.below(2) == 0 { 64 } else { 32 };
                let choice = r.below(22);
                if choice < 16 {
                    for (t, v) in [(&mut a, &mut av), (&mut b, &mut bv)] {
                        let tw = terms.width(*t);
                        if tw < w {
                            if r.below(2) == 0 {
                                *t = terms.zero_extend(w, *t);
                            } else {
                                *t = terms.sign_extend(w, *t);
                                *v = signed(*v, tw) as u64 & mask(w);
                            }
                        } else {
                            *t = terms.extract(w - 1, 0, *t);
                            *v &= mask(w);
                        }
                    }
                }
                let m = mask(w);
                let sh = (w - 1) as u64;
                let (t, v) = match choice {
                    0 => (terms.add(a, b), av.wrapping_add(bv) & m),
                    1 => (terms.sub(a, b), av.wrapping_sub(bv) & m),
                    2 => (terms.mul(a, b), av.wrapping_mul(bv) & m),
                    3 => (terms.udiv(a, b), av.checked_div(bv).unwrap_or(0)),
                    4 => (terms.urem(a, b), av.checked_rem(bv).unwrap_or(av)),
                    5 => (terms.and(a, b), av & bv),
                    6 => (terms.or(a, b), av | bv),
                    7 => (terms.xor(a, b), av ^ bv),
                    8 => (terms.shl(a, b), av << (bv & sh) & m),
                    9 => (terms.lshr(a, b), av >> (bv & sh)),
                    10 => (terms.ashr(a, b), (signed(av, w) >> (bv & sh)) as u64 & m),
                    11 => (terms.eq(a, b), (av == bv) as u64),
                    12 => (terms.ult(a, b), (av < bv) as u64),
                    13 => (terms.slt(a, b), (signed(av, w) < signed(bv, w)) as u64),
                    14 => {
                        let c = terms.ult(a, b);
                        (terms.ite(c, a, b), av.min(bv))
                    }
                    15 => {
                        let bits = [16, 32][r.below(2) as usize];
                        let t = terms.swap_bytes(a, bits);
                        (t, av.swap_bytes() >> (64 - bits) & mask(bits))
                    }
                    16..=18 => {
                        let hi = r.below(terms.width(a) as u64) as u32;
                        let lo = r.below(hi as u64 + 1) as u32;
                        (terms.extract(hi, lo, a), av >> lo & mask(hi - lo + 1))
                    }
                    _ => {
                        let (wa, wb) = (terms.width(a), terms.width(b));
                        if wa + wb > 64 {
                            continue;
                        }
                        (terms.concat(&[a, b]), av << wb | bv)
                    }
                };
                let got = terms.eval(t, &|i| vars[i as usize], &mut HashMap::new());
                assert_eq!(got, v, "round {round} choice {choice} width {w} operands {av:#x} {bv:#x}");
                let (zeros, ones) = terms.known(t);
                assert_eq!((v & zeros, !v & ones), (0, 0), "known bits, round {round} choice {choice}");
                pool.push((t, v));
            }
        }
    }

    #[test]
    fn byte_loads_combine_by_identity() {
        let mut t = Terms::default();
        let (b0, b1) = (t.var(8), t.var(8));
        let (x, y) = (t.zero_extend(64, b0), t.zero_extend(64, b1));
        let eight = t.constant(64, 8);
        let y = t.shl(y, eight);
        let bytes = t.or(x, y);
        let word = t.concat(&[b1, b0]);
        assert_eq!(bytes, t.zero_extend(64, word));
    }

    #[test]
    fn shifts_that_clear_the_high_half_are_a_32_bit_move() {
        let mut t = Terms::default();
        let x = t.var(64);
        let k = t.constant(64, 32);
        let shifted = t.shl(x, k);
        let back = t.lshr(shifted, k);
        let low = t.extract(31, 0, x);
        assert_eq!(back, t.zero_extend(64, low));
    }

    #[test]
    fn sums_are_equal_in_any_order() {
        let mut t = Terms::default();
        let (x, y) = (t.var(64), t.var(64));
        let hundred = t.constant(64, 100);
        let product = t.mul(x, hundred);
        let (six, five, two) = (t.constant(64, 6), t.constant(64, 5), t.constant(64, 2));
        let (a, b, c) = (t.shl(x, six), t.shl(x, five), t.shl(x, two));
        let ab = t.add(a, b);
        assert_eq!(t.add(ab, c), product);
        let one = t.constant(64, 1);
        let y1 = t.add(y, one);
        let (left, xy) = (t.mul(x, y1), t.mul(x, y));
        assert_eq!(left, t.add(xy, x));
    }
}
