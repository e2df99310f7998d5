//! Forward error correction on a link, after Wharf (SIGCOMM 2018 workshop on in-network computing):
//! after every k frames h more are sent, and a block survives the loss of any h. A model of what it
//! costs and mends, to compare with; it encodes nothing.

use crate::rate::Probability;

/// A code: `parity` frames after every `data` frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code {
    /// Frames that carry something.
    pub data: u32,
    /// Frames that mend.
    pub parity: u32,
}

impl Code {
    /// The published choice: 25 + 1 up to a loss of 1e-3, 5 + 1 beyond.
    pub fn against(loss: Probability) -> Code {
        let is_mild = loss <= Probability::of(1, 1000);
        Code { data: if is_mild { 25 } else { 5 }, parity: 1 }
    }

    /// Frames on the link for a number of frames that carry something.
    pub fn wire_frames(self, frames: u64) -> u64 {
        frames + frames / u64::from(self.data) * u64::from(self.parity)
    }

    /// The share of the link that is left for data, in parts of a million.
    pub fn share_per_million(self) -> u64 {
        1_000_000 * u64::from(self.data) / u64::from(self.data + self.parity)
    }
}

/// What became of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// Data frames that were lost on the link.
    pub lost_data: u32,
    /// Of these, those that stay lost.
    pub residual: u32,
}

/// Follows the frames of one link.
#[derive(Clone, Copy, Debug)]
pub struct Fec {
    code: Code,
    place: u32,
    lost_data: u32,
    lost_parity: u32,
}

impl Fec {
    /// At the start of a block.
    pub fn new(code: Code) -> Fec {
        Fec { code, place: 0, lost_data: 0, lost_parity: 0 }
    }

    /// Whether the next frame on the link is one that mends.
    pub fn is_parity_next(&self) -> bool {
        self.place >= self.code.data
    }

    /// The next frame went over the link. Says what became of its block, if it was the last of it:
    /// nothing can be mended before.
    pub fn on_frame(&mut self, is_lost: bool) -> Option<Block> {
        match self.is_parity_next() {
            true => self.lost_parity += u32::from(is_lost),
            false => self.lost_data += u32::from(is_lost),
        }
        self.place += 1;
        if self.place < self.code.data + self.code.parity {
            return None;
        }
        let is_mended = self.lost_data + self.lost_parity <= self.code.parity;
        let block = Block { lost_data: self.lost_data, residual: if is_mended { 0 } else { self.lost_data } };
        *self = Fec::new(self.code);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_throughput() {
        // 9.49 Gb/s without a code: 9.125 and 7.908 with.
        let (mild, strong) = (Code::against(Probability::of(1, 1000)), Code::against(Probability::of(1, 100)));
        assert_eq!(949 * mild.share_per_million() / 1000 / 100, 9124);
        assert_eq!(949 * strong.share_per_million() / 1000 / 100, 7908);
        assert_eq!(mild.wire_frames(100), 104);
    }

    #[test]
    fn a_block_survives_as_many_losses_as_it_has_parity() {
        let mut fec = Fec::new(Code { data: 4, parity: 2 });
        let mut send = |lost: &[u32]| (0..6).fold(None, |_, i| fec.on_frame(lost.contains(&i)));
        assert_eq!(send(&[]), Some(Block::default()));
        assert_eq!(send(&[0, 3]), Some(Block { lost_data: 2, residual: 0 }));
        assert_eq!(send(&[0, 5]), Some(Block { lost_data: 1, residual: 0 }));
        assert_eq!(send(&[0, 1, 5]), Some(Block { lost_data: 2, residual: 2 }));
        assert_eq!(send(&[4, 5]), Some(Block::default()));
    }
}
