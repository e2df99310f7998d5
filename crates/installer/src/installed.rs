//! An extension in the kernel: its programs and its memory.

use crate::contents::{self, MapContents};
use crate::error::{InstallError, Refusal};
use crate::forms::{self, FIRST, Form};
use crate::frames;
use crate::memory::Memory;
use karakoram_elf::Object;
use karakoram_elf::container::Container;
use karakoram_kernel::errno::Errno;
use karakoram_kernel::load::{LoadError, LoadedProgram, Rejection};
use karakoram_kernel::map::Map;
use karakoram_lab::object::{self, Linked, Loaded};
use karakoram_translator::layout::{SITE_PANIC, control};
use karakoram_translator::manifest::{IMAGE_SECTION, Manifest, SECTION};
use std::collections::BTreeMap;
use std::path::Path;

/// An extension in the kernel.
pub struct Installed {
    loaded: Loaded,
    memory: Memory,
    form: Form,
    refusals: Vec<(Form, Refusal)>,
}

/// What a program's control pages say, summed over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Panics, of whatever kind.
    pub panics: u64,
    /// Runs that were let pass because the program was already running on that CPU.
    pub nested: u64,
    /// Runs that ended without giving back all locks.
    pub leaked: u64,
}

/// A run that did not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// When, in nanoseconds since boot.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: usize,
    /// File, when known.
    pub file: Option<String>,
    /// Line in it.
    pub line: u32,
    /// What happened.
    pub what: String,
}

/// The manifest of an object.
pub fn manifest(object: &[u8]) -> Result<Manifest, InstallError> {
    let bytes = section(object, SECTION)?;
    serde_json::from_slice(&bytes).map_err(|e| InstallError::Object(format!("its manifest is not understood: {e}")))
}

fn section(object: &[u8], name: &str) -> Result<Vec<u8>, InstallError> {
    let container = Container::parse(object).map_err(|e| InstallError::Object(e.to_string()))?;
    match container.find(name) {
        Some(at) => Ok(container.sections[at].data.clone()),
        None => Err(InstallError::Object(format!("no extension: it has no section {name}"))),
    }
}

fn load_programs(linked: &Linked, object: &[u8]) -> Result<BTreeMap<String, LoadedProgram>, InstallError> {
    let one = |(name, loaded): (&str, Result<LoadedProgram, LoadError>)| match loaded {
        Ok(program) => Ok((name.to_string(), program)),
        Err(LoadError::Rejected(why)) => Err(InstallError::Refused(refusal(name, &why, object))),
        Err(LoadError::NotPermitted(e) | LoadError::NoKernelSupport(e) | LoadError::Other(e)) => Err(e.into()),
    };
    linked.load_each().map(one).collect()
}

/// What a verdict of the verifier means.
fn refusal(program: &str, why: &Rejection, object: &[u8]) -> Refusal {
    let said = match (why.analysis.reason.last(), why.analysis.insn) {
        (Some(reason), Some(at)) => format!("{reason} (instruction {at})"),
        (Some(reason), None) => reason.clone(),
        (None, _) => why.errno.to_string(),
    };
    let is_deep = |text: &str| text.contains("combined stack size") || text.contains("frames is too deep");
    let deep = Object::parse(object.to_vec()).ok().filter(|_| is_deep(&why.log));
    let help = match deep.and_then(|object| frames::too_deep(object.program(), None)) {
        Some(chain) => chain,
        None if why.log.contains("too many subprograms") => {
            "a program has at most 256 functions for the kernel. Leave out what this one does not need, or make two \
             programs of it"
                .to_string()
        }
        None if why.log.contains("invalid bpf_context access") => {
            "the tracepoint has fewer arguments than the program takes: /sys/kernel/btf/vmlinux has them in the type \
             btf_trace_NAME"
                .to_string()
        }
        None if why.errno == Errno::E2BIG => {
            "there are too many ways through it for the verifier. Cut the function with the most branches in its \
             loops into several, and mark those #[inline(never)]: each is then looked at once, by itself"
                .to_string()
        }
        None => "that is a mistake of kara, not of the program: please report it with the source".to_string(),
    };
    Refusal { program: program.to_string(), why: said, help }
}

impl Installed {
    /// Loads these programs of an object, or all when none is named, and puts their memory in place.
    /// Nothing is attached. Where the kernel refuses one of them the object's other forms are tried, in their order.
    pub fn load(path: &Path, programs: &[&str]) -> Result<Installed, InstallError> {
        let bytes = std::fs::read(path).map_err(|e| InstallError::file("read", path, &e))?;
        let refusal = match Installed::load_form(path, &bytes, programs) {
            Err(InstallError::Refused(refusal)) => refusal,
            other => return other,
        };
        let mut refusals = vec![(FIRST, refusal.clone())];
        for (form, bytes) in forms::others(&bytes)? {
            match Installed::load_form(path, &bytes, programs) {
                Ok(installed) => return Ok(Installed { form, refusals, ..installed }),
                Err(InstallError::Refused(refusal)) => refusals.push((form, refusal)),
                Err(e) => return Err(e),
            }
        }
        Err(InstallError::Refused(refusal))
    }

    fn load_form(path: &Path, bytes: &[u8], programs: &[&str]) -> Result<Installed, InstallError> {
        let manifest = manifest(bytes)?;
        let all: Vec<String> = manifest.programs.iter().map(|p| p.name.clone()).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let wanted = if programs.is_empty() { &all } else { programs };
        let linked = object::link_bytes(path, bytes.to_vec(), wanted)?;
        let arena = linked.map("arena")?;
        let memory = Memory::map(arena, manifest)?;
        let image = section(bytes, IMAGE_SECTION)?;
        // Pages are put in place while the verifier looks at the programs.
        let (memory, programs) = std::thread::scope(|scope| {
            let filling = scope.spawn(move || memory.fill(&image, wanted).map(|()| memory));
            let programs = load_programs(&linked, bytes);
            let memory = filling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<_, InstallError>((memory, programs?))
        })?;
        Ok(Installed { loaded: linked.with(programs), memory, form: FIRST, refusals: Vec::new() })
    }

    /// The form of the object that was loaded.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The forms that the kernel refused before, and why.
    pub fn refusals(&self) -> &[(Form, Refusal)] {
        &self.refusals
    }

    /// A program that was loaded. Panics when it was not.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        self.loaded.program(name)
    }

    /// What the object says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.memory.manifest
    }

    /// What has happened to a program so far.
    pub fn state(&self, name: &str) -> State {
        let mut state = State::default();
        for cpu in 0..self.memory.cpus {
            let region = self.memory.region(name, cpu);
            state.panics += self.memory.u64_at(region + control::PANICS);
            state.nested += self.memory.u64_at(region + control::NESTED);
            state.leaked += self.memory.u64_at(region + control::LEAKED);
        }
        state
    }

    /// Makes a program take itself for running already, on every CPU: for tests of what it then does.
    pub fn set_busy(&self, name: &str, busy: bool) {
        for cpu in 0..self.memory.cpus {
            let at = self.memory.region(name, cpu) + control::BUSY;
            // The page was put in place by `load`.
            self.memory.write_u64(at, u64::from(busy));
        }
    }

    /// The latest panics of a program, oldest first: up to sixteen of each CPU.
    pub fn panics(&self, name: &str) -> Vec<Panic> {
        let mut found = Vec::new();
        for cpu in 0..self.memory.cpus {
            let region = self.memory.region(name, cpu);
            let count = self.memory.u64_at(region + control::PANICS).min(control::LOG_ENTRIES as u64) as u32;
            found.extend((0..count).map(|n| self.panic_at(region + control::LOG + n * control::LOG_ENTRY_BYTES, cpu)));
        }
        found.sort_by_key(|p| p.time_ns);
        found
    }

    fn panic_at(&self, at: u32, cpu: usize) -> Panic {
        let time_ns = self.memory.u64_at(at);
        match self.memory.u32_at(at + 8) {
            SITE_PANIC => {
                let file = self.memory.text(self.memory.u32_at(at + 12), self.memory.u32_at(at + 16));
                Panic { time_ns, cpu, file, line: self.memory.u32_at(at + 20), what: "panic".to_string() }
            }
            site => {
                let site = self.memory.manifest.sites.get(site as usize);
                let source = site.and_then(|s| s.source.clone());
                let (file, line) = source.map_or((None, 0), |(file, line)| (Some(file), line));
                let what = site.map_or("unknown place", |s| s.what.text()).to_string();
                Panic { time_ns, cpu, file, line, what }
            }
        }
    }

    /// The maps of the kernel that the loaded programs use, with what is in them.
    pub fn maps(&self) -> Vec<MapContents> {
        let declared = self.memory.manifest.maps.iter();
        declared.filter_map(|m| Some(contents::read(self.loaded.map(&m.name).ok()?, m))).collect()
    }

    /// The maps of the kernel themselves, the arena among them.
    pub fn kernel_maps(&self) -> &[Map] {
        self.loaded.maps()
    }

    /// Bytes of the pages in the arena.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// The counters by name.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.memory.manifest.exported.iter().filter(|e| e.kind == "counter");
        counters.map(|e| (e.name.clone(), self.memory.u64_at(e.address))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_verifier_says_is_explained() {
        let help = |errno: Errno, log: &str| {
            let why = Rejection { errno, log: log.to_string(), analysis: Default::default() };
            refusal("program", &why, &[]).help
        };
        assert!(help(Errno::EACCES, "invalid bpf_context access off=16 size=8").contains("fewer arguments"));
        assert!(help(Errno::E2BIG, "too many subprograms").contains("256 functions"));
        assert!(help(Errno::E2BIG, "BPF program is too large. Processed 1000001 insn").contains("#[inline(never)]"));
        assert!(help(Errno::EINVAL, "R1 type=scalar expected=fp").contains("report it"));
    }
}
