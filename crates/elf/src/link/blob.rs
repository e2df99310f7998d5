//! The object's BTF as the kernel takes it: sizes and offsets of data sections filled in, extern
//! declarations turned into definitions, hidden functions made static (what libbpf does before loading).

use super::error::LinkError;
use super::externs::Externs;
use crate::btf::{self, Btf, Kind, Linkage, Type};
use crate::bytes::{put, u32_at};
use crate::object::Object;
use crate::symbol::SymbolKind;

/// Words of `struct btf_type` before what depends on the kind.
const HEAD_WORDS: usize = 3;
/// Words of a variable in a data section: type, offset, size.
const VARIABLE_WORDS: usize = 3;
/// Variables that stand for extern functions have the size of an `int`.
const INT_BYTES: u32 = 4;
/// Linkage number of definitions that the linker sees.
const GLOBAL: u32 = 1;

/// BTF being edited.
struct Editor<'a> {
    btf: &'a Btf,
    types: Vec<u8>,
    strings: Vec<u8>,
    added: u32,
}

impl Editor<'_> {
    fn word(&self, id: u32, word: usize) -> u32 {
        self.btf.start(id).and_then(|at| u32_at(&self.types, at + 4 * word)).unwrap_or(0)
    }

    fn set(&mut self, id: u32, word: usize, value: u32) {
        if let Some(at) = self.btf.start(id) {
            put(&mut self.types, at + 4 * word, &value.to_le_bytes());
        }
    }

    /// Overwrites the low half of the second word, where functions have their linkage.
    fn set_function_linkage(&mut self, id: u32, linkage: u32) {
        let info = self.word(id, 1) & !0xffff | linkage;
        self.set(id, 1, info);
    }

    fn add_string(&mut self, text: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    fn add_type(&mut self, words: &[u32]) -> u32 {
        self.types.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        self.added += 1;
        self.btf.len() + self.added
    }
}

/// The BTF to load with any program of the object.
pub(super) fn prepare(object: &Object, btf: &Btf, externs: &Externs) -> Result<Vec<u8>, LinkError> {
    let (types, strings) = btf.parts();
    let mut editor = Editor { btf, types, strings, added: 0 };
    for ty in btf.types() {
        match ty.kind {
            Kind::DataSection if ty.name == ".ksyms" => ksyms(&mut editor, &ty)?,
            Kind::DataSection if ty.name == ".kconfig" => kconfig(&mut editor, &ty, externs)?,
            Kind::DataSection => data_section(&mut editor, object, &ty)?,
            Kind::Function => function(&mut editor, object, &ty),
            _ => {}
        }
    }
    Ok(btf::join(&editor.types, &editor.strings))
}

fn data_section(editor: &mut Editor, object: &Object, ty: &Type) -> Result<(), LinkError> {
    let Some(section) = object.container.find(ty.name).filter(|_| ty.size() == Some(0)) else { return Ok(()) };
    editor.set(ty.id, 2, object.container.sections[section].size as u32);
    let mut variables: Vec<(u32, u32, u32)> = Vec::new();
    for variable in ty.variables() {
        let named = editor.btf.get(variable.ty)?;
        // The compiler knows where static variables lie, and leaves the others to the linker.
        let symbol = object.symbols.entries.iter().find(|s| {
            s.section == Some(section) && s.is_global && s.kind != SymbolKind::Section && s.name == named.name
        });
        let symbol = symbol.filter(|_| named.linkage() != Some(Linkage::Static));
        variables.push((symbol.map_or(variable.offset, |s| s.value as u32), variable.ty, variable.size));
    }
    variables.sort_unstable();
    for (n, (offset, variable, size)) in variables.into_iter().enumerate() {
        set_variable(editor, ty.id, n, variable, offset, size);
    }
    Ok(())
}

fn set_variable(editor: &mut Editor, section: u32, n: usize, ty: u32, offset: u32, size: u32) {
    let at = HEAD_WORDS + n * VARIABLE_WORDS;
    for (word, value) in [ty, offset, size].into_iter().enumerate() {
        editor.set(section, at + word, value);
    }
}

fn function(editor: &mut Editor, object: &Object, ty: &Type) {
    let hidden = |s: &&crate::symbol::Symbol| s.kind == SymbolKind::Function && s.name == ty.name && s.is_hidden;
    match ty.linkage() {
        Some(Linkage::Extern) => editor.set_function_linkage(ty.id, GLOBAL),
        // The kernel verifies global functions for any arguments; hidden ones are not meant to be.
        Some(Linkage::Global) if object.symbols.entries.iter().any(|s| hidden(&s)) => {
            editor.set_function_linkage(ty.id, 0);
        }
        _ => {}
    }
}

/// Kernel symbols: the kernel wants variables that have a size, so all become an `int`.
fn ksyms(editor: &mut Editor, section: &Type) -> Result<(), LinkError> {
    let btf = editor.btf;
    let int = btf.types().find(|t| t.kind == Kind::Int && t.size() == Some(INT_BYTES)).map(|t| t.id);
    let int = match int {
        Some(int) => int,
        None => {
            let name = editor.add_string("int");
            editor.add_type(&[name, 1 << 24, INT_BYTES, 1 << 24 | 32])
        }
    };
    let mut dummy = None;
    for (n, variable) in section.variables().enumerate() {
        let offset = n as u32 * INT_BYTES;
        let ty = btf.get(variable.ty)?;
        let mut id = variable.ty;
        if ty.kind == Kind::Function {
            let name = *dummy.get_or_insert_with(|| editor.add_string("dummy_ksym"));
            name_parameters(editor, ty.inner().unwrap_or(0), name)?;
            id = editor.add_type(&[name, 14 << 24, int, GLOBAL]);
        } else {
            editor.set(id, 2, int);
            editor.set(id, HEAD_WORDS, GLOBAL);
        }
        set_variable(editor, section.id, n, id, offset, INT_BYTES);
    }
    editor.set(section.id, 2, section.count() as u32 * INT_BYTES);
    Ok(())
}

/// The kernel wants all parameters of functions named.
fn name_parameters(editor: &mut Editor, prototype: u32, name: u32) -> Result<(), LinkError> {
    for (n, parameter) in editor.btf.get(prototype)?.parameters().enumerate() {
        if parameter.name.is_empty() && parameter.ty != 0 {
            editor.set(prototype, HEAD_WORDS + 2 * n, name);
        }
    }
    Ok(())
}

fn kconfig(editor: &mut Editor, section: &Type, externs: &Externs) -> Result<(), LinkError> {
    let mut variables: Vec<(u32, u32, u32)> = Vec::new();
    for variable in section.variables() {
        editor.set(variable.ty, HEAD_WORDS, GLOBAL);
        let name = editor.btf.get(variable.ty)?.name;
        variables.push((externs.config_offset(name).unwrap_or(variable.offset), variable.ty, variable.size));
    }
    variables.sort_unstable();
    for (n, (offset, variable, size)) in variables.into_iter().enumerate() {
        set_variable(editor, section.id, n, variable, offset, size);
    }
    editor.set(section.id, 2, externs.config().len() as u32);
    Ok(())
}
