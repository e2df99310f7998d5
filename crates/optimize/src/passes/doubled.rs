//! Rotations of 32 bits by the number put in both halves of a register: a factor that one register holds
//! for all of them does that in one instruction.
//!
//! ```text
//!                      r6 = 0x100000001 ll
//! r0 = r5              r0 = r5
//! r0 <<= 32            r0 *= r6
//! r0 |= r5             r0 >>= 18
//! r0 >>= 18       =>   ...
//! ...                  r2 = r0
//! r2 = r0              r2 *= r6
//! r2 <<= 32            r2 >>= 8
//! r2 |= r0
//! r2 >>= 8
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// What puts a number into both halves.
const FACTOR: u64 = 0x1_0000_0001;

/// As many instructions as the factor takes itself.
const COST: usize = 2;

/// How much more than other proposals this may take to judge: there is one for a function.
const PATIENCE: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend(with_factor(context));
}

fn with_factor(context: &Context) -> Option<Proposal> {
    let all: Vec<Site> =
        Block::all(context).flat_map(|b| b.range.clone().filter_map(move |p| Site::at(context, &b, p))).collect();
    let first = all.first()?.shift;
    let (mut ways, mut sites) = (BTreeSet::from([first]), Vec::new());
    for site in all {
        if site.shift != first {
            let Some(between) = context.between(first, site.shift) else { continue };
            ways.extend(between);
        }
        sites.push(site);
    }
    let is_free =
        |r: &Reg| !context.facts.live[first].contains(*r) && ways.iter().all(|q| !context.writes[*q].contains(*r));
    let factor = Reg::all().filter(|r| *r != Reg::FP).find(is_free)?;
    if sites.len() <= COST {
        return None;
    }
    let mut changes = Changes::default();
    for Site { shift, or, dst } in sites {
        let product = Insn::Alu { width: Width::W64, op: AluOp::Mul, dst, src: Operand::Reg(factor) };
        let mut nodes = vec![context.instead(shift, product)];
        if shift == first {
            nodes.insert(0, context.node(Insn::LoadImm { dst: factor, value: Imm64::Value(FACTOR) }));
        }
        changes.replace(shift, nodes);
        changes.delete(or);
    }
    let mut proposal = changes.proposal("doubled");
    proposal.patience = PATIENCE;
    Some(proposal)
}

/// Where a number of 32 bits is put into both halves of a register that held a copy of it.
struct Site {
    shift: usize,
    or: usize,
    dst: Reg,
}

impl Site {
    fn at(context: &Context, block: &Block, or: usize) -> Option<Site> {
        let Insn::Alu { width: Width::W64, op: AluOp::Or, dst, src: Operand::Reg(src) } = *context.insn(or) else {
            return None;
        };
        let shift = block.writer(or, dst)?;
        let copy = block.writer(shift, dst)?;
        let is_copied = *context.insn(copy) == Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) };
        let is_shifted =
            *context.insn(shift) == Insn::Alu { width: Width::W64, op: AluOp::Lsh, dst, src: Operand::Imm(32) };
        let is_kept = block.writer(copy, src) == block.writer(or, src) && block.readers(shift, dst) == [or];
        let is_short = context.fact(or, src)?.range.max <= u32::MAX as u64;
        let is_patched = context.is_patched(shift) || context.is_patched(or);
        (is_copied && is_shifted && is_kept && is_short && !is_patched).then_some(Site { shift, or, dst })
    }
}
