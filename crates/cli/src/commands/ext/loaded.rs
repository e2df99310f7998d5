//! An extension in the kernel, as BPF or as a module.

use crate::failure::Failure;
use karakoram_installer::{InstallError, Installed, MapContents, Panic, State, installed};
use karakoram_kernel::load::LoadedProgram;
use karakoram_native::{LoadedModule, loaded as native};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// An extension in the kernel.
pub enum Loaded {
    /// As BPF, with its memory.
    Bpf(Box<Installed>),
    /// As machine code.
    Module(LoadedModule),
}

/// A form of an extension that was loaded in place of the first one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fallback {
    /// Short name.
    pub form: &'static str,
    /// In words.
    pub text: &'static str,
    /// Forms that were refused before.
    pub refused: Vec<&'static str>,
    /// What the kernel said to the first one.
    pub why: String,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "in form \"{}\" ({}), since the kernel refused the first: {}", self.form, self.text, self.why)
    }
}

impl Loaded {
    /// Loads these programs, or all when none is named. Nothing is attached.
    pub fn load(path: &Path, programs: &[String]) -> Result<Loaded, InstallError> {
        let names: Vec<&str> = programs.iter().map(String::as_str).collect();
        let bytes = std::fs::read(path).map_err(|e| InstallError::file("read", path, &e))?;
        match native::module_name(&bytes) {
            Some(name) => LoadedModule::load(&name, &bytes, &names).map(Loaded::Module),
            None => Installed::load(path, &names).map(|i| Loaded::Bpf(Box::new(i))),
        }
    }

    /// The form that was loaded, with why the ones before it were not: nothing when the first one was.
    pub fn fallback(&self) -> Option<Fallback> {
        let Loaded::Bpf(installed) = self else { return None };
        let refused = installed.refusals().first()?;
        let form = installed.form();
        let refused_forms = installed.refusals().iter().map(|(form, _)| form.name).collect();
        Some(Fallback { form: form.name, text: form.text, refused: refused_forms, why: refused.1.why.clone() })
    }

    /// Names and hooks of its programs.
    pub fn programs(&self) -> Vec<(String, String)> {
        match self {
            Loaded::Bpf(installed) => {
                installed.manifest().programs.iter().map(|p| (p.name.clone(), p.hook.clone())).collect()
            }
            Loaded::Module(module) => module.programs().map(|(n, h)| (n.to_string(), h.to_string())).collect(),
        }
    }

    /// The hook of one of them.
    pub fn hook(&self, program: &str) -> String {
        self.programs().into_iter().find(|(name, _)| name == program).map(|(_, hook)| hook).unwrap_or_default()
    }

    /// The tracepoint of one of them.
    pub fn target(&self, program: &str) -> Option<String> {
        let Loaded::Bpf(installed) = self else { return None };
        installed.manifest().programs.iter().find(|p| p.name == program)?.target.clone()
    }

    /// One of them. Panics when it was not loaded.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        match self {
            Loaded::Bpf(installed) => installed.program(name),
            Loaded::Module(module) => module.program(name),
        }
    }

    /// What has happened to a program so far.
    pub fn state(&self, name: &str) -> Result<State, Failure> {
        match self {
            Loaded::Bpf(installed) => Ok(installed.state(name)),
            Loaded::Module(module) => module.state(name).map_err(super::failure),
        }
    }

    /// The latest panics of a program, oldest first.
    pub fn panics(&self, name: &str) -> Result<Vec<Panic>, Failure> {
        match self {
            Loaded::Bpf(installed) => Ok(installed.panics(name)),
            Loaded::Module(module) => module.panics(name).map_err(super::failure),
        }
    }

    /// The maps of the kernel; modules have none.
    pub fn maps(&self) -> Vec<MapContents> {
        match self {
            Loaded::Bpf(installed) => installed.maps(),
            Loaded::Module(_) => Vec::new(),
        }
    }

    /// The counters by name.
    pub fn counters(&self) -> Result<Vec<(String, u64)>, Failure> {
        match self {
            Loaded::Bpf(installed) => Ok(installed.counters()),
            Loaded::Module(module) => module.counters().map_err(super::failure),
        }
    }
}

/// Names of the programs in a file; of a module only the kernel can say them.
pub fn names(path: &Path) -> Result<Option<Vec<(String, String)>>, Failure> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| Failure::file(&shown, "read", &e))?;
    if native::module_name(&bytes).is_some() {
        return Ok(None);
    }
    let manifest = installed::manifest(&bytes).map_err(|e| super::failure(e).of_file(&shown))?;
    Ok(Some(manifest.programs.into_iter().map(|p| (p.name, p.hook)).collect()))
}
