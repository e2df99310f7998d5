//! The kinds of types and what they are made of.

use super::Btf;
use crate::bytes::u32_at;

/// `struct btf_type`.
pub(crate) const HEAD_BYTES: usize = 12;

/// `BTF_KIND_*`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Void,
    Int,
    Pointer,
    Array,
    Struct,
    Union,
    Enum,
    Forward,
    Typedef,
    Volatile,
    Const,
    Restrict,
    Function,
    Prototype,
    Variable,
    DataSection,
    Float,
    DeclTag,
    TypeTag,
    Enum64,
}

impl Kind {
    const ALL: [Kind; 20] = [
        Kind::Void,
        Kind::Int,
        Kind::Pointer,
        Kind::Array,
        Kind::Struct,
        Kind::Union,
        Kind::Enum,
        Kind::Forward,
        Kind::Typedef,
        Kind::Volatile,
        Kind::Const,
        Kind::Restrict,
        Kind::Function,
        Kind::Prototype,
        Kind::Variable,
        Kind::DataSection,
        Kind::Float,
        Kind::DeclTag,
        Kind::TypeTag,
        Kind::Enum64,
    ];

    pub(crate) fn from_number(number: u32) -> Option<Kind> {
        Kind::ALL.get(number as usize).copied().filter(|k| *k != Kind::Void)
    }

    /// Bytes after the head, for that many members, parameters, values or variables.
    pub(crate) fn tail_bytes(self, count: usize) -> usize {
        match self {
            Kind::Int | Kind::Variable | Kind::DeclTag => 4,
            Kind::Array => 12,
            Kind::Struct | Kind::Union | Kind::DataSection | Kind::Enum64 => 12 * count,
            Kind::Enum | Kind::Prototype => 8 * count,
            _ => 0,
        }
    }

    /// `const`, `volatile`, `restrict`, type tags: they change nothing about the values.
    pub fn is_qualifier(self) -> bool {
        matches!(self, Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag)
    }

    /// Structures and unions.
    pub fn is_composite(self) -> bool {
        matches!(self, Kind::Struct | Kind::Union)
    }

    /// Enumerations of either width.
    pub fn is_enum(self) -> bool {
        matches!(self, Kind::Enum | Kind::Enum64)
    }
}

/// Encoding of an integer type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Int {
    /// Whether it is signed.
    pub is_signed: bool,
    /// Whether it is `_Bool`.
    pub is_bool: bool,
    /// Bits from the start of its storage.
    pub offset: u32,
    /// Width in bits.
    pub bits: u32,
}

/// An array type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array {
    /// Type of the elements.
    pub element: u32,
    /// Type of the index.
    pub index: u32,
    /// Number of elements.
    pub count: u32,
}

/// Member of a structure or union.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member<'a> {
    /// Name; empty for anonymous members.
    pub name: &'a str,
    /// Type.
    pub ty: u32,
    /// Bits from the start of the structure.
    pub bit_offset: u32,
    /// Width of a bit field, 0 for other members.
    pub bit_size: u32,
}

/// Parameter of a function; name and type 0 stand for `...`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter<'a> {
    /// Name.
    pub name: &'a str,
    /// Type.
    pub ty: u32,
}

/// A named value of an enumeration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant<'a> {
    /// Name.
    pub name: &'a str,
    /// Value; negative ones in two's complement.
    pub value: u64,
}

/// A variable inside a data section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its variable (or function) type.
    pub ty: u32,
    /// Bytes from the start of the section; 0 before linking.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
}

/// Visibility of a variable or function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// Known inside the object only.
    Static,
    /// Visible to the linker.
    Global,
    /// Defined elsewhere.
    Extern,
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a> {
    /// Its id.
    pub id: u32,
    /// Name; empty when it has none.
    pub name: &'a str,
    /// Kind.
    pub kind: Kind,
    /// The kind's flag: a union for forward declarations, signed for enumerations, bit fields for structures.
    pub flag: bool,
    /// Number of members, parameters, values or variables; the linkage of functions.
    count: u32,
    size_or_type: u32,
    tail: &'a [u8],
    btf: &'a Btf,
}

impl<'a> Type<'a> {
    pub(crate) fn void(btf: &'a Btf) -> Type<'a> {
        Type { id: 0, name: "", kind: Kind::Void, flag: false, count: 0, size_or_type: 0, tail: &[], btf }
    }

    pub(crate) fn parse(btf: &'a Btf, id: u32, bytes: &'a [u8]) -> Option<Type<'a>> {
        let info = u32_at(bytes, 4)?;
        Some(Type {
            id,
            name: btf.string(u32_at(bytes, 0)?)?,
            kind: Kind::from_number(info >> 24 & 31)?,
            flag: info >> 31 == 1,
            count: info & 0xffff,
            size_or_type: u32_at(bytes, 8)?,
            tail: &bytes[HEAD_BYTES..],
            btf,
        })
    }

    /// Size in bytes, for kinds that say it themselves; see [`Btf::size_of`] for the others.
    pub fn size(&self) -> Option<u32> {
        use Kind::*;
        matches!(self.kind, Int | Struct | Union | Enum | Enum64 | Float | DataSection).then_some(self.size_or_type)
    }

    /// The type that it points to, qualifies, renames, returns or tags.
    pub fn inner(&self) -> Option<u32> {
        use Kind::*;
        let refers = self.kind.is_qualifier()
            || matches!(self.kind, Pointer | Typedef | Function | Prototype | Variable | DeclTag);
        refers.then_some(self.size_or_type)
    }

    /// Number of members, parameters, values or variables.
    pub fn count(&self) -> usize {
        if self.kind == Kind::Function { 0 } else { self.count as usize }
    }

    /// Encoding, of integers.
    pub fn int(&self) -> Option<Int> {
        let word = u32_at(self.tail, 0).filter(|_| self.kind == Kind::Int)?;
        let encoding = word >> 24 & 15;
        Some(Int {
            is_signed: encoding & 1 != 0,
            is_bool: encoding & 4 != 0,
            offset: word >> 16 & 0xff,
            bits: word & 0xff,
        })
    }

    /// Elements, of arrays.
    pub fn array(&self) -> Option<Array> {
        let word = |at| u32_at(self.tail, at).filter(|_| self.kind == Kind::Array);
        Some(Array { element: word(0)?, index: word(4)?, count: word(8)? })
    }

    /// Members, of structures and unions; nothing for other kinds.
    pub fn members(&self) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let (btf, flag) = (self.btf, self.flag);
        self.chunks(12, self.kind.is_composite()).filter_map(move |c| {
            let offset = u32_at(c, 8)?;
            let (bit_offset, bit_size) = if flag { (offset & 0xff_ffff, offset >> 24) } else { (offset, 0) };
            Some(Member { name: btf.string(u32_at(c, 0)?)?, ty: u32_at(c, 4)?, bit_offset, bit_size })
        })
    }

    /// Parameters, of function prototypes.
    pub fn parameters(&self) -> impl Iterator<Item = Parameter<'a>> + use<'a> {
        let btf = self.btf;
        self.chunks(8, self.kind == Kind::Prototype)
            .filter_map(move |c| Some(Parameter { name: btf.string(u32_at(c, 0)?)?, ty: u32_at(c, 4)? }))
    }

    /// Named values, of enumerations.
    pub fn variants(&self) -> impl Iterator<Item = Variant<'a>> + use<'a> {
        let (btf, signed, wide) = (self.btf, self.flag, self.kind == Kind::Enum64);
        self.chunks(if wide { 12 } else { 8 }, self.kind.is_enum()).filter_map(move |c| {
            let low = u32_at(c, 4)?;
            let value = match wide {
                true => low as u64 | (u32_at(c, 8)? as u64) << 32,
                false if signed => low as i32 as i64 as u64,
                false => low as u64,
            };
            Some(Variant { name: btf.string(u32_at(c, 0)?)?, value })
        })
    }

    /// Variables, of data sections.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + use<'a> {
        self.chunks(12, self.kind == Kind::DataSection)
            .filter_map(|c| Some(Variable { ty: u32_at(c, 0)?, offset: u32_at(c, 4)?, size: u32_at(c, 8)? }))
    }

    /// Linkage, of variables and functions.
    pub fn linkage(&self) -> Option<Linkage> {
        let number = match self.kind {
            Kind::Variable => u32_at(self.tail, 0)?,
            Kind::Function => self.count,
            _ => return None,
        };
        [Linkage::Static, Linkage::Global, Linkage::Extern].get(number as usize).copied()
    }

    /// Which member or parameter a declaration tag is about; `None` for the whole.
    pub fn tag_component(&self) -> Option<u32> {
        u32_at(self.tail, 0).filter(|n| self.kind == Kind::DeclTag && *n != u32::MAX)
    }

    fn chunks(&self, bytes: usize, applies: bool) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        if applies { self.tail } else { &[] }.chunks_exact(bytes)
    }
}
