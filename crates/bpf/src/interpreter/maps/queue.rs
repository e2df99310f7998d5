//! Queues and stacks (kernel `kernel/bpf/queue_stack_maps.c`).

use super::super::errno::*;
use super::array::EXIST;
use std::collections::VecDeque;

/// Values without keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    entries: usize,
    last_in_first_out: bool,
    items: VecDeque<Vec<u8>>,
}

impl Queue {
    pub(super) fn new(entries: u32, last_in_first_out: bool) -> Queue {
        Queue { entries: entries as usize, last_in_first_out, items: VecDeque::new() }
    }

    /// Appends; with `EXIST` a full queue loses its oldest element. Returns 0 or `-errno`.
    pub(super) fn push(&mut self, value: &[u8], flags: u64) -> i64 {
        if flags & !EXIST != 0 {
            return -EINVAL;
        }
        let full = self.items.len() >= self.entries;
        if full && (flags & EXIST == 0 || self.items.pop_front().is_none()) {
            return -E2BIG;
        }
        self.items.push_back(value.to_vec());
        0
    }

    /// The next value; removed when `take`.
    pub(super) fn next(&mut self, take: bool) -> Option<Vec<u8>> {
        match (self.last_in_first_out, take) {
            (true, true) => self.items.pop_back(),
            (true, false) => self.items.back().cloned(),
            (false, true) => self.items.pop_front(),
            (false, false) => self.items.front().cloned(),
        }
    }

    /// All values, oldest first.
    pub(super) fn items(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.items.iter()
    }
}
