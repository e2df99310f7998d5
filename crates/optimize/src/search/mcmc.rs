//! The stochastic search of K2: a Markov chain over candidates that walks through wrong ones.
//!
//! Metropolis-Hastings: a random change of the candidate is kept with probability
//! `min(1, exp(-beta * (new cost - old cost)))`, where cost is a weighted sum of how wrong the
//! candidate is on the cases and how long it is. Each window is walked for some iterations, then the
//! next; candidates that are not wrong and shorter than the best so far go to the prover.

use super::case::{Case, Snapshot};
use super::random::Random;
use super::vocabulary::{Place, Vocabulary};
use super::window::Window;
use karakoram_bpf::insn::*;

/// How far a wrong value is from the right one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Distance {
    /// Absolute difference (`--st_ex 0`).
    #[default]
    Difference,
    /// Number of bits that differ (`--st_ex 1`).
    Bits,
}

/// Parameters of the chain, with the names and defaults that K2 gives them.
#[derive(Clone, PartialEq, Debug)]
pub struct McmcOptions {
    /// Weight of the error (`--w_e`).
    pub w_e: f64,
    /// Weight of the length in slots (`--w_p`).
    pub w_p: f64,
    /// How errors are measured (`--st_ex`).
    pub st_ex: Distance,
    /// Whether the error is divided by the number of cases (`--st_avg`).
    pub st_avg: bool,
    /// Probability of changing one operand (`--p_inst_operand`).
    pub p_inst_operand: f64,
    /// Probability of replacing one instruction (`--p_inst`).
    pub p_inst: f64,
    /// Probability of removing one instruction (`--p_inst_as_nop`). What is left of 1 is the
    /// probability of replacing two contiguous instructions.
    pub p_inst_as_nop: f64,
    /// Iterations over all windows together (`-n`).
    pub iterations: u64,
    /// Iterations on one window before the next has its turn (`--reset_win_niter`); `None`: all.
    pub reset_win_niter: Option<u64>,
    /// Readiness to accept a worse candidate: the higher, the less.
    pub beta: f64,
}

impl Default for McmcOptions {
    fn default() -> McmcOptions {
        McmcOptions {
            w_e: 1.0,
            w_p: 0.0,
            st_ex: Distance::Difference,
            st_avg: false,
            p_inst_operand: 0.25,
            p_inst: 0.25,
            p_inst_as_nop: 0.25,
            iterations: 10,
            reset_win_niter: None,
            beta: 1.0,
        }
    }
}

impl McmcOptions {
    /// What K2's own walk-throughs use.
    pub fn of_walkthroughs() -> McmcOptions {
        McmcOptions {
            w_e: 0.5,
            w_p: 1.5,
            st_avg: true,
            p_inst_operand: 1.0 / 3.0,
            p_inst: 1.0 / 3.0,
            p_inst_as_nop: 0.15,
            iterations: 50_000,
            reset_win_niter: Some(5_000),
            ..McmcOptions::default()
        }
    }
}

impl std::str::FromStr for McmcOptions {
    type Err = String;

    /// `name=value,...` with K2's names (`n` is the number of iterations), on top of what K2's
    /// walk-throughs use.
    fn from_str(text: &str) -> Result<McmcOptions, String> {
        let mut options = McmcOptions::of_walkthroughs();
        for setting in text.split(',').filter(|s| !s.is_empty()) {
            let (name, value) = setting.split_once('=').ok_or_else(|| format!("`{setting}` is not name=value"))?;
            let wrong = || format!("`{value}` is no value for {name}");
            let real = || value.parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(wrong);
            let whole = || value.parse::<u64>().map_err(|_| wrong());
            match name {
                "w_e" => options.w_e = real()?,
                "w_p" => options.w_p = real()?,
                "st_ex" => {
                    options.st_ex = match value {
                        "0" => Distance::Difference,
                        "1" => Distance::Bits,
                        _ => return Err(wrong()),
                    }
                }
                "st_avg" => options.st_avg = whole()? != 0,
                "p_inst_operand" => options.p_inst_operand = real()?,
                "p_inst" => options.p_inst = real()?,
                "p_inst_as_nop" => options.p_inst_as_nop = real()?,
                "n" => options.iterations = whole()?,
                "reset_win_niter" => options.reset_win_niter = Some(whole()?.max(1)),
                "beta" => options.beta = real()?,
                _ => return Err(format!("there is no parameter `{name}`")),
            }
        }
        if options.p_inst_operand + options.p_inst + options.p_inst_as_nop > 1.0 {
            return Err("the probabilities add up to more than 1".to_string());
        }
        Ok(options)
    }
}

/// Error of a candidate that faults, or leaves a register undefined, in one case.
const FAULT: f64 = 1e20;

/// A walk over the candidates for one window. `None` in a candidate is an instruction that is gone.
pub struct Chain<'a> {
    window: &'a Window,
    cases: &'a [Case],
    vocabulary: &'a Vocabulary,
    options: &'a McmcOptions,
    instructions: Vec<Insn>,
    current: Vec<Option<Insn>>,
    cost: f64,
    /// Length in slots of the shortest candidate that was right.
    shortest: usize,
}

impl<'a> Chain<'a> {
    /// A walk that starts at the original.
    pub fn new(
        window: &'a Window,
        cases: &'a [Case],
        vocabulary: &'a Vocabulary,
        options: &'a McmcOptions,
    ) -> Chain<'a> {
        let body = window.insns.iter().filter(|i| i.target().is_none());
        let current: Vec<Option<Insn>> = body.copied().map(Some).collect();
        let instructions = vocabulary.instructions(window);
        let mut chain =
            Chain { window, cases, vocabulary, options, instructions, current, cost: 0.0, shortest: window.slots };
        chain.cost = chain.cost_of(&chain.current).0;
        chain
    }

    /// One iteration. Returns a candidate that is right on all cases and shorter than any before.
    pub fn advance(&mut self, random: &mut Random) -> Option<Vec<Insn>> {
        let mut next = self.current.clone();
        self.mutate(&mut next, random)?;
        let (cost, error) = self.cost_of(&next);
        let insns = self.listing(&next);
        let slots: usize = insns.iter().map(Insn::slots).sum();
        let hit = (error == 0.0 && slots < self.shortest).then_some(insns);
        if cost <= self.cost || random.unit() < (-self.options.beta * (cost - self.cost)).exp() {
            (self.current, self.cost) = (next, cost);
        }
        hit
    }

    /// Notes that a candidate was proven, so that only shorter ones are of interest.
    pub fn proven(&mut self, insns: &[Insn]) {
        self.shortest = insns.iter().map(Insn::slots).sum();
    }

    fn listing(&self, candidate: &[Option<Insn>]) -> Vec<Insn> {
        candidate.iter().copied().flatten().chain(self.window.branch.map(|(insn, _)| insn)).collect()
    }

    fn mutate(&self, candidate: &mut [Option<Insn>], random: &mut Random) -> Option<()> {
        if candidate.is_empty() {
            return None;
        }
        let at = random.below(candidate.len());
        let o = self.options;
        let dice = random.unit();
        if dice < o.p_inst_operand {
            candidate[at] = Some(self.other_operand(candidate[at]?, random));
        } else if dice < o.p_inst_operand + o.p_inst {
            candidate[at] = Some(*random.pick(&self.instructions)?);
        } else if dice < o.p_inst_operand + o.p_inst + o.p_inst_as_nop {
            candidate[at] = None;
        } else {
            candidate[at] = Some(*random.pick(&self.instructions)?);
            if let Some(second) = candidate.get_mut(at + 1) {
                *second = Some(*random.pick(&self.instructions)?);
            }
        }
        Some(())
    }

    /// The instruction with one operand replaced.
    fn other_operand(&self, insn: Insn, random: &mut Random) -> Insn {
        let v = self.vocabulary;
        let target = |random: &mut Random, old: Reg| random.pick(&v.targets).copied().unwrap_or(old);
        let source = |random: &mut Random, old: Operand| match old {
            Operand::Reg(r) => Operand::Reg(random.pick(&v.sources).copied().unwrap_or(r)),
            Operand::Imm(i) => Operand::Imm(random.pick(&v.constants).copied().unwrap_or(i)),
        };
        let first = random.below(2) == 0;
        match insn {
            Insn::Alu { width, op, dst, src } if first => Insn::Alu { width, op, dst: target(random, dst), src },
            Insn::Alu { width, op, dst, src } => legal(Insn::Alu { width, op, dst, src: source(random, src) }, insn),
            Insn::Mov { width, dst, src } if first => Insn::Mov { width, dst: target(random, dst), src },
            Insn::Mov { width, dst, src } => Insn::Mov { width, dst, src: source(random, src) },
            Insn::Load { size, signed, dst, base, off } if first => {
                Insn::Load { size, signed, dst: target(random, dst), base, off }
            }
            Insn::Load { dst, signed: false, .. } => match random.pick(&v.loads) {
                Some(Place { base, off, size }) => {
                    Insn::Load { size: *size, signed: false, dst, base: *base, off: *off }
                }
                None => insn,
            },
            Insn::Store { size, base, off, src } if first => Insn::Store { size, base, off, src: source(random, src) },
            Insn::Store { src, .. } => match random.pick(&v.stores) {
                Some(Place { base, off, size }) => Insn::Store { size: *size, base: *base, off: *off, src },
                None => insn,
            },
            Insn::Neg { width, dst } => Insn::Neg { width, dst: target(random, dst) },
            Insn::Endian { order, bits, dst } => Insn::Endian { order, bits, dst: target(random, dst) },
            Insn::LoadImm { dst, value } => Insn::LoadImm { dst: target(random, dst), value },
            other => other,
        }
    }

    /// Cost and error of a candidate.
    fn cost_of(&self, candidate: &[Option<Insn>]) -> (f64, f64) {
        let insns = self.listing(candidate);
        let mut error: f64 = self.cases.iter().map(|c| self.error(c, &insns)).sum();
        if self.options.st_avg && !self.cases.is_empty() {
            error /= self.cases.len() as f64;
        }
        let slots: usize = insns.iter().map(Insn::slots).sum();
        (self.options.w_e * error + self.options.w_p * slots as f64, error)
    }

    /// How wrong a candidate is in one case.
    fn error(&self, case: &Case, insns: &[Insn]) -> f64 {
        let mut at: Snapshot = case.start;
        let Ok(taken) = case.run(&mut at, insns) else { return FAULT };
        let distance = |a: u64, b: u64| match self.options.st_ex {
            Distance::Difference => a.abs_diff(b) as f64,
            Distance::Bits => (a ^ b).count_ones() as f64,
        };
        let mut error = if taken == case.taken { 0.0 } else { 64.0 };
        for r in case.exit.live.iter() {
            let i = r.index();
            error += match at.registers.defined.contains(r) {
                true => distance(at.registers.values[i], case.expected.registers.values[i]),
                false => FAULT,
            };
        }
        for i in 0..at.bytes.len() {
            error +=
                distance((at.bytes[i] & case.matters[i]) as u64, (case.expected.bytes[i] & case.matters[i]) as u64);
        }
        error
    }
}

/// `new`, unless its constant is none that the operator may have.
fn legal(new: Insn, old: Insn) -> Insn {
    match new {
        Insn::Alu { width, op, src: Operand::Imm(i), .. } if !super::vocabulary::is_useful(op, width, i) => old,
        _ => new,
    }
}
