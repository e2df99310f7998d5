//! What the primitive operations of the semantics are on bit-vector terms: shared by everything that
//! executes instructions symbolically.

use crate::term::{Term, Terms, mask};
use karakoram_bpf::insn::{AluOp, Condition, Width};

/// [`karakoram_bpf::semantics::Machine::alu`] on 64-bit terms.
pub fn alu(terms: &mut Terms, width: Width, op: AluOp, a: Term, b: Term) -> Term {
    let bits = width.bits();
    let (a, b) = (terms.extract(bits - 1, 0, a), terms.extract(bits - 1, 0, b));
    let result = match op {
        AluOp::Add => terms.add(a, b),
        AluOp::Sub => terms.sub(a, b),
        AluOp::Mul => terms.mul(a, b),
        AluOp::Div => terms.udiv(a, b),
        AluOp::Mod => terms.urem(a, b),
        AluOp::Or => terms.or(a, b),
        AluOp::And => terms.and(a, b),
        AluOp::Xor => terms.xor(a, b),
        AluOp::Lsh => terms.shl(a, b),
        AluOp::Rsh => terms.lshr(a, b),
        AluOp::Arsh => terms.ashr(a, b),
        AluOp::SDiv | AluOp::SMod => signed_division(terms, op == AluOp::SDiv, a, b),
    };
    terms.zero_extend(64, result)
}

/// [`karakoram_bpf::semantics::Machine::extend`].
pub fn extend(terms: &mut Terms, value: Term, bits: u32, signed: bool) -> Term {
    let low = terms.extract(bits - 1, 0, value);
    match signed {
        true => terms.sign_extend(64, low),
        false => terms.zero_extend(64, low),
    }
}

/// [`karakoram_bpf::semantics::Machine::swap_bytes`].
pub fn swap_bytes(terms: &mut Terms, value: Term, bits: u32) -> Term {
    let swapped = terms.swap_bytes(value, bits);
    terms.zero_extend(64, swapped)
}

/// [`karakoram_bpf::semantics::Machine::compare`]; the result has width 1.
pub fn compare(terms: &mut Terms, width: Width, cond: Condition, a: Term, b: Term) -> Term {
    let bits = width.bits();
    let (a, b) = (terms.extract(bits - 1, 0, a), terms.extract(bits - 1, 0, b));
    let (positive, t) = match cond {
        Condition::Eq => (true, terms.eq(a, b)),
        Condition::Ne => (false, terms.eq(a, b)),
        Condition::Lt => (true, terms.ult(a, b)),
        Condition::Ge => (false, terms.ult(a, b)),
        Condition::Gt => (true, terms.ult(b, a)),
        Condition::Le => (false, terms.ult(b, a)),
        Condition::SLt => (true, terms.slt(a, b)),
        Condition::SGe => (false, terms.slt(a, b)),
        Condition::SGt => (true, terms.slt(b, a)),
        Condition::SLe => (false, terms.slt(b, a)),
        Condition::Set => {
            let common = terms.and(a, b);
            let zero = terms.constant(bits, 0);
            (false, terms.eq(common, zero))
        }
    };
    if positive { t } else { terms.not(t) }
}

/// Signed division as unsigned division of magnitudes; the remainder takes the dividend's sign.
fn signed_division(terms: &mut Terms, quotient: bool, a: Term, b: Term) -> Term {
    let w = terms.width(a);
    let (sign_a, sign_b) = (terms.extract(w - 1, w - 1, a), terms.extract(w - 1, w - 1, b));
    let (minus_a, minus_b) = (terms.neg(a), terms.neg(b));
    let (abs_a, abs_b) = (terms.ite(sign_a, minus_a, a), terms.ite(sign_b, minus_b, b));
    let (result, negative) = match quotient {
        true => (terms.udiv(abs_a, abs_b), terms.xor(sign_a, sign_b)),
        false => (terms.urem(abs_a, abs_b), sign_a),
    };
    let minus = terms.neg(result);
    debug_assert_eq!(mask(w), mask(terms.width(result)));
    terms.ite(negative, minus, result)
}
