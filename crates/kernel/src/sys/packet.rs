//! Whole Ethernet frames in user space: packet sockets (`packet(7)`) and TAP devices
//! (`Documentation/networking/tuntap.rst`), and what must be known and set of interfaces for them.

use super::Result;
use crate::errno::Errno;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Length of an interface name, without the closing zero.
pub const INTERFACE_NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// A socket that receives every frame that comes in at an interface and sends frames as they are.
/// Reading does not show what this machine itself sends there.
pub fn open_packet(interface: &str, receive_bytes: i32) -> Result<OwnedFd> {
    let index = interface_index(interface)?;
    // SAFETY: the calls take numbers and live structures of the sizes given; the descriptor is new.
    unsafe {
        let socket = owned(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Beyond the limit of ordinary users where permitted.
        if set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, receive_bytes).is_err() {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, receive_bytes)?;
        }
        let mut address: libc::sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length))?;
        let mut membership: libc::packet_mreq = zeroed();
        membership.mr_ifindex = index;
        membership.mr_type = libc::PACKET_MR_PROMISC as u16;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, membership)?;
        Ok(socket)
    }
}

/// A TAP device, which is gone when the descriptor is closed. Reading and writing do not block.
pub fn open_tap(name: &str) -> Result<OwnedFd> {
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
    // SAFETY: the path is a string with a closing zero, the request a live `ifreq`, the descriptor new.
    unsafe {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let device = owned(libc::open(c"/dev/net/tun".as_ptr(), flags))?;
        check(libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request))?;
        Ok(device)
    }
}

/// Number of an interface in this thread's network namespace.
pub fn interface_index(name: &str) -> Result<i32> {
    let request = interface_request(name, libc::SIOCGIFINDEX, |_| {})?;
    // SAFETY: the kernel has set this member.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// Longest payload of an interface's frames in bytes, without the Ethernet header.
pub fn mtu(name: &str) -> Result<usize> {
    let request = interface_request(name, libc::SIOCGIFMTU, |_| {})?;
    // SAFETY: the kernel has set this member.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.max(0) as usize)
}

/// Sets it.
pub fn set_mtu(name: &str, mtu: usize) -> Result<()> {
    let mtu = i32::try_from(mtu).map_err(|_| Errno::EINVAL)?;
    interface_request(name, libc::SIOCSIFMTU, |r| r.ifr_ifru.ifru_mtu = mtu).map(drop)
}

/// Switches an interface on.
pub fn set_up(name: &str) -> Result<()> {
    let now = interface_request(name, libc::SIOCGIFFLAGS, |_| {})?;
    // SAFETY: the kernel has set this member.
    let flags = unsafe { now.ifr_ifru.ifru_flags } | libc::IFF_UP as i16;
    interface_request(name, libc::SIOCSIFFLAGS, |r| r.ifr_ifru.ifru_flags = flags).map(drop)
}

fn request_for(name: &str) -> Result<libc::ifreq> {
    if name.is_empty() || name.len() > INTERFACE_NAME_MAX {
        return Err(Errno::EINVAL);
    }
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Only with commands that take an `ifreq` without pointers.
fn interface_request(name: &str, command: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> Result<libc::ifreq> {
    let mut request = request_for(name)?;
    fill(&mut request);
    // SAFETY: the request is a live `ifreq`, which these commands read and write; the socket is new.
    unsafe {
        let socket = owned(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        check(libc::ioctl(socket.as_raw_fd(), command, &raw mut request))?;
    }
    Ok(request)
}

/// # Safety
/// `T` must be what the option takes.
unsafe fn set_option<T>(socket: &OwnedFd, level: i32, option: i32, value: T) -> Result<()> {
    let length = size_of::<T>() as u32;
    // SAFETY: the value is live and of the length given; the caller vouches for its kind.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) })
}

fn check(result: libc::c_int) -> Result<()> {
    if result < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// # Safety
/// `fd` must be what a system call returned that makes a descriptor.
unsafe fn owned(fd: libc::c_int) -> Result<OwnedFd> {
    check(fd)?;
    // SAFETY: the caller's promise: it is new.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
