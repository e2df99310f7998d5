//! Masking corruption loss on one link, after LinkGuardian (SIGCOMM'23): the sender numbers what it
//! puts on the link and keeps copies; the receiver sees a gap with the next frame, asks for what is
//! missing, and holds later frames back until the gap is closed.
//!
//! The machines here make no system call, read no clock and draw no random number. Time is an
//! argument, in picoseconds since any fixed moment, because a frame of 1,541 bytes takes 123.28 ns
//! at 100 Gb/s. Nothing is allocated for a frame: what is kept is kept in rings made at the start.
//! A simulator and a real link drive the same code.
//!
//! A driver moves four kinds of things:
//!
//! ```text
//!   enqueue --> Sender --poll_transmit--> LinkFrame ====link====> on_frame --> Receiver --> deliver
//!                  ^                                                              |
//!                  +---- on_control <---- Control <==== other direction <==== poll_control
//! ```
//!
//! and calls `on_timer` when `next_deadline` is reached. One protected direction is one [`Sender`]
//! and one [`Receiver`]; a link that is protected both ways has two of each.

pub mod config;
pub mod event;
pub mod fec;
pub mod frame;
pub mod go_back_n;
pub mod monitor;
pub mod protocol;
pub mod rate;
pub mod receiver;
pub mod sender;
pub mod sequence;
pub mod trace;
pub mod wire;

pub use config::{Fidelity, Mode, ReceiverConfig, SenderConfig};
pub use event::{Event, Log};
pub use frame::{Ack, Arrival, Control, DataHeader, Frame, LinkFrame, Loss, Slot};
pub use protocol::{LinkProtocol, LinkReceiver, LinkSender, Selective};
pub use rate::Probability;
pub use receiver::Receiver;
pub use sender::Sender;
pub use sequence::WireSequence;
pub use trace::LossTrace;
