//! A module in the kernel, with a BPF program for each of its programs.

use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_installer::{InstallError, Panic, State};
use karakoram_kernel::load::{LoadError, LoadRequest, LoadedProgram, load};
use karakoram_kernel::module::Module;
use object::{Object, ObjectSection};
use std::os::fd::BorrowedFd;

/// `bpf_redirect`.
const REDIRECT: i32 = 23;

/// A module in the kernel.
pub struct LoadedModule {
    name: String,
    /// Names, hooks, and what calls them.
    programs: Vec<(String, String, LoadedProgram)>,
    /// Last, as the kernel keeps it while programs call it.
    _module: Module,
}

impl LoadedModule {
    /// Loads a module, and for these of its programs, or all when none is named, what calls them. Nothing
    /// is attached.
    pub fn load(name: &str, file: &[u8], wanted: &[&str]) -> Result<LoadedModule, InstallError> {
        let module = Module::insert(name, file)?;
        let said = Said::read(name)?;
        if let Some(unknown) = wanted.iter().find(|w| !said.programs().any(|(p, _)| p == **w)) {
            let there: Vec<&str> = said.programs().map(|(name, _)| name).collect();
            return Err(InstallError::Object(format!("there is no program {unknown}; there are {}", there.join(", "))));
        }
        let mut programs = Vec::new();
        for (number, (program, hook)) in said.programs().enumerate() {
            if wanted.is_empty() || wanted.contains(&program) {
                let loaded = load_caller(&module, (program, hook), &caller(number as i32, said.function(hook)?))?;
                programs.push((program.to_string(), hook.to_string(), loaded));
            }
        }
        Ok(LoadedModule { name: name.to_string(), programs, _module: module })
    }

    /// A program. Panics when there is none of that name.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        let found = self.programs.iter().find(|(n, ..)| n == name);
        &found.unwrap_or_else(|| panic!("there is no program {name}")).2
    }

    /// Names and hooks of the programs.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.programs.iter().map(|(name, hook, _)| (name.as_str(), hook.as_str()))
    }

    /// What has happened to a program so far.
    pub fn state(&self, name: &str) -> Result<State, InstallError> {
        Ok(Said::read(&self.name)?.state(name).unwrap_or_default())
    }

    /// The latest panics of a program, oldest first.
    pub fn panics(&self, name: &str) -> Result<Vec<Panic>, InstallError> {
        Ok(Said::read(&self.name)?.panics(name))
    }

    /// The counters by name.
    pub fn counters(&self) -> Result<Vec<(String, u64)>, InstallError> {
        Ok(Said::read(&self.name)?.counters())
    }
}

/// The name of a module, when the file is one that [`crate::build`] made.
pub fn module_name(file: &[u8]) -> Option<String> {
    let file = object::File::parse(file).ok().filter(|f| f.architecture() == object::Architecture::X86_64)?;
    let said = file.section_by_name(".modinfo")?.data().ok()?;
    let name = said.split(|b| *b == 0).find_map(|entry| entry.strip_prefix(b"name=kara_"))?;
    Some(format!("kara_{}", std::str::from_utf8(name).ok()?))
}

fn load_caller(module: &Module, (program, hook): (&str, &str), slots: &[Slot]) -> Result<LoadedProgram, InstallError> {
    let program_type = match hook {
        "xdp" => ProgramType::XDP,
        _ => ProgramType::SCHED_CLS,
    };
    let types: [BorrowedFd; 1] = [module.types()];
    let request = LoadRequest { module_btfs: &types, ..LoadRequest::new(program, program_type, slots) };
    load(&request).map_err(refused)
}

fn refused(error: LoadError) -> InstallError {
    match error {
        LoadError::Rejected(_) => InstallError::Object(error.to_string()),
        LoadError::NotPermitted(e) | LoadError::NoKernelSupport(e) | LoadError::Other(e) => e.into(),
    }
}

/// The program that calls a module's function: its result is the verdict, and above it the interface to
/// redirect to.
fn caller(number: i32, function: i32) -> [Slot; 8] {
    let slot = |code, dst, src, off, imm| Slot { code, dst, src, off, imm };
    [
        slot(0xb7, 2, 0, 0, number),   // r2 = number
        slot(0x85, 0, 2, 1, function), // call, in the first module
        slot(0xbf, 1, 0, 0, 0),        // r1 = r0
        slot(0x77, 1, 0, 0, 32),       // r1 >>= 32
        slot(0x15, 1, 0, 2, 0),        // if r1 == 0 goto exit
        slot(0xb7, 2, 0, 0, 0),        // r2 = 0
        slot(0x85, 0, 0, 0, REDIRECT),
        slot(0x95, 0, 0, 0, 0),
    ]
}

/// What a module says in its file below /proc.
struct Said(String);

impl Said {
    fn read(module: &str) -> Result<Said, InstallError> {
        let path = format!("/proc/{module}");
        std::fs::read_to_string(&path).map(Said).map_err(|e| InstallError::file("read", path.as_ref(), &e))
    }

    /// What follows a word at the begin of lines.
    fn lines<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |l| l.strip_prefix(kind)?.strip_prefix(' '))
    }

    fn function(&self, hook: &str) -> Result<i32, InstallError> {
        let found = self.lines("function").find_map(|l| l.strip_prefix(hook)?.trim().parse().ok());
        found.ok_or_else(|| InstallError::Object(format!("the module has no function for {hook}")))
    }

    /// Names and hooks, in their order.
    fn programs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines("program").filter_map(|l| {
            let mut words = l.split(' ');
            Some((words.next()?, words.next()?))
        })
    }

    fn state(&self, program: &str) -> Option<State> {
        let line = self.lines("program").find(|l| l.split(' ').next() == Some(program))?;
        let mut numbers = line.split(' ').skip(2).map(|n| n.parse().ok());
        Some(State { panics: numbers.next()??, nested: numbers.next()??, leaked: numbers.next()?? })
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.lines("counter").filter_map(|l| l.split_once(' '));
        counters.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
    }

    fn panics(&self, program: &str) -> Vec<Panic> {
        self.lines("panic").filter_map(|line| panic(line, program)).collect()
    }
}

/// `TIME CPU PROGRAM LINE FILE<tab>WHAT`, of that program.
fn panic(line: &str, program: &str) -> Option<Panic> {
    let (rest, what) = line.split_once('\t')?;
    let mut words = rest.splitn(5, ' ');
    let (time_ns, cpu) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().filter(|name| *name == program)?;
    let line = words.next()?.parse().ok()?;
    Some(Panic { time_ns, cpu, file: words.next().map(str::to_string), line, what: what.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_says() {
        let said = Said(
            "function xdp 112379\nfunction tc 112380\nprogram fault xdp 3 1 2\ncounter WELL 5\n\
             panic 77 0 fault 42 src/a b.rs\ta loop took too long\npanic 78 0 other 1 src/lib.rs\tpanic\n"
                .into(),
        );
        assert_eq!(said.function("tc").unwrap(), 112380);
        assert_eq!(said.programs().collect::<Vec<_>>(), [("fault", "xdp")]);
        assert_eq!(said.state("fault"), Some(State { panics: 3, nested: 1, leaked: 2 }));
        assert_eq!(said.counters(), [("WELL".to_string(), 5)]);
        let panics = said.panics("fault");
        assert_eq!((panics.len(), panics[0].line, panics[0].file.as_deref()), (1, 42, Some("src/a b.rs")));
        assert_eq!(panics[0].what, "a loop took too long");
    }
}
