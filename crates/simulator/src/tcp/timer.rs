//! Linux's retransmission timer: one for each connection, in jiffies, never early. A timer of n
//! jiffies goes off between n and n + 1 jiffies from now, as the timer wheel rounds up.

/// What the timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Everything in flight is taken for lost.
    Retransmit,
    /// The tail is sent once more, or something new (TLP).
    Probe,
    /// Segments that may only be late are looked at again (RACK).
    Reorder,
}

/// The clock tick of a host.
#[derive(Clone, Copy, Debug)]
pub struct Jiffies {
    /// Picoseconds in a tick.
    pub length: u64,
    /// When the first tick was.
    pub phase: u64,
}

impl Jiffies {
    /// A span in ticks, rounded up (`usecs_to_jiffies`).
    pub fn of(&self, span: u64) -> u64 {
        span.div_ceil(self.length)
    }

    /// When a timer goes off that is set now to so many ticks.
    pub fn expiry(&self, now: u64, ticks: u64) -> u64 {
        let tick = (now + self.length - self.phase) / self.length;
        (tick + ticks) * self.length + self.phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_early_and_at_most_a_tick_late() {
        let jiffies = Jiffies { length: 1000, phase: 300 };
        for now in 0..5000 {
            let waited = jiffies.expiry(now, 2) - now;
            assert!((2000..=3000).contains(&waited), "{now}: {waited}");
        }
        assert_eq!(jiffies.of(1001), 2);
    }
}
