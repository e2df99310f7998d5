//! Distance by request: frames wait before they are handed on, in order.

use crate::packet::Packet;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Delay {
    length_ps: u64,
    waiting: VecDeque<(u64, Packet)>,
}

impl Delay {
    pub(crate) fn new(length_ps: u64) -> Delay {
        Delay { length_ps, waiting: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, now_ps: u64, packet: Packet) {
        self.waiting.push_back((now_ps + self.length_ps, packet));
    }

    pub(crate) fn pop(&mut self, now_ps: u64) -> Option<Packet> {
        self.waiting.front().filter(|(at, _)| *at <= now_ps)?;
        self.waiting.pop_front().map(|(_, packet)| packet)
    }

    /// When to look again: those that are due within `together_ps` of the first one wait for each other.
    pub(crate) fn deadline(&self, together_ps: u64) -> Option<u64> {
        let (first, _) = self.waiting.front()?;
        let (last, _) = self.waiting.back()?;
        Some((*first + together_ps).min(*last))
    }
}
