//! Frames that carry nothing but a message to the sender.

use super::{ETHER_TYPE, SHORTEST, emit_ack};
use crate::frame::{Ack, Control};

/// Destination and source of control frames, as in the original.
const ADDRESSES: [u8; 12] = [0xaa, 0xaa, 0xbb, 0xbb, 0xcc, 0xcc, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];

/// Where pauses go (IEEE 802.3 MAC control).
const PAUSE_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];
pub(super) const PAUSE_TYPE: u16 = 0x8808;
const PRIORITY_PAUSE: u16 = 0x0101;

/// The class that numbered frames are sent in.
const CLASS: usize = 1;

/// Writes a control message as a frame of its own. [`Control::Replay`] has no frame: go-back-N links
/// say it below Ethernet.
pub fn emit_control(control: Control, out: &mut Vec<u8>) {
    out.clear();
    match control {
        Control::Ack(ack) => message(&emit_ack(1, Ack { is_piggybacked: false, ..ack }), out),
        Control::Loss(loss) => {
            let lead = emit_ack(2, Ack { leading: loss.leading, is_piggybacked: false, sync: 0 });
            let [high, low] = loss.first.to_be_bytes();
            message(&[lead[0], lead[1], lead[2], loss.count, high, low], out);
        }
        Control::Pause { quanta } => out.extend_from_slice(&pause_frame(quanta)),
        Control::Replay(_) => {}
    }
}

/// What an end says now and then, for [`crate::monitor`] at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Frames it has put on the line since it started, without reports.
    pub frames: u64,
    /// Copies that it wants the other end to send for lost frames; 0 wants no protection.
    pub copies: u8,
}

/// Writes a report as a frame of its own.
pub fn emit_report(report: Report, out: &mut Vec<u8>) {
    out.clear();
    let mut header = [0; 11];
    header[..2].copy_from_slice(&[3 << 6, report.copies]);
    header[3..].copy_from_slice(&report.frames.to_be_bytes());
    message(&header, out);
}

/// Reads one: `header` is what follows the type, `body` what follows that.
pub(super) fn parse_report([_, copies, _]: [u8; 3], body: &[u8]) -> Option<Report> {
    let (frames, _) = body.split_first_chunk()?;
    Some(Report { frames: u64::from_be_bytes(*frames), copies })
}

fn message(header: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&ADDRESSES);
    out.extend_from_slice(&ETHER_TYPE.to_be_bytes());
    out.extend_from_slice(header);
    out.resize(SHORTEST, 0);
}

/// A PFC frame for our class.
pub fn pause_frame(quanta: u16) -> [u8; SHORTEST] {
    let mut frame = [0; SHORTEST];
    frame[..6].copy_from_slice(&PAUSE_ADDRESS);
    frame[12..14].copy_from_slice(&PAUSE_TYPE.to_be_bytes());
    frame[14..16].copy_from_slice(&PRIORITY_PAUSE.to_be_bytes());
    frame[16..18].copy_from_slice(&(1u16 << CLASS).to_be_bytes());
    frame[18 + 2 * CLASS..20 + 2 * CLASS].copy_from_slice(&quanta.to_be_bytes());
    frame
}

/// The quanta for our class, of a frame with the type of pauses.
pub(super) fn parse_pause(body: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
    let is_for_us = word(0)? == PRIORITY_PAUSE && word(2)? >> CLASS & 1 == 1;
    is_for_us.then_some(())?;
    word(4 + 2 * CLASS)
}
