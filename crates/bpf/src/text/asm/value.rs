//! What stands after `dst =`: constants, loads, conversions, addresses, atomic operations.

use super::cursor::register;
use super::grammar::{Func, Grammar, Written};
use super::lex::Kind;
use crate::insn::*;
use crate::text::TextError;

type Result<T> = std::result::Result<T, TextError>;

impl<'a> Grammar<'a, '_> {
    /// What follows `dst =`.
    pub fn value(&mut self, dst: Reg, width: Width) -> Result<Written<'a>> {
        if self.c.at_number() {
            return self.constant(dst, width);
        }
        if self.c.take("-") {
            return match self.c.register()? {
                (r, w) if r == dst && w == width => Ok(Insn::Neg { width, dst }),
                _ => Err(self.c.error_before("a negation stays in its register")),
            };
        }
        if self.c.take("*") {
            return self.load(dst, width);
        }
        if self.c.take("(") {
            return self.sign_extension(dst, width);
        }
        let Some(Kind::Word(word)) = self.c.peek() else {
            return Err(self.c.error("no value begins like this"));
        };
        if register(word).is_some() {
            return Ok(Insn::Mov { width, dst, src: Operand::Reg(self.same_width(width)?) });
        }
        self.c.next();
        if let Some((order, bits)) = endian(word) {
            return match self.c.register()? {
                (r, Width::W64) if r == dst && width == Width::W64 => Ok(Insn::Endian { order, bits, dst }),
                _ => Err(self.c.error_before("a byte order conversion stays in its 64-bit register")),
            };
        }
        match word {
            "addr_space_cast" => self.address_cast(dst, width),
            "load_acquire" => {
                self.c.expect("(")?;
                let (size, base, off) = self.typed_address()?;
                self.c.expect(")")?;
                self.check_width(dst, width, size)?;
                Ok(Insn::LoadAcquire { size, dst, base, off })
            }
            "map" | "func" | "btf" | "extern" if self.c.peek() == Some(Kind::Symbol("[")) => {
                if width == Width::W32 {
                    return Err(self.c.error_before(format!("an address needs a 64-bit register, `{dst}`")));
                }
                let value = self.address_constant(word)?;
                self.c.take_word("ll");
                Ok(Insn::LoadImm { dst, value })
            }
            _ => self.atomic(word, dst, width),
        }
    }

    fn constant(&mut self, dst: Reg, width: Width) -> Result<Written<'a>> {
        let (value, hex) = self.c.number()?;
        if !self.c.take_word("ll") && !self.dialect.wide {
            let src = Operand::Imm(self.c.fit(value, hex, width == Width::W32)?);
            return Ok(Insn::Mov { width, dst, src });
        }
        if width == Width::W32 {
            return Err(self.c.error_before(format!("a 64-bit constant needs a 64-bit register, `{dst}`")));
        }
        let value = u64::try_from(value).or_else(|_| i64::try_from(value).map(|v| v as u64));
        let value = value.map_err(|_| self.c.error_before("does not fit 64 bits"))?;
        Ok(Insn::LoadImm { dst, value: Imm64::Value(value) })
    }

    fn load(&mut self, dst: Reg, width: Width) -> Result<Written<'a>> {
        let (size, signed) = self.c.pointer_type()?;
        if self.c.take_word("skb") {
            if signed || dst != Reg::R0 || width != Width::W64 || size == Size::D {
                return Err(self.c.error_before("packet loads are unsigned, up to 32 bits, and into r0"));
            }
            self.c.expect("[")?;
            let index = if self.c.at_number() { None } else { Some(self.c.full_register()?) };
            let off = if index.is_some() && self.c.take("]") {
                return Ok(Insn::LegacyLoad { size, index, off: 0 });
            } else {
                self.c.imm(true)?
            };
            self.c.expect("]")?;
            return Ok(Insn::LegacyLoad { size, index, off });
        }
        self.c.expect("(")?;
        let (base, off) = self.c.address()?;
        self.c.expect(")")?;
        self.check_width(dst, width, size)?;
        if signed && width == Width::W32 {
            return Err(self.c.error_before(format!("a sign-extending load needs a 64-bit register, `{dst}`")));
        }
        Ok(Insn::Load { size, signed, dst, base, off })
    }

    /// A value of 64 bits does not go into `wN`.
    fn check_width(&self, dst: Reg, width: Width, size: Size) -> Result<()> {
        if width == Width::W32 && size == Size::D {
            return Err(self.c.error_before(format!("a 64-bit access needs a 64-bit register, `{dst}`")));
        }
        Ok(())
    }

    /// `s8)r2`, after the parenthesis.
    fn sign_extension(&mut self, dst: Reg, width: Width) -> Result<Written<'a>> {
        let bits = match self.c.next() {
            Some(Kind::Word("s8")) => 8,
            Some(Kind::Word("s16")) => 16,
            Some(Kind::Word("s32")) if width == Width::W64 => 32,
            _ => return Err(self.c.error_before("expected `s8`, `s16`, or `s32` for a 64-bit register")),
        };
        self.c.expect(")")?;
        Ok(Insn::MovSx { width, bits, dst, src: self.same_width(width)? })
    }

    fn address_cast(&mut self, dst: Reg, width: Width) -> Result<Written<'a>> {
        self.c.expect("(")?;
        let src = self.same_width(width)?;
        self.c.expect(",")?;
        let to = self.address_space()?;
        self.c.expect(",")?;
        let from = self.address_space()?;
        self.c.expect(")")?;
        if width == Width::W32 {
            return Err(self.c.error_before("an address needs a 64-bit register"));
        }
        Ok(Insn::AddrCast { dst, src, to, from })
    }

    fn address_space(&mut self) -> Result<u16> {
        let n = self.c.unsigned()?;
        n.try_into().map_err(|_| self.c.error_before("an address space is a number from 0 to 65535"))
    }

    /// `map[..]`, `func[..]`, `btf[..]` or `extern[..]`, after the word.
    fn address_constant(&mut self, word: &str) -> Result<Imm64<Func<'a>>> {
        match word {
            "func" => Ok(Imm64::Function(self.func()?)),
            "extern" => Ok(Imm64::Extern(self.bracketed_number()?)),
            "btf" => {
                self.c.expect("[")?;
                if !self.key("id") {
                    return Err(self.c.error("expected `id:` and the BTF id of the variable"));
                }
                let id = self.c.imm(false)?;
                let fd = if self.key("fd") { self.c.imm(false)? } else { 0 };
                self.c.expect("]")?;
                Ok(Imm64::Btf { id, fd })
            }
            _ => {
                let map = self.map()?;
                if !self.c.take("[") {
                    return Ok(Imm64::Map(map));
                }
                if self.c.number()?.0 != 0 {
                    return Err(self.c.error_before("only the first value of a map has an address here: `[0]`"));
                }
                self.c.expect("]")?;
                let offset = if self.c.take("+") { self.c.unsigned()? } else { 0 };
                Ok(Imm64::MapValue(map, offset))
            }
        }
    }

    /// `[name]`, `[fd:4]` or `[idx:2]`.
    fn map(&mut self) -> Result<MapRef> {
        self.c.expect("[")?;
        let map = if self.key("fd") {
            MapRef::Fd(self.c.imm(false)?)
        } else if self.key("idx") {
            MapRef::Index(self.c.imm(false)?)
        } else if self.key("id") {
            return Err(self
                .c
                .error("a map id belongs to a running kernel and says nothing here; name the map or use `fd:`"));
        } else {
            let name = self.c.name()?;
            MapRef::Index((self.maps)(name).map_err(|why| self.c.error_before(why))?)
        };
        self.c.expect("]")?;
        Ok(map)
    }

    /// Atomic operations with a result, in LLVM's and in the kernel's spelling.
    fn atomic(&mut self, word: &str, dst: Reg, width: Width) -> Result<Written<'a>> {
        let unknown = self.c.error_before("no value begins like this");
        self.c.expect("(").map_err(|_| unknown.clone())?;
        let by_name = |size| Some(Some(size));
        // LLVM names exchanges after their size; everything else has the size in the pointer's type.
        let (op, named_size) = match word {
            "xchg_64" => (AtomicOp::Xchg, by_name(Size::D)),
            "xchg32_32" => (AtomicOp::Xchg, by_name(Size::W)),
            "cmpxchg_64" => (AtomicOp::Cmpxchg, by_name(Size::D)),
            "cmpxchg32_32" => (AtomicOp::Cmpxchg, by_name(Size::W)),
            _ => {
                let (wide, op) = match word.strip_prefix("atomic64_") {
                    Some(op) => (true, op),
                    None => (false, word.strip_prefix("atomic_").unwrap_or("")),
                };
                let op = match op {
                    "fetch_add" => AtomicOp::Add,
                    "fetch_or" => AtomicOp::Or,
                    "fetch_and" => AtomicOp::And,
                    "fetch_xor" => AtomicOp::Xor,
                    "xchg" => AtomicOp::Xchg,
                    "cmpxchg" => AtomicOp::Cmpxchg,
                    _ => return Err(unknown),
                };
                (op, wide.then_some(None))
            }
        };
        let (size, base, off) = match named_size {
            Some(Some(size)) => {
                let (base, off) = self.c.address()?;
                (size, base, off)
            }
            _ => self.typed_address()?,
        };
        if !matches!(size, Size::W | Size::D) || (named_size == Some(None) && size != Size::D) {
            return Err(TextError { reason: "the operation does not have that size".into(), ..unknown });
        }
        self.c.expect(",")?;
        self.check_width(dst, width, size)?;
        let mut src = self.c.value_register(size)?;
        if op == AtomicOp::Cmpxchg {
            if dst != Reg::R0 || src != Reg::R0 {
                return Err(TextError {
                    reason: "a compare and exchange compares with and returns in r0".into(),
                    ..unknown
                });
            }
            self.c.expect(",")?;
            src = self.c.value_register(size)?;
        } else if src != dst {
            return Err(TextError {
                reason: "the old value comes back in the operand's own register".into(),
                ..unknown
            });
        }
        self.c.expect(")")?;
        Ok(Insn::Atomic { op, fetch: true, size, base, off, src })
    }
}

fn endian(word: &str) -> Option<(Endian, u8)> {
    let digits = word.find(|c: char| c.is_ascii_digit())?;
    let order = match &word[..digits] {
        "be" => Endian::Big,
        "le" => Endian::Little,
        "bswap" => Endian::Swap,
        _ => return None,
    };
    let bits = match &word[digits..] {
        "16" => 16,
        "32" => 32,
        "64" => 64,
        _ => return None,
    };
    Some((order, bits))
}
