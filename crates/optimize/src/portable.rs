//! Forms that only some kernels accept. A program that does without them keeps to those it has, so
//! that its result loads wherever the input does, not only here.

use crate::context::Context;
use karakoram_bpf::insn::{Insn, Operand, Reg};
use karakoram_bpf::program::Node;
use karakoram_proof::facts::Kind;
use karakoram_proof::region::Region;
use karakoram_proof::rewrite::Edit;

/// Whether edits bring in nothing that older kernels refuse and the program does not have already.
pub fn is_portable(context: &Context, edits: &[Edit]) -> bool {
    edits.iter().all(|e| stores_to_context(context, e.at.start, &e.nodes).is_none()) || has_context_stores(context)
}

/// A constant that is stored to the context: refused before Linux 6.4 (kernel `check_mem_access`,
/// "BPF_ST stores into ctx is not allowed"; allowed by its commit 0d80a619c113).
fn stores_to_context(context: &Context, position: usize, nodes: &[Node]) -> Option<usize> {
    let mut holds: Vec<bool> = Reg::all().map(|r| holds_context(context, position, r)).collect();
    for (i, node) in nodes.iter().enumerate() {
        match node.insn {
            Insn::Store { base, src: Operand::Imm(_), .. } if holds[base.index()] => return Some(i),
            Insn::Mov { dst, src: Operand::Reg(src), .. } => holds[dst.index()] = holds[src.index()],
            insn => karakoram_bpf::effects::of(&insn).writes.iter().for_each(|r| holds[r.index()] = false),
        }
    }
    None
}

fn holds_context(context: &Context, position: usize, reg: Reg) -> bool {
    let position = position.min(context.len().saturating_sub(1));
    let fact = context.fact(position, reg);
    fact.is_some_and(|f| matches!(f.kind, Kind::Pointer { region: Region::Context, .. }))
}

fn has_context_stores(context: &Context) -> bool {
    let stores = |p: usize| match *context.insn(p) {
        Insn::Store { base, src: Operand::Imm(_), .. } => holds_context(context, p, base),
        _ => false,
    };
    (0..context.len()).any(stores)
}
