//! Reading programs, whatever they are written in.

use crate::failure::Failure;
use karakoram_bpf::encode;
use karakoram_bpf::insn::{Callee, FuncId, Imm64, Insn};
use karakoram_bpf::program::{Entry, Program};
use karakoram_bpf::text::{self, Format};
use karakoram_elf::Object;
use std::io::Read;
use std::path::Path;

/// Largest file that is read.
const MOST_BYTES: u64 = 1 << 30;

/// How a program is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// An ELF object.
    Object,
    /// Text.
    Text(Format),
    /// Raw slots.
    Slots,
}

impl Form {
    /// The form that the ending of a file says.
    pub fn of_path(path: &str) -> Option<Form> {
        match Path::new(path).extension().and_then(|e| e.to_str()) {
            Some("o" | "elf") => Some(Form::Object),
            Some("insns" | "bin") => Some(Form::Slots),
            _ => Format::of_path(path).map(Form::Text),
        }
    }

    /// Whether it is not text.
    pub fn is_binary(self) -> bool {
        !matches!(self, Form::Text(_))
    }
}

/// A program that was read.
pub struct Input {
    /// Path as given; `-` is stdin.
    pub path: String,
    /// What it was written in.
    pub form: Form,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Texts of the files that say hook and maps, if there were any.
    pub desc: Option<String>,
    /// See `desc`.
    pub maps: Option<String>,
    content: Content,
}

enum Content {
    Object(Box<Object>),
    Program(Program),
}

/// Files that say what the program text does not.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Sidecars {
    /// What r1 is, for .k2 and .bpf programs (default: IN with the ending .desc, if it is there)
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub desc: Option<String>,
    /// The maps of .k2 and .bpf programs (default: IN with the ending .maps, if it is there)
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub maps: Option<String>,
    /// Take read-only data (.rodata) to be as it is in the object; only right when nobody sets it before
    /// loading
    #[arg(long, help_heading = "Input")]
    pub constant_data: bool,
}

impl Input {
    /// Reads a file, or stdin when the path is `-`.
    pub fn read(path: &str, sidecars: &Sidecars) -> Result<Input, Failure> {
        let bytes = read_bytes(path)?;
        let form = form_of(path, &bytes)?;
        let (mut desc, mut maps) = (None, None);
        if form != Form::Object {
            desc = sidecar(path, sidecars.desc.as_deref(), "desc", form)?;
            maps = sidecar(path, sidecars.maps.as_deref(), "maps", form)?;
        }
        let mut input = Input::understand(path, form, bytes, desc, maps)?;
        if sidecars.constant_data {
            input.assume_constant_data();
        }
        Ok(input)
    }

    /// Takes read-only data to be as it is in the object.
    pub fn assume_constant_data(&mut self) {
        if let Content::Object(object) = &mut self.content {
            object.assume_constant_data();
        }
    }

    /// Reads another version of a program: what its text does not say is as with the first.
    pub fn read_version(path: &str, first: &Input) -> Result<Input, Failure> {
        let mut own = Input::read(path, &Sidecars::default())?;
        if let (Content::Object(object), Content::Object(first)) = (&mut own.content, &first.content) {
            object.number_patches_as(first);
        }
        if own.form == Form::Object || (own.desc.is_some() && own.maps.is_some()) {
            return Ok(own);
        }
        let (desc, maps) = (own.desc.or(first.desc.clone()), own.maps.or(first.maps.clone()));
        Input::understand(path, own.form, own.bytes, desc, maps)
    }

    fn understand(
        path: &str,
        form: Form,
        bytes: Vec<u8>,
        desc: Option<String>,
        maps: Option<String>,
    ) -> Result<Input, Failure> {
        let content = match form {
            Form::Object => {
                let object = Object::parse(bytes.clone()).map_err(|e| {
                    Failure::input(e.to_string())
                        .of_file(path)
                        .help("it must be an object for BPF, as `clang -target bpf -c` makes it")
                })?;
                Content::Object(Box::new(object))
            }
            Form::Text(format) => {
                let source = std::str::from_utf8(&bytes)
                    .map_err(|e| Failure::input(format!("byte {} is not text", e.valid_up_to())).of_file(path))?;
                let program = text::read(format, source, desc.as_deref(), maps.as_deref())
                    .map_err(|e| Failure::text(path, source, &e))?;
                Content::Program(program)
            }
            Form::Slots => Content::Program(slots(path, &bytes, desc.as_deref(), maps.as_deref())?),
        };
        Ok(Input { path: path.to_string(), form, bytes, desc, maps, content })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        match &self.content {
            Content::Object(object) => object.program(),
            Content::Program(program) => program,
        }
    }

    /// The object it is in, if it is in one.
    pub fn object(&self) -> Option<&Object> {
        match &self.content {
            Content::Object(object) => Some(object),
            Content::Program(_) => None,
        }
    }

    /// The one program to work on, by function or section where there are several.
    pub fn entry(&self, only: Option<&str>) -> Result<FuncId, Failure> {
        let only: Vec<String> = only.iter().map(|name| name.to_string()).collect();
        match self.entries(&only)?.as_slice() {
            [entry] => Ok(*entry),
            several => {
                let names: Vec<&str> = several.iter().map(|f| self.program().function(*f).name.as_str()).collect();
                Err(Failure::usage("there are several programs")
                    .of_file(&self.path)
                    .help(format!("choose one with --prog: {}", names.join(", "))))
            }
        }
    }

    /// The entries to report on: the programs; where there are none, the functions others may call;
    /// where there are none of those either, all functions. `only` keeps the ones of that name.
    pub fn entries(&self, only: &[String]) -> Result<Vec<FuncId>, Failure> {
        let entries = entries(self.program());
        if only.is_empty() {
            return Ok(entries);
        }
        let program = self.program();
        let mut found = Vec::new();
        for wanted in only {
            let matches: Vec<FuncId> = (0..program.functions.len() as u32)
                .map(FuncId)
                .filter(|f| {
                    let function = program.function(*f);
                    function.name == *wanted || (function.section == *wanted && entries.contains(f))
                })
                .collect();
            if matches.is_empty() {
                let names: Vec<&str> = entries.iter().map(|f| program.function(*f).name.as_str()).collect();
                let opaque = self.object().and_then(|o| o.opaque().iter().find(|o| o.name == *wanted));
                let why = opaque.map_or(String::new(), |o| format!(": it is kept as it is, because {}", o.reason));
                return Err(Failure::usage(format!("there is no program {wanted}{why}"))
                    .of_file(&self.path)
                    .help(format!("it has: {}", names.join(", "))));
            }
            found.extend(matches);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

/// See [`Input::entries`].
pub fn entries(program: &Program) -> Vec<FuncId> {
    let all = || program.functions.iter().enumerate().map(|(i, f)| (FuncId(i as u32), f));
    let hooks: Vec<FuncId> = all().filter(|(_, f)| matches!(f.entry, Entry::Hook(_))).map(|(i, _)| i).collect();
    if !hooks.is_empty() {
        return hooks;
    }
    let global = |e: &Entry| matches!(e, Entry::Subprogram { global: true });
    let globals: Vec<FuncId> = all().filter(|(_, f)| global(&f.entry)).map(|(i, _)| i).collect();
    if globals.is_empty() { all().map(|(i, _)| i).collect() } else { globals }
}

/// A function and all that it calls or hands on, itself first.
pub fn reachable(program: &Program, entry: FuncId) -> Vec<FuncId> {
    let mut found = vec![entry];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        for node in &program.function(id).nodes {
            if let Insn::Call(Callee::Local(f)) | Insn::LoadImm { value: Imm64::Function(f), .. } = node.insn
                && !found.contains(&f)
            {
                found.push(f);
            }
        }
    }
    found
}

/// The bytes of a file or of stdin.
pub fn read_bytes(path: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let result = if path == "-" {
        std::io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|f| f.take(MOST_BYTES + 1).read_to_end(&mut bytes))
    };
    let name = if path == "-" { "stdin" } else { path };
    result.map_err(|e| Failure::file(name, "read", &e))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::input(format!("the file is larger than {MOST_BYTES} bytes")).of_file(name));
    }
    if bytes.is_empty() {
        return Err(Failure::input("the file is empty").of_file(name));
    }
    Ok(bytes)
}

/// What the bytes are goes first, then the ending, then what the text looks like.
fn form_of(path: &str, bytes: &[u8]) -> Result<Form, Failure> {
    if bytes.starts_with(b"\x7fELF") {
        return Ok(Form::Object);
    }
    match Form::of_path(path) {
        Some(Form::Object) => Err(Failure::input("this is no ELF object: it does not begin with \\x7fELF")
            .of_file(path)
            .help("objects are made with `clang -O2 -g -target bpf -c prog.c -o prog.o`")),
        Some(form) => Ok(form),
        None => match std::str::from_utf8(bytes) {
            Ok(source) => Ok(Form::Text(Format::of_source(source))),
            Err(_) if bytes.len().is_multiple_of(8) => Ok(Form::Slots),
            Err(_) => Err(Failure::input("this is neither an ELF object, nor text, nor raw instructions")
                .of_file(path)
                .help("kara reads .o, .s, .k2, .bpf and .insns")),
        },
    }
}

fn sidecar(path: &str, given: Option<&str>, ending: &str, form: Form) -> Result<Option<String>, Failure> {
    let read = |path: &str| {
        let bytes = std::fs::read(path).map_err(|e| Failure::file(path, "read", &e))?;
        String::from_utf8(bytes).map_err(|_| Failure::input("this is not text").of_file(path))
    };
    if let Some(given) = given {
        return read(given).map(Some);
    }
    // Assembly says its hook and maps itself.
    if path == "-" || form == Form::Text(Format::Asm) {
        return Ok(None);
    }
    match Path::new(path).with_extension(ending) {
        beside if beside.is_file() => read(&beside.to_string_lossy()).map(Some),
        _ => Ok(None),
    }
}

fn slots(path: &str, bytes: &[u8], desc: Option<&str>, maps: Option<&str>) -> Result<Program, Failure> {
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::input(e.to_string()).of_file(path).help("it was taken for raw instructions, eight bytes each")
    };
    let hook = match desc {
        Some(desc) => text::desc::parse(desc).map_err(|e| wrong(&e))?.hook,
        None => text::DEFAULT_HOOK,
    };
    let maps = maps.map(text::maps::parse).transpose().map_err(|e| wrong(&e))?.unwrap_or_default();
    let slots = encode::slots_from_bytes(bytes).map_err(|e| wrong(&e))?;
    Program::from_slots(&slots, hook, maps).map_err(|e| wrong(&e))
}
