//! Copies whose source is needed for something else while the copy lives: the two change places, so
//! that the copy need not be made.
//!
//! ```text
//! r1 = r3
//! w3 = 0                      w1 = 0
//! if r1 > r2 goto out         if r3 > r2 goto out
//! r3 = *(u8 *)(r1 - 9)        r1 = *(u8 *)(r3 - 9)
//! out:                        out:
//! *(u32 *)(r10 - 4) = r3  =>  *(u32 *)(r10 - 4) = r1
//! ```

use crate::context::Context;
use crate::proposal::Proposal;
use crate::renaming::{Renaming, Value};
use crate::webs::WebId;
use karakoram_bpf::insn::*;

/// Webs that are moved out of the way, at most.
const MAX_RIVALS: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if let Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } = *context.insn(p)
            && dst != src
            && src != Reg::FP
        {
            out.extend(context.webs().id_defined(p, dst).and_then(|web| moved(context, web, dst, src)));
            out.extend(context.webs().id_used(p, src).and_then(|web| moved(context, web, src, dst)));
        }
    }
}

/// The web changes its register, and those that are in its way make place.
fn moved(context: &Context, web: WebId, from: Reg, to: Reg) -> Option<Proposal> {
    let mut renaming = Renaming::new(context);
    renaming.add(web, from, to)?;
    let value = Value::of(web, from);
    // Without rivals, a copy is simply left out.
    if renaming.conflicts(&value, to).is_empty() {
        return None;
    }
    renaming.make_room(&value, to, MAX_RIVALS)?;
    Some(renaming.changes()?.proposal("exchange"))
}
