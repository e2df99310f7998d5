//! Instructions whose results nobody looks at: registers, stack and packet bytes, calls without effect.

use super::movable::{is_computation, place};
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::helper;
use karakoram_bpf::insn::{Callee, Insn};
use karakoram_proof::facts::Root;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let rule = match context.insn(p) {
            Insn::Call(Callee::Helper(id)) if helper::contract(*id).is_some_and(|c| c.droppable) => "dead/call",
            Insn::Store { .. } if is_dead_store(context, p) => "dead/store",
            _ if is_computation(context, p) => "dead/register",
            _ => continue,
        };
        let live = context.live_after(p);
        if context.writes[p].iter().all(|r| !live.contains(r)) {
            out.push(Proposal::new(rule, edits(vec![(p, None)])));
        }
    }
}

/// Whether a store goes to bytes of the stack or the packet that do not matter afterwards.
fn is_dead_store(context: &Context, p: usize) -> bool {
    let Some((root, mut bytes)) = place(context, p) else { return false };
    let next = &context.facts.flow.successors[p];
    match root {
        Root::Frame => bytes.all(|b| next.iter().all(|s| !context.facts.live_stack[*s].contains(b))),
        Root::PacketStart => bytes.all(|b| next.iter().all(|s| !context.facts.live_packet[*s].contains(b))),
        _ => false,
    }
}
