//! tc egress: values in memcached's replies are kept, answers to writes make the cache forget.

use crate::answer::MOST_TEXT;
use crate::cache::{self, MOST_REPLY, MOST_VALUE, VALUE};
use crate::command::{Key, find, number};
use crate::flow;
use crate::wire::{Headers, PORT, TEXT, Text, Way, text};
use karakoram_extension::{Be16, Buffer, Tc, TcVerdict, tc};

/// Learns.
#[tc]
pub fn learn(packet: &mut Tc) -> TcVerdict {
    match packet.read::<Headers>(0) {
        Some(headers) if headers.udp.source == Be16::new(PORT) && headers.is_whole_datagram() => {
            values(packet, &headers);
        }
        Some(headers) if headers.is_plain() && headers.udp.source != Be16::new(PORT) => {}
        _ => connection(packet),
    }
    TcVerdict::Pass
}

/// What memcached says on a connection. Like `values` not a part of `learn`: each has all registers for itself.
#[inline(never)]
fn connection(packet: &Tc) {
    let Some(Text::Tcp { peer, sequence, start, end, opens }) = text(packet, Way::Out) else { return };
    if opens {
        return flow::accepted(peer, sequence);
    }
    let mut said = Buffer::new((end - start).min(MOST_TEXT));
    if !said.is_empty() && packet.copy_to(start, &mut said) {
        flow::answered(peer, sequence, &said, said.len() == end - start);
    }
}

/// A reply that fits into one datagram.
#[inline(never)]
fn values(packet: &Tc, headers: &Headers) {
    let Some(bytes) = headers.bytes().filter(|b| (TEXT..=TEXT + MOST_TEXT).contains(b)) else { return };
    let mut reply = Buffer::new(bytes - TEXT);
    if !packet.copy_to(TEXT, &mut reply) {
        return;
    }
    let conversation = headers.conversation(headers.ip.destination, headers.udp.destination);
    let mut rest = &reply[..];
    while let Some((key, value, after)) = value(rest) {
        if value.len() <= MOST_REPLY {
            cache::slot(key.hash).fill(&key, conversation, value);
        }
        rest = after;
    }
}

/// A value with its header, and what follows: `VALUE key flags bytes\r\n`, the value, `\r\n`. With a fourth
/// number (`gets`) it is none that a `get` could be answered with.
fn value(text: &[u8]) -> Option<(Key<'_>, &[u8], &[u8])> {
    let (key, rest) = Key::split(text.strip_prefix(VALUE)?)?;
    let line_bytes = find(b'\r', rest)?;
    let mut numbers = rest[..line_bytes].strip_prefix(b" ")?.split(|b| *b == b' ');
    let _flags = number(numbers.next()?)?;
    let bytes = number(numbers.next()?)? as usize;
    if numbers.next().is_some() || bytes > MOST_VALUE {
        return None;
    }
    let all = VALUE.len() + key.bytes.len() + line_bytes + b"\r\n".len() + bytes + b"\r\n".len();
    let (value, after) = text.split_at_checked(all)?;
    value.ends_with(b"\r\n").then_some((key, value, after))
}
