//! Questions about types that need more than one of them.

use super::{Btf, BtfError, Kind, Type, bad};

/// Longest chain of typedefs, qualifiers or array dimensions followed.
const MAX_DEPTH: usize = 32;

impl Btf {
    /// The type behind qualifiers and typedefs.
    pub fn resolve(&self, id: u32) -> Result<Type<'_>, BtfError> {
        let mut ty = self.get(id)?;
        for _ in 0..MAX_DEPTH {
            match ty.inner() {
                Some(inner) if ty.kind.is_qualifier() || ty.kind == Kind::Typedef => ty = self.get(inner)?,
                _ => return Ok(ty),
            }
        }
        bad(format!("type {id} is an endless chain"))
    }

    /// Size in bytes of a value of the type.
    pub fn size_of(&self, id: u32) -> Result<u32, BtfError> {
        let mut count = 1u32;
        let mut ty = self.resolve(id)?;
        for _ in 0..MAX_DEPTH {
            let size = match ty.kind {
                Kind::Array => {
                    let array = ty.array().ok_or_else(|| BtfError("an array is cut off".into()))?;
                    count = count.checked_mul(array.count).ok_or_else(|| BtfError("an array is too large".into()))?;
                    ty = self.resolve(array.element)?;
                    continue;
                }
                Kind::Pointer => 8,
                Kind::Variable => {
                    ty = self.resolve(ty.inner().unwrap_or(0))?;
                    continue;
                }
                _ => match ty.size() {
                    Some(size) => size,
                    None => return bad(format!("type {id} has no size")),
                },
            };
            return count.checked_mul(size).ok_or_else(|| BtfError(format!("type {id} is too large")));
        }
        bad(format!("type {id} is nested too deeply"))
    }

    /// Alignment in bytes of a value of the type.
    pub fn align_of(&self, id: u32) -> Result<u32, BtfError> {
        self.align_within(id, MAX_DEPTH)
    }

    fn align_within(&self, id: u32, depth: usize) -> Result<u32, BtfError> {
        let Some(depth) = depth.checked_sub(1) else {
            return bad(format!("type {id} is nested too deeply"));
        };
        let ty = self.resolve(id)?;
        match ty.kind {
            Kind::Int | Kind::Enum | Kind::Enum64 | Kind::Float => Ok(ty.size().unwrap_or(1).clamp(1, 8)),
            Kind::Pointer => Ok(8),
            Kind::Array => self.align_within(ty.array().map_or(0, |a| a.element), depth),
            Kind::Struct | Kind::Union => {
                let mut align = 1;
                for member in ty.members() {
                    let wanted = self.align_within(member.ty, depth)?;
                    if member.bit_offset.is_multiple_of(8 * wanted) {
                        align = align.max(wanted);
                    }
                }
                Ok(align)
            }
            _ => bad(format!("type {id} has no alignment")),
        }
    }

    /// The first type of that name and kind.
    pub fn find(&self, name: &str, kind: Kind) -> Option<Type<'_>> {
        self.types().find(|t| t.kind == kind && t.name == name)
    }
}
