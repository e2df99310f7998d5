//! A protected link in user space: frames from an inside interface go over a line, through the same
//! [`karakoram_link`] machines as in the simulator, and come out at the inside of the other end.
//!
//! ```text
//!   host -- inside (TAP or interface) -- End ==== line (interface) ==== End -- inside -- host
//! ```
//!
//! One [`End`] is one thread that reads both interfaces, keeps time, and paces what it sends. It can
//! lose frames by request, so that the protocol can be tried where no link is bad.

mod capture;
mod clock;
mod control;
mod delay;
mod end;
mod health;
mod journal;
mod loss;
mod mark;
mod pacer;
mod packet;
mod port;
mod settings;
mod status;

pub use capture::{capture_header, capture_record};
pub use control::{Record, read_status, subscribe};
pub use end::End;
pub use loss::LossModel;
pub use port::{Place, Port};
pub use settings::Settings;
pub use status::Status;

use std::fmt;

/// Why a link cannot be.
#[derive(Debug)]
pub struct TunnelError {
    /// What was tried: completes "could not ...".
    pub doing: String,
    /// Why not.
    pub why: String,
}

impl TunnelError {
    fn new(doing: impl Into<String>, why: impl fmt::Display) -> TunnelError {
        TunnelError { doing: doing.into(), why: why.to_string() }
    }
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "could not {}: {}", self.doing, self.why)
    }
}

impl std::error::Error for TunnelError {}
