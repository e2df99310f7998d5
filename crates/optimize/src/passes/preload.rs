//! A context pointer that is kept for a few loads: the fields are loaded at once, and kept instead.
//!
//! ```text
//! r6 = r1                         r6 = *(u32 *)(r1 + 24)
//! ..                              r7 = *(u32 *)(r1 + 20)
//! call bpf_map_lookup_elem        ..
//! if r0 == 0x0 goto out           call bpf_map_lookup_elem
//! r1 = *(u32 *)(r6 + 24)      =>  if r0 == 0x0 goto out
//! r2 = *(u64 *)(r0 + 0)           r2 = *(u64 *)(r0 + 0)
//! r2 += r1                        r2 += r6
//! ..                              ..
//! ```

use crate::context::Context;
use crate::proposal::Proposal;
use crate::renaming::{Renaming, Value};
use karakoram_bpf::insn::*;
use karakoram_proof::facts::Root;

/// Loads that one pointer is kept for, at most: as many registers survive calls.
const MAX_LOADS: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if let Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } = *context.insn(p)
            && context.fact(p, src).is_some_and(|f| f.root == Some(Root::Context))
        {
            out.extend(loaded(context, p, dst, src));
        }
    }
}

/// The pointer is copied from `src` to `dst` at `p`.
fn loaded(context: &Context, p: usize, dst: Reg, src: Reg) -> Option<Proposal> {
    let webs = context.webs();
    let id = webs.id_defined(p, dst)?;
    let pointer = webs.get(id)?;
    if pointer.fixed || pointer.definitions != [p] || pointer.uses.len() > MAX_LOADS {
        return None;
    }
    let mut renaming = Renaming::new(context);
    let mut loads = Vec::new();
    for q in &pointer.uses {
        let Insn::Load { size, signed, dst: field, base, off } = *context.insn(*q) else { return None };
        let web = webs.id_defined(*q, field).filter(|_| base == dst && field != dst && !context.is_patched(*q))?;
        // What else writes it changes what was loaded.
        let members = webs.get(web)?;
        if members.definitions.iter().any(|d| d != q && members.uses.binary_search(d).is_err()) {
            return None;
        }
        let value = Value { webs: vec![(web, field)], kept: context.between(p, *q)? };
        let is_free = |r: &Reg| *r != Reg::FP && *r != src && renaming.conflicts(&value, *r).iter().all(|w| *w == id);
        let is_taken = |r: &Reg| loads.iter().any(|(_, insn)| matches!(insn, Insn::Load { dst, .. } if dst == r));
        let to = Reg::all().filter(|r| !is_taken(r)).find(is_free)?;
        renaming.add(web, field, to)?;
        loads.push((*q, Insn::Load { size, signed, dst: to, base: src, off }));
    }
    let mut changes = renaming.changes()?;
    let mut nodes: Vec<_> = loads.iter().map(|(_, insn)| context.node(*insn)).collect();
    if let Some(first) = nodes.first_mut() {
        *first = context.instead(p, first.insn);
    }
    changes.replace(p, nodes);
    loads.iter().for_each(|(q, _)| changes.delete(*q));
    Some(changes.proposal("preload"))
}
