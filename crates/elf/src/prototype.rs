//! What an object's types say of the kernel functions it calls.

use crate::btf::{Btf, Kind, Type};
use karakoram_bpf::program::Prototype;

/// Bytes in a register.
const REGISTER_BYTES: u32 = 8;

/// The prototype of the kernel function of that name.
pub(crate) fn prototype(btf: Option<&Btf>, name: &str) -> Prototype {
    let function = btf.and_then(|btf| Some((btf, btf.find(name, Kind::Function)?)));
    Prototype { name: name.to_string(), arguments: function.and_then(|(btf, ty)| arguments(btf, &ty)) }
}

/// Argument registers, when each parameter takes one.
fn arguments(btf: &Btf, function: &Type) -> Option<u8> {
    let prototype = btf.get(function.inner()?).ok()?;
    let fits = |id| match btf.resolve(id) {
        Ok(ty) if ty.kind.is_enum() || matches!(ty.kind, Kind::Int | Kind::Pointer) => {
            btf.size_of(id).is_ok_and(|bytes| bytes <= REGISTER_BYTES)
        }
        _ => false,
    };
    let count = prototype.parameters().filter(|p| fits(p.ty)).count();
    // Also says no to variable arguments, which count as a parameter of type void.
    (count == prototype.count() && count <= 5).then_some(count as u8)
}
