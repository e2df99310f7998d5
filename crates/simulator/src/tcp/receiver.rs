//! The receiving end: reassembly, selective acknowledgements, delayed acknowledgements, ECN echo.

use super::{Ack, BLOCKS, Range, Segment};

/// Acknowledgements at the start of a connection that are not delayed (`TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;

/// Receives one flow.
#[derive(Clone, Debug)]
pub struct Receiver {
    next: u32,
    /// What arrived out of order, most recently touched first.
    ranges: Vec<Range>,
    duplicate: Option<Range>,
    unacknowledged: u32,
    quick: u32,
    has_congestion: bool,
    is_echoing_each: bool,
    /// Segments that arrived again.
    pub duplicates: u64,
}

impl Receiver {
    /// A receiver that has nothing. DCTCP's says of each segment whether it met congestion.
    pub fn new(is_echoing_each: bool) -> Receiver {
        Receiver {
            next: 0,
            ranges: Vec::new(),
            duplicate: None,
            unacknowledged: 0,
            quick: QUICK,
            has_congestion: false,
            is_echoing_each,
            duplicates: 0,
        }
    }

    /// All below this number has arrived.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// A segment arrives. Up to two acknowledgements are sent: one for what came before a change of
    /// the congestion mark (DCTCP), one for the segment.
    pub fn on_segment(&mut self, segment: Segment, is_marked: bool) -> [Option<Ack>; 2] {
        let before = self.on_mark(is_marked);
        let is_in_order = segment.number == self.next && self.ranges.is_empty();
        self.take(segment.number);
        self.unacknowledged += 1;
        let is_now = !is_in_order || self.unacknowledged >= 2 || self.quick > 0 || segment.is_last;
        [before, is_now.then(|| self.acknowledge())]
    }

    /// An acknowledgement of what has arrived.
    fn acknowledge(&mut self) -> Ack {
        self.unacknowledged = 0;
        self.quick = self.quick.saturating_sub(1);
        let mut blocks = [(0, 0); BLOCKS];
        let room = BLOCKS - usize::from(self.duplicate.is_some());
        blocks.iter_mut().zip(self.ranges.iter().take(room)).for_each(|(block, range)| *block = *range);
        Ack { cumulative: self.next, blocks, duplicate: self.duplicate.take(), echo: self.has_congestion }
    }

    fn on_mark(&mut self, is_marked: bool) -> Option<Ack> {
        if !self.is_echoing_each || is_marked == self.has_congestion {
            return None;
        }
        let before = (self.unacknowledged > 0).then(|| self.acknowledge());
        self.has_congestion = is_marked;
        before
    }

    fn take(&mut self, number: u32) {
        if number < self.next || self.ranges.iter().any(|r| (r.0..r.1).contains(&number)) {
            self.duplicate = Some((number, number + 1));
            self.duplicates += 1;
        } else if number == self.next {
            self.next += 1;
            self.close();
        } else {
            self.keep(number);
        }
    }

    /// What is in order now leaves the ranges.
    fn close(&mut self) {
        while let Some(at) = self.ranges.iter().position(|r| r.0 == self.next) {
            self.next = self.ranges.remove(at).1;
        }
    }

    /// Takes a segment beyond a gap in, merged with its neighbours, as the most recent range.
    fn keep(&mut self, number: u32) {
        let mut merged = (number, number + 1);
        self.ranges.retain(|r| {
            let touches = r.1 == merged.0 || r.0 == merged.1;
            if touches {
                merged = (merged.0.min(r.0), merged.1.max(r.1));
            }
            !touches
        });
        self.ranges.insert(0, merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(receiver: &mut Receiver, number: u32) -> Option<Ack> {
        receiver.on_segment(Segment { number, payload: 1460, is_last: false }, false)[1]
    }

    #[test]
    fn a_gap_is_told_and_closed() {
        let mut receiver = Receiver::new(false);
        arrive(&mut receiver, 0);
        let ack = arrive(&mut receiver, 2).expect("at once");
        assert_eq!((ack.cumulative, ack.blocks[0]), (1, (2, 3)));
        let ack = arrive(&mut receiver, 4).expect("at once");
        assert_eq!(ack.blocks[..2], [(4, 5), (2, 3)]);
        let ack = arrive(&mut receiver, 3).expect("at once");
        assert_eq!(ack.blocks[0], (2, 5));
        assert_eq!(arrive(&mut receiver, 1).expect("at once").cumulative, 5);
    }

    #[test]
    fn a_second_arrival_is_a_duplicate() {
        let mut receiver = Receiver::new(false);
        arrive(&mut receiver, 0);
        assert_eq!(arrive(&mut receiver, 0).expect("at once").duplicate, Some((0, 1)));
    }

    #[test]
    fn every_second_segment_is_acknowledged_later_on() {
        let mut receiver = Receiver::new(false);
        let acks = (0..100).filter(|n| arrive(&mut receiver, *n).is_some()).count();
        assert_eq!(acks, 16 + 84 / 2);
    }

    #[test]
    fn dctcp_tells_marks_apart() {
        let mut receiver = Receiver::new(true);
        receiver.quick = 0;
        let segment = |number| Segment { number, payload: 1460, is_last: false };
        assert_eq!(receiver.on_segment(segment(0), false), [None, None]);
        let [before, after] = receiver.on_segment(segment(1), true);
        assert!(before.is_some_and(|a| !a.echo && a.cumulative == 1) && after.is_none());
        assert!(receiver.on_segment(segment(2), true)[1].is_some_and(|a| a.echo));
    }
}
