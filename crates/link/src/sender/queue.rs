//! The queue for frames that have no number yet, limited in cells.

use crate::frame::Frame;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct FrameQueue<F> {
    frames: VecDeque<F>,
    cells: u32,
    limit_cells: u32,
}

impl<F: Frame> FrameQueue<F> {
    pub(crate) fn new(limit_cells: u32) -> FrameQueue<F> {
        FrameQueue { frames: VecDeque::with_capacity(limit_cells as usize), cells: 0, limit_cells }
    }

    /// Takes a frame, or gives it back.
    #[inline]
    pub(crate) fn push(&mut self, frame: F) -> Result<(), F> {
        let cells = frame.cells().max(1);
        if self.cells + cells > self.limit_cells {
            return Err(frame);
        }
        self.cells += cells;
        self.frames.push_back(frame);
        Ok(())
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<F> {
        let frame = self.frames.pop_front()?;
        self.cells -= frame.cells().max(1);
        Some(frame)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    #[inline]
    pub(crate) fn cells(&self) -> u32 {
        self.cells
    }
}
