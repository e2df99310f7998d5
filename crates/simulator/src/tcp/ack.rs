//! What an acknowledgement changes (`tcp_ack` and what it calls).

use super::Ack;
use super::congestion::{Progress, State};
use super::scoreboard::Sent;
use super::sender::Sender;

/// What one acknowledgement delivered.
#[derive(Default)]
struct News {
    acknowledged: u32,
    sacked: u32,
    rtt: Option<u64>,
    /// A segment that was sent again is acknowledged.
    has_repaired: bool,
    /// A segment that was sent once arrived after ones sent later.
    has_reordering: bool,
    /// The receiver has it twice.
    is_duplicate: bool,
}

impl Sender {
    /// An acknowledgement arrives.
    pub fn on_ack(&mut self, now: u64, ack: &Ack) {
        let prior_in_flight = self.board.in_flight();
        let mut news = News { is_duplicate: ack.duplicate.is_some(), ..News::default() };
        self.take_duplicate(ack);
        self.take_cumulative(now, ack.cumulative, &mut news);
        ack.blocks.iter().for_each(|(from, to)| self.take_block(now, *from, *to, &mut news));
        if let Some(rtt) = news.rtt {
            self.rtt.sample(rtt);
            self.backoff = 0;
        }
        self.rack.has_reordering |= news.has_reordering;
        self.end_probe(ack, &news);
        let (lost, wait) = self.detect(now);
        self.advance_state(ack, &news, lost);
        self.adapt(now, ack, &news, prior_in_flight, lost);
        self.rearm(now, &news, wait);
    }

    /// What arrived twice: when that is all that was sent again, nothing was lost.
    fn take_duplicate(&mut self, ack: &Ack) {
        let Some((from, _)) = ack.duplicate else { return };
        self.rack.on_duplicate(self.board.first, self.board.next());
        if let Some(undo) = self.undo.as_mut().filter(|undo| from >= undo.first && undo.copies > 0) {
            undo.copies -= 1;
            if undo.copies == 0 {
                self.take_back();
            }
        }
    }

    fn take_cumulative(&mut self, now: u64, cumulative: u32, news: &mut News) {
        while self.board.first < cumulative {
            let number = self.board.first;
            let Some(sent) = self.board.pop() else { break };
            news.acknowledged += 1;
            if !sent.is_sacked {
                news.has_reordering |= number < self.board.highest && !sent.is_retransmitted;
                self.deliver(now, number, &sent, news);
            }
        }
    }

    fn take_block(&mut self, now: u64, from: u32, to: u32, news: &mut News) {
        let to = to.min(self.board.next());
        for number in from.max(self.board.first)..to {
            let highest = self.board.highest;
            if let Some(sent) = self.board.sack(number) {
                news.sacked += 1;
                self.statistics.sacked += 1;
                news.has_reordering |= number < highest && !sent.is_retransmitted;
                self.deliver(now, number, &sent, news);
            }
        }
    }

    fn deliver(&mut self, now: u64, number: u32, sent: &Sent, news: &mut News) {
        self.deliveries.deliver(sent.stamp, sent.at, now);
        self.rack.deliver(number, sent, now, self.rtt.minimum());
        if sent.is_retransmitted {
            news.has_repaired = true;
        } else {
            // Of several segments, the one that was sent last tells the round trip.
            news.rtt = Some(now - sent.at);
        }
    }

    /// Marks what RACK takes for lost; nothing can be when everything arrives in order.
    pub(super) fn detect(&mut self, now: u64) -> (u32, Option<u64>) {
        if self.board.is_plain() {
            return (0, None);
        }
        let is_repairing = self.is_repairing();
        self.rack.detect(&mut self.board, now, is_repairing, self.rtt.minimum(), self.rtt.smoothed())
    }

    /// A probe that repaired a loss is answered like one (`tcp_process_tlp_ack`).
    fn end_probe(&mut self, ack: &Ack, news: &News) {
        let Some(probe) = self.probe.filter(|probe| ack.cumulative >= probe.high) else { return };
        self.probe = None;
        if probe.is_copy && !news.is_duplicate && self.state == State::Open {
            self.enter_reduction();
            self.leave();
        }
    }

    fn advance_state(&mut self, ack: &Ack, news: &News, lost: u32) {
        if self.state != State::Open && self.board.first >= self.high && news.acknowledged > 0 {
            self.leave();
        }
        if ack.echo && self.is_ecn() {
            self.enter_reduction();
        }
        if lost > 0 && !self.is_repairing() {
            self.enter_recovery();
        }
    }

    fn adapt(&mut self, now: u64, ack: &Ack, news: &News, prior_in_flight: u32, lost: u32) {
        let delivered = self.deliveries.delivered();
        let progress = Progress {
            now,
            first: self.board.first,
            next: self.board.next(),
            acknowledged: news.acknowledged,
            delivered: self.newly_delivered(delivered),
            delivered_total: delivered,
            lost,
            prior_in_flight,
            in_flight: self.board.in_flight(),
            rtt: news.rtt,
            least_rtt: self.rtt.minimum(),
            echo: ack.echo,
            sample: self.deliveries.sample(now, self.rtt.minimum()),
            state: self.state,
        };
        self.control.observe(&progress, &self.window);
        if self.control.control(&progress, &mut self.window) {
            return;
        }
        if matches!(self.state, State::Recovery | State::Reduction) {
            self.reduce_proportionally(progress.delivered, news.has_repaired, lost);
        } else if news.acknowledged > 0 && prior_in_flight * 2 >= self.window.size {
            self.grow(&progress);
        }
    }

    /// Grows while the window is what limits: fully used, or half of it in slow start
    /// (`tcp_is_cwnd_limited`).
    fn grow(&mut self, progress: &Progress) {
        let is_full = progress.prior_in_flight + 1 >= self.window.size;
        if is_full || self.window.is_slow_start() {
            self.control.grow(progress, &mut self.window);
            self.window.size = self.window.size.min(self.config.largest_window.max(2));
        }
    }

    fn newly_delivered(&mut self, total: u64) -> u32 {
        (total - std::mem::replace(&mut self.told, total)) as u32
    }

    fn rearm(&mut self, now: u64, news: &News, wait: Option<u64>) {
        if self.board.outstanding() == 0 {
            self.timer = None;
        } else if let Some(span) = wait {
            self.arm_reorder(now, span);
        } else if news.acknowledged > 0 && !self.arm_probe(now) {
            self.arm_timeout(now);
        }
    }
}
