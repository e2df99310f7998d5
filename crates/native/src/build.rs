//! From a crate to a module.

use crate::code::{self, Code, run};
use crate::glue::{self, put};
use crate::{lines, tables};
use karakoram_installer::InstallError;
use karakoram_installer::build::{Output, Source, compile};
use karakoram_lab::guest::Headers;
use karakoram_translator::manifest::Program;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target that rustup has ready-made libraries for kernels for.
pub const TARGET: &str = "x86_64-unknown-none";

/// How to build.
#[derive(Clone, Debug)]
pub struct ModuleOptions {
    /// The crate's folder.
    pub folder: PathBuf,
    /// Where cargo puts what it makes.
    pub target_dir: PathBuf,
    /// The extension crate, in place of the one that the manifest names.
    pub extension: Option<PathBuf>,
    /// Features of the crate to build with, besides its default ones.
    pub features: Vec<String>,
    /// What modules of the kernel are built with.
    pub headers: Headers,
}

/// A module for one build of a kernel.
#[derive(Clone, Debug)]
pub struct NativeModule {
    /// Its name, as the kernel has it.
    pub name: String,
    /// The file.
    pub module: Vec<u8>,
    /// Programs in it.
    pub programs: Vec<Program>,
    /// Bytes of the extension's machine code and data.
    pub code_bytes: usize,
}

/// Builds.
pub fn build(options: &ModuleOptions) -> Result<NativeModule, InstallError> {
    let work = tempfile::Builder::new().prefix("kara-module-").tempdir();
    let work = work.map_err(|e| InstallError::file("make a folder in", &std::env::temp_dir(), &e))?;
    let (archive, ir) = compiled(options)?;
    let code = code::compile(&ir, &archive, work.path())?;
    let folder = work.path().join("module");
    std::fs::create_dir(&folder).map_err(|e| InstallError::file("make", &folder, &e))?;
    let extension = extension_name(&archive);
    let lines = lines::read(&code.image, code::SECTION)?;
    let Code { object, contents, .. } = code;
    glue::write(&folder, &extension)?;
    put(&folder.join("tables.c"), tables::source(&contents, &lines).as_bytes())?;
    put(&folder.join("code.o"), &object)?;
    // Of a file that it has compiled itself, `make` would have noted here how.
    put(&folder.join(".code.o.cmd"), b"")?;
    run(Command::new("make")
        .arg("-C")
        .arg(&options.headers.folder)
        .arg(format!("M={}", folder.display()))
        // The same bytes whatever the folder is called.
        .arg(format!("KCFLAGS=-ffile-prefix-map={}=.", folder.display()))
        .args(["LDFLAGS_MODULE=--build-id=none", "modules"]))?;
    let name = format!("kara_{extension}");
    let path = folder.join(format!("{name}.ko"));
    run(Command::new("objcopy").arg("--strip-debug").arg(&path))?;
    let module = std::fs::read(&path).map_err(|e| InstallError::file("read", &path, &e))?;
    Ok(NativeModule { name, module, programs: contents.programs, code_bytes: object.len() })
}

/// Runs cargo; returns the archive, and LLVM's text form of the whole program.
fn compiled(options: &ModuleOptions) -> Result<(PathBuf, String), InstallError> {
    let target_dir =
        std::path::absolute(&options.target_dir).map_err(|e| InstallError::file("find", &options.target_dir, &e))?;
    // Of this crate alone: cargo does not write it again when nothing has changed.
    let mut hasher = DefaultHasher::new();
    std::path::absolute(&options.folder).unwrap_or_default().hash(&mut hasher);
    let ir = target_dir.join(TARGET).join(format!("extension-{:016x}.ll", hasher.finish()));
    let source = Source {
        folder: &options.folder,
        target_dir: &target_dir,
        extension: options.extension.as_deref(),
        features: &options.features,
    };
    let arguments = ["-Crelocation-model=static", "-Ccode-model=kernel"].map(String::from).to_vec();
    let emit = format!("--emit=link,llvm-ir={}", ir.display());
    let output = Output {
        target: TARGET,
        crate_type: "staticlib",
        extension: "a",
        arguments: [arguments, vec![emit]].concat(),
        flags: Vec::new(),
    };
    let archive = compile(&source, &output)?;
    let text = std::fs::read_to_string(&ir).map_err(|e| InstallError::file("read", &ir, &e))?;
    Ok((archive, text))
}

/// The crate's name, from its archive `libNAME.a`.
fn extension_name(archive: &Path) -> String {
    let stem = archive.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.strip_prefix("lib").unwrap_or(&stem).to_string()
}
