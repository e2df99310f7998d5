//! Forms that only some kernels accept. A program that does without them keeps to those it has, so
//! that its result loads wherever the input does, not only here.

use crate::context::Context;
use karakoram_bpf::insn::{AluOp, Insn, Operand, Reg};
use karakoram_bpf::program::Node;
use karakoram_proof::facts::Kind;
use karakoram_proof::region::Region;
use karakoram_proof::rewrite::Edit;

/// Whether edits bring in nothing that older kernels refuse and the program does not have already.
pub fn is_portable(context: &Context, edits: &[Edit]) -> bool {
    let is_stored = |e: &Edit| stores_to_context(context, e.at.start, &e.nodes).is_some();
    let drops = |e: &Edit| drops_guard(context, e) || drops_bound(context, e);
    (!edits.iter().any(is_stored) || has_context_stores(context)) && !edits.iter().any(drops)
}

/// A comparison that goes because of what a number is at most that was made with a number in a register by other
/// than addition, subtraction or `&`: the verifier of Linux 6.1 then knows nothing of it (kernel
/// `adjust_scalar_min_max_vals`), so that the comparison is what bounds it.
fn drops_bound(context: &Context, edit: &Edit) -> bool {
    let is_comparison = |insn: &Insn| matches!(insn, Insn::Branch { .. });
    let bounds = |p: usize| match *context.insn(p) {
        Insn::Branch { dst, src, .. } => {
            let other = if let Operand::Reg(reg) = src { Some(reg) } else { None };
            [Some(dst), other].into_iter().flatten().any(|reg| is_mixed(context, p, reg))
        }
        _ => false,
    };
    // What is assigned behind such a comparison is known to be there already, but not to such a verifier.
    let is_assignment = |insn: &Insn| matches!(insn, Insn::Mov { src: Operand::Imm(_), .. });
    let assigns_bound = |p: usize| match (p.checked_sub(1).map(|before| *context.insn(before)), *context.insn(p)) {
        (Some(Insn::Branch { dst, .. }), Insn::Mov { dst: to, src: Operand::Imm(_), .. }) => {
            dst == to && is_mixed(context, p - 1, dst)
        }
        _ => false,
    };
    let drops = |of: &dyn Fn(&Insn) -> bool| !edit.nodes.iter().any(|n| of(&n.insn));
    drops(&is_comparison) && edit.at.clone().any(bounds) || drops(&is_assignment) && edit.at.clone().any(assigns_bound)
}

/// Whether a register was made by an operation of which old verifiers do not say what comes out.
fn is_mixed(context: &Context, position: usize, reg: Reg) -> bool {
    let made = (context.block(position).start..position).rev().find(|p| context.writes[*p].contains(reg));
    let Some(Insn::Alu { op, src: Operand::Reg(src), .. }) = made.map(|p| *context.insn(p)) else { return false };
    let is_constant = made.and_then(|p| context.fact(p, src)).is_some_and(|f| f.range.min == f.range.max);
    !matches!(op, AluOp::Add | AluOp::Sub | AluOp::And) && !is_constant
}

/// A mask that goes although it is only without effect because a number is not zero: before Linux 6.8 the
/// verifier takes nothing from `!=` (its commit d028f87517d6), and one less than that number may be
/// anything to it.
fn drops_guard(context: &Context, edit: &Edit) -> bool {
    let masks = |insn: &Insn| matches!(insn, Insn::Alu { op: AluOp::And, src: Operand::Imm(_), .. });
    let is_guard = |p: usize| match *context.insn(p) {
        Insn::Alu { dst, .. } => masks(context.insn(p)) && is_one_less(context, p, dst),
        _ => false,
    };
    !edit.nodes.iter().any(|n| masks(&n.insn)) && edit.at.clone().any(is_guard)
}

/// Whether a register holds one less than a number that is known to be at least one.
fn is_one_less(context: &Context, position: usize, reg: Reg) -> bool {
    let made = (context.block(position).start..position).rev().find(|p| context.writes[*p].contains(reg));
    made.is_some_and(|p| {
        let subtracts = matches!(
            *context.insn(p),
            Insn::Alu { op: AluOp::Add, src: Operand::Imm(-1), .. }
                | Insn::Alu { op: AluOp::Sub, src: Operand::Imm(1), .. }
        );
        subtracts && context.fact(p, reg).is_some_and(|f| f.range.min == 1)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_bpf::insn::FuncId;
    use karakoram_bpf::text::asm;
    use karakoram_proof::ProverOptions;
    use karakoram_proof::apply::Prover;

    /// Whether the instruction before the last can go.
    fn may_go(code: &str) -> bool {
        let program = asm::parse(code).unwrap();
        let prover = Prover::new(&program, ProverOptions::default());
        let facts = prover.facts(&program, FuncId(0));
        let context = Context::new(&program, FuncId(0), &facts, &|f| prover.signature(f));
        let p = context.len() - 2;
        is_portable(&context, &[Edit { at: p..p + 1, nodes: Vec::new() }])
    }

    #[test]
    fn bounds_stay_where_only_new_verifiers_follow_the_arithmetic() {
        let given = ".hook buffer=64\nr0 = *(u8 *)(r1 + 0)\nr2 = *(u8 *)(r1 + 1)\n";
        let compared = "if r0 > 0x3ff goto out\nout:\nexit\n";
        assert!(!may_go(&format!("{given}r0 |= r2\n{compared}")));
        assert!(may_go(&format!("{given}r0 += r2\n{compared}")));
        let capped = "if r0 <= 0xff goto out\nr0 = 255\nout:\nexit\n";
        assert!(!may_go(&format!("{given}r0 |= r2\n{capped}")));
        assert!(may_go(&format!("{given}r0 += r2\n{capped}")));
        assert!(may_go(&format!("{given}r2 = 3\nr0 |= r2\n{compared}")));
    }

    #[test]
    fn masks_stay_where_only_new_verifiers_know_a_number_not_to_be_zero() {
        let given = ".hook buffer=64\nr0 = *(u8 *)(r1 + 0)\nif r0 > 0xf goto out\n";
        assert!(!may_go(&format!(
            "{given}if r0 != 0 goto next\nr0 = 0\nexit\nnext:\nr0 += -1\nr0 &= 15\nout:\nexit\n"
        )));
        assert!(may_go(&format!("{given}r0 += 1\nr0 &= 31\nout:\nexit\n")));
    }
}
