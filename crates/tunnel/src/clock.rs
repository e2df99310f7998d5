//! The time that the protocol is told.

use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn now_ps(self) -> u64 {
        self.0.elapsed().as_nanos() as u64 * 1000
    }
}
