//! What makes packets. All of them say how late they were: a trial whose generator was late is void.

mod clock;
mod exchange;
mod lateness;
mod live;
mod packets;
mod schedule;
mod source;

pub use clock::now_ns;
pub use exchange::{Dialogue, Exchange, Exchanged, Pace, Waiting, exchange};
pub use lateness::Lateness;
pub use live::{Gaps, LiveGenerator, Load, Sent};
pub use source::{Generator, Source};
