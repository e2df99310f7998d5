//! RDMA's reliable connection, one WRITE at a time: go-back-N as adapters have it, or selective
//! repeat after IRN (SIGCOMM 2018). Packet numbers count packets of one message.

mod receiver;
mod sender;

pub use receiver::Receiver;
pub use sender::{Config, Sender, Statistics};

/// How losses are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// All from the missing packet on is sent again.
    GoBackN,
    /// Only what is missing is sent again.
    Selective,
}

/// A packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its number.
    pub number: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// The last of its message, which asks for an acknowledgement.
    pub is_last: bool,
}

/// What the receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All below this number has arrived.
    Ack(u32),
    /// This number is missing; selectively, `arrived` came out of order.
    Nak {
        /// The first missing number.
        missing: u32,
        /// What has arrived beyond it.
        arrived: Option<u32>,
    },
}
