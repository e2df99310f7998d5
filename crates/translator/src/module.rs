//! A WebAssembly module, read: only what rustc makes, and no floating point.

use crate::error::{TranslateError, unsupported};
use std::collections::BTreeMap;
use wasmparser::{
    BinaryReader, CompositeInnerType, ConstExpr, DataKind, ElementItems, ElementKind, ExternalKind, FunctionBody,
    KnownCustom, Name, NameSectionReader, Operator, Parser, Payload, TypeRef, ValType, Validator,
};

/// Integer type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
}

impl Ty {
    /// LLVM's name for it.
    pub fn name(self) -> &'static str {
        if self == Ty::I32 { "i32" } else { "i64" }
    }

    /// Bits.
    pub fn bits(self) -> u32 {
        if self == Ty::I32 { 32 } else { 64 }
    }
}

/// Parameters and result of a function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Signature {
    /// Parameters.
    pub params: Vec<Ty>,
    /// Result, if any.
    pub result: Option<Ty>,
}

/// A function with a body.
#[derive(Clone, Debug, Default)]
pub struct Function<'a> {
    /// Parameters and result.
    pub signature: Signature,
    /// Number of its type.
    pub type_index: u32,
    /// Name, from the name section.
    pub name: String,
    /// Locals after the parameters.
    pub locals: Vec<Ty>,
    /// Operators with their offsets in the code section.
    pub code: Vec<(u32, Operator<'a>)>,
}

/// An imported function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// Name in module `kara`.
    pub name: String,
    /// Parameters and result.
    pub signature: Signature,
    /// Number of its type.
    pub type_index: u32,
}

/// A global variable: the stack pointer (number 0), or a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Global {
    /// Type.
    pub ty: Ty,
    /// Initial value.
    pub value: i64,
    /// Whether code may set it.
    pub mutable: bool,
}

/// A module.
#[derive(Clone, Debug, Default)]
pub struct Module<'a> {
    /// Types.
    pub types: Vec<Option<Signature>>,
    /// Imported functions; they have the first numbers.
    pub imports: Vec<Import>,
    /// Functions.
    pub functions: Vec<Function<'a>>,
    /// Function table: numbers of functions, by index.
    pub table: BTreeMap<u32, u32>,
    /// Globals.
    pub globals: Vec<Global>,
    /// Exported functions by name.
    pub exports: BTreeMap<String, u32>,
    /// Exported globals by name: addresses of statics.
    pub exported_globals: BTreeMap<String, u32>,
    /// Contents of memory: address and bytes.
    pub data: Vec<(u32, &'a [u8])>,
    /// End of memory in bytes.
    pub memory_end: u32,
    /// Debug sections by name.
    pub debug: BTreeMap<String, &'a [u8]>,
    /// Functions that use what BPF does not have, by number: what, and where in the code section. Only those that
    /// are called matter.
    pub impossible: BTreeMap<u32, (String, u32)>,
}

impl<'a> Module<'a> {
    /// Reads and validates.
    pub fn parse(wasm: &'a [u8]) -> Result<Module<'a>, TranslateError> {
        Validator::new().validate_all(wasm)?;
        let mut module = Module::default();
        let mut type_indices = Vec::new();
        let mut names = BTreeMap::new();
        let mut code_start = 0;
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(types) => {
                    for group in types {
                        module.types.extend(group?.into_types().map(|t| signature(&t.composite_type.inner)));
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports {
                        let import = import?;
                        let TypeRef::Func(type_index) = import.ty else {
                            return unsupported(format!("import of {}, which is no function", import.name));
                        };
                        if import.module != "kara" {
                            return unsupported(format!(
                                "import {}.{}: only the extension crate's",
                                import.module, import.name
                            ));
                        }
                        let signature = module.signature(type_index)?;
                        module.imports.push(Import { name: import.name.to_string(), signature, type_index });
                    }
                }
                Payload::FunctionSection(functions) => {
                    for index in functions {
                        type_indices.push(index?);
                    }
                }
                Payload::MemorySection(memories) => {
                    for memory in memories {
                        module.memory_end = u32::try_from(memory?.initial << 16).unwrap_or(u32::MAX);
                    }
                }
                Payload::GlobalSection(globals) => {
                    for global in globals {
                        let global = global?;
                        let Some(ty) = ty(global.ty.content_type) else {
                            return unsupported("a global that is no integer");
                        };
                        let value = constant(&global.init_expr)?;
                        module.globals.push(Global { ty, value, mutable: global.ty.mutable });
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        let to = match export.kind {
                            ExternalKind::Func => &mut module.exports,
                            ExternalKind::Global => &mut module.exported_globals,
                            _ => continue,
                        };
                        to.insert(export.name.to_string(), export.index);
                    }
                }
                Payload::ElementSection(elements) => {
                    for element in elements {
                        module.element(element?)?;
                    }
                }
                Payload::CodeSectionStart { range, .. } => code_start = range.start,
                Payload::CodeSectionEntry(body) => {
                    let n = module.functions.len();
                    let type_index = type_indices[n];
                    let number = (module.imports.len() + n) as u32;
                    let at = first_float(&body).unwrap_or(body.range().start).saturating_sub(code_start) as u32;
                    let read = module.signature(type_index).and_then(|s| function(body, s, type_index, code_start));
                    module.functions.push(match read {
                        Err(TranslateError::Unsupported(what)) => {
                            module.impossible.insert(number, (what, at));
                            Function { type_index, ..Function::default() }
                        }
                        read => read?,
                    });
                }
                Payload::DataSection(data) => {
                    for segment in data {
                        let segment = segment?;
                        if let DataKind::Active { offset_expr, .. } = &segment.kind {
                            module.data.push((constant(offset_expr)? as u32, segment.data));
                        }
                    }
                }
                Payload::CustomSection(section) => match section.as_known() {
                    KnownCustom::Name(reader) => function_names(reader, &mut names)?,
                    _ if section.name().starts_with(".debug_") => {
                        module.debug.insert(section.name().to_string(), section.data());
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        let first = module.imports.len() as u32;
        for (n, function) in module.functions.iter_mut().enumerate() {
            let number = first + n as u32;
            function.name = names.remove(&number).unwrap_or_else(|| format!("function {number}"));
        }
        Ok(module)
    }

    /// The signature of a type.
    pub fn signature(&self, index: u32) -> Result<Signature, TranslateError> {
        match self.types.get(index as usize) {
            Some(Some(signature)) => Ok(signature.clone()),
            _ => unsupported("floating point among its parameters or as its result"),
        }
    }

    /// The function of that number, unless it is imported.
    pub fn function(&self, number: u32) -> Option<&Function<'a>> {
        self.functions.get((number as usize).checked_sub(self.imports.len())?)
    }

    /// Whether it is the language's `memcmp`, of which the runtime has its own: that one goes byte by byte.
    pub fn is_memory_compare(&self, number: u32) -> bool {
        let is_right = |f: &Function| f.signature.params == [Ty::I32; 3] && f.signature.result == Some(Ty::I32);
        self.function(number).is_some_and(|f| matches!(f.name.as_str(), "memcmp" | "bcmp") && is_right(f))
    }

    /// The numbers of functions with bodies.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        let first = self.imports.len() as u32;
        first..first + self.functions.len() as u32
    }

    /// Type of a function.
    pub fn type_of(&self, number: u32) -> u32 {
        match self.function(number) {
            Some(function) => function.type_index,
            None => self.imports[number as usize].type_index,
        }
    }

    fn element(&mut self, element: wasmparser::Element<'a>) -> Result<(), TranslateError> {
        let ElementKind::Active { offset_expr, .. } = &element.kind else { return Ok(()) };
        let start = constant(offset_expr)? as u32;
        let ElementItems::Functions(functions) = element.items else {
            return unsupported("a table of anything but functions");
        };
        for (at, function) in (start..).zip(functions) {
            self.table.insert(at, function?);
        }
        Ok(())
    }
}

fn ty(ty: ValType) -> Option<Ty> {
    match ty {
        ValType::I32 => Some(Ty::I32),
        ValType::I64 => Some(Ty::I64),
        _ => None,
    }
}

fn signature(inner: &CompositeInnerType) -> Option<Signature> {
    let CompositeInnerType::Func(function) = inner else { return None };
    let params = function.params().iter().map(|t| ty(*t)).collect::<Option<_>>()?;
    match function.results() {
        [] => Some(Signature { params, result: None }),
        [one] => Some(Signature { params, result: Some(ty(*one)?) }),
        _ => None,
    }
}

fn constant(expression: &ConstExpr) -> Result<i64, TranslateError> {
    match expression.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(value as i64),
        Operator::I64Const { value } => Ok(value),
        other => unsupported(format!("{other:?} in a constant")),
    }
}

fn function<'a>(
    body: FunctionBody<'a>,
    signature: Signature,
    type_index: u32,
    code_start: usize,
) -> Result<Function<'a>, TranslateError> {
    let mut locals = Vec::new();
    for group in body.get_locals_reader()? {
        let (count, kind) = group?;
        let Some(kind) = ty(kind) else { return unsupported("floating point in its variables") };
        locals.extend(std::iter::repeat_n(kind, count as usize));
    }
    let mut code = Vec::new();
    for item in body.get_operators_reader()?.into_iter_with_offsets() {
        let (operator, offset) = item?;
        code.push(((offset - code_start) as u32, operator));
    }
    Ok(Function { signature, type_index, name: String::new(), locals, code })
}

/// Where a function first does something with floating point.
fn first_float(body: &FunctionBody) -> Option<usize> {
    let operators = body.get_operators_reader().ok()?.into_iter_with_offsets();
    let is_float = |operator: &Operator| {
        let text = format!("{operator:?}");
        let name = text.split([' ', '{']).next().unwrap_or("");
        !name.starts_with("Local") && (name.contains("F32") || name.contains("F64"))
    };
    operators.flatten().find(|(operator, _)| is_float(operator)).map(|(_, offset)| offset)
}

fn function_names(reader: NameSectionReader, names: &mut BTreeMap<u32, String>) -> Result<(), TranslateError> {
    for part in reader {
        if let Name::Function(map) = part? {
            for naming in map {
                let naming = naming?;
                names.insert(naming.index, naming.name.to_string());
            }
        }
    }
    Ok(())
}

/// Whether a file is WebAssembly at all.
pub fn is_wasm(bytes: &[u8]) -> bool {
    BinaryReader::new(bytes, 0).read_bytes(4).is_ok_and(|magic| magic == b"\0asm")
}
