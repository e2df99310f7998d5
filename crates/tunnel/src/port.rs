//! The two interfaces of an end.

use crate::TunnelError;
use karakoram_kernel::sys::device::{Offload, offload, set_offload};
use karakoram_kernel::sys::packet;
use nix::sys::socket::{MsgFlags, recv};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::str::FromStr;

/// Room for frames that were not read yet, in bytes.
const RECEIVE_BYTES: i32 = 16 << 20;

/// Where frames come from and go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A TAP device that is made for the purpose.
    Tap(String),
    /// An interface that is there.
    Interface(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (name, make): (_, fn(String) -> Place) = match text.strip_prefix("tap:") {
            Some(name) => (name, Place::Tap),
            None => (text, Place::Interface),
        };
        let is_name = !name.is_empty()
            && name.len() <= packet::INTERFACE_NAME_MAX
            && !name.contains(|c: char| c == '/' || c.is_whitespace());
        is_name.then(|| make(name.to_string())).ok_or_else(|| format!("`{text}` is no interface, nor tap:NAME"))
    }
}

/// An interface that frames are read from and written to.
#[derive(Debug)]
pub struct Port {
    file: File,
    is_socket: bool,
    name: String,
    mtu: usize,
    /// Switched off as long as we are here: frames must stay as they are on the wire.
    switched_off: Vec<Offload>,
}

impl Port {
    /// Opens it.
    pub fn open(place: &Place) -> Result<Port, TunnelError> {
        match place {
            Place::Tap(name) => Port::open_tap(name),
            Place::Interface(name) => Port::open_interface(name),
        }
    }

    fn open_tap(name: &str) -> Result<Port, TunnelError> {
        let fd = packet::open_tap(name).map_err(|e| TunnelError::new(format!("make the TAP device {name}"), e))?;
        let port =
            Port { file: fd.into(), is_socket: false, name: name.to_string(), mtu: 1500, switched_off: Vec::new() };
        packet::set_up(name).map_err(|e| TunnelError::new(format!("switch {name} on"), e))?;
        Ok(port)
    }

    fn open_interface(name: &str) -> Result<Port, TunnelError> {
        let doing = |what: &str| format!("{what} the interface {name}");
        let mtu = packet::mtu(name).map_err(|e| TunnelError::new(doing("find"), e))?;
        let fd = packet::open_packet(name, RECEIVE_BYTES).map_err(|e| TunnelError::new(doing("read"), e))?;
        let mut switched_off = Vec::new();
        for which in Offload::ALL {
            let is_off = offload(name, which) == Ok(true) && set_offload(name, which, false).is_ok();
            switched_off.extend(is_off.then_some(which));
        }
        Ok(Port { file: fd.into(), is_socket: true, name: name.to_string(), mtu, switched_off })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Longest payload, without the Ethernet header.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Shortens the payload of a TAP device so that its frames fit into those of a line.
    pub(crate) fn limit_mtu(&mut self, mtu: usize) -> Result<(), TunnelError> {
        if !self.is_socket && mtu < self.mtu {
            packet::set_mtu(&self.name, mtu)
                .map_err(|e| TunnelError::new(format!("set the MTU of {} to {mtu}", self.name), e))?;
            self.mtu = mtu;
        }
        Ok(())
    }

    /// A frame, if there is one.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let result = match self.is_socket {
            true => recv(self.file.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT).map_err(io::Error::from),
            false => self.file.read(buffer),
        };
        match result {
            Ok(length) => Ok(Some(length)),
            // An interface that is switched off may be switched on again.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NetworkDown) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Sends a frame. Whether the interface took it.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        self.file.write(frame).is_ok()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        for which in &self.switched_off {
            let _ = set_offload(&self.name, *which, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!("eth0".parse(), Ok(Place::Interface("eth0".into())));
        assert_eq!("tap:kara0".parse(), Ok(Place::Tap("kara0".into())));
        for wrong in ["", "tap:", "a/b", "a b", "sixteencharacters"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
