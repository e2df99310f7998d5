//! From the tokens of one line to one instruction, whose targets and functions still have the names they were written with.

use super::cursor::{Cursor, register};
use super::lex::Kind;
use crate::encode::{EncodeError, encode};
use crate::helper;
use crate::insn::*;
use crate::program::Patch;
use crate::text::TextError;

/// Where a jump goes, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target<'a> {
    /// `+2`, `-3`, `pc+2`: slots from the next instruction.
    Distance(i32),
    /// A label.
    Label(&'a str),
    /// `@7`: the instruction of that identity.
    Id(u32),
}

/// A function, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Func<'a> {
    /// By name or label.
    Name(&'a str),
    /// `pc+5`, `func[+5]`: slots from the slot after this one.
    Distance(i32),
    /// `func[idx:2]`.
    Index(u32),
}

/// An instruction as written.
pub(super) type Written<'a> = Insn<Target<'a>, Func<'a>>;

type Result<T> = std::result::Result<T, TextError>;

/// Finds the map of a name.
pub(super) type MapNames<'n> = dyn Fn(&str) -> std::result::Result<i32, &'static str> + 'n;

/// How the kernel's own output differs from what people write.
#[derive(Clone, Copy, Default)]
pub(super) struct Dialect {
    /// A constant is 64 bits wide even without `ll`: the opcode before it says so.
    pub wide: bool,
    /// `call name#N` may be a kernel function with its BTF id: a log of the verifier.
    pub log: bool,
}

/// The instruction of a line, and what it is marked `@patched` with.
pub(super) fn instruction<'a>(
    text: &'a str,
    line: usize,
    maps: &MapNames,
    dialect: Dialect,
) -> Result<(Written<'a>, Option<Patch>)> {
    let mut grammar = Grammar { c: Cursor::new(text, line)?, maps, dialect };
    let insn = grammar.instruction()?;
    grammar.symbol_remark();
    let patch = grammar.patch()?;
    grammar.c.end()?;
    match encode(&insn.map(|_| 0, |_| 0)) {
        Ok(_) | Err(EncodeError::Unresolved) => Ok((insn, patch)),
        Err(why) => Err(TextError::at(line, text.trim(), format!("there is no such instruction: {why}"))),
    }
}

/// Reads one line.
pub(super) struct Grammar<'a, 'n> {
    pub c: Cursor<'a>,
    pub maps: &'n MapNames<'n>,
    pub dialect: Dialect,
}

impl<'a> Grammar<'a, '_> {
    fn instruction(&mut self) -> Result<Written<'a>> {
        if self.c.take("*") {
            return self.store();
        }
        let Some(Kind::Word(word)) = self.c.peek() else {
            return Err(self.c.error("no instruction begins like this"));
        };
        if register(word).is_some() {
            return self.assignment();
        }
        self.c.next();
        match word {
            "exit" => Ok(Insn::Exit),
            "goto" => Ok(Insn::Jump { target: self.target()?, long: false }),
            "gotol" => Ok(Insn::Jump { target: self.target()?, long: true }),
            "may_goto" => Ok(Insn::MayGoto { target: self.target()? }),
            "if" => self.branch(),
            "call" => Ok(Insn::Call(self.callee()?)),
            "callx" => Ok(Insn::Call(Callee::Register(self.c.full_register()?))),
            "lock" => self.lock(),
            "store_release" => self.store_release(),
            _ => Err(self.c.error_before("no instruction begins like this")),
        }
    }

    /// `+2`, `pc+2`, a label or `@7`.
    fn target(&mut self) -> Result<Target<'a>> {
        if self.c.take("@") {
            return Ok(Target::Id(self.c.unsigned()?));
        }
        let relative = matches!(self.c.peek_second(), Some(Kind::Symbol("+" | "-"))) && self.c.take_word("pc");
        if relative || self.c.at_number() {
            return Ok(Target::Distance(self.c.imm(false)?));
        }
        Ok(Target::Label(self.c.name()?))
    }

    /// What llvm-objdump adds after a target: `<prog+0x10>`.
    fn symbol_remark(&mut self) {
        if self.c.take("<") {
            while !self.c.take(">") && self.c.next().is_some() {}
        }
    }

    fn branch(&mut self) -> Result<Written<'a>> {
        let (dst, width) = self.c.register()?;
        let signed = self.c.take_word("s");
        let cond = match (self.c.next(), signed) {
            (Some(Kind::Symbol("==")), false) => Condition::Eq,
            (Some(Kind::Symbol("!=")), false) => Condition::Ne,
            (Some(Kind::Symbol("&")), false) => Condition::Set,
            (Some(Kind::Symbol(">")), false) => Condition::Gt,
            (Some(Kind::Symbol(">=")), false) => Condition::Ge,
            (Some(Kind::Symbol("<")), false) => Condition::Lt,
            (Some(Kind::Symbol("<=")), false) => Condition::Le,
            (Some(Kind::Symbol(">")), true) => Condition::SGt,
            (Some(Kind::Symbol(">=")), true) => Condition::SGe,
            (Some(Kind::Symbol("<")), true) => Condition::SLt,
            (Some(Kind::Symbol("<=")), true) => Condition::SLe,
            _ => return Err(self.c.error_before("expected a comparison: == != & > >= < <= s> s>= s< s<=")),
        };
        let src = if self.c.at_number() {
            let (value, hex) = self.c.number()?;
            // The kernel's log prints -1 as 0xffffffff here.
            Operand::Imm(self.c.fit(value, hex, hex || width == Width::W32)?)
        } else {
            Operand::Reg(self.same_width(width)?)
        };
        if !self.c.take_word("goto") {
            return Err(self.c.error("expected `goto`"));
        }
        Ok(Insn::Branch { width, cond, dst, src, target: self.target()? })
    }

    /// A register of that width.
    pub fn same_width(&mut self, width: Width) -> Result<Reg> {
        match self.c.register()? {
            (r, w) if w == width => Ok(r),
            _ => Err(self.c.error_before("both registers must be `r` or both `w`")),
        }
    }

    fn callee(&mut self) -> Result<Callee<Func<'a>>> {
        if self.c.at_number() {
            return Ok(Callee::Helper(self.c.imm(false)?));
        }
        let relative = matches!(self.c.peek_second(), Some(Kind::Symbol("+" | "-")));
        let bracket = self.c.peek_second() == Some(Kind::Symbol("["));
        if relative && self.c.take_word("pc") {
            let distance = self.c.imm(false)?;
            // bpftool adds the name that the kernel gave the function.
            if self.c.take("#") {
                self.c.name()?;
            }
            return Ok(Callee::Local(Func::Distance(distance)));
        }
        if bracket && self.c.take_word("func") {
            return Ok(Callee::Local(self.func()?));
        }
        if bracket && self.c.take_word("extern") {
            return Ok(Callee::Extern(self.bracketed_number()?));
        }
        if bracket && self.c.take_word("kfunc") {
            return self.kfunc();
        }
        let quoted = matches!(self.c.peek(), Some(Kind::Quoted(_)));
        let name = self.c.name()?;
        let helper = name.strip_prefix("bpf_").filter(|_| !quoted).and_then(helper::id);
        if self.c.take("#") {
            let id = self.c.imm(false)?;
            return match helper {
                Some(helper) if helper == id => Ok(Callee::Helper(id)),
                None if self.dialect.log && name != "unknown" => Ok(Callee::Kfunc { id, off: 0 }),
                Some(_) => Err(self.c.error_before(format!("not the number of the helper {name}"))),
                None => Err(self.c.error_before("no such helper; a kernel function is `kfunc[id:N]` with its BTF id")),
            };
        }
        Ok(helper.map_or(Callee::Local(Func::Name(name)), Callee::Helper))
    }

    /// `[name]`, `[+5]` or `[idx:2]`.
    pub fn func(&mut self) -> Result<Func<'a>> {
        self.c.expect("[")?;
        let func = if self.c.at_number() {
            Func::Distance(self.c.imm(false)?)
        } else if self.key("idx") {
            Func::Index(self.c.unsigned()?)
        } else {
            Func::Name(self.c.name()?)
        };
        self.c.expect("]")?;
        Ok(func)
    }

    /// `@patched 3`
    fn patch(&mut self) -> Result<Option<Patch>> {
        if !self.c.take("@") {
            return Ok(None);
        }
        if !self.c.take_word("patched") {
            return Err(self.c.error("expected `patched`"));
        }
        Ok(Some(Patch(self.c.unsigned()?)))
    }

    /// Passes `key:`.
    pub fn key(&mut self, key: &str) -> bool {
        self.c.peek_second() == Some(Kind::Symbol(":")) && self.c.take_word(key) && self.c.take(":")
    }

    /// `[2]`
    pub fn bracketed_number(&mut self) -> Result<u32> {
        self.c.expect("[")?;
        let n = self.c.unsigned()?;
        self.c.expect("]")?;
        Ok(n)
    }

    /// `[id:123]` or `[id:123 off:1]`.
    fn kfunc(&mut self) -> Result<Callee<Func<'a>>> {
        self.c.expect("[")?;
        if !self.key("id") {
            return Err(self.c.error("expected `id:` and the BTF id of the kernel function"));
        }
        let id = self.c.imm(false)?;
        let off = if self.key("off") { self.c.offset()? } else { 0 };
        self.c.expect("]")?;
        Ok(Callee::Kfunc { id, off })
    }

    /// `*(u8 *)(r1 + 4) = r2`, after the `*`.
    fn store(&mut self) -> Result<Written<'a>> {
        let (size, signed) = self.c.pointer_type()?;
        if signed {
            return Err(self.c.error_before("stores have no sign: use `u8` to `u64`"));
        }
        self.c.expect("(")?;
        let (base, off) = self.c.address()?;
        self.c.expect(")")?;
        self.c.expect("=")?;
        let src = if self.c.at_number() {
            Operand::Imm(self.c.imm(size != Size::D)?)
        } else {
            Operand::Reg(self.c.value_register(size)?)
        };
        Ok(Insn::Store { size, base, off, src })
    }

    /// `*(u64 *)(r1 + 0) += r2`, after `lock`.
    fn lock(&mut self) -> Result<Written<'a>> {
        self.c.expect("*")?;
        let (size, signed) = self.c.pointer_type()?;
        if signed || !matches!(size, Size::W | Size::D) {
            return Err(self.c.error_before("atomic operations are on `u32` or `u64`"));
        }
        self.c.expect("(")?;
        let (base, off) = self.c.address()?;
        self.c.expect(")")?;
        let op = match self.c.next() {
            Some(Kind::Symbol("+=")) => AtomicOp::Add,
            Some(Kind::Symbol("|=")) => AtomicOp::Or,
            Some(Kind::Symbol("&=")) => AtomicOp::And,
            Some(Kind::Symbol("^=")) => AtomicOp::Xor,
            _ => return Err(self.c.error_before("expected an atomic operation: += |= &= ^=")),
        };
        Ok(Insn::Atomic { op, fetch: false, size, base, off, src: self.c.value_register(size)? })
    }

    /// `((u64 *)(r1 + 0), r2)`
    fn store_release(&mut self) -> Result<Written<'a>> {
        self.c.expect("(")?;
        let (size, base, off) = self.typed_address()?;
        self.c.expect(",")?;
        let src = self.c.value_register(size)?;
        self.c.expect(")")?;
        Ok(Insn::StoreRelease { size, base, off, src })
    }

    /// `(u64 *)(r1 + 0)`
    pub fn typed_address(&mut self) -> Result<(Size, Reg, i16)> {
        let (size, signed) = self.c.pointer_type()?;
        if signed {
            return Err(self.c.error_before("only unsigned types stand here"));
        }
        self.c.expect("(")?;
        let (base, off) = self.c.address()?;
        self.c.expect(")")?;
        Ok((size, base, off))
    }

    fn assignment(&mut self) -> Result<Written<'a>> {
        let (dst, width) = self.c.register()?;
        if self.c.take("=") {
            return self.value(dst, width);
        }
        let signed = self.c.take_word("s");
        let op = match (self.c.next(), signed) {
            (Some(Kind::Symbol("+=")), false) => AluOp::Add,
            (Some(Kind::Symbol("-=")), false) => AluOp::Sub,
            (Some(Kind::Symbol("*=")), false) => AluOp::Mul,
            (Some(Kind::Symbol("/=")), false) => AluOp::Div,
            (Some(Kind::Symbol("%=")), false) => AluOp::Mod,
            (Some(Kind::Symbol("|=")), false) => AluOp::Or,
            (Some(Kind::Symbol("&=")), false) => AluOp::And,
            (Some(Kind::Symbol("^=")), false) => AluOp::Xor,
            (Some(Kind::Symbol("<<=")), false) => AluOp::Lsh,
            (Some(Kind::Symbol(">>=")), false) => AluOp::Rsh,
            (Some(Kind::Symbol("/=")), true) => AluOp::SDiv,
            (Some(Kind::Symbol("%=")), true) => AluOp::SMod,
            (Some(Kind::Symbol(">>=")), true) => AluOp::Arsh,
            _ => return Err(self.c.error_before("expected = += -= *= /= s/= %= s%= |= &= ^= <<= >>= or s>>=")),
        };
        let src = if self.c.at_number() {
            Operand::Imm(self.c.imm(width == Width::W32)?)
        } else {
            Operand::Reg(self.same_width(width)?)
        };
        Ok(Insn::Alu { width, op, dst, src })
    }
}
