//! What is missing, and what the sender is still to be told of it.

use std::collections::VecDeque;

/// More gaps at once are taken together, with what lies between them.
const MOST_GAPS: usize = 1024;

/// More notifications at once are left out; gaps that last are asked for again.
const MOST_NOTICES: usize = 1024;

/// Numbers that were missing when a later one came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) first: u64,
    /// One past the last.
    pub(crate) end: u64,
    pub(crate) found_ps: u64,
    pub(crate) asked_ps: u64,
}

/// Gaps in order of their numbers, which is the order they were found in.
#[derive(Clone, Debug)]
pub(crate) struct Gaps(VecDeque<Gap>);

impl Gaps {
    pub(crate) fn new() -> Gaps {
        Gaps(VecDeque::with_capacity(MOST_GAPS))
    }

    pub(crate) fn push(&mut self, now_ps: u64, first: u64, end: u64) {
        if self.0.len() < MOST_GAPS {
            self.0.push_back(Gap { first, end, found_ps: now_ps, asked_ps: now_ps });
        } else if let Some(last) = self.0.back_mut() {
            *last = Gap { end, found_ps: now_ps, asked_ps: now_ps, ..*last };
        }
    }

    /// The first gap that reaches beyond what is settled: all before `due`.
    #[inline]
    pub(crate) fn head(&mut self, due: u64) -> Option<Gap> {
        while self.0.front().is_some_and(|g| g.end <= due) {
            self.0.pop_front();
        }
        self.0.front().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Gap> {
        self.0.iter_mut()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Something to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// The last number known to have been sent.
    pub(crate) leading: u64,
    pub(crate) times_left: u8,
}

/// Notifications that wait for a chance to leave.
#[derive(Clone, Debug)]
pub(crate) struct Notices {
    queue: VecDeque<Notice>,
    /// The original sends one notification for any number of frames, with 8 bits of the number.
    truncates: bool,
}

impl Notices {
    pub(crate) fn new(truncates: bool) -> Notices {
        Notices { queue: VecDeque::with_capacity(MOST_NOTICES), truncates }
    }

    /// Whether there was room.
    pub(crate) fn push(&mut self, notice: Notice) -> bool {
        let has_room = self.queue.len() < MOST_NOTICES;
        if has_room {
            self.queue.push_back(notice);
        }
        has_room
    }

    /// The next message: its first number, how many, and the leading number.
    pub(crate) fn pop(&mut self) -> Option<(u64, u8, u64)> {
        let head = self.queue.front_mut()?;
        let (first, leading) = (head.first, head.leading);
        if self.truncates {
            let count = head.count as u8;
            self.repeat_or_drop();
            return Some((first, count, leading));
        }
        let count = head.count.min(255) as u8;
        if head.count > 255 {
            head.first += 255;
            head.count -= 255;
        } else {
            self.repeat_or_drop();
        }
        Some((first, count, leading))
    }

    fn repeat_or_drop(&mut self) {
        let Some(head) = self.queue.front_mut() else { return };
        head.times_left = head.times_left.saturating_sub(1);
        if head.times_left == 0 {
            self.queue.pop_front();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}
