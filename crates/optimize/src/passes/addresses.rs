//! Addresses of maps and of the frame that are made again and again: made once, in a register that
//! calls leave alone.
//!
//! ```text
//! r4 = r10                  r8 = r10
//! r4 += -32                 r8 += -32
//! call bpf_setsockopt       r4 = r8
//! ..                        call bpf_setsockopt
//! r4 = r10                  ..
//! r4 += -32            =>   r4 = r8
//! call bpf_setsockopt       call bpf_setsockopt
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use std::collections::{BTreeMap, BTreeSet};

/// Most places at which one address is made.
const MAX_PLACES: usize = 24;

/// Fewer than that do not pay.
const MIN_PLACES: usize = 3;

/// How much larger than usual windows may be: addresses are few, and are used everywhere.
const PATIENCE: usize = 8;

/// An address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Address {
    Map(MapRef),
    Data(MapRef, u32),
    Frame(i32),
}

/// Where an address is made, by one instruction or by two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    first: usize,
    last: usize,
    reg: Reg,
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let mut places: BTreeMap<Address, Vec<Place>> = BTreeMap::new();
    for block in Block::all(context) {
        for (address, place) in block.range.clone().filter_map(|p| made(context, &block, p)) {
            places.entry(address).or_default().push(place);
        }
    }
    for places in places.into_values().filter(|p| p.len() <= MAX_PLACES) {
        // As many neighbours as a register is free for.
        let groups =
            (0..places.len()).flat_map(|from| (from + MIN_PLACES..=places.len()).rev().map(move |to| (from, to)));
        out.extend(groups.filter_map(|(from, to)| once(context, &places[from..to])).next());
    }
}

fn made(context: &Context, block: &Block, p: usize) -> Option<(Address, Place)> {
    if context.is_patched(p) {
        return None;
    }
    match *context.insn(p) {
        Insn::LoadImm { dst, value: Imm64::Map(map) } => {
            Some((Address::Map(map), Place { first: p, last: p, reg: dst }))
        }
        Insn::LoadImm { dst, value: Imm64::MapValue(map, offset) } => {
            Some((Address::Data(map, offset), Place { first: p, last: p, reg: dst }))
        }
        Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Imm(by) } => {
            let first = block.writer(p, dst).filter(|q| block.readers(*q, dst) == [p] && !context.is_patched(*q))?;
            let is_frame =
                matches!(context.insn(first), Insn::Mov { width: Width::W64, src: Operand::Reg(Reg::FP), .. });
            is_frame.then_some((Address::Frame(by), Place { first, last: p, reg: dst }))
        }
        _ => None,
    }
}

/// The address is made at the first place, and copied at all.
fn once(context: &Context, places: &[Place]) -> Option<Proposal> {
    let (first, others) = places.split_first()?;
    let mut range = BTreeSet::new();
    for place in others {
        range.extend(context.between(first.last, place.last)?);
    }
    let is_free =
        |r: &Reg| range.iter().all(|p| !context.facts.live[*p].contains(*r) && !context.writes[*p].contains(*r));
    let home = RegSet::CALLEE_SAVED.iter().find(is_free)?;
    let mut changes = Changes::default();
    let copy = |reg: Reg| Insn::Mov { width: Width::W64, dst: reg, src: Operand::Reg(home) };
    for place in others {
        changes.delete(place.first);
        changes.replace(place.last, vec![context.node(copy(place.reg))]);
    }
    let moved = |p: usize| match *context.insn(p) {
        Insn::LoadImm { value, .. } => Insn::LoadImm { dst: home, value },
        Insn::Mov { width, src, .. } => Insn::Mov { width, dst: home, src },
        Insn::Alu { width, op, src, .. } => Insn::Alu { width, op, dst: home, src },
        other => other,
    };
    let own = |p: usize| karakoram_bpf::program::Node { insn: moved(p), ..context.function.nodes[p].clone() };
    changes.replace(first.first, vec![own(first.first)]);
    let mut nodes = vec![own(first.last)];
    nodes.push(context.node(copy(first.reg)));
    changes.replace(first.last, nodes);
    let mut proposal = changes.proposal("addresses");
    proposal.patience = PATIENCE;
    Some(proposal)
}
