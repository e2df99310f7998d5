//! What the kernel lets programs do with pointers.
//!
//! A candidate may be right and still be refused by the kernel's verifier, which follows pointers by
//! kind (kernel `kernel/bpf/verifier.c`, `adjust_ptr_min_max_vals` and `check_mem_access`). Such
//! candidates are a waste of judgements, unless the original does the same.

use super::window::Window;
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::{Fact, Facts, Kind, Root};
use karakoram_proof::region::Region;

/// What a register holds, as the kernel sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Number,
    /// The context, at that distance from its start.
    Context(i64),
    /// A pointer that may be moved.
    Pointer,
    /// A pointer that must stay what it is: perhaps null, or a map, or the end of the packet.
    Fixed,
}

/// Whether a candidate does nothing with pointers that the kernel refuses, beyond what the original does.
pub fn are_respected(facts: &Facts, window: &Window, insns: &[Insn]) -> bool {
    violations(facts, window, insns) <= violations(facts, window, &window.insns)
}

/// Whether a register holds nothing but a number.
pub fn is_number(fact: &Fact) -> bool {
    sort(fact) == Sort::Number
}

fn sort(fact: &Fact) -> Sort {
    match fact.kind {
        Kind::Pointer { nullable: true, .. } | Kind::Map(_) => Sort::Fixed,
        Kind::Pointer { region: Region::Context, .. } => Sort::Context(fact.delta as i64),
        Kind::Pointer { .. } => Sort::Pointer,
        _ if fact.root == Some(Root::PacketEnd) => Sort::Fixed,
        _ => Sort::Number,
    }
}

fn violations(facts: &Facts, window: &Window, insns: &[Insn]) -> usize {
    let mut regs: [Sort; Reg::COUNT] = std::array::from_fn(|i| sort(&window.state.regs[i]));
    let mut count = 0;
    for insn in insns {
        let of = |o: Operand| match o {
            Operand::Reg(r) => regs[r.index()],
            Operand::Imm(_) => Sort::Number,
        };
        let (bad, result) = match *insn {
            Insn::Mov { width: Width::W64, src, .. } => (false, of(src)),
            Insn::Mov { src, .. } => (of(src) != Sort::Number, Sort::Number),
            Insn::Alu { width, op, dst, src } => match (of(Operand::Reg(dst)), of(src)) {
                (Sort::Number, Sort::Number) => (false, Sort::Number),
                (Sort::Pointer, Sort::Number) if width == Width::W64 && matches!(op, AluOp::Add | AluOp::Sub) => {
                    (false, Sort::Pointer)
                }
                (Sort::Number, Sort::Pointer) if width == Width::W64 && op == AluOp::Add => (false, Sort::Pointer),
                (Sort::Pointer | Sort::Fixed, Sort::Pointer | Sort::Fixed)
                    if width == Width::W64 && op == AluOp::Sub =>
                {
                    (false, Sort::Number)
                }
                _ => (true, Sort::Number),
            },
            Insn::Neg { dst, .. } | Insn::Endian { dst, .. } => (of(Operand::Reg(dst)) != Sort::Number, Sort::Number),
            Insn::MovSx { src, .. } => (of(Operand::Reg(src)) != Sort::Number, Sort::Number),
            Insn::LoadImm { value: Imm64::Value(_), .. } => (false, Sort::Number),
            Insn::LoadImm { value: Imm64::MapValue(..), .. } => (false, Sort::Pointer),
            Insn::LoadImm { .. } => (false, Sort::Fixed),
            Insn::Load { size, base, off, .. } => {
                let field = match (regs[base.index()], facts.hook) {
                    (Sort::Context(at), Some(hook)) => hook.context_field(at + off as i64, size.bytes()),
                    _ => None,
                };
                (regs[base.index()] == Sort::Fixed, if field.is_some() { Sort::Pointer } else { Sort::Number })
            }
            // Constants cannot be stored to the context before Linux 6.4.
            Insn::Store { base, src, .. } => {
                let constant = matches!((regs[base.index()], src), (Sort::Context(_), Operand::Imm(_)));
                (constant || regs[base.index()] == Sort::Fixed, Sort::Number)
            }
            Insn::Branch { width, cond, dst, src, .. } => {
                let pointers = of(Operand::Reg(dst)) != Sort::Number || of(src) != Sort::Number;
                (pointers && !is_like_branch(window, width, cond, dst, src), Sort::Number)
            }
            _ => (false, Sort::Number),
        };
        count += bad as usize;
        effects::of(insn).writes.iter().for_each(|r| regs[r.index()] = result);
    }
    count
}

/// Whether a branch compares as the window's own does, in the same or the opposite direction: the
/// kernel learns from comparisons of pointers only in some forms.
fn is_like_branch(window: &Window, width: Width, cond: Condition, dst: Reg, src: Operand) -> bool {
    let Some((Insn::Branch { width: w, cond: c, dst: d, src: s, .. }, _)) = window.branch else { return false };
    let same = cond == c && dst == d && src == s;
    let swapped = cond == c.swapped() && src == Operand::Reg(d) && s == Operand::Reg(dst);
    width == w && (same || swapped)
}
