//! Sleeping until there is something to do.

use super::End;
use crate::TunnelError;
use karakoram_link::{LinkReceiver, LinkSender};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::os::fd::AsFd;

/// What may have something for us, as far as we know.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    pub(super) line: bool,
    pub(super) inside: bool,
    pub(super) server: bool,
}

/// Frames that are due so soon after one another are dealt with together: waking up costs more than a frame.
const TOGETHER_PS: u64 = 100_000_000;
/// From so many cells in the queue on; a lone frame leaves when it may.
const MANY_CELLS: u32 = 4 * super::FRAME_CELLS;

impl End {
    /// Until a frame comes or something is due; not at all if there is more to do.
    pub(super) fn wait(&mut self, has_more: bool) -> Result<(), TunnelError> {
        let until_ps = if has_more { 0 } else { self.idle_ps() };
        let when_readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let is_readable = |fd: &PollFd| fd.any().unwrap_or(false);
        let server = self.server.as_ref().map_or(self.line.fd(), |s| s.listener().as_fd());
        let mut fds = [self.line.fd(), server, self.inside.fd()].map(when_readable);
        let watched = if self.has_room() { &mut fds[..] } else { &mut fds[..2] };
        match ppoll(watched, Some(TimeSpec::nanoseconds((until_ps / 1000) as i64)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(TunnelError::new("wait for frames", e)),
        }
        let [line, server, inside] = fds.each_ref().map(is_readable);
        self.ready.line |= line;
        self.ready.inside |= inside;
        self.ready.server = server && self.server.is_some();
        Ok(())
    }

    /// How long there is nothing to do, if no frame comes.
    fn idle_ps(&self) -> u64 {
        let now_ps = self.clock.now_ps();
        let line_free_at_ps = self.pacer.free_at_ps();
        let deadlines = [
            // What it wants then is to send.
            self.sender.next_deadline().map(|at| at.max(line_free_at_ps)),
            self.receiver.next_deadline(),
            self.delay.deadline(TOGETHER_PS),
            self.receiver.has_acknowledgement().then_some(self.courier_at_ps.max(line_free_at_ps)),
            Some(self.health.deadline().max(line_free_at_ps)),
            (line_free_at_ps > now_ps).then_some(line_free_at_ps + self.patience_ps()),
        ];
        deadlines.into_iter().flatten().min().unwrap_or(now_ps).saturating_sub(now_ps)
    }

    /// How long frames that could leave may wait for others.
    fn patience_ps(&self) -> u64 {
        if self.sender.queue_cells() >= MANY_CELLS { TOGETHER_PS } else { 0 }
    }
}
