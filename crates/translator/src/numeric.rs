//! Arithmetic, comparisons and conversions of integers.

use crate::function::Emitter;
use crate::manifest::Fault;
use crate::module::Ty;
use wasmparser::Operator as O;

/// What an operator does, in LLVM's words.
enum Meaning {
    /// Two operands, one result of the same type.
    Binary(Ty, &'static str),
    /// Two operands, the second one a number of bits.
    Shift(Ty, &'static str),
    /// A rotation: funnel shift of a value with itself.
    Rotate(Ty, &'static str),
    /// A division; signed ones may overflow too.
    Division(Ty, &'static str, bool),
    /// Two operands, 0 or 1.
    Comparison(Ty, &'static str),
    /// One operand and zero, 0 or 1.
    IsZero(Ty),
    /// An intrinsic with further constant arguments.
    Count(Ty, &'static str, &'static str),
    /// Trailing zeros.
    TrailingZeros(Ty),
    /// A conversion.
    Convert(Ty, &'static str, Ty),
    /// The low bits, extended with their sign.
    Extend(Ty, u32),
}

fn meaning(operator: &O) -> Option<Meaning> {
    use Meaning::*;
    use Ty::*;
    Some(match operator {
        O::I32Add => Binary(I32, "add"),
        O::I64Add => Binary(I64, "add"),
        O::I32Sub => Binary(I32, "sub"),
        O::I64Sub => Binary(I64, "sub"),
        O::I32Mul => Binary(I32, "mul"),
        O::I64Mul => Binary(I64, "mul"),
        O::I32And => Binary(I32, "and"),
        O::I64And => Binary(I64, "and"),
        O::I32Or => Binary(I32, "or"),
        O::I64Or => Binary(I64, "or"),
        O::I32Xor => Binary(I32, "xor"),
        O::I64Xor => Binary(I64, "xor"),
        O::I32Shl => Shift(I32, "shl"),
        O::I64Shl => Shift(I64, "shl"),
        O::I32ShrU => Shift(I32, "lshr"),
        O::I64ShrU => Shift(I64, "lshr"),
        O::I32ShrS => Shift(I32, "ashr"),
        O::I64ShrS => Shift(I64, "ashr"),
        O::I32Rotl => Rotate(I32, "fshl"),
        O::I64Rotl => Rotate(I64, "fshl"),
        O::I32Rotr => Rotate(I32, "fshr"),
        O::I64Rotr => Rotate(I64, "fshr"),
        O::I32DivU => Division(I32, "udiv", false),
        O::I64DivU => Division(I64, "udiv", false),
        O::I32RemU => Division(I32, "urem", false),
        O::I64RemU => Division(I64, "urem", false),
        O::I32DivS => Division(I32, "sdiv", true),
        O::I64DivS => Division(I64, "sdiv", true),
        O::I32RemS => Division(I32, "srem", true),
        O::I64RemS => Division(I64, "srem", true),
        O::I32Eq => Comparison(I32, "eq"),
        O::I64Eq => Comparison(I64, "eq"),
        O::I32Ne => Comparison(I32, "ne"),
        O::I64Ne => Comparison(I64, "ne"),
        O::I32LtU => Comparison(I32, "ult"),
        O::I64LtU => Comparison(I64, "ult"),
        O::I32LtS => Comparison(I32, "slt"),
        O::I64LtS => Comparison(I64, "slt"),
        O::I32GtU => Comparison(I32, "ugt"),
        O::I64GtU => Comparison(I64, "ugt"),
        O::I32GtS => Comparison(I32, "sgt"),
        O::I64GtS => Comparison(I64, "sgt"),
        O::I32LeU => Comparison(I32, "ule"),
        O::I64LeU => Comparison(I64, "ule"),
        O::I32LeS => Comparison(I32, "sle"),
        O::I64LeS => Comparison(I64, "sle"),
        O::I32GeU => Comparison(I32, "uge"),
        O::I64GeU => Comparison(I64, "uge"),
        O::I32GeS => Comparison(I32, "sge"),
        O::I64GeS => Comparison(I64, "sge"),
        O::I32Eqz => IsZero(I32),
        O::I64Eqz => IsZero(I64),
        O::I32Clz => Count(I32, "ctlz", ", i1 false"),
        O::I64Clz => Count(I64, "ctlz", ", i1 false"),
        O::I32Popcnt => Count(I32, "ctpop", ""),
        O::I64Popcnt => Count(I64, "ctpop", ""),
        O::I32Ctz => TrailingZeros(I32),
        O::I64Ctz => TrailingZeros(I64),
        O::I32WrapI64 => Convert(I64, "trunc", I32),
        O::I64ExtendI32U => Convert(I32, "zext", I64),
        O::I64ExtendI32S => Convert(I32, "sext", I64),
        O::I32Extend8S => Extend(I32, 8),
        O::I32Extend16S => Extend(I32, 16),
        O::I64Extend8S => Extend(I64, 8),
        O::I64Extend16S => Extend(I64, 16),
        O::I64Extend32S => Extend(I64, 32),
        _ => return None,
    })
}

impl Emitter<'_> {
    /// Writes an operator of this kind; false when it is none.
    pub(crate) fn numeric(&mut self, operator: &O, offset: u32) -> bool {
        let Some(meaning) = meaning(operator) else { return false };
        match meaning {
            Meaning::Binary(ty, name) => {
                let (b, a) = (self.pop(), self.pop());
                let value = self.text.value(format!("{name} {} {a}, {b}", ty.name()));
                self.push(ty, value);
            }
            Meaning::Shift(ty, name) => {
                let (count, a) = (self.pop(), self.pop());
                let count = self.text.value(format!("and {} {count}, {}", ty.name(), ty.bits() - 1));
                let value = self.text.value(format!("{name} {} {a}, {count}", ty.name()));
                self.push(ty, value);
            }
            Meaning::Rotate(ty, name) => {
                let (count, a) = (self.pop(), self.pop());
                let t = ty.name();
                let value = self.text.value(format!("call {t} @llvm.{name}.{t}({t} {a}, {t} {a}, {t} {count})"));
                self.push(ty, value);
            }
            Meaning::Division(ty, name, signed) => self.division(ty, name, signed, offset),
            Meaning::Comparison(ty, name) => {
                let (b, a) = (self.pop(), self.pop());
                self.push_bool(&format!("icmp {name} {} {a}, {b}", ty.name()));
            }
            Meaning::IsZero(ty) => {
                let a = self.pop();
                self.push_bool(&format!("icmp eq {} {a}, 0", ty.name()));
            }
            Meaning::Count(ty, name, more) => {
                let (a, t) = (self.pop(), ty.name());
                let value = self.text.value(format!("call {t} @llvm.{name}.{t}({t} {a}{more})"));
                self.push(ty, value);
            }
            Meaning::TrailingZeros(ty) => self.trailing_zeros(ty),
            Meaning::Convert(from, name, to) => {
                let a = self.pop();
                let value = self.text.value(format!("{name} {} {a} to {}", from.name(), to.name()));
                self.push(to, value);
            }
            Meaning::Extend(ty, bits) => {
                let a = self.pop();
                let low = self.text.value(format!("trunc {} {a} to i{bits}", ty.name()));
                let value = self.text.value(format!("sext i{bits} {low} to {}", ty.name()));
                self.push(ty, value);
            }
        }
        true
    }

    fn push_bool(&mut self, comparison: &str) {
        let bit = self.text.value(comparison);
        let value = self.text.value(format!("zext i1 {bit} to i32"));
        self.push(Ty::I32, value);
    }

    fn division(&mut self, ty: Ty, name: &str, signed: bool, offset: u32) {
        let (b, a, t) = (self.pop(), self.pop(), ty.name());
        let zero = self.text.value(format!("icmp eq {t} {b}, 0"));
        self.trap_if(&zero, Fault::Division, offset);
        if signed && name == "sdiv" {
            let smallest = if ty == Ty::I32 { i32::MIN as i64 } else { i64::MIN };
            let minus = self.text.value(format!("icmp eq {t} {b}, -1"));
            let least = self.text.value(format!("icmp eq {t} {a}, {smallest}"));
            let both = self.text.value(format!("and i1 {minus}, {least}"));
            self.trap_if(&both, Fault::Division, offset);
        }
        let divisor = match signed && name == "srem" {
            // The remainder by -1 is 0 also for the smallest number.
            true => {
                let minus = self.text.value(format!("icmp eq {t} {b}, -1"));
                self.text.value(format!("select i1 {minus}, {t} 1, {t} {b}"))
            }
            false => b,
        };
        let value = self.text.value(format!("{name} {t} {a}, {divisor}"));
        self.push(ty, value);
    }

    /// Counts the ones below the lowest one. BPF has no such instruction, and left to itself `llc`
    /// takes a table from memory that no loader provides; an empty piece of assembly hides the pattern.
    fn trailing_zeros(&mut self, ty: Ty) {
        let (a, t) = (self.pop(), ty.name());
        let negated = self.text.value(format!("sub {t} 0, {a}"));
        let lowest = self.text.value(format!("and {t} {a}, {negated}"));
        let constraint = if ty == Ty::I32 { "=w,0" } else { "=r,0" };
        let hidden = self.text.value(format!("call {t} asm \"\", \"{constraint}\"({t} {lowest})"));
        let below = self.text.value(format!("sub {t} {hidden}, 1"));
        let value = self.text.value(format!("call {t} @llvm.ctpop.{t}({t} {below})"));
        self.push(ty, value);
    }
}
