//! Where programs run: a token for each hook that gives access to the packet and to what only that
//! hook can do, and its verdicts.

use crate::host;
use crate::packet::Packet;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// What becomes of a packet at the XDP hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum XdpVerdict {
    /// Dropped, and counted as an error.
    Aborted = 0,
    /// Dropped.
    Drop = 1,
    /// Goes on to the stack.
    Pass = 2,
    /// Sent back out of the interface it came from.
    Tx = 3,
    /// Goes where [`Xdp::redirect`] said.
    Redirect = 4,
}

/// What becomes of a packet at the tc hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum TcVerdict {
    /// Goes on.
    Pass = 0,
    /// Dropped.
    Drop = 2,
    /// Goes where [`Tc::redirect`] said.
    Redirect = 7,
}

/// What becomes of a packet of a control group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum CgroupVerdict {
    /// Dropped; who sends it gets an error.
    Drop = 0,
    /// Goes on.
    Pass = 1,
}

/// A packet that a process of a control group sends or receives, from its IP header on. It can be looked at only.
///
/// ```compile_fail
/// # use karakoram_extension::Cgroup;
/// fn write(packet: &mut Cgroup) -> bool {
///     packet.set_u8(0, 1)
/// }
/// ```
pub struct Cgroup {
    packet: Packet,
}

impl Cgroup {
    /// Number of the interface.
    pub fn interface(&self) -> u32 {
        host::interface()
    }
}

impl Deref for Cgroup {
    type Target = Packet;
    fn deref(&self) -> &Packet {
        &self.packet
    }
}

/// Runs a program of a control group on the current packet. What `#[cgroup]` makes calls it.
#[doc(hidden)]
#[inline(always)]
pub fn run_cgroup(program: fn(&mut Cgroup) -> CgroupVerdict) -> i32 {
    program(&mut Cgroup { packet: Packet { not_send: PhantomData } }) as i32
}

/// The packet at the XDP hook.
pub struct Xdp {
    packet: Packet,
}

/// The packet at the tc hook.
pub struct Tc {
    packet: Packet,
}

impl Xdp {
    /// Takes bytes off the front, or with a negative number puts room there. Everything is then at
    /// other offsets. False when that is not possible.
    pub fn adjust_head(&mut self, delta: i32) -> bool {
        host::adjust_head(delta) == 0
    }

    /// Puts bytes at the end, or with a negative number takes them off. False when that is not
    /// possible.
    pub fn adjust_tail(&mut self, delta: i32) -> bool {
        host::adjust_tail(delta) == 0
    }

    /// Number of the interface it came in on.
    pub fn interface(&self) -> u32 {
        host::interface()
    }

    /// Sends the packet out of another interface, once the program returns what this returns.
    pub fn redirect(&mut self, interface: u32) -> XdpVerdict {
        match host::redirect(interface, 0) {
            4 => XdpVerdict::Redirect,
            _ => XdpVerdict::Aborted,
        }
    }
}

impl Tc {
    /// Puts bytes at the end, or with a negative number takes them off. False when that is not
    /// possible.
    pub fn adjust_tail(&mut self, delta: i32) -> bool {
        host::adjust_tail(delta) == 0
    }

    /// Number of the interface.
    pub fn interface(&self) -> u32 {
        host::interface()
    }

    /// Sends the packet out of another interface, once the program returns what this returns.
    pub fn redirect(&mut self, interface: u32) -> TcVerdict {
        match host::redirect(interface, 0) {
            2 => TcVerdict::Drop,
            _ => TcVerdict::Redirect,
        }
    }
}

impl Deref for Xdp {
    type Target = Packet;
    fn deref(&self) -> &Packet {
        &self.packet
    }
}

impl DerefMut for Xdp {
    fn deref_mut(&mut self) -> &mut Packet {
        &mut self.packet
    }
}

impl Deref for Tc {
    type Target = Packet;
    fn deref(&self) -> &Packet {
        &self.packet
    }
}

impl DerefMut for Tc {
    fn deref_mut(&mut self) -> &mut Packet {
        &mut self.packet
    }
}

/// Runs an XDP program on the current packet. What `#[xdp]` makes calls it.
#[doc(hidden)]
#[inline(always)]
pub fn run_xdp(program: fn(&mut Xdp) -> XdpVerdict) -> i32 {
    program(&mut Xdp { packet: Packet { not_send: PhantomData } }) as i32
}

/// Runs a tc program on the current packet. What `#[tc]` makes calls it.
#[doc(hidden)]
#[inline(always)]
pub fn run_tc(program: fn(&mut Tc) -> TcVerdict) -> i32 {
    program(&mut Tc { packet: Packet { not_send: PhantomData } }) as i32
}
