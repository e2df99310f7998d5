//! A protected link in time: the protocol's machines (`karakoram-link`) between a wire that corrupts
//! frames and the rings and delays of the switches they were built for.

mod copy_ring;
mod line;
mod losses;
mod occupancy;
mod protected;
mod reorder_ring;
mod setup;
mod skip;
mod timing;
mod wire;

pub(crate) use line::Line;
pub use occupancy::Occupancy;
pub use protected::{Carried, Counters, ProtectedLink, Setup};
pub use setup::{Buffers, MARK_CELLS, STRESS_QUEUE_CELLS, rate};
pub use skip::Moment;
pub use timing::{Rate, Timing};
pub(crate) use wire::Wire;
