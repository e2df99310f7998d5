//! A program in safe Rust or in C, as its compiler or `kara opt` made it, in the kernel.

use karakoram_installer::{BuildOptions, InstallError, Installed, build};
use karakoram_kernel::load::LoadedProgram;
use karakoram_lab::error::LabError;
use karakoram_lab::object::{self, Loaded};
use karakoram_lab::programs::{self, Build};
use karakoram_lab::trial::Workshop;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where programs come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Source {
    /// In what.
    language: Language,
    /// By what.
    #[serde(default)]
    build: Build,
}

/// A language.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// An extension: the crate in `programs/NAME`.
    Rust,
    /// `programs/NAME/NAME.c`.
    C,
}

/// A compiled object.
#[derive(Clone, Debug)]
pub struct Compiled {
    language: Language,
    path: PathBuf,
}

/// Programs in the kernel.
pub enum InKernel {
    /// Of an extension, with its memory.
    Extension(Box<Installed>),
    /// Of another object.
    Object(Loaded),
}

impl Source {
    /// Compiles it, once for all trials.
    pub fn compile(&self, name: &str, workshop: &Workshop) -> Result<Compiled, LabError> {
        let language = self.language;
        let path = match language {
            Language::C => programs::build(workshop, &format!("{name}/{name}"), self.build)?,
            Language::Rust => {
                let object = workshop.scratch.join(format!("{name}.extension.o"));
                if !object.is_file() {
                    extension(&workshop.programs.join(name), &object)?;
                }
                match self.build {
                    Build::Original => object,
                    Build::Optimized => (workshop.optimize)(&object)?,
                }
            }
        };
        Ok(Compiled { language, path })
    }
}

fn extension(folder: &Path, object: &Path) -> Result<(), LabError> {
    let target_dir = object.with_extension("target");
    let translation = karakoram_translator::Options::default();
    let options =
        BuildOptions { folder: folder.into(), target_dir, extension: None, launder: Default::default(), translation };
    let built = build(&options).map_err(|e| failed(folder, &e))?;
    std::fs::write(object, built.object).map_err(|e| LabError::file("write", object, &e))
}

impl Compiled {
    /// Loads these programs.
    pub fn load(&self, names: &[&str]) -> Result<InKernel, LabError> {
        match self.language {
            Language::Rust => Installed::load(&self.path, names)
                .map(|i| InKernel::Extension(Box::new(i)))
                .map_err(|e| failed(&self.path, &e)),
            Language::C => object::load(&self.path, names).map(InKernel::Object),
        }
    }
}

impl InKernel {
    /// One of them.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        match self {
            InKernel::Extension(installed) => installed.program(name),
            InKernel::Object(loaded) => loaded.program(name),
        }
    }

    /// What went wrong in an extension's programs so far.
    pub fn complaint(&self, names: &[&str]) -> Option<String> {
        let InKernel::Extension(installed) = self else { return None };
        let panics: u64 = names.iter().map(|name| installed.state(name).panics).sum();
        let last = names.iter().flat_map(|name| installed.panics(name)).next_back();
        (panics > 0).then(|| format!("{panics} panics, the last one: {last:?}"))
    }
}

fn failed(path: &Path, error: &InstallError) -> LabError {
    let what = format!("{}: {error}", path.display());
    match error {
        InstallError::Machine(_, help) => LabError::Machine(what, help.clone()),
        // The kernel said no: a variant that cannot be measured here.
        InstallError::Object(_) => LabError::Machine(what, String::new()),
        _ => LabError::Request(what),
    }
}
