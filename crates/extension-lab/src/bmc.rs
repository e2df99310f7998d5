//! The cache in front of memcached: `bmc-times`, the time of its programs for each kind of packet,
//! `bmc-instructions`, what they execute for it, and `bmc`, requests answered with and without it.

mod client;
pub mod instructions;
pub mod load;
mod packets;
pub mod times;
mod zipf;

/// Its programs.
const PROGRAMS: [&str; 2] = [ANSWER, LEARN];
/// At XDP.
const ANSWER: &str = "answer";
/// At tc egress.
const LEARN: &str = "learn";
