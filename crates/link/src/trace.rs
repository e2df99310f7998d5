//! Which frames a link loses, by number: the one description that loses the same frames in a
//! simulator and on a real link, whatever their times.
//!
//! A line names a frame, counted from 0, and which times it is lost, counted from 0: `7` loses it the
//! first time, `7 0 1` the first time and as the first copy. `#` starts a comment.

use crate::sequence::FIRST;
use std::collections::BTreeMap;

/// More attempts of one frame cannot be named.
const MOST_ATTEMPTS: u32 = 64;

/// The frames to lose.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LossTrace {
    /// For each number, from [`FIRST`]: a bit for each attempt that is lost.
    lost: BTreeMap<u64, u64>,
    /// For each of these, how often it was sent.
    attempts: BTreeMap<u64, u32>,
}

impl LossTrace {
    /// Reads a description.
    pub fn parse(text: &str) -> Result<LossTrace, String> {
        let mut trace = LossTrace::default();
        for (number, line) in text.lines().enumerate() {
            let words = line.split('#').next().unwrap_or_default();
            trace.add(words).map_err(|e| format!("line {}: {e}", number + 1))?;
        }
        Ok(trace)
    }

    fn add(&mut self, words: &str) -> Result<(), String> {
        let mut words = words.split_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let sequence: u64 = first.parse().map_err(|_| format!("`{first}` is no frame number"))?;
        let mut bits = 0;
        for word in words {
            let attempt: u32 = word
                .parse()
                .ok()
                .filter(|a| *a < MOST_ATTEMPTS)
                .ok_or_else(|| format!("`{word}` is not one of the attempts 0 to {}", MOST_ATTEMPTS - 1))?;
            bits |= 1 << attempt;
        }
        let sequence = sequence.checked_add(FIRST).ok_or("the frame number is too large")?;
        *self.lost.entry(sequence).or_default() |= if bits == 0 { 1 } else { bits };
        Ok(())
    }

    /// A frame with this number, of 64 bits, goes out again or for the first time: whether it is lost.
    pub fn is_lost(&mut self, sequence: u64) -> bool {
        let Some(bits) = self.lost.get(&sequence) else { return false };
        let attempt = self.attempts.entry(sequence).or_default();
        *attempt += 1;
        bits.checked_shr(*attempt - 1).is_some_and(|b| b & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted() {
        let mut trace = LossTrace::parse("7\n9 0 2 # twice\n\n# nothing\n").unwrap();
        let mut lost = |n: u64| trace.is_lost(FIRST + n);
        assert_eq!([lost(7), lost(7), lost(8)], [true, false, false]);
        assert_eq!([lost(9), lost(9), lost(9), lost(9)], [true, false, true, false]);
        assert!((0..100).all(|_| !lost(9)));
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(LossTrace::parse("1\nx"), Err("line 2: `x` is no frame number".into()));
        assert!(LossTrace::parse("1 64").is_err());
        assert!(LossTrace::parse("18446744073709551615").is_err());
    }
}
