//! Constants of 64 bits that are only stored, to the frame: each half by itself needs no register.
//!
//! ```text
//! r1 = 0x31726464615f6b ll       *(u32 *)(r10 - 8) = 1684103019
//! *(u64 *)(r10 - 8) = r1     =>  *(u32 *)(r10 - 4) = 3240548
//! ```

use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter_map(|p| in_halves(context, p)));
}

fn in_halves(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Store { size: Size::D, base: Reg::FP, off, src: Operand::Reg(src) } = *context.insn(p) else {
        return None;
    };
    let web = context.webs().used(p, src)?;
    let [made] = web.definitions[..] else { return None };
    let Insn::LoadImm { value: Imm64::Value(value), .. } = *context.insn(made) else { return None };
    if web.uses != [p] || context.is_patched(made) || context.is_patched(p) {
        return None;
    }
    let half = |off: i16, half: u32| Insn::Store { size: Size::W, base: Reg::FP, off, src: Operand::Imm(half as i32) };
    let low: Node = context.instead(p, half(off, value as u32));
    let high = context.node(half(off.checked_add(4)?, (value >> 32) as u32));
    let mut changes = Changes::default();
    changes.delete(made);
    changes.replace(p, vec![low, high]);
    Some(changes.proposal("constants/halves"))
}
