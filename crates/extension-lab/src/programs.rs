//! A program in safe Rust or in C, as its compiler or `kara opt` made it, in the kernel.

use karakoram_installer::{BuildOptions, InstallError, Installed, build};
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::map::Map;
use karakoram_lab::error::LabError;
use karakoram_lab::guest::{self, Kernels};
use karakoram_lab::object::{self, Loaded};
use karakoram_lab::programs::{self, Build};
use karakoram_lab::trial::Workshop;
use karakoram_native::loaded::module_name;
use karakoram_native::{LoadedModule, ModuleOptions};
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
    /// Whether an extension looks if its stack is full.
    #[serde(default = "yes")]
    stack_checks: bool,
    /// Features of the crate that it is built with.
    #[serde(default)]
    features: Vec<String>,
}

fn yes() -> bool {
    true
}

/// A language.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// An extension: the crate in `programs/NAME`.
    Rust,
    /// `programs/NAME/NAME.c`.
    C,
    /// The same crate as [`Language::Rust`], as a kernel module: for guests with [`KERNEL`].
    Module,
}

/// Version of Debian's kernel that modules are for.
pub const KERNEL: &str = "6.12";

/// A compiled object.
#[derive(Clone, Debug)]
pub struct Compiled {
    language: Language,
    /// The file.
    pub path: PathBuf,
}

/// Programs in the kernel.
pub enum InKernel {
    /// Of an extension, with its memory.
    Extension(Box<Installed>),
    /// Of another object.
    Object(Loaded),
    /// Of a module.
    Module(LoadedModule),
}

impl Source {
    /// As its compiler made it.
    pub fn plain(language: Language) -> Source {
        Source { language, build: Build::Original, stack_checks: true, features: Vec::new() }
    }

    /// Compiles the crate in a folder of `programs/`, or the file there that is named as the folder; once for all
    /// trials.
    pub fn compile(&self, name: &str, workshop: &Workshop) -> Result<Compiled, LabError> {
        self.compile_file(name, name, workshop)
    }

    /// The same with another file, for C.
    pub fn compile_file(&self, name: &str, file: &str, workshop: &Workshop) -> Result<Compiled, LabError> {
        let language = self.language;
        let path = match language {
            Language::C => programs::build(workshop, &format!("{name}/{file}"), self.build)?,
            Language::Module if self.build == Build::Optimized => {
                return Err(LabError::Request("`kara opt` is for BPF: a module has no optimized build".into()));
            }
            Language::Module => {
                let file = workshop.scratch.join(format!("{}.ko", self.file_name(name)));
                if !file.is_file() {
                    self.module(&workshop.programs.join(name), &file)?;
                }
                file
            }
            Language::Rust => {
                let kind = if self.stack_checks { "extension" } else { "unchecked" };
                let object = workshop.scratch.join(format!("{}.{kind}.o", self.file_name(name)));
                if !object.is_file() {
                    self.extension(workshop, name, &object)?;
                }
                match self.build {
                    Build::Original => object,
                    Build::Optimized => (workshop.optimize)(&object)?,
                }
            }
        };
        Ok(Compiled { language, path })
    }

    /// Name of what is built of the crate of that name with these features.
    fn file_name(&self, name: &str) -> String {
        std::iter::once(name).chain(self.features.iter().map(String::as_str)).collect::<Vec<_>>().join("+")
    }

    fn extension(&self, workshop: &Workshop, name: &str, object: &Path) -> Result<(), LabError> {
        let mut options = build_options(workshop, name);
        options.translation.stack_checks = self.stack_checks;
        options.features.clone_from(&self.features);
        let built = build(&options).map_err(|e| failed(&options.folder, &e))?;
        std::fs::write(object, built.object).map_err(|e| LabError::file("write", object, &e))
    }

    fn module(&self, folder: &Path, file: &Path) -> Result<(), LabError> {
        let cache = guest::default_cache().ok_or_else(|| {
            LabError::Machine("it is not known where kernels are to be kept".into(), "set HOME".into())
        })?;
        let headers = Kernels::new(cache).headers(KERNEL)?;
        let target_dir = file.with_extension("module-target");
        let features = self.features.clone();
        let options = ModuleOptions { folder: folder.into(), target_dir, extension: None, features, headers };
        let built = karakoram_native::build(&options).map_err(|e| failed(folder, &e))?;
        std::fs::write(file, built.module).map_err(|e| LabError::file("write", file, &e))
    }
}

/// How a crate of `programs/` becomes an extension.
pub fn build_options(workshop: &Workshop, name: &str) -> BuildOptions {
    BuildOptions {
        folder: workshop.programs.join(name),
        target_dir: workshop.scratch.join(name.replace('/', "-")).with_extension("target"),
        extension: None,
        features: Vec::new(),
        launder: Default::default(),
        translation: Default::default(),
    }
}

impl Compiled {
    /// A file that [`Source::compile`] made, perhaps elsewhere.
    pub fn of(path: &Path, is_extension: bool) -> Compiled {
        let language = match path.extension().and_then(|e| e.to_str()) {
            Some("ko") => Language::Module,
            _ if is_extension => Language::Rust,
            _ => Language::C,
        };
        Compiled { language, path: path.to_path_buf() }
    }

    /// Whether it is an object with its own memory.
    pub fn is_extension(&self) -> bool {
        self.language == Language::Rust
    }

    /// Loads these programs.
    pub fn load(&self, names: &[&str]) -> Result<InKernel, LabError> {
        match self.language {
            Language::Rust => Installed::load(&self.path, names)
                .map(|i| InKernel::Extension(Box::new(i)))
                .map_err(|e| failed(&self.path, &e)),
            Language::C => object::load(&self.path, names).map(InKernel::Object),
            Language::Module => {
                let file = std::fs::read(&self.path).map_err(|e| LabError::file("read", &self.path, &e))?;
                let name = module_name(&file)
                    .ok_or_else(|| LabError::Request(format!("{} is no module", self.path.display())))?;
                LoadedModule::load(&name, &file, names).map(InKernel::Module).map_err(|e| failed(&self.path, &e))
            }
        }
    }
}

impl InKernel {
    /// One of them.
    pub fn program(&self, name: &str) -> &LoadedProgram {
        match self {
            InKernel::Extension(installed) => installed.program(name),
            InKernel::Object(loaded) => loaded.program(name),
            InKernel::Module(module) => module.program(name),
        }
    }

    /// The maps that they use.
    pub fn maps(&self) -> &[Map] {
        match self {
            InKernel::Extension(installed) => installed.kernel_maps(),
            InKernel::Object(loaded) => loaded.maps(),
            InKernel::Module(_) => &[],
        }
    }

    /// Bytes of the pages of an extension's arena.
    pub fn arena_bytes(&self) -> u64 {
        match self {
            InKernel::Extension(installed) => installed.memory_bytes(),
            _ => 0,
        }
    }

    /// What went wrong in an extension's programs so far.
    pub fn complaint(&self, names: &[&str]) -> Option<String> {
        let last = match self {
            InKernel::Object(_) => None,
            InKernel::Extension(installed) => names.iter().flat_map(|name| installed.panics(name)).next_back(),
            InKernel::Module(module) => {
                names.iter().flat_map(|name| module.panics(name).unwrap_or_default()).next_back()
            }
        };
        last.map(|last| format!("there were panics, the last one: {last:?}"))
    }
}

pub fn failed(path: &Path, error: &InstallError) -> LabError {
    let what = format!("{}: {error}", path.display());
    match error {
        InstallError::Machine(_, help) => LabError::Machine(what, help.clone()),
        // The kernel said no: a variant that cannot be measured here.
        InstallError::Object(_) => LabError::Machine(what, String::new()),
        _ => LabError::Request(what),
    }
}
