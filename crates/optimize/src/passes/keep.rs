//! Copies back into a register that held the value before: what was put there in between goes
//! elsewhere, so that the value need not be put back.
//!
//! ```text
//! r6 = r1                     r6 = r1
//! r1 = *(u32 *)(r6 + 24)      r2 = *(u32 *)(r6 + 24)
//! *(u32 *)(r10 - 16) = r1     *(u32 *)(r10 - 16) = r2
//! r1 = r6                 =>
//! call ..                     call ..
//! ```

use crate::context::Context;
use crate::proposal::Proposal;
use crate::renaming::{Renaming, Value};
use karakoram_bpf::insn::*;
use karakoram_proof::facts::Fact;

/// Positions over which a value is kept, at most.
const MAX_KEPT: usize = 60;

/// Webs that are moved out of the way, at most.
const MAX_RIVALS: usize = 6;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if let Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } = *context.insn(p)
            && dst != src
        {
            out.extend(kept(context, p, dst, src));
        }
    }
}

fn kept(context: &Context, p: usize, reg: Reg, copied: Reg) -> Option<Proposal> {
    let value = since(context, p, reg, context.fact(p, copied)?)?;
    let mut renaming = Renaming::new(context);
    renaming.make_room(&value, reg, MAX_RIVALS)?;
    let mut changes = renaming.changes()?;
    changes.delete(p);
    let first = *value.kept.first()?;
    Some(changes.proposal("keep").since(first).across(value.kept))
}

/// Back to where `reg` held the value on all ways to `p`; `None` where it did not.
fn since(context: &Context, p: usize, reg: Reg, wanted: &Fact) -> Option<Value> {
    let mut value = Value::default();
    let mut pending = vec![p];
    while let Some(q) = pending.pop() {
        if !value.kept.insert(q) {
            continue;
        }
        let held = context.fact(q, reg)?;
        let is_it = wanted.root.is_some() && held.root == wanted.root && held.delta == wanted.delta;
        // Before its last use only; the prover forgets what nobody reads any more.
        if is_it && context.facts.live[q].contains(reg) {
            value.webs.push((context.webs().at(q, reg), reg));
            continue;
        }
        let before = &context.facts.flow.predecessors[q];
        if before.is_empty() || q == 0 || value.kept.len() > MAX_KEPT {
            return None;
        }
        pending.extend(before);
    }
    Some(value)
}
