//! Where a field lies and how it is read.

use super::Question;
use super::spec::Spec;
use crate::btf::{Btf, Kind};
use crate::link::error::{LinkError, invalid};

/// A field at the end of a path.
pub(super) struct Field {
    /// Bytes from the start of the root to where it is read.
    pub byte_offset: u64,
    /// Bytes that are read.
    pub bytes: u32,
    /// Whether it is a bit field.
    pub is_bit_field: bool,
    /// Kind behind typedefs.
    pub kind: Kind,
    bit_offset: u64,
    bits: u32,
    is_signed: bool,
    /// Whether the path ends at a named member.
    is_member: bool,
}

impl Field {
    pub fn new(btf: &Btf, spec: &Spec) -> Result<Field, LinkError> {
        let Some(last) = spec.steps.last() else {
            return invalid("the path is empty");
        };
        let (ty, bits) = match last.is_member {
            false => (last.ty, 0),
            true => match btf.get(last.ty)?.members().nth(last.index as usize) {
                Some(member) => (member.ty, member.bit_size),
                None => return invalid("the path names no member"),
            },
        };
        let resolved = btf.resolve(ty)?;
        let is_signed = match resolved.kind {
            Kind::Int => resolved.int().is_some_and(|i| i.is_signed),
            kind => kind.is_enum() && resolved.flag,
        };
        // What has no size, such as a function, can still be asked for its place.
        let bytes = btf.size_of(ty).unwrap_or(0);
        let mut field = Field {
            byte_offset: spec.bit_offset / 8,
            bytes,
            is_bit_field: bits > 0,
            kind: resolved.kind,
            bit_offset: spec.bit_offset,
            bits: if bits > 0 { bits } else { bytes.saturating_mul(8) },
            is_signed,
            is_member: last.is_member,
        };
        if field.is_bit_field {
            field.widen()?;
        }
        Ok(field)
    }

    /// Chooses an aligned place to read a whole bit field from.
    fn widen(&mut self) -> Result<(), LinkError> {
        self.bytes = self.bytes.max(1);
        loop {
            self.byte_offset = self.bit_offset / 8 / self.bytes as u64 * self.bytes as u64;
            if self.bit_offset + self.bits as u64 - self.byte_offset * 8 <= self.bytes as u64 * 8 {
                return Ok(());
            }
            if self.bytes >= 8 {
                return invalid("the bit field cannot be read at once");
            }
            self.bytes *= 2;
        }
    }

    /// The answer to a question; `None` for those that only members have.
    pub fn value(&self, question: Question) -> Result<Option<u64>, LinkError> {
        let shift = |used: u64| match 64u64.checked_sub(used) {
            Some(shift) => Ok(shift),
            None => invalid("the field is wider than 64 bits"),
        };
        Ok(Some(match question {
            Question::FieldOffset => self.byte_offset,
            Question::FieldSize => self.bytes as u64,
            Question::FieldExists => 1,
            _ if !self.is_member => return Ok(None),
            Question::FieldSigned => self.is_signed as u64,
            Question::FieldLeftShift => shift(self.bit_offset + self.bits as u64 - self.byte_offset * 8)?,
            _ => shift(self.bits as u64)?,
        }))
    }

    /// Whether a load of another size, with zeros above, would still yield the value.
    pub fn may_resize(&self) -> bool {
        self.kind == Kind::Pointer || (self.kind == Kind::Int && !self.is_signed)
    }
}
