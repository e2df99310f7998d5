//! What makes packets. All of them say how late they were: a trial whose generator was late is void.

mod clock;
mod exchange;
mod lateness;
mod live;
mod load;
mod packets;
mod schedule;
mod source;
mod windows;

pub use clock::now_ns;
pub use exchange::{Dialogue, Exchange, Exchanged, Pace, Waiting, exchange};
pub use lateness::Lateness;
pub use live::LiveGenerator;
pub use load::{Gaps, Load, Sent};
pub use source::{Generator, Source};
pub use windows::{Typical, Window};
