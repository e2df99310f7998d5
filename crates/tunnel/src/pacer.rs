//! The speed of the line: when the next frame may leave.

/// What precedes and follows a frame on the wire: preamble, check sequence, gap.
const EXTRA_BYTES: u64 = 24;

/// How far behind the line may be and still catch up: processes are not woken to the microsecond.
const CATCH_UP_PS: u64 = 300_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// Time for a byte; 0 is as fast as can be.
    byte_ps: u64,
    free_at_ps: u64,
}

impl Pacer {
    pub(crate) fn new(byte_ps: u64) -> Pacer {
        Pacer { byte_ps, free_at_ps: 0 }
    }

    pub(crate) fn may_send(&self, now_ps: u64) -> bool {
        self.free_at_ps <= now_ps
    }

    pub(crate) fn free_at_ps(&self) -> u64 {
        self.free_at_ps
    }

    pub(crate) fn sent(&mut self, now_ps: u64, bytes: usize) {
        let start = self.free_at_ps.max(now_ps.saturating_sub(CATCH_UP_PS));
        self.free_at_ps = start + (bytes as u64 + EXTRA_BYTES) * self.byte_ps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_when_woken_late() {
        let mut pacer = Pacer::new(8_000); // 1 Gb/s
        let (mut sent, mut now_ps) = (0u64, 0);
        while now_ps < 100_000_000_000 {
            while pacer.may_send(now_ps) {
                pacer.sent(now_ps, 1514);
                sent += 1;
            }
            now_ps += 70_000_000; // Seventy microseconds late, always.
        }
        let expected = 100_000_000_000 / (1538 * 8_000);
        assert!(sent.abs_diff(expected) <= 30, "{sent} of {expected}");
    }
}
