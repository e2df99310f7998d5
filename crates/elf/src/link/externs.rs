//! Extern symbols: kernel configuration, kernel variables, kernel functions.

use super::Target;
use super::core::{essential_name, is_compatible};
use super::error::{LinkError, invalid, missing};
use crate::btf::{Btf, Kind, Linkage, Type};
use crate::object::Object;
use crate::symbol::Symbol;
use std::collections::HashMap;

/// Values of `enum libbpf_tristate`.
const TRISTATE: [(&str, u64); 3] = [("n", 0), ("y", 1), ("m", 2)];
/// What makes the kernel say which instruction called a function that it does not have.
const POISON_CALL: i32 = 2_002_000_000;

/// What an extern symbol is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resolution {
    /// A variable in the configuration map, at that offset.
    Config(u32),
    /// An address, 0 for a weak symbol that the kernel does not have.
    Address(u64),
    /// A variable or function of the kernel, by BTF id.
    Typed(u32),
    /// A weak function that the kernel does not have: calling it must not be reachable.
    Absent(i32),
}

/// All extern symbols of an object, resolved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Externs {
    by_symbol: HashMap<u32, Resolution>,
    config: Vec<u8>,
    config_offsets: HashMap<String, u32>,
}

impl Externs {
    /// Resolves the symbols in `used`, and lays out the configuration variables of the whole object.
    pub fn resolve(object: &Object, used: &[u32], target: &Target) -> Result<Externs, LinkError> {
        let mut externs = Externs::default();
        let Some(btf) = &object.btf else {
            return match used.first().and_then(|n| object.symbols.get(*n)) {
                Some(symbol) => invalid(format!("extern symbol {} has no type: the object has no BTF", symbol.name)),
                None => Ok(externs),
            };
        };
        externs.lay_out_config(object, btf, used, target)?;
        for &number in used {
            let Some(symbol) = object.symbols.get(number) else {
                return invalid(format!("symbol {number} does not exist"));
            };
            let resolution = match externs.config_offsets.get(&symbol.name) {
                Some(offset) => Resolution::Config(*offset),
                None => kernel_symbol(btf, number, symbol, target)?,
            };
            externs.by_symbol.insert(number, resolution);
        }
        Ok(externs)
    }

    /// What an extern symbol is.
    pub fn get(&self, symbol: u32) -> Option<Resolution> {
        self.by_symbol.get(&symbol).copied()
    }

    /// Contents of the configuration map.
    pub fn config(&self) -> &[u8] {
        &self.config
    }

    /// Place of a configuration variable.
    pub fn config_offset(&self, name: &str) -> Option<u32> {
        self.config_offsets.get(name).copied()
    }

    fn lay_out_config(&mut self, object: &Object, btf: &Btf, used: &[u32], target: &Target) -> Result<(), LinkError> {
        let Some(section) = btf.find(".kconfig", Kind::DataSection) else { return Ok(()) };
        let mut variables = Vec::new();
        for variable in section.variables() {
            let ty = btf.get(variable.ty)?;
            let inner = ty.inner().unwrap_or(0);
            variables.push((btf.align_of(inner)?, btf.size_of(inner)?, ty.name, inner));
        }
        // Widest alignment first leaves no holes.
        variables.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(b.2)));
        for (align, size, name, ty) in variables {
            let offset = self.config.len().next_multiple_of(align.max(1) as usize);
            let symbol = object.symbols.iter().find(|(_, s)| s.is_undefined && s.name == name);
            let is_used = symbol.is_some_and(|(n, _)| used.contains(&n));
            let value = config_value(btf, name, ty, size, target)?;
            if value.is_none() && is_used && !symbol.is_some_and(|(_, s)| s.is_weak) {
                return missing(format!("configuration option {name}, or its configuration is not known"));
            }
            self.config.resize(offset, 0);
            self.config.extend(value.unwrap_or_else(|| vec![0; size as usize]));
            self.config_offsets.insert(name.to_string(), offset as u32);
        }
        Ok(())
    }
}

/// The bytes of a configuration variable; `None` when the option is not set or not known.
fn config_value(btf: &Btf, name: &str, ty: u32, size: u32, target: &Target) -> Result<Option<Vec<u8>>, LinkError> {
    let number = |n: u64| Some(n.to_le_bytes()[..(size as usize).min(8)].to_vec());
    // Names that libbpf makes up. Kernels with BTF for modules are recent enough for the last one.
    match name {
        "LINUX_KERNEL_VERSION" => return Ok(number(target.kernel_version as u64)),
        "LINUX_HAS_BPF_COOKIE" => return Ok(number((target.kernel_version >= 0x05_0f_00) as u64)),
        "LINUX_HAS_SYSCALL_WRAPPER" => return Ok(number((target.kernel_version >= 0x04_11_00) as u64)),
        _ => {}
    }
    let Some(text) = target.config.and_then(|config| config(name)) else { return Ok(None) };
    let ty = btf.resolve(ty)?;
    if let Some(quoted) = text.strip_prefix('"') {
        let text = quoted.strip_suffix('"').unwrap_or(quoted);
        if ty.kind != Kind::Array {
            return invalid(format!("configuration option {name} is a text, its variable is not"));
        }
        let mut bytes = text.as_bytes().to_vec();
        bytes.truncate((size as usize).saturating_sub(1));
        bytes.resize(size as usize, 0);
        return Ok(Some(bytes));
    }
    if let Some((letter, value)) = TRISTATE.iter().find(|(letter, _)| *letter == text) {
        let is_char = ty.kind == Kind::Int && size == 1 && !ty.int().is_some_and(|i| i.is_bool);
        return Ok(number(if is_char { letter.as_bytes()[0] as u64 } else { *value }));
    }
    match parse_number(&text) {
        Some(value) if ty.kind == Kind::Int => Ok(number(value)),
        _ => invalid(format!("configuration option {name} is {text}, which does not suit its variable")),
    }
}

fn parse_number(text: &str) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

fn kernel_symbol(btf: &Btf, number: u32, symbol: &Symbol, target: &Target) -> Result<Resolution, LinkError> {
    let Some(declared) = declaration(btf, &symbol.name) else {
        return invalid(format!("extern symbol {} has no type", symbol.name));
    };
    let is_kernels = |section: Type| section.variables().any(|v| v.ty == declared.id);
    if !btf.find(".ksyms", Kind::DataSection).is_some_and(is_kernels) {
        let name = &symbol.name;
        return invalid(format!("{name} is defined in another object: link them first (bpftool gen object)"));
    }
    let inner = btf.resolve(declared.inner().unwrap_or(0))?;
    if declared.kind == Kind::Variable && inner.kind == Kind::Void {
        let address = target.kernel_symbols.and_then(|find| find(&symbol.name));
        return match address {
            Some(address) => Ok(Resolution::Address(address)),
            None if symbol.is_weak => Ok(Resolution::Address(0)),
            None => missing(format!("symbol {}, or its symbols are not known", symbol.name)),
        };
    }
    let Some(kernel) = target.btf else {
        return missing(format!("BTF, which is needed to find {}", symbol.name));
    };
    match kernel.find(essential_name(&symbol.name), declared.kind) {
        Some(found) => {
            let (ours, theirs) = (declared.inner().unwrap_or(0), found.inner().unwrap_or(0));
            let (ours, theirs) = (btf.resolve(ours)?.id, kernel.resolve(theirs)?.id);
            match is_compatible(btf, ours, kernel, theirs)? {
                true => Ok(Resolution::Typed(found.id)),
                false => invalid(format!("extern symbol {} has another type in the kernel", symbol.name)),
            }
        }
        None if !symbol.is_weak => {
            let what = if declared.kind == Kind::Function { "function" } else { "variable" };
            missing(format!("{what} {}", symbol.name))
        }
        None if declared.kind == Kind::Function => Ok(Resolution::Absent(POISON_CALL.wrapping_add(number as i32))),
        None => Ok(Resolution::Address(0)),
    }
}

/// The extern variable or function of that name.
fn declaration<'a>(btf: &'a Btf, name: &str) -> Option<Type<'a>> {
    btf.types().find(|t| {
        matches!(t.kind, Kind::Variable | Kind::Function) && t.linkage() == Some(Linkage::Extern) && t.name == name
    })
}
