//! A delay that is the same for all that enters: what entered first leaves first.

use std::collections::VecDeque;

/// What is under way, with the times at which it arrives, ascending.
#[derive(Clone, Debug)]
pub struct Line<T> {
    items: VecDeque<(u64, T)>,
}

impl<T> Line<T> {
    /// Nothing is under way.
    pub fn new() -> Line<T> {
        Line { items: VecDeque::with_capacity(64) }
    }

    /// When the next item arrives; `u64::MAX` for never.
    #[inline]
    pub fn next(&self) -> u64 {
        self.items.front().map_or(u64::MAX, |(at, _)| *at)
    }

    /// Something arrives at a time that is not before the last one's.
    #[inline]
    pub fn push(&mut self, at: u64, item: T) {
        debug_assert!(self.items.back().is_none_or(|(last, _)| *last <= at), "a line is in order");
        self.items.push_back((at, item));
    }

    /// What arrives next.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        self.items.pop_front()
    }

    /// The item with so many before it.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&(u64, T)> {
        self.items.get(index)
    }

    /// What is under way.
    pub fn iter(&self) -> impl Iterator<Item = &(u64, T)> {
        self.items.iter()
    }

    /// Changes all that is under way.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut (u64, T)> {
        self.items.iter_mut()
    }
}
