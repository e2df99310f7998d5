//! Frames that carry frames.

use super::control::{PAUSE_TYPE, Report, parse_pause, parse_report};
use super::{
    DataFields, ETHER_TYPE, ETHERNET_BYTES, HEADER_BYTES, Kind, Profile, SHORTEST, emit_ack, kind, parse_ack,
    parse_loss,
};
use crate::config::Mode;
use crate::frame::{Ack, Control, DataHeader, LinkFrame};
use crate::sequence::WireSequence;

/// The type that the original gives to all that arrives.
const IPV4: u16 = 0x0800;

/// Destination and source of dummies.
const DUMMY_ADDRESSES: [u8; 12] = [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0xaa, 0xaa, 0xbb, 0xbb, 0xcc, 0xcc];

/// The frame that another one carries, in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried<'a> {
    /// Destination and source.
    pub addresses: &'a [u8],
    /// Type.
    pub ether_type: u16,
    /// What follows the type.
    pub payload: &'a [u8],
}

impl Carried<'_> {
    /// The frame as it was.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.addresses);
        out.extend_from_slice(&self.ether_type.to_be_bytes());
        out.extend_from_slice(self.payload);
    }
}

/// What a frame holds besides an acknowledgement in front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// Something for the receiver.
    Frame(LinkFrame<Carried<'a>>),
    /// Something for the sender.
    Control(Control),
    /// Something for who decides whether to protect.
    Report(Report),
    /// Not ours: the line is used for other things too.
    Foreign,
}

/// A frame that came over the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed<'a> {
    /// An acknowledgement that came along, for the sender.
    pub ack: Option<Ack>,
    /// The rest.
    pub content: Content<'a>,
}

/// Writes a frame for the link, with an acknowledgement in front if there is one. The original's
/// header has no room for both a number and an acknowledgement.
///
/// Returns whether the acknowledgement was taken along.
pub fn emit(profile: Profile, frame: &LinkFrame<&[u8]>, ack: Option<Ack>, out: &mut Vec<u8>) -> bool {
    out.clear();
    let (addresses, ether_type, payload) = match frame {
        LinkFrame::Plain(bytes) | LinkFrame::Data { frame: bytes, .. } => split(bytes),
        LinkFrame::Dummy(_) | LinkFrame::Sync { .. } => (&DUMMY_ADDRESSES[..], ETHER_TYPE, &[][..]),
    };
    let is_plain = matches!(frame, LinkFrame::Plain(_));
    let ack = ack.filter(|_| profile == Profile::Native || (is_plain && ether_type == IPV4));
    out.extend_from_slice(addresses);
    if let Some(ack) = ack {
        out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
        out.extend_from_slice(&emit_ack(1, Ack { is_piggybacked: true, ..ack }));
    }
    if !(is_plain && ack.is_some() && profile == Profile::Authors) {
        emit_rest(profile, frame, ether_type, out);
    }
    out.extend_from_slice(payload);
    if out.len() < SHORTEST && !is_plain {
        out.resize(SHORTEST, 0);
    }
    ack.is_some()
}

/// Addresses, type, and what follows; a frame that is too short for them has nothing to follow.
fn split(bytes: &[u8]) -> (&[u8], u16, &[u8]) {
    match bytes.split_at_checked(ETHERNET_BYTES) {
        Some((head, payload)) => (&head[..12], u16::from_be_bytes([head[12], head[13]]), payload),
        None => (&DUMMY_ADDRESSES[..], 0, &[][..]),
    }
}

/// What stands for the header of a frame without a number.
const UNNUMBERED: DataHeader =
    DataHeader { sequence: WireSequence::of(0), is_retransmission: false, mode: Mode::NonBlocking };

/// Type field, header, and in the native profile the type of what is carried.
fn emit_rest(profile: Profile, frame: &LinkFrame<&[u8]>, ether_type: u16, out: &mut Vec<u8>) {
    let data = |header: DataHeader, is_dummy, is_sync| DataFields { header, is_dummy, is_sync }.emit();
    match *frame {
        LinkFrame::Plain(_) if profile == Profile::Authors => out.extend_from_slice(&ether_type.to_be_bytes()),
        LinkFrame::Plain(_) => {
            out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
            out.extend_from_slice(&data(UNNUMBERED, false, true));
            out.extend_from_slice(&ether_type.to_be_bytes());
        }
        LinkFrame::Data { header, .. } => {
            out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
            out.extend_from_slice(&data(header, false, false));
            if profile == Profile::Native {
                out.extend_from_slice(&ether_type.to_be_bytes());
            }
        }
        LinkFrame::Dummy(header) => {
            out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
            out.extend_from_slice(&data(header, true, false));
        }
        LinkFrame::Sync { header, epoch } => {
            out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
            out.extend_from_slice(&data(header, true, true));
            out.extend_from_slice(&epoch.to_be_bytes());
        }
    }
}

/// Reads a frame. `None` if it is cut short or makes no sense.
pub fn parse(profile: Profile, bytes: &[u8]) -> Option<Parsed<'_>> {
    let (head, rest) = bytes.split_at_checked(ETHERNET_BYTES)?;
    let addresses = &head[..12];
    let ether_type = u16::from_be_bytes([head[12], head[13]]);
    if let Some(quanta) = parse_pause(rest).filter(|_| ether_type == PAUSE_TYPE) {
        return Some(Parsed { ack: None, content: Content::Control(Control::Pause { quanta }) });
    }
    if ether_type != ETHER_TYPE && profile == Profile::Native {
        return Some(Parsed { ack: None, content: Content::Foreign });
    }
    if ether_type != ETHER_TYPE {
        let plain = Carried { addresses, ether_type, payload: rest };
        return Some(Parsed { ack: None, content: Content::Frame(LinkFrame::Plain(plain)) });
    }
    let (header, body) = header_of(rest)?;
    match kind(header[0]) {
        Kind::Data => {
            Some(Parsed { ack: None, content: Content::Frame(parse_data(profile, addresses, header, body)?) })
        }
        Kind::Loss => {
            let (more, _) = header_of(body)?;
            let loss = parse_loss(header, more);
            Some(Parsed { ack: None, content: Content::Control(Control::Loss(loss)) })
        }
        Kind::Ack => parse_acknowledged(profile, addresses, parse_ack(header), body),
        Kind::Report => Some(Parsed { ack: None, content: Content::Report(parse_report(header, body)?) }),
    }
}

fn header_of(bytes: &[u8]) -> Option<([u8; HEADER_BYTES], &[u8])> {
    let (header, rest) = bytes.split_first_chunk()?;
    Some((*header, rest))
}

fn type_of(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (ether_type, rest) = bytes.split_first_chunk()?;
    Some((u16::from_be_bytes(*ether_type), rest))
}

fn parse_data<'a>(
    profile: Profile,
    addresses: &'a [u8],
    header: [u8; HEADER_BYTES],
    body: &'a [u8],
) -> Option<LinkFrame<Carried<'a>>> {
    let DataFields { header, is_dummy, is_sync } = DataFields::parse(header);
    if is_sync && is_dummy {
        let (epoch, _) = body.split_first_chunk()?;
        return Some(LinkFrame::Sync { header, epoch: u64::from_be_bytes(*epoch) });
    }
    if is_dummy {
        return Some(LinkFrame::Dummy(header));
    }
    let (ether_type, payload) = match profile {
        Profile::Authors => (IPV4, body),
        Profile::Native => type_of(body)?,
    };
    let frame = Carried { addresses, ether_type, payload };
    Some(if is_sync { LinkFrame::Plain(frame) } else { LinkFrame::Data { header, frame } })
}

fn parse_acknowledged<'a>(profile: Profile, addresses: &'a [u8], ack: Ack, body: &'a [u8]) -> Option<Parsed<'a>> {
    if !ack.is_piggybacked {
        return Some(Parsed { ack: None, content: Content::Control(Control::Ack(ack)) });
    }
    let (ether_type, payload) = match profile {
        Profile::Authors => (IPV4, body),
        Profile::Native => type_of(body)?,
    };
    let frame = match (profile, ether_type) {
        (Profile::Native, ETHER_TYPE) => {
            let (header, body) = header_of(payload)?;
            (kind(header[0]) == Kind::Data).then_some(())?;
            parse_data(profile, addresses, header, body)?
        }
        _ => LinkFrame::Plain(Carried { addresses, ether_type, payload }),
    };
    Some(Parsed { ack: Some(ack), content: Content::Frame(frame) })
}

#[cfg(test)]
mod tests {
    use super::super::{emit_control, emit_report, pause_frame};
    use super::*;
    use crate::frame::Loss;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
    }

    fn header(era: bool, low: u16) -> DataHeader {
        DataHeader { sequence: WireSequence::from_fields(era, low), is_retransmission: false, mode: Mode::Ordered }
    }

    const ARP: &str = "ffffffffffff 020000000001 0806 0001080006040001 020000000001 0a000001 000000000000 0a000002";

    fn emitted(profile: Profile, frame: &LinkFrame<&[u8]>, ack: Option<Ack>) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(emit(profile, frame, ack, &mut out), ack.is_some());
        out
    }

    #[test]
    fn the_layout_of_the_authors() {
        let frame = hex("0200000000010200000000020800 45000014");
        let data = LinkFrame::Data { header: header(true, 0x1234), frame: &frame[..] };
        let bytes = emitted(Profile::Authors, &data, None);
        assert_eq!(bytes[..21], hex("020000000001020000000002 abcd 121234 45000014")[..]);
        let retransmitted = DataHeader { is_retransmission: true, mode: Mode::NonBlocking, ..header(false, 1) };
        let bytes = emitted(Profile::Authors, &LinkFrame::Data { header: retransmitted, frame: &frame }, None);
        assert_eq!(bytes[14..17], hex("080001")[..]);
        assert_eq!(emitted(Profile::Authors, &LinkFrame::Dummy(header(false, 7)), None)[14..17], hex("060007")[..]);

        let mut out = Vec::new();
        let leading = WireSequence::from_fields(true, 0xbeef);
        let ack = Ack { leading, is_piggybacked: false, sync: 0 };
        emit_control(Control::Ack(ack), &mut out);
        assert_eq!(out[..17], hex("aaaabbbbcccc aabbccddeeff abcd 50beef")[..]);
        emit_control(Control::Loss(Loss { leading, first: 0xbee0, count: 15 }), &mut out);
        assert_eq!(out[14..20], hex("90beef 0fbee0")[..]);
        assert_eq!(out.len(), SHORTEST);
        let bytes = emitted(Profile::Authors, &LinkFrame::Plain(&frame), Some(ack));
        assert_eq!(bytes, hex("020000000001020000000002 abcd 70beef 45000014"));
        assert_eq!(pause_frame(0xffff)[..22], hex("0180c2000001000000000000 8808 0101 0002 0000 ffff")[..]);
    }

    #[test]
    fn what_is_written_is_read() {
        let arp = hex(ARP);
        let retransmitted = DataHeader { is_retransmission: true, mode: Mode::NonBlocking, ..header(true, 65535) };
        let frames = [
            LinkFrame::Plain(&arp[..]),
            LinkFrame::Data { header: header(false, 0), frame: &arp },
            LinkFrame::Data { header: retransmitted, frame: &arp },
            LinkFrame::Dummy(header(true, 3)),
            LinkFrame::Sync { header: header(false, 0), epoch: 0x0102_0304_0506_0708 },
        ];
        let ack = Ack { leading: WireSequence::from_fields(false, 99), is_piggybacked: true, sync: 0 };
        for (frame, ack) in frames.iter().flat_map(|f| [(f, None), (f, Some(ack))]) {
            let bytes = emitted(Profile::Native, frame, ack);
            let parsed = parse(Profile::Native, &bytes).unwrap();
            assert_eq!(parsed.ack, ack);
            let Content::Frame(back) = parsed.content else { panic!("{parsed:?}") };
            let mut carried = Vec::new();
            let (header, back) = match back {
                LinkFrame::Plain(c) => {
                    c.write_to(&mut carried);
                    (None, LinkFrame::Plain(&carried[..arp.len()]))
                }
                LinkFrame::Data { header, frame } => {
                    frame.write_to(&mut carried);
                    (Some(header), LinkFrame::Data { header, frame: &carried[..arp.len()] })
                }
                LinkFrame::Dummy(header) => (Some(header), LinkFrame::Dummy(header)),
                LinkFrame::Sync { header, epoch } => (Some(header), LinkFrame::Sync { header, epoch }),
            };
            assert_eq!(back, *frame, "{header:?}");
        }
    }

    #[test]
    fn what_else_is_on_the_line_is_not_ours() {
        let arp = hex(ARP);
        let foreign = Parsed { ack: None, content: Content::Foreign };
        assert_eq!(parse(Profile::Native, &arp), Some(foreign));
        let plain = emitted(Profile::Native, &LinkFrame::Plain(&arp), None);
        assert_eq!(plain[12..19], hex("abcd 200000 0806")[..]);
    }

    #[test]
    fn controls_are_read() {
        let leading = WireSequence::from_fields(true, 5);
        let mut out = Vec::new();
        for control in [
            Control::Ack(Ack { leading, is_piggybacked: false, sync: 9 }),
            Control::Loss(Loss { leading, first: 2, count: 3 }),
            Control::Pause { quanta: 65535 },
        ] {
            emit_control(control, &mut out);
            let parsed = parse(Profile::Native, &out).unwrap();
            assert_eq!(parsed, Parsed { ack: None, content: Content::Control(control) });
        }
        let report = Report { frames: 0x0102_0304_0506_0708, copies: 3 };
        emit_report(report, &mut out);
        let parsed = parse(Profile::Native, &out).unwrap();
        assert_eq!(parsed, Parsed { ack: None, content: Content::Report(report) });
    }

    #[test]
    fn no_piece_of_a_frame_makes_trouble() {
        let arp = hex(ARP);
        let whole = emitted(Profile::Native, &LinkFrame::Data { header: header(true, 9), frame: &arp }, None);
        for length in 0..whole.len() {
            for first in [0, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff] {
                let mut bytes = whole[..length].to_vec();
                bytes.get_mut(14).into_iter().for_each(|b| *b = first);
                let _ = parse(Profile::Native, &bytes);
                let _ = parse(Profile::Authors, &bytes);
            }
        }
    }
}
