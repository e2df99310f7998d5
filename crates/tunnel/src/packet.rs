//! A frame in memory; copies share it.

use karakoram_link::Frame;
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
