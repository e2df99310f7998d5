//! When a type of a program and a type of the kernel are taken to be the same.

use crate::btf::{Btf, Int, Kind, Type};
use crate::link::error::{LinkError, invalid};

/// Longest chain of types compared.
const MAX_DEPTH: usize = 32;

/// A name without its flavour: what follows the last triple underscore (`task_struct___old`).
pub(crate) fn essential_name(name: &str) -> &str {
    let bytes = name.as_bytes();
    let is_mark = |i: usize| bytes[i] != b'_' && bytes[i + 1..i + 4] == *b"___" && bytes[i + 4] != b'_';
    match (0..bytes.len().saturating_sub(4)).rev().find(|i| is_mark(*i)) {
        // The marks are ASCII, so that a character ends before the first.
        Some(i) => name.get(..i + 1).unwrap_or(name),
        None => name,
    }
}

/// Whether two types are of one kind; enumerations of both widths are.
pub(super) fn same_kind(a: &Type, b: &Type) -> bool {
    a.kind == b.kind || (a.kind.is_enum() && b.kind.is_enum())
}

fn plain_ints(a: &Type, b: &Type) -> bool {
    let offset = |t: &Type| t.int().map(|i| i.offset);
    offset(a) == Some(0) && offset(b) == Some(0)
}

/// Whether a field of one type can be read as a field of the other: the size of integers may differ,
/// what pointers point to does not matter.
pub(super) fn fields_compatible(local: &Btf, a: u32, kernel: &Btf, b: u32) -> Result<bool, LinkError> {
    let (mut a, mut b) = (local.resolve(a)?, kernel.resolve(b)?);
    for _ in 0..MAX_DEPTH {
        if a.kind.is_composite() && b.kind.is_composite() {
            return Ok(true);
        }
        if !same_kind(&a, &b) {
            return Ok(false);
        }
        match (a.array(), b.array()) {
            (Some(x), Some(y)) => (a, b) = (local.resolve(x.element)?, kernel.resolve(y.element)?),
            _ => return Ok(leaf_fields_compatible(&a, &b)),
        }
    }
    invalid("types are nested too deeply")
}

fn leaf_fields_compatible(a: &Type, b: &Type) -> bool {
    match a.kind {
        Kind::Pointer | Kind::Float => true,
        Kind::Int => plain_ints(a, b),
        Kind::Forward | Kind::Enum | Kind::Enum64 => {
            a.name.is_empty() || b.name.is_empty() || essential_name(a.name) == essential_name(b.name)
        }
        _ => false,
    }
}

/// Whether two types of the same name are the same thing, whatever their members.
pub(crate) fn is_compatible(local: &Btf, a: u32, kernel: &Btf, b: u32) -> Result<bool, LinkError> {
    if !same_kind(&local.get(a)?, &kernel.get(b)?) {
        return Ok(false);
    }
    compatible_within(local, a, kernel, b, MAX_DEPTH)
}

fn compatible_within(local: &Btf, a: u32, kernel: &Btf, b: u32, depth: usize) -> Result<bool, LinkError> {
    let Some(depth) = depth.checked_sub(1) else {
        return invalid("types are nested too deeply");
    };
    let (a, b) = (local.resolve(a)?, kernel.resolve(b)?);
    let inner = |t: &Type| t.inner().unwrap_or(0);
    if !same_kind(&a, &b) {
        return Ok(false);
    }
    match a.kind {
        Kind::Void | Kind::Struct | Kind::Union | Kind::Enum | Kind::Enum64 | Kind::Forward => Ok(true),
        Kind::Int => Ok(plain_ints(&a, &b)),
        Kind::Pointer => compatible_within(local, inner(&a), kernel, inner(&b), depth),
        Kind::Array => {
            let element = |t: &Type| t.array().map_or(0, |x| x.element);
            compatible_within(local, element(&a), kernel, element(&b), depth)
        }
        Kind::Prototype => {
            if a.count() != b.count() {
                return Ok(false);
            }
            for (x, y) in a.parameters().zip(b.parameters()) {
                if !compatible_within(local, x.ty, kernel, y.ty, depth)? {
                    return Ok(false);
                }
            }
            compatible_within(local, inner(&a), kernel, inner(&b), depth)
        }
        _ => Ok(false),
    }
}

/// Whether a type of the kernel has at least the members of a local one, with the same names and types.
pub(super) fn matches(local: &Btf, a: u32, kernel: &Btf, b: u32) -> Result<bool, LinkError> {
    Matcher { local, kernel }.types(a, b, false, MAX_DEPTH)
}

struct Matcher<'a> {
    local: &'a Btf,
    kernel: &'a Btf,
}

impl Matcher<'_> {
    fn types(&self, a: u32, b: u32, behind_pointer: bool, depth: usize) -> Result<bool, LinkError> {
        let Some(depth) = depth.checked_sub(1) else {
            return invalid("types are nested too deeply");
        };
        let (a, b) = (self.local.resolve(a)?, self.kernel.resolve(b)?);
        if essential_name(a.name) != essential_name(b.name) {
            return Ok(false);
        }
        let inner = |t: &Type| t.inner().unwrap_or(0);
        match a.kind {
            Kind::Struct | Kind::Union | Kind::Forward if behind_pointer => Ok(named_alike(&a, &b)),
            Kind::Enum | Kind::Enum64 => Ok(b.kind.is_enum() && variants_match(&a, &b)),
            kind if kind != b.kind => Ok(false),
            Kind::Void => Ok(true),
            Kind::Forward => Ok(a.flag == b.flag),
            Kind::Int => {
                let signed = |i: Option<Int>| i.map(|i| i.is_signed);
                Ok(a.size() == b.size() && signed(a.int()) == signed(b.int()))
            }
            Kind::Struct | Kind::Union => self.members(&a, &b, depth),
            Kind::Pointer => self.types(inner(&a), inner(&b), true, depth),
            Kind::Array => match (a.array(), b.array()) {
                (Some(x), Some(y)) if x.count == y.count => self.types(x.element, y.element, behind_pointer, depth),
                _ => Ok(false),
            },
            Kind::Prototype => {
                if a.count() != b.count() {
                    return Ok(false);
                }
                for (x, y) in a.parameters().zip(b.parameters()) {
                    if !self.types(x.ty, y.ty, behind_pointer, depth)? {
                        return Ok(false);
                    }
                }
                self.types(inner(&a), inner(&b), behind_pointer, depth)
            }
            _ => Ok(false),
        }
    }

    fn members(&self, a: &Type, b: &Type, depth: usize) -> Result<bool, LinkError> {
        if a.count() > b.count() {
            return Ok(false);
        }
        for x in a.members() {
            let mut found = false;
            for y in b.members().filter(|y| essential_name(y.name) == essential_name(x.name)) {
                if self.types(x.ty, y.ty, false, depth)? {
                    found = true;
                    break;
                }
            }
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Structures behind pointers: only what they are called counts, and a declaration is as good as a definition.
fn named_alike(a: &Type, b: &Type) -> bool {
    let is_union = |t: &Type| match t.kind {
        Kind::Struct => Some(false),
        Kind::Union => Some(true),
        Kind::Forward => Some(t.flag),
        _ => None,
    };
    is_union(a) == is_union(b)
}

fn variants_match(a: &Type, b: &Type) -> bool {
    a.count() <= b.count()
        && a.variants().all(|x| b.variants().any(|y| essential_name(x.name) == essential_name(y.name)))
}

#[cfg(test)]
mod tests {
    use super::essential_name;

    #[test]
    fn flavours_are_cut_off() {
        assert_eq!(essential_name("task_struct___old"), "task_struct");
        assert_eq!(essential_name("a___b___c"), "a___b");
        assert_eq!(essential_name("__u32"), "__u32");
        assert_eq!(essential_name("___x"), "___x");
        assert_eq!(essential_name("x____y"), "x____y");
        assert_eq!(essential_name("x___"), "x___");
    }
}
