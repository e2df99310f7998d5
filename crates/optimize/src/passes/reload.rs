//! Loads of what is in a register already, because it was loaded or stored before.

use super::wide_load::single;
use crate::block::{Block, Place};
use crate::context::Context;
use crate::proposal::Proposal;
use karakoram_bpf::insn::*;
use std::collections::HashMap;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        let mut known: HashMap<Place, (usize, Reg, Option<usize>)> = HashMap::new();
        for p in block.range.clone() {
            let Some(place) = block.access(p) else { continue };
            match *context.insn(p) {
                Insn::Load { dst, size, .. } => {
                    if let Some((since, reg, writer)) = known.get(&place)
                        && block.writer(p, *reg) == *writer
                    {
                        let width = if size == Size::W { Width::W32 } else { Width::W64 };
                        let copy = Insn::Mov { width, dst, src: Operand::Reg(*reg) };
                        out.push(single(vec![(p, Some(context.instead(p, copy)))], "reload").since(*since));
                        if *reg == dst {
                            out.push(single(vec![(p, None)], "reload").since(*since));
                        }
                    }
                    known.insert(place, (p, dst, Some(p)));
                }
                Insn::Store { src: Operand::Reg(r), .. } => {
                    known.insert(place, (p, r, block.writer(p, r)));
                }
                _ => {}
            }
        }
    }
}
