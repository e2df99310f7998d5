//! Constants that the loader puts in and that wait in a register for the operations that they are for:
//! the loader can put them into these.
//!
//! ```text
//! r1 = 784 @patched 0
//! r3 = r6                     r3 = r6
//! r3 += r1                =>  r3 += 784 @patched 0
//! ```
//!
//! The constant may wait on several ways, if it is the same one on all of them.

use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

/// Most operations for one constant.
const MAX_USES: usize = 16;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter(|p| context.facts.is_reachable(*p)).filter_map(|p| at_once(context, p)));
}

/// What is made at `p`, and elsewhere just so, in all operations that it is for.
fn at_once(context: &Context, p: usize) -> Option<Proposal> {
    let made = &context.function.nodes[p];
    let Insn::Mov { width: Width::W64, dst: reg, .. } = made.insn else { return None };
    let (_, constant) = made.patched_constant()?;
    let web = context.webs().defined(p, reg)?;
    let is_made_so = |d: &usize| {
        let node = &context.function.nodes[*d];
        node.insn == made.insn && node.patch == made.patch
    };
    if web.definitions[0] != p || !web.definitions.iter().all(is_made_so) || web.fixed || web.uses.len() > MAX_USES {
        return None;
    }
    let mut changes = Changes::default();
    web.definitions.iter().for_each(|d| changes.delete(*d));
    for &q in &web.uses {
        let Insn::Alu { width, op, dst, src: Operand::Reg(src) } = *context.insn(q) else { return None };
        let insn = Insn::Alu { width, op, dst, src: Operand::Imm(constant) };
        let operation = Node { patch: made.patch, ..context.node(insn) };
        operation.patched_constant().filter(|_| src == reg && dst != reg)?;
        changes.replace(q, vec![operation]);
    }
    Some(changes.proposal("prompt"))
}
