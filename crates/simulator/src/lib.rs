//! Links that corrupt frames, simulated: discrete events, packet level, deterministic by seed.
//!
//! Times are whole picoseconds since the start (`u64`, enough for 213 days); rates are bits per
//! second. Nothing here reads a clock, and no random number has another source than the seed.
//!
//! - [`loss`]: which frames a link corrupts.
//! - [`link`]: a protected link in time, and [`stress`]: full load on it. [`exchange`]: the
//!   same of any protocol, without switches.
//! - [`tcp`], [`rdma`]: transports, and [`flow`]: hosts. [`fct`]: flows one after the other, [`bulk`] and
//!   [`timeline`]: one without end.
//! - [`fabric`]: a data centre's links over a year, and which of them are taken out of service.

pub mod bulk;
pub mod exchange;
pub mod fabric;
pub mod fct;
pub mod flow;
pub mod link;
pub mod loss;
pub mod random;
pub mod rdma;
pub mod stress;
pub mod tcp;
pub mod timeline;
