//! Constants that the loader puts in and that wait in a register for the one operation that they are for:
//! the loader can put them into the operation.
//!
//! ```text
//! r1 = 784 @patched 0
//! r3 = r6                     r3 = r6
//! r3 += r1                =>  r3 += 784 @patched 0
//! ```

use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter(|p| context.facts.is_reachable(*p)).filter_map(|p| at_once(context, p)));
}

/// The operation at `p` with the constant in place of the register.
fn at_once(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Alu { width, op, dst, src: Operand::Reg(src) } = *context.insn(p) else { return None };
    let web = context.webs().used(p, src)?;
    let ([made], [_]) = (&web.definitions[..], &web.uses[..]) else { return None };
    let made_by = &context.function.nodes[*made];
    let (_, constant) = made_by.patched_constant()?;
    if !matches!(made_by.insn, Insn::Mov { width: Width::W64, .. }) || context.is_patched(p) {
        return None;
    }
    let insn = Insn::Alu { width, op, dst, src: Operand::Imm(constant) };
    let operation = Node { patch: made_by.patch, ..context.node(insn) };
    operation.patched_constant()?;
    let mut changes = Changes::default();
    changes.delete(*made);
    changes.replace(p, vec![operation]);
    Some(changes.proposal("prompt"))
}
