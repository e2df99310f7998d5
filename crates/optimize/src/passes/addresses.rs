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
//!
//! A register that comes to hold the address anyway is the first choice: it is made there earlier.
//!
//! ```text
//! r2 = r10                  r7 = r10
//! r2 += -32                 r7 += -32
//! call bpf_map_lookup_elem  r2 = r7
//! if r0 != 0x0 goto L1      call bpf_map_lookup_elem
//! r7 = r10                  if r0 != 0x0 goto L1
//! r7 += -32                 r2 = r7
//! r2 = r7              =>   ..
//! ..
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use crate::webs::WebId;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use std::collections::{BTreeMap, BTreeSet};

/// Most places at which one address is made.
const MAX_PLACES: usize = 24;

/// Fewer than that never pay.
const MIN_PLACES: usize = 2;

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

/// The address is made at the first place, and copied where another register is to hold it.
fn once(context: &Context, places: &[Place]) -> Option<Proposal> {
    let (first, others) = places.split_first()?;
    let homes: Vec<Reg> = RegSet::CALLEE_SAVED.iter().filter(|r| pays(context, places, *r)).collect();
    if homes.is_empty() {
        return None;
    }
    let mut range = BTreeSet::new();
    for place in others {
        range.extend(context.between(first.last, place.last)?);
    }
    let home = homes.into_iter().find(|r| is_free(context, places, &range, *r))?;
    let mut changes = Changes::default();
    let copy = |reg: Reg| Insn::Mov { width: Width::W64, dst: reg, src: Operand::Reg(home) };
    for place in others {
        changes.delete(place.first);
        let copies = (place.reg != home).then(|| context.node(copy(place.reg)));
        changes.replace(place.last, copies.into_iter().collect());
    }
    let moved = |p: usize| match *context.insn(p) {
        Insn::LoadImm { value, .. } => Insn::LoadImm { dst: home, value },
        Insn::Mov { width, src, .. } => Insn::Mov { width, dst: home, src },
        Insn::Alu { width, op, src, .. } => Insn::Alu { width, op, dst: home, src },
        other => other,
    };
    let own = |p: usize| karakoram_bpf::program::Node { insn: moved(p), ..context.function.nodes[p].clone() };
    changes.replace(first.first, vec![own(first.first)]);
    let copies = (first.reg != home).then(|| context.node(copy(first.reg)));
    changes.replace(first.last, [own(first.last)].into_iter().chain(copies).collect());
    let mut proposal = changes.proposal("addresses");
    proposal.patience = PATIENCE;
    Some(proposal)
}

/// Whether the function gets shorter when one register holds the address for all places.
fn pays(context: &Context, places: &[Place], home: Reg) -> bool {
    let making = context.insn(places[0].first).slots() + (places[0].first != places[0].last) as usize;
    let copies = places.iter().filter(|p| p.reg != home).count();
    making + copies < making * places.len()
}

/// Whether a register holds nothing in a range, or only the address, made at these places.
fn is_free(context: &Context, places: &[Place], range: &BTreeSet<usize>, home: Reg) -> bool {
    let own: Vec<&Place> = places.iter().filter(|p| p.reg == home).collect();
    let webs: Vec<WebId> = own.iter().filter_map(|p| context.webs().id_defined(p.last, home)).collect();
    let is_own = |p: usize| own.iter().any(|o| o.first == p || o.last == p);
    webs.iter().all(|w| context.webs().get(*w).is_some_and(|w| w.definitions.iter().all(|d| is_own(*d))))
        && range.iter().all(|p| {
            let holds_other = context.facts.live[*p].contains(home) && !webs.contains(&context.webs().at(*p, home));
            !holds_other && (is_own(*p) || !context.writes[*p].contains(home))
        })
}
