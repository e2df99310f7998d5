//! Network devices by the ethtool ioctl (`include/uapi/linux/ethtool.h`): switching offloads.

use super::Result;
use crate::errno::Errno;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Something a device does for the stack, and can be told not to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Checksums of packets received.
    ReceiveChecksum,
    /// Checksums of packets sent.
    SendChecksum,
    /// TCP segmentation.
    Tso,
    /// Segmentation in general, late in the stack.
    Gso,
    /// Merging of received segments.
    Gro,
}

impl Offload {
    /// All of them.
    pub const ALL: [Offload; 5] =
        [Offload::ReceiveChecksum, Offload::SendChecksum, Offload::Tso, Offload::Gso, Offload::Gro];

    /// `ETHTOOL_G*`; the command that sets it is the next number.
    fn get(self) -> u32 {
        match self {
            Offload::ReceiveChecksum => 0x14,
            Offload::SendChecksum => 0x16,
            Offload::Tso => 0x1e,
            Offload::Gso => 0x23,
            Offload::Gro => 0x2b,
        }
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Switches an offload of a device in this thread's network namespace.
pub fn set_offload(device: &str, offload: Offload, on: bool) -> Result<()> {
    ethtool(device, offload.get() + 1, u32::from(on)).map(drop)
}

/// Whether the device has it switched on.
pub fn offload(device: &str, offload: Offload) -> Result<bool> {
    ethtool(device, offload.get(), 0).map(|data| data != 0)
}

fn ethtool(device: &str, command: u32, data: u32) -> Result<u32> {
    let mut value = EthtoolValue { command, data };
    // SAFETY: all zeros is a valid `ifreq`; its pointer is to a live value of the kind that these
    // commands read and write; the socket is ours and closed when dropped.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        if device.len() >= request.ifr_name.len() {
            return Err(Errno::EINVAL);
        }
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        let socket = match libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
            fd if fd < 0 => return Err(Errno::last()),
            fd => OwnedFd::from_raw_fd(fd),
        };
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) != 0 {
            return Err(Errno::last());
        }
    }
    Ok(value.data)
}
