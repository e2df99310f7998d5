//! probe
use karakoram_bpf::encode::Slot;
/// `r0 = 0; exit`.
pub(crate) const SHORTEST: [Slot; 2] =
    [Slot { code: 0xb7, dst: 0, src: 0, off: 0, imm: 0 }, Slot { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 }];
