//! From a crate to an object: cargo makes WebAssembly, the translator makes LLVM's text form, rustup's
//! LLVM makes BPF.
//!
//! What the crate may do is decided here and not in its own manifest: no unsafe code, panics that end
//! the run, one unit of code, checked arithmetic as the release profile has it.

use crate::compiler;
use crate::error::InstallError;
use crate::forms;
use crate::frames;
use karakoram_translator::launder::Launder;
use karakoram_translator::maps::EXPORT;
use karakoram_translator::toolchain::Toolchain;
use karakoram_translator::{Manifest, Options, translate};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The target that rustup has ready-made libraries for and that this translates from.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The first 64 KiB of memory are never there; the stack is elsewhere.
const STACK_ARGUMENT: &str = "-zstack-size=65536";
/// Without it atomics become plain accesses, as WebAssembly has one thread.
const ATOMICS: &str = "-Ctarget-feature=+atomics";

/// Which part of a program's symbol is its name.
const NAME: usize = 3;

/// Translations of a program until its frames are small enough.
const MOST_ATTEMPTS: usize = 32;

/// How to build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The crate's folder.
    pub folder: PathBuf,
    /// Where cargo puts what it makes.
    pub target_dir: PathBuf,
    /// The extension crate, in place of the one that the manifest names.
    pub extension: Option<PathBuf>,
    /// Features of the crate to build with, besides its default ones.
    pub features: Vec<String>,
    /// How the verifier is made to forget.
    pub launder: Launder,
    /// What the translator does.
    pub translation: Options,
}

/// What was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// The object.
    pub object: Vec<u8>,
    /// What is in it.
    pub manifest: Manifest,
    /// Bytes of WebAssembly it was made from.
    pub wasm_bytes: usize,
}

/// Builds.
pub fn build(options: &BuildOptions) -> Result<Built, InstallError> {
    let toolchain = Toolchain::find()?;
    translate_to_object(&toolchain, &web_assembly(options)?, options)
}

/// Builds an object that carries other forms of itself, for kernels that refuse the first one ([`forms`]).
pub fn build_with_forms(options: &BuildOptions) -> Result<Built, InstallError> {
    let toolchain = Toolchain::find()?;
    let wasm = web_assembly(options)?;
    let built = translate_to_object(&toolchain, &wasm, options)?;
    forms::add(&toolchain, &wasm, options, built)
}

fn web_assembly(options: &BuildOptions) -> Result<Vec<u8>, InstallError> {
    let path = compile(&source(options), &WebAssembly("cdylib", "wasm").into())?;
    std::fs::read(&path).map_err(|e| InstallError::file("read", &path, &e))
}

/// A crate whose programs become objects of their own. What they share in the source is then not
/// shared; in return no program carries what only others need.
pub struct Separate {
    toolchain: Toolchain,
    archive: PathBuf,
    symbols: Vec<String>,
    maps: Vec<String>,
    options: BuildOptions,
}

/// Compiles, for [`Separate::build`].
pub fn separate(options: &BuildOptions) -> Result<Separate, InstallError> {
    let toolchain = Toolchain::find()?;
    let archive = compile(&source(options), &WebAssembly("staticlib", "a").into())?;
    let bytes = std::fs::read(&archive).map_err(|e| InstallError::file("read", &archive, &e))?;
    let programs = symbols(&bytes, "kara:").into_iter().filter(|s| matches!(s.split(':').count(), 4 | 6));
    let maps = symbols(&bytes, EXPORT);
    Ok(Separate { toolchain, archive, symbols: programs.collect(), maps, options: options.clone() })
}

impl Separate {
    /// Names of the programs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.iter().filter_map(|s| s.split(':').nth(NAME))
    }

    /// One of them.
    pub fn build(&self, name: &str) -> Result<Built, InstallError> {
        translate_to_object(&self.toolchain, &self.web_assembly(name)?, &self.options)
    }

    /// One of them, with other forms of itself ([`forms`]).
    pub fn build_with_forms(&self, name: &str) -> Result<Built, InstallError> {
        let wasm = self.web_assembly(name)?;
        let built = translate_to_object(&self.toolchain, &wasm, &self.options)?;
        forms::add(&self.toolchain, &wasm, &self.options, built)
    }

    fn web_assembly(&self, name: &str) -> Result<Vec<u8>, InstallError> {
        let Some(symbol) = self.symbols.iter().find(|s| s.split(':').nth(NAME) == Some(name)) else {
            return Err(InstallError::Source(format!("there is no program {name}")));
        };
        let exports: Vec<&str> = std::iter::once(symbol).chain(&self.maps).map(String::as_str).collect();
        Ok(self.toolchain.link(&self.archive, &exports, STACK_ARGUMENT)?)
    }
}

/// Names in an archive that begin so.
fn symbols(archive: &[u8], start: &str) -> Vec<String> {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-');
    let found = archive.windows(start.len()).enumerate().filter(|(_, w)| *w == start.as_bytes()).map(|(at, _)| {
        let text: Vec<u8> = archive[at..].iter().copied().take_while(is_part).collect();
        String::from_utf8(text).expect("letters")
    });
    let mut found: Vec<String> = found.collect();
    found.sort();
    found.dedup();
    found
}

/// From WebAssembly on. Functions whose frames are too large together are translated again, with their
/// locals in the arena.
pub fn translate_to_object(toolchain: &Toolchain, wasm: &[u8], options: &BuildOptions) -> Result<Built, InstallError> {
    let mut translation_options = options.translation.clone();
    let mut object = Vec::new();
    for _ in 0..MOST_ATTEMPTS {
        let translation = translate(wasm, &translation_options)?;
        let optimized = match toolchain.optimize(&translation.ir)? {
            Ok(optimized) => optimized,
            Err(functions) => {
                translation_options.stack_in_arena.extend(functions);
                continue;
            }
        };
        object = toolchain.compile(&optimized, options.launder)?;
        if !frames::shrink(&object, &translation.entries, &mut translation_options) {
            frames::check(&object, Some(wasm))?;
            return Ok(Built { object, manifest: translation.manifest, wasm_bytes: wasm.len() });
        }
    }
    frames::check(&object, Some(wasm))?;
    Err(InstallError::Source(
        "its functions need too much of the kernel's stack, even with their variables elsewhere".into(),
    ))
}

/// A crate to compile.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its folder.
    pub folder: &'a Path,
    /// Where cargo puts what it makes.
    pub target_dir: &'a Path,
    /// The extension crate, in place of the one that the manifest names.
    pub extension: Option<&'a Path>,
    /// Features to build with, besides its default ones.
    pub features: &'a [String],
}

/// What is made of a crate.
#[derive(Clone, Debug)]
pub struct Output {
    /// Target, as rustup names it.
    pub target: &'static str,
    /// Crate type, as rustc names it.
    pub crate_type: &'static str,
    /// How the name of the file ends.
    pub extension: &'static str,
    /// What rustc is told for this crate.
    pub arguments: Vec<String>,
    /// What rustc is told for every crate.
    pub flags: Vec<String>,
}

fn source(options: &BuildOptions) -> Source<'_> {
    Source {
        folder: &options.folder,
        target_dir: &options.target_dir,
        extension: options.extension.as_deref(),
        features: &options.features,
    }
}

/// A crate type and how its file's name ends.
struct WebAssembly(&'static str, &'static str);

impl From<WebAssembly> for Output {
    fn from(WebAssembly(crate_type, extension): WebAssembly) -> Output {
        let flags = vec![ATOMICS.to_string(), format!("-Clink-arg={STACK_ARGUMENT}")];
        Output { target: TARGET, crate_type, extension, arguments: Vec::new(), flags }
    }
}

/// Runs cargo; returns the file it makes.
pub fn compile(source: &Source, wanted: &Output) -> Result<PathBuf, InstallError> {
    let manifest = source.folder.join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["rustc", "--quiet", "--release", "--lib", "--target", wanted.target]);
    command.args(["--crate-type", wanted.crate_type, "--message-format", "json-render-diagnostics"]);
    command.arg("--manifest-path").arg(&manifest).arg("--target-dir").arg(source.target_dir);
    for setting in ["lto=\"fat\"", "panic=\"abort\"", "codegen-units=1", "opt-level=3", "debug=\"line-tables-only\""] {
        command.arg("--config").arg(format!("profile.release.{setting}"));
    }
    if let Some(path) = source.extension {
        let path = path.canonicalize().map_err(|e| InstallError::file("find", path, &e))?;
        for (name, folder) in [
            ("karakoram-extension", path.clone()),
            ("karakoram-extension-macros", path.with_file_name("extension-macros")),
        ] {
            command.arg("--config").arg(format!("patch.crates-io.{name}.path={:?}", folder.display().to_string()));
        }
    }
    if !source.features.is_empty() {
        command.arg("--features").arg(source.features.join(","));
    }
    command.args(["--", "-Funsafe_code"]).args(&wanted.arguments);
    command.env("CARGO_ENCODED_RUSTFLAGS", wanted.flags.join("\u{1f}"));
    // Incremental compilation cuts crates into other pieces, which are then put together in another order.
    command.env("CARGO_INCREMENTAL", "0").env("RUSTC_WRAPPER", compiler::write(source.target_dir)?);
    command.stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|e| InstallError::Machine(format!("could not run cargo: {e}"), "install Rust with rustup".into()))?;
    if !output.status.success() {
        return Err(explain(&String::from_utf8_lossy(&output.stderr), wanted.target));
    }
    artifact(&String::from_utf8_lossy(&output.stdout), wanted.extension)
        .ok_or_else(|| InstallError::Source(format!("{} has no library", manifest.display())))
}

/// What cargo said, without what it always says.
fn explain(said: &str, target: &str) -> InstallError {
    if said.contains("can't find crate for `core`") || said.contains("target may not be installed") {
        return InstallError::Machine(
            format!("the Rust toolchain has no libraries for {target}"),
            format!("rustup target add {target}"),
        );
    }
    if said.contains("can't find crate for `std`") {
        return InstallError::Source("there is no `std` in the kernel: say #![cfg_attr(not(test), no_std)]".into());
    }
    let mut kept = String::new();
    let mut is_noise = false;
    for line in said.lines() {
        if line.starts_with("warning: unstable feature specified for `-Ctarget-feature`") {
            is_noise = true;
        } else if line.is_empty() {
            is_noise = false;
        }
        if !is_noise {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    InstallError::Source(kept.trim().to_string())
}

/// The last file of that kind that cargo says it has made.
fn artifact(messages: &str, extension: &str) -> Option<PathBuf> {
    let files = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    files
        .filter(|m| m["reason"] == "compiler-artifact")
        .filter_map(|m| {
            let names = m["filenames"].as_array()?.iter().filter_map(|n| n.as_str());
            names.map(Path::new).find(|p| p.extension().is_some_and(|e| e == extension)).map(Path::to_path_buf)
        })
        .next_back()
}
