//! All candidates of a window, shortest first.
//!
//! A candidate is a prefix from the vocabulary and a last instruction that [`Finish`] solves for.
//! Prefixes that lead to states that were reached before in as few instructions, and prefixes after
//! which more is wrong than the instructions left can set right, are not followed.

use super::case::{Case, Snapshot};
use super::finish::{Finish, Wrong};
use super::random::mix;
use super::vocabulary::Vocabulary;
use super::window::Window;
use karakoram_bpf::insn::{Insn, Reg};
use std::collections::HashMap;

/// What a search over one window may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest candidate in slots.
    pub slots: usize,
    /// Candidates to be evaluated.
    pub candidates: u64,
}

/// What a visitor of hits says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Show me others.
    Continue,
    /// That is enough.
    Stop,
}

/// Shows every candidate that agrees with the original on all cases, until told to stop or out of
/// budget. Returns the number of candidates evaluated.
pub fn enumerate(
    window: &Window,
    cases: &[Case],
    vocabulary: &Vocabulary,
    limits: Limits,
    hit: &mut dyn FnMut(&[Insn]) -> Next,
) -> u64 {
    let mut walk = Walk {
        window,
        cases,
        vocabulary,
        instructions: vocabulary.instructions(window),
        limit: limits.candidates,
        evaluated: 0,
        prefix: Vec::new(),
        seen: HashMap::new(),
        hit,
    };
    let start: Vec<Snapshot> = cases.iter().map(|c| c.start).collect();
    for slots in 0..=limits.slots {
        walk.seen.clear();
        if walk.extend(&start, slots) == Next::Stop || walk.evaluated >= walk.limit {
            break;
        }
    }
    walk.evaluated
}

struct Walk<'a> {
    window: &'a Window,
    cases: &'a [Case],
    vocabulary: &'a Vocabulary,
    instructions: Vec<Insn>,
    limit: u64,
    evaluated: u64,
    prefix: Vec<Insn>,
    /// Fingerprints of states, and the most slots that were left there.
    seen: HashMap<u64, usize>,
    hit: &'a mut dyn FnMut(&[Insn]) -> Next,
}

impl Walk<'_> {
    /// Visits all candidates with exactly that many more slots.
    fn extend(&mut self, at: &[Snapshot], slots: usize) -> Next {
        let wrong = Wrong::of(self.cases, at);
        let branch = self.window.branch.is_some() as usize;
        if wrong.distance() + branch > slots {
            return Next::Continue;
        }
        if slots == branch {
            return self.complete(at);
        }
        // With one instruction to go and one thing wrong, what it must do is known.
        if slots == branch + 1 && wrong.distance() == 1 {
            return self.finish(at, wrong);
        }
        if slots == 1 {
            return Next::Continue;
        }
        let mut buffer = at.to_vec();
        for i in 0..self.instructions.len() {
            let insn = self.instructions[i];
            if insn.slots() + branch > slots {
                continue;
            }
            self.evaluated += 1;
            if self.evaluated >= self.limit {
                return Next::Stop;
            }
            buffer.copy_from_slice(at);
            if !self.cases.iter().zip(&mut buffer).all(|(case, s)| case.step(s, &insn).is_ok()) {
                continue;
            }
            let left = slots - insn.slots();
            let known = self.seen.entry(fingerprint(&buffer)).or_insert(usize::MAX);
            if *known != usize::MAX && *known >= left {
                continue;
            }
            *known = left;
            self.prefix.push(insn);
            let next = self.extend(&buffer, left);
            self.prefix.pop();
            if next == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Continue
    }

    fn finish(&mut self, at: &[Snapshot], wrong: Wrong) -> Next {
        let mut finish = Finish { cases: self.cases, at, vocabulary: self.vocabulary, evaluated: 0 };
        let last = match Reg::new(wrong.registers.trailing_zeros() as u8) {
            _ if wrong.memory => finish.memory(),
            Some(r) if self.vocabulary.targets.contains(&r) => finish.register(r),
            _ => Vec::new(),
        };
        self.evaluated += finish.evaluated;
        for insn in last {
            let after: Option<Vec<Snapshot>> = self
                .cases
                .iter()
                .zip(at)
                .map(|(c, s)| {
                    let mut s = *s;
                    c.step(&mut s, &insn).ok().map(|_| s)
                })
                .collect();
            let Some(after) = after else { continue };
            self.prefix.push(insn);
            let next = self.complete(&after);
            self.prefix.pop();
            if next == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Continue
    }

    /// Nothing is wrong any more; only the branch may be missing.
    fn complete(&mut self, at: &[Snapshot]) -> Next {
        let Some((branch, _)) = self.window.branch else { return (self.hit)(&self.prefix) };
        let target = *branch.target().expect("branches have targets");
        let mut finish = Finish { cases: self.cases, at, vocabulary: self.vocabulary, evaluated: 0 };
        let branches = finish.branch(target);
        self.evaluated += finish.evaluated;
        for insn in branches {
            self.prefix.push(insn);
            let next = (self.hit)(&self.prefix);
            self.prefix.pop();
            if next == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Continue
    }
}

/// A number that is the same for the same states.
fn fingerprint(states: &[Snapshot]) -> u64 {
    let mut hash = 0u64;
    let mut add = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    for s in states {
        s.registers.values.iter().for_each(|v| add(*v));
        for word in s.bytes.chunks_exact(8) {
            add(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
    }
    if let Some(s) = states.first() {
        add(s.known);
        s.registers.defined.iter().for_each(|r| add(1 << r.index()));
    }
    mix(hash)
}
