//! Pointers that are only computed to access memory: the access goes through the register they were
//! computed from.
//!
//! ```text
//! r2 = r1
//! r2 += 14
//! r3 = *(u8 *)(r2 + 2)   =>   r3 = *(u8 *)(r1 + 16)
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for p in block.range.clone() {
            let pointer = match *context.insn(p) {
                _ if context.is_patched(p) => continue,
                Insn::Alu { width: Width::W64, op: AluOp::Add | AluOp::Sub, dst, src: Operand::Imm(_) } => dst,
                Insn::Mov { width: Width::W64, dst, src: Operand::Reg(_) } => dst,
                _ => continue,
            };
            out.extend(rebased(context, &block, p, pointer));
        }
    }
}

/// All accesses through the pointer made at `p`, through another register.
fn rebased(context: &Context, block: &Block, p: usize, pointer: Reg) -> Option<Proposal> {
    let readers = block.readers(p, pointer);
    if readers.is_empty() || readers.len() > 16 {
        return None;
    }
    let mut changes: Vec<(usize, Option<Node>)> = vec![(p, None)];
    let mut since = p;
    for &reader in readers {
        if reader == usize::MAX || context.is_patched(reader) {
            return None;
        }
        let place = block.access(reader)?;
        let (base, off) = block.reach_without(reader, &place, pointer)?;
        since = since.min(context.anchor(p, base));
        let insn = match *context.insn(reader) {
            Insn::Load { size, signed, dst, base: b, .. } if b == pointer => {
                Insn::Load { size, signed, dst, base, off }
            }
            Insn::Store { size, base: b, src, .. } if b == pointer && src != Operand::Reg(pointer) => {
                Insn::Store { size, base, off, src }
            }
            _ => return None,
        };
        changes.push((reader, Some(context.instead(reader, insn))));
    }
    Some(Proposal::new("rebase", edits(changes)).since(since))
}
