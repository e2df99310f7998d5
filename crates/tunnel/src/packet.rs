//! A frame in memory; copies share it.

use karakoram_link::wire::Carried;
use karakoram_link::{Frame, LinkFrame};
use std::rc::Rc;

#[derive(Clone, Debug)]
pub(crate) struct Packet(Rc<[u8]>);

impl Packet {
    pub(crate) fn new(bytes: &[u8]) -> Packet {
        Packet(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Frame for Packet {
    fn bytes(&self) -> u32 {
        self.0.len() as u32
    }
}

/// A frame that was read, in memory of its own.
pub(crate) fn owned(frame: LinkFrame<Carried>, scratch: &mut Vec<u8>) -> LinkFrame<Packet> {
    let mut own = |carried: Carried| {
        carried.write_to(scratch);
        Packet::new(scratch)
    };
    match frame {
        LinkFrame::Plain(carried) => LinkFrame::Plain(own(carried)),
        LinkFrame::Data { header, frame } => LinkFrame::Data { header, frame: own(frame) },
        LinkFrame::Dummy(header) => LinkFrame::Dummy(header),
        LinkFrame::Sync { header, epoch } => LinkFrame::Sync { header, epoch },
    }
}

/// A frame to be written.
pub(crate) fn borrowed(frame: &LinkFrame<Packet>) -> LinkFrame<&[u8]> {
    match frame {
        LinkFrame::Plain(packet) => LinkFrame::Plain(packet.bytes()),
        LinkFrame::Data { header, frame } => LinkFrame::Data { header: *header, frame: frame.bytes() },
        LinkFrame::Dummy(header) => LinkFrame::Dummy(*header),
        LinkFrame::Sync { header, epoch } => LinkFrame::Sync { header: *header, epoch: *epoch },
    }
}
