//! Packet programs in safe Rust that the kernel's verifier accepts.
//!
//! ```
//! use karakoram_extension::{Counter, Ethernet, Xdp, XdpVerdict, counter, xdp};
//!
//! counter!(static IPV4);
//!
//! #[xdp]
//! fn count(packet: &mut Xdp) -> XdpVerdict {
//!     match packet.read::<Ethernet>(0) {
//!         Some(header) if header.kind.get() == 0x0800 => IPV4.add(1),
//!         _ => {}
//!     }
//!     XdpVerdict::Pass
//! }
//!
//! let mut frame = vec![0; 60];
//! frame[12] = 8;
//! assert_eq!(karakoram_extension::testing::xdp(count, &mut frame), XdpVerdict::Pass);
//! assert_eq!(IPV4.get(), 1);
//! ```
//!
//! `kara ext build` compiles such a crate for the kernel: every index is checked, every loop is
//! bounded in time, the stack is checked, and a panic ends the run with the verdict chosen for it,
//! releases the locks it held, and is logged with file and line. The same crate builds for the host,
//! where [`testing`] runs it on packets: unit tests, fuzzing and Miri work as usual.
//!
//! What lives longer than one run is in statics: [`Counter`], [`Mutex`], [`PerCpu`], and the standard
//! atomics; and in maps of the kernel ([`kernel_map!`]). The heap (`alloc`) works and is empty again at the start of each run, which is why a
//! [`Mutex`] only takes values without pointers ([`Shared`]).

#![cfg_attr(any(target_arch = "wasm32", target_os = "none"), no_std)]
#![warn(missing_docs)]

extern crate self as karakoram_extension;

mod buffer;
pub mod header;
#[cfg(any(target_arch = "wasm32", target_os = "none"))]
mod heap;
pub mod hook;
mod host;
#[doc(hidden)]
pub mod layout;
#[cfg(not(target_os = "none"))]
pub mod map;
mod packet;
mod plain;
mod running;
pub mod sample;
mod shared;
pub mod socket;
#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
pub mod testing;
pub mod tracepoint;

pub use buffer::Buffer;
pub use header::{Be16, Be32, Ethernet, Icmp, Ipv4, Ipv6, Tcp, Udp};
pub use hook::{Cgroup, CgroupVerdict, Tc, TcVerdict, Xdp, XdpVerdict};
pub use karakoram_extension_macros::{
    Plain, Shared, cgroup, connect4, connect6, getsockopt, perf_event, setsockopt, sock_ops, tc, tracepoint, xdp,
};
pub use packet::Packet;
pub use plain::{Plain, view, view_mut};
pub use sample::Sample;
pub use shared::{Counter, Mutex, MutexGuard, PerCpu, Shared};
pub use socket::{Connect4, Connect6, Connection, SocketOption, TcpEvent};
pub use tracepoint::{Address, Tracepoint};

/// Nanoseconds since the machine started.
pub fn now() -> u64 {
    host::now()
}

/// A random number.
pub fn random() -> u32 {
    host::random()
}

/// The CPU this run is on.
pub fn cpu() -> u32 {
    host::cpu()
}
