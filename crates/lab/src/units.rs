//! Units in the size that people read.

/// How a quantity is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown {
    /// Values are multiplied by it.
    pub factor: f64,
    /// The unit then.
    pub unit: String,
    /// Decimals that say enough.
    pub decimals: usize,
}

impl Shown {
    /// For values of about that size, in that unit: nanoseconds become micro- and milliseconds, what
    /// happens in a second is counted in thousands, millions or thousands of millions.
    pub fn of(unit: &str, size: f64) -> Shown {
        let size = size.abs();
        let (factor, unit) = match unit {
            "ns" if size >= 1e7 => (1e-6, "ms".to_string()),
            "ns" if size >= 1e4 => (1e-3, "µs".to_string()),
            rate if rate.ends_with("/s") => {
                let (factor, prefix) = prefix(size);
                (factor, format!("{prefix}{rate}"))
            }
            other => (1.0, other.to_string()),
        };
        Shown { factor, unit, decimals: decimals(size * factor) }
    }

    /// The number of a value, without its unit.
    pub fn number(&self, value: f64) -> String {
        crate::report::plain(value * self.factor, self.decimals)
    }
}

fn prefix(size: f64) -> (f64, &'static str) {
    match size {
        s if s >= 1e9 => (1e-9, "G"),
        s if s >= 1e6 => (1e-6, "M"),
        s if s >= 1e4 => (1e-3, "k"),
        _ => (1.0, ""),
    }
}

/// About four significant digits.
fn decimals(size: f64) -> usize {
    if size <= 0.0 || !size.is_finite() {
        return 1;
    }
    (3 - size.log10().floor() as i32).clamp(0, 4) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let shown = |unit: &str, size: f64| Shown::of(unit, size).number(size) + " " + &Shown::of(unit, size).unit;
        assert_eq!(shown("ns", 412.3), "412.3 ns");
        assert_eq!(shown("ns", 44_300.0), "44.30 µs");
        assert_eq!(shown("packets/s", 1_234_567.0), "1.235 Mpackets/s");
        assert_eq!(shown("bit/s", 7.24e9), "7.240 Gbit/s");
        assert_eq!(shown("share", 0.5), "0.5000 share");
    }
}
