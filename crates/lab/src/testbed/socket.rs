//! Sockets in a namespace, to be used from any thread.

use super::namespace::Namespace;
use crate::error::LabError;
use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};

/// A UDP socket at an address of the namespace.
pub fn udp(namespace: &Namespace, address: SocketAddrV4) -> Result<UdpSocket, LabError> {
    made(namespace.run(|| UdpSocket::bind(address))?, "open a UDP socket at", address)
}

/// A UDP socket between two addresses.
pub fn connected_udp(namespace: &Namespace, from: SocketAddrV4, to: SocketAddrV4) -> Result<UdpSocket, LabError> {
    let socket = udp(namespace, from)?;
    made(socket.connect(to).map(|()| socket), "connect a UDP socket to", to)
}

/// A listening TCP socket at an address of the namespace.
pub fn tcp_listener(namespace: &Namespace, address: SocketAddrV4) -> Result<TcpListener, LabError> {
    made(namespace.run(|| TcpListener::bind(address))?, "listen at", address)
}

fn made<T>(result: io::Result<T>, doing: &str, address: SocketAddrV4) -> Result<T, LabError> {
    result.map_err(|e| LabError::Machine(format!("could not {doing} {address}: {e}"), String::new()))
}
