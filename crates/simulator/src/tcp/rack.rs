//! RACK (RFC 8985, `tcp_recovery.c`): a segment is lost when one sent sufficiently later has arrived.

use super::scoreboard::{Scoreboard, Sent};

/// Segments that arrive out of order before that counts as loss at once.
const REORDERING: u32 = 3;

/// The latest sent of what has arrived, and how much reordering is tolerated.
#[derive(Clone, Debug, Default)]
pub struct Rack {
    sent_at: u64,
    number: u32,
    rtt: u64,
    has_advanced: bool,
    /// Reordering was seen.
    pub has_reordering: bool,
    /// Quarters of the shortest round trip that late segments are given.
    steps: u64,
    steps_until: u32,
    /// Recoveries before the tolerance shrinks again.
    persists: u32,
}

impl Rack {
    /// Nothing arrived so far.
    pub fn new() -> Rack {
        Rack { steps: 1, ..Rack::default() }
    }

    /// A segment arrived (`tcp_rack_advance`).
    pub fn deliver(&mut self, number: u32, sent: &Sent, now: u64, least_rtt: u64) {
        let rtt = now - sent.at;
        // Too fast for a copy: the first one arrived.
        if sent.is_retransmitted && rtt < least_rtt {
            return;
        }
        self.rtt = rtt;
        if (sent.at, number) > (self.sent_at, self.number) {
            (self.sent_at, self.number, self.has_advanced) = (sent.at, number, true);
        }
    }

    /// A segment arrived twice: late ones were given too little time (`tcp_rack_update_reo_wnd`).
    pub fn on_duplicate(&mut self, first: u32, next: u32) {
        if first >= self.steps_until {
            (self.steps, self.steps_until, self.persists) = ((self.steps + 1).min(255), next, 16);
        }
    }

    /// A recovery ended.
    pub fn on_recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.steps = 1;
        }
    }

    /// How late a segment may be.
    fn tolerance(&self, board: &Scoreboard, is_repairing: bool, least_rtt: u64, smoothed: u64) -> u64 {
        if !self.has_reordering && (is_repairing || board.sacked() >= REORDERING) {
            return 0;
        }
        (least_rtt / 4).saturating_mul(self.steps).min(smoothed)
    }

    /// Marks what is lost. Returns how many, and how long to wait for what may only be late.
    pub fn detect(
        &mut self,
        board: &mut Scoreboard,
        now: u64,
        is_repairing: bool,
        least_rtt: u64,
        smoothed: u64,
    ) -> (u32, Option<u64>) {
        if !std::mem::take(&mut self.has_advanced) {
            return (0, None);
        }
        let allowed = self.rtt + self.tolerance(board, is_repairing, least_rtt, smoothed);
        let mut late: Vec<u32> = Vec::new();
        let mut wait = None;
        for (number, sent) in board.iter() {
            let is_known = sent.is_sacked || (sent.is_lost && !sent.is_copy_in_flight);
            if is_known || (sent.at, number) >= (self.sent_at, self.number) {
                continue;
            }
            match (sent.at + allowed).checked_sub(now).filter(|left| *left > 0) {
                Some(left) => wait = wait.max(Some(left)),
                None => late.push(number),
            }
        }
        late.iter().for_each(|number| board.lose(*number));
        (late.len() as u32, wait)
    }

    /// The time given to late segments is over; look again.
    pub fn on_timer(&mut self) {
        self.has_advanced = true;
    }
}
