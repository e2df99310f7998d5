//! Loss rates, and how many copies they call for. Exact decimal arithmetic: what is chosen must not
//! depend on how a machine rounds logarithms.

use std::fmt;
use std::str::FromStr;

/// A probability in units of 1e-18, so that 1e-4 squared is exactly 1e-8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Probability(u64);

const ONE: u64 = 1_000_000_000_000_000_000;

/// More copies are of no use: links that lose this much are not links.
pub const MOST_COPIES: u8 = 15;

impl Probability {
    /// Never.
    pub const ZERO: Probability = Probability(0);
    /// What operators take for a healthy link.
    pub const HEALTHY: Probability = Probability(ONE / 100_000_000);

    /// `part` of `whole`; 0 of 0 is never. More than `whole` is certain.
    pub fn of(part: u64, whole: u64) -> Probability {
        let share = u128::from(part) * u128::from(ONE) / u128::from(whole.max(1));
        Probability(share.min(u128::from(ONE)) as u64)
    }

    /// As a floating-point number, for printing and for drawing random numbers.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / ONE as f64
    }

    /// Both of two independent events, rounded up.
    #[must_use]
    pub fn and(self, other: Probability) -> Probability {
        let product = u128::from(self.0) * u128::from(other.0);
        Probability(product.div_ceil(u128::from(ONE)) as u64)
    }

    /// What is lost when a frame and all of its copies are: loss^(copies + 1).
    #[must_use]
    pub fn after_copies(self, copies: u8) -> Probability {
        (0..copies).fold(self, |loss, _| loss.and(self))
    }

    /// The fewest retransmitted copies, at least 1, that bring the loss down to `target` (Equation 2).
    pub fn copies_for(self, target: Probability) -> u8 {
        (1..MOST_COPIES).find(|copies| self.after_copies(*copies) <= target).unwrap_or(MOST_COPIES)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            _ => write!(f, "{:e}", self.to_f64()),
        }
    }
}

impl FromStr for Probability {
    type Err = String;

    fn from_str(text: &str) -> Result<Probability, String> {
        let wrong = || format!("`{text}` is no probability: expected a number from 0 to 1, such as 0.001 or 1e-3");
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mantissa: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
        let exponent: i32 = exponent.parse().map_err(|_| wrong())?;
        let power = exponent.saturating_sub(fraction.len() as i32).saturating_add(18);
        let value = match power {
            0..=18 => mantissa.checked_mul(10u128.pow(power as u32)).ok_or_else(wrong)?,
            -38..=-1 => mantissa / 10u128.pow(-power as u32),
            _ => return Err(wrong()),
        };
        u64::try_from(value).ok().filter(|v| *v <= ONE).map(Probability).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(text: &str) -> Probability {
        text.parse().unwrap()
    }

    #[test]
    fn copies_of_the_published_table() {
        for (loss, copies, left) in
            [("1e-5", 1, "1e-10"), ("1e-4", 1, "1e-8"), ("1e-3", 2, "1e-9"), ("1e-2", 3, "1e-8")]
        {
            assert_eq!(p(loss).copies_for(Probability::HEALTHY), copies, "{loss}");
            assert_eq!(p(loss).after_copies(copies), p(left), "{loss}");
        }
        assert_eq!(p("1.0001e-4").copies_for(Probability::HEALTHY), 2);
        assert_eq!(Probability::ZERO.copies_for(Probability::HEALTHY), 1);
        assert_eq!(p("1").copies_for(Probability::HEALTHY), MOST_COPIES);
    }

    #[test]
    fn text() {
        assert_eq!(p("0.001"), p("1e-3"));
        assert_eq!(p("1.5e-3"), Probability::of(15, 10_000));
        assert_eq!(p("1e-3").to_string(), "1e-3");
        assert_eq!(Probability::ZERO.to_string(), "0");
        for wrong in ["", "e", "-1", "2", "1e", "1e99", "1e-99", "0.1.2", "99999999999999999999999999999999999999e18"] {
            assert!(wrong.parse::<Probability>().is_err(), "{wrong}");
        }
    }
}
