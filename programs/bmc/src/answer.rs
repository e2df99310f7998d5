//! XDP: requests that the cache can answer are answered, writes make it forget, everything passes on.

use crate::cache::{self, MOST_REPLY};
use crate::command::Keys;
use crate::flow;
use crate::wire::{Headers, PORT, TEXT, Text, Way, text};
use karakoram_extension::{Be16, Buffer, Xdp, XdpVerdict, counter, view, view_mut, xdp};

/// Longest text of an answer. memcached splits longer ones over several datagrams.
pub const MOST_TEXT: usize = 1392;
/// `get` and a blank, as a number.
const GET: u32 = u32::from_be_bytes(*b"get ");
/// What is before the blank.
const GET_BYTES: usize = 3;
const END: &[u8] = b"END\r\n";

counter!(
    /// Requests that were answered.
    pub static HITS
);
counter!(
    /// Requests that memcached was left to answer.
    pub static MISSES
);

/// Answers or lets pass.
#[xdp]
pub fn answer(packet: &mut Xdp) -> XdpVerdict {
    if let Some(headers) = packet.read::<Headers>(0) {
        if headers.is_plain() && headers.udp.destination != Be16::new(PORT) {
            return XdpVerdict::Pass;
        }
        if let (Some(bytes), Some(GET)) = (headers.request_bytes(), packet.be32(TEXT)) {
            return get(packet, bytes);
        }
    }
    watch(packet);
    XdpVerdict::Pass
}

/// A request for keys: a packet of so many bytes.
fn get(packet: &mut Xdp, bytes: usize) -> XdpVerdict {
    let mut request = Buffer::new(bytes);
    let mut reply = Buffer::new(TEXT + MOST_TEXT);
    if !packet.copy_to(0, &mut request) {
        return XdpVerdict::Pass;
    }
    let keys = &request[TEXT + GET_BYTES..];
    match answer_to(keys, &mut reply[TEXT..]) {
        Some(length) if send(packet, &request, &mut reply[..TEXT + length]) => {
            HITS.add(1);
            XdpVerdict::Tx
        }
        _ => {
            MISSES.add(1);
            if let Some(headers) = view::<Headers>(&request) {
                await_reply(keys, headers.conversation(headers.ip.source, headers.udp.source));
            }
            XdpVerdict::Pass
        }
    }
}

/// Puts the answer together, if all of it is known.
fn answer_to(keys: &[u8], reply: &mut [u8]) -> Option<usize> {
    let mut keys = Keys::new(keys);
    let mut length = 0;
    for key in keys.by_ref() {
        let mut slot = cache::slot(key.hash);
        let value = slot.reply(&key)?;
        reply.get_mut(length..length + value.len())?.copy_from_slice(value);
        length += value.len();
    }
    if length == 0 || !keys.is_over() || cache::is_closed() {
        return None;
    }
    reply.get_mut(length..length + END.len())?.copy_from_slice(END);
    Some(length + END.len())
}

/// Turns the request into its answer. Nothing is changed when there is no room for that.
fn send(packet: &mut Xdp, request: &[u8], reply: &mut [u8]) -> bool {
    let grow = reply.len() as i32 - packet.length() as i32;
    if grow != 0 && !packet.adjust_tail(grow) {
        return false;
    }
    reply[..TEXT].copy_from_slice(&request[..TEXT]);
    let text_bytes = reply.len() - TEXT;
    if let Some(headers) = view_mut::<Headers>(reply) {
        headers.turn_around(text_bytes);
    }
    // There is room now.
    packet.copy_from(0, reply)
}

/// Notes that memcached will be heard of these keys.
fn await_reply(keys: &[u8], conversation: u64) {
    for key in Keys::new(keys) {
        let mut slot = cache::slot(key.hash);
        if slot.reply(&key).is_none() {
            slot.await_reply(conversation);
        }
    }
}

/// Looks for writes. Not a part of `answer`, which has more registers without it.
#[inline(never)]
fn watch(packet: &Xdp) {
    match text(packet, Way::In) {
        None => {}
        Some(Text::Fragment) => cache::close(cache::GUARD_NS),
        Some(Text::Udp { start, end }) => {
            let mut line = Buffer::new((end - start).min(MOST_REPLY));
            if packet.copy_to(start, &mut line) {
                flow::datagram(&line);
            }
        }
        Some(Text::Tcp { peer, sequence, start, end, opens: true }) => {
            flow::open(peer, sequence, end - start);
        }
        Some(Text::Tcp { peer, sequence, start, end, opens: false }) => {
            flow::segment(peer, sequence, end - start, |to| packet.copy_to(start, to));
        }
    }
}
