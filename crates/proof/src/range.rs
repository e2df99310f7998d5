//! What is known of a number without knowing it: fixed bits, unsigned and signed bounds.
//!
//! Every operation returns a set that contains all concrete results; the tests sample that.

use karakoram_bpf::insn::{AluOp, Condition, Width};
use karakoram_bpf::semantics;

/// A set of 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Bits that are 0 in all members.
    pub zeros: u64,
    /// Bits that are 1 in all members.
    pub ones: u64,
    /// Smallest, unsigned.
    pub min: u64,
    /// Largest, unsigned.
    pub max: u64,
    /// Smallest, signed.
    pub smin: i64,
    /// Largest, signed.
    pub smax: i64,
}

impl Range {
    /// Any number.
    pub const FULL: Range = Range { zeros: 0, ones: 0, min: 0, max: u64::MAX, smin: i64::MIN, smax: i64::MAX };

    /// Exactly that number.
    pub fn exactly(v: u64) -> Range {
        Range { zeros: !v, ones: v, min: v, max: v, smin: v as i64, smax: v as i64 }
    }

    /// `min..=max`, unsigned.
    pub fn between(min: u64, max: u64) -> Range {
        Range { min, max, ..Range::FULL }.tightened()
    }

    /// What fits in that many bits.
    pub fn of_bits(bits: u32) -> Range {
        if bits >= 64 { Range::FULL } else { Range::between(0, (1 << bits) - 1) }
    }

    /// The only member, when there is just one.
    pub fn value(&self) -> Option<u64> {
        (self.min == self.max).then_some(self.min)
    }

    /// Whether there is no member: the point is not reachable.
    pub fn is_empty(&self) -> bool {
        self.min > self.max || self.smin > self.smax || self.zeros & self.ones != 0
    }

    /// Whether `v` may be a member.
    pub fn contains(&self, v: u64) -> bool {
        v & self.zeros == 0
            && !v & self.ones == 0
            && (self.min..=self.max).contains(&v)
            && (self.smin..=self.smax).contains(&(v as i64))
    }

    /// Carries knowledge between bits and bounds; never loses a member.
    fn tightened(mut self) -> Range {
        for _ in 0..2 {
            self.min = self.min.max(self.ones);
            self.max = self.max.min(!self.zeros);
            if self.min > self.max {
                return self;
            }
            let same = if self.min == self.max { 64 } else { (self.min ^ self.max).leading_zeros() };
            let fixed = if same == 0 { 0 } else { u64::MAX << (64 - same) };
            self.ones |= self.min & fixed;
            self.zeros |= !self.min & fixed;
            if self.max as i64 >= 0 || (self.min as i64) < 0 {
                self.smin = self.smin.max(self.min as i64);
                self.smax = self.smax.min(self.max as i64);
            }
            if self.smin >= 0 || self.smax < 0 {
                self.min = self.min.max(self.smin as u64);
                self.max = self.max.min(self.smax as u64);
            }
        }
        self
    }

    /// The smallest set that holds both.
    pub fn join(&self, other: &Range) -> Range {
        Range {
            zeros: self.zeros & other.zeros,
            ones: self.ones & other.ones,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            smin: self.smin.min(other.smin),
            smax: self.smax.max(other.smax),
        }
    }

    /// `self` after it grew into `next`: bounds that moved are given up, so that loops end.
    pub fn widen(&self, next: &Range) -> Range {
        let joined = self.join(next);
        Range {
            zeros: joined.zeros,
            ones: joined.ones,
            min: if joined.min < self.min { joined.ones } else { self.min },
            max: if joined.max > self.max { !joined.zeros } else { self.max },
            smin: if joined.smin < self.smin { i64::MIN } else { self.smin },
            smax: if joined.smax > self.smax { i64::MAX } else { self.smax },
        }
        .tightened()
    }

    /// Members of both.
    pub fn meet(&self, other: &Range) -> Range {
        Range {
            zeros: self.zeros | other.zeros,
            ones: self.ones | other.ones,
            min: self.min.max(other.min),
            max: self.max.min(other.max),
            smin: self.smin.max(other.smin),
            smax: self.smax.min(other.smax),
        }
        .tightened()
    }

    /// Results of [`semantics::concrete_extend`].
    pub fn extend(&self, bits: u32, signed: bool) -> Range {
        if bits == 64 {
            return *self;
        }
        let mask = (1u64 << bits) - 1;
        let low = Range { zeros: self.zeros | !mask, ones: self.ones & mask, ..Range::of_bits(bits) };
        let low = if self.max <= mask { low.meet(&Range::between(self.min, self.max)) } else { low.tightened() };
        let sign = 1u64 << (bits - 1);
        if !signed || low.zeros & sign != 0 {
            return low;
        }
        let half = sign as i64;
        let range = Range { smin: -half, smax: half - 1, ..Range::FULL };
        match low.value() {
            Some(v) => Range::exactly(semantics::concrete_extend(v, bits, true)),
            None => range.tightened(),
        }
    }

    /// Results of [`semantics::concrete_alu`].
    pub fn alu(width: Width, op: AluOp, a: &Range, b: &Range) -> Range {
        let (a, b) = match width {
            Width::W64 => (*a, *b),
            Width::W32 => (a.extend(32, false), b.extend(32, false)),
        };
        if let (Some(x), Some(y)) = (a.value(), b.value()) {
            return Range::exactly(semantics::concrete_alu(width, op, x, y));
        }
        let limit = if width == Width::W64 { u64::MAX } else { u32::MAX as u64 };
        let whole = Range::of_bits(width.bits());
        let shift = b.value().map(|n| n as u32 & (width.bits() - 1));
        let result = match op {
            AluOp::Add => {
                let unsigned = match a.max.checked_add(b.max) {
                    Some(max) if max <= limit => Range::between(a.min + b.min, max),
                    _ => whole,
                };
                match (width, a.smin.checked_add(b.smin), a.smax.checked_add(b.smax)) {
                    (Width::W64, Some(smin), Some(smax)) => unsigned.meet(&Range { smin, smax, ..Range::FULL }),
                    _ => unsigned,
                }
            }
            AluOp::Sub => {
                let unsigned = if a.min >= b.max { Range::between(a.min - b.max, a.max - b.min) } else { whole };
                match (width, a.smin.checked_sub(b.smax), a.smax.checked_sub(b.smin)) {
                    (Width::W64, Some(smin), Some(smax)) => unsigned.meet(&Range { smin, smax, ..Range::FULL }),
                    _ => unsigned,
                }
            }
            AluOp::Mul => match a.max.checked_mul(b.max) {
                Some(max) if max <= limit => Range::between(a.min * b.min, max),
                _ => whole,
            },
            AluOp::And => {
                let bits = Range { zeros: a.zeros | b.zeros, ones: a.ones & b.ones, ..Range::FULL };
                bits.meet(&Range::between(0, a.max.min(b.max)))
            }
            AluOp::Or => Range { zeros: a.zeros & b.zeros, ones: a.ones | b.ones, ..Range::FULL },
            AluOp::Xor => Range {
                zeros: a.zeros & b.zeros | a.ones & b.ones,
                ones: a.zeros & b.ones | a.ones & b.zeros,
                ..Range::FULL
            },
            AluOp::Div => match b.value() {
                Some(d) if d > 0 => Range::between(a.min / d, a.max / d),
                _ => Range::between(0, a.max),
            },
            AluOp::Mod => match b.value() {
                Some(d) if d > 0 => Range::between(0, a.max.min(d - 1)),
                _ => Range::between(0, a.max),
            },
            AluOp::Lsh => match shift {
                Some(n) => {
                    let bits = Range { zeros: a.zeros << n | ((1u64 << n) - 1), ones: a.ones << n, ..Range::FULL };
                    let bits = if width == Width::W32 { bits.extend(32, false) } else { bits };
                    if a.max <= limit >> n { bits.meet(&Range::between(a.min << n, a.max << n)) } else { bits }
                }
                None => whole,
            },
            AluOp::Rsh => match shift {
                Some(n) => Range {
                    zeros: a.zeros >> n | !(u64::MAX >> n),
                    ones: a.ones >> n,
                    ..Range::between(a.min >> n, a.max >> n)
                },
                None => Range::between(0, a.max),
            },
            AluOp::Arsh => match (width, shift) {
                (Width::W64, Some(n)) => Range { smin: a.smin >> n, smax: a.smax >> n, ..Range::FULL },
                _ => whole,
            },
            AluOp::SDiv | AluOp::SMod => whole,
        };
        result.meet(&whole)
    }

    /// Members for which `member cond other` can hold, for some member of `other`. At 32 bits nothing
    /// is learned unless both sides fit in 31 bits, where both widths agree.
    pub fn assume(&self, width: Width, cond: Condition, other: &Range) -> Range {
        if width == Width::W32 && (self.max > i32::MAX as u64 || other.max > i32::MAX as u64) {
            let fits = self.max <= u32::MAX as u64 && other.max <= u32::MAX as u64;
            let signed = matches!(cond, Condition::SGt | Condition::SGe | Condition::SLt | Condition::SLe);
            if !fits || signed {
                return *self;
            }
        }
        let bound = match cond {
            Condition::Eq => *other,
            Condition::Ne => {
                let mut kept = *self;
                if let Some(v) = other.value() {
                    if kept.min == v && kept.max > v {
                        kept.min += 1;
                    } else if kept.max == v && kept.min < v {
                        kept.max -= 1;
                    } else if kept.value() == Some(v) {
                        kept.max = 0;
                        kept.min = 1;
                        return kept;
                    }
                }
                return kept.tightened();
            }
            Condition::Gt if other.min == u64::MAX => return Range { min: 1, max: 0, ..*self },
            Condition::Gt => Range { min: other.min + 1, ..Range::FULL },
            Condition::Ge => Range { min: other.min, ..Range::FULL },
            Condition::Lt if other.max == 0 => return Range { min: 1, max: 0, ..*self },
            Condition::Lt => Range { max: other.max - 1, ..Range::FULL },
            Condition::Le => Range { max: other.max, ..Range::FULL },
            Condition::SGt if other.smin == i64::MAX => return Range { min: 1, max: 0, ..*self },
            Condition::SGt => Range { smin: other.smin + 1, ..Range::FULL },
            Condition::SGe => Range { smin: other.smin, ..Range::FULL },
            Condition::SLt if other.smax == i64::MIN => return Range { min: 1, max: 0, ..*self },
            Condition::SLt => Range { smax: other.smax - 1, ..Range::FULL },
            Condition::SLe => Range { smax: other.smax, ..Range::FULL },
            Condition::Set => match other.value() {
                Some(v) if v.is_power_of_two() => Range { ones: v, ..Range::FULL },
                _ => return *self,
            },
        };
        self.meet(&bound)
    }

    /// Members for which `member & mask` is zero.
    pub fn assume_clear(&self, mask: u64) -> Range {
        Range { zeros: self.zeros | mask, ..*self }.tightened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn sample(seed: &mut u64) -> u64 {
        match next(seed) % 5 {
            0 => next(seed) % 16,
            1 => (next(seed) % 16).wrapping_neg(),
            2 => (1u64 << (next(seed) % 64)).wrapping_sub(next(seed) % 3),
            3 => next(seed) as u32 as u64,
            _ => next(seed),
        }
    }

    fn set(seed: &mut u64) -> (Range, Vec<u64>) {
        let members: Vec<u64> = match next(seed) % 2 {
            0 => (0..=next(seed) % 3).map(|_| sample(seed)).collect(),
            _ => {
                let base = sample(seed);
                (0..4).map(|i| base.wrapping_add(i)).collect()
            }
        };
        let range = members.iter().map(|v| Range::exactly(*v)).reduce(|a, b| a.join(&b)).expect("not empty");
        (range.tightened(), members)
    }

    #[test]
    fn no_concrete_result_is_ruled_out() {
        use AluOp::*;
        use Condition::*;
        let mut seed = 0x1234_5678_9abc_def1;
        for _ in 0..60_000 {
            let ((a, xs), (b, ys)) = (set(&mut seed), set(&mut seed));
            let width = if next(&mut seed) & 1 == 0 { Width::W32 } else { Width::W64 };
            let op =
                [Add, Sub, Mul, Div, SDiv, Mod, SMod, Or, And, Xor, Lsh, Rsh, Arsh][(next(&mut seed) % 13) as usize];
            let cond = [Eq, Ne, Gt, Ge, Lt, Le, Set, SGt, SGe, SLt, SLe][(next(&mut seed) % 11) as usize];
            let bits = [8, 16, 32, 64][(next(&mut seed) % 4) as usize];
            let result = Range::alu(width, op, &a, &b);
            for x in &xs {
                assert!(a.contains(*x));
                for signed in [false, true] {
                    let y = semantics::concrete_extend(*x, bits, signed);
                    assert!(a.extend(bits, signed).contains(y), "extend {bits} {signed} of {x:#x} in {a:?}");
                }
                for y in &ys {
                    let v = semantics::concrete_alu(width, op, *x, *y);
                    assert!(result.contains(v), "{x:#x} {op:?} {y:#x} = {v:#x} at {width:?} not in {result:?}");
                    if semantics::concrete_compare(width, cond, *x, *y) {
                        assert!(a.assume(width, cond, &b).contains(*x), "{x:#x} {cond:?} {y:#x} {width:?} {a:?} {b:?}");
                    }
                }
            }
            assert!(xs.iter().chain(&ys).all(|v| a.widen(&b).contains(*v)));
        }
    }
}
