//! rtnetlink requests, one at a time, in the namespace of the calling thread.

use crate::error::LabError;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// Flags of requests that make something new.
pub(super) const CREATE: u16 = NLM_F_CREATE | NLM_F_EXCL;
const ANSWER_BYTES: usize = 64 << 10;

/// Sends a request and waits for the acknowledgement; `doing` completes "could not ...".
pub(super) fn request(message: RouteNetlinkMessage, flags: u16, doing: &str) -> Result<(), LabError> {
    exchange(message, flags | NLM_F_ACK).map(drop).map_err(|e| failed(doing, &e))
}

/// Sends a request and returns its one answer.
pub(super) fn ask(message: RouteNetlinkMessage, doing: &str) -> Result<RouteNetlinkMessage, LabError> {
    let answer = exchange(message, 0).map_err(|e| failed(doing, &e))?;
    answer.ok_or_else(|| failed(doing, &io::Error::other("no answer")))
}

fn exchange(message: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | flags;
    request.header.sequence_number = 1;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    socket.recv(&mut answer, 0)?;
    let parsed = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
    match parsed.payload {
        NetlinkPayload::Error(e) if e.code.is_some() => Err(e.to_io()),
        NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
        _ => Ok(None),
    }
}

fn failed(doing: &str, error: &io::Error) -> LabError {
    LabError::Machine(
        format!("could not {doing}: {error}"),
        "run as root (CAP_NET_ADMIN); `kara doctor` says what this machine permits".into(),
    )
}
