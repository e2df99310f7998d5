//! One flow between two hosts over a link that corrupts frames: transports, network adapters, stacks.

mod frame;
mod host;
mod transport;
mod world;

pub use frame::{Content, Ecn, Frame};
pub use host::{Host, Latency, Station};
pub use transport::{Kind, Transport};
pub use world::{Path, World};
