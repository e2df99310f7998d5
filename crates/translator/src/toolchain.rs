//! LLVM's own tools, as rustup installs them, from text to an object.

use crate::error::TranslateError;
use crate::launder::{Launder, launder};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Arguments that all runs of `llc` share: the fourth instruction set is older than arenas, and x86
/// and arm64 access memory at any address. Loads that extend signs came to arenas late (Linux 6.18).
/// Frames may be larger here than the kernel takes: which are is seen in the object, and then their
/// locals move to the arena.
const TARGET: [&str; 5] =
    ["-march=bpfel", "-mcpu=v4", "-mattr=+allows-misaligned-mem-access", "-disable-ldsx", "-bpf-stack-size=16384"];

/// BPF has no vectors: what is made of them is only taken apart again.
const OPTIMIZATIONS: [&str; 7] = ["-O2", "-vectorize-slp=false", "-vectorize-loops=false", "-S", "-o", "-", "-"];

/// Where `opt` and `llc` are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    bin: PathBuf,
}

impl Toolchain {
    /// The tools that belong to the Rust compiler in use.
    pub fn find() -> Result<Toolchain, TranslateError> {
        let said = Command::new("rustc").args(["--print", "target-libdir"]).output();
        let lib = match said {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
            _ => return Err(TranslateError::Tool("there is no rustc here; install Rust with rustup".into())),
        };
        let bin = Path::new(&lib).parent().unwrap_or(Path::new("")).join("bin");
        match ["opt", "llc"].iter().all(|tool| bin.join(tool).exists()) {
            true => Ok(Toolchain { bin }),
            false => Err(TranslateError::Tool(format!(
                "the Rust toolchain has no LLVM tools ({} is missing); add them with: rustup component add llvm-tools",
                bin.join("llc").display()
            ))),
        }
    }

    /// LLVM's text form, optimized; or the functions that should have their part of the stack in the arena
    /// ([`Options::stack_in_arena`]), which only shows here.
    ///
    /// [`Options::stack_in_arena`]: crate::Options::stack_in_arena
    pub fn optimize(&self, ir: &str) -> Result<Result<String, Vec<u32>>, TranslateError> {
        let optimized = self.run("opt", &OPTIMIZATIONS, ir.as_bytes())?;
        let optimized = String::from_utf8(optimized).map_err(|_| failed("opt", "wrote something that is no text"))?;
        let left = crate::function::left(&optimized);
        Ok(if left.is_empty() { Ok(optimized) } else { Err(left) })
    }

    /// An object from LLVM's text form that is optimized.
    pub fn compile(&self, optimized: &str, how: Launder) -> Result<Vec<u8>, TranslateError> {
        let mut arguments = TARGET.to_vec();
        arguments.extend(["-filetype=obj", "-o", "-", "-"]);
        let object = self.run("llc", &arguments, launder(optimized, how).as_bytes())?;
        // Only the types for the kernel are wanted.
        self.run("llvm-objcopy", &["--strip-debug", "-", "-"], &object)
    }

    /// An object with more sections, which nothing in it refers to.
    pub fn with_sections(&self, object: &[u8], sections: &[(String, Vec<u8>)]) -> Result<Vec<u8>, TranslateError> {
        let folder = tempfile::tempdir().map_err(|e| failed("llvm-objcopy", &e.to_string()))?;
        let mut arguments = Vec::new();
        for (number, (name, bytes)) in sections.iter().enumerate() {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, bytes).map_err(|e| failed("llvm-objcopy", &e.to_string()))?;
            arguments.push(format!("--add-section={name}={}", path.display()));
        }
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.extend(["-", "-"]);
        self.run("llvm-objcopy", &arguments, object)
    }

    /// Machine code for x86-64 as assembly, from LLVM's text form that is optimized already.
    pub fn assembly(&self, ir: &str, arguments: &[&str]) -> Result<String, TranslateError> {
        let text = self.run("llc", &[arguments, &["-o", "-", "-"]].concat(), ir.as_bytes())?;
        String::from_utf8(text).map_err(|_| failed("llc", "wrote something that is no text"))
    }

    /// Links an archive of WebAssembly objects to a module with these functions.
    pub fn link(&self, archive: &Path, exports: &[&str], stack_argument: &str) -> Result<Vec<u8>, TranslateError> {
        let out = archive.with_extension(format!("{}.wasm", std::process::id()));
        let exports = exports.iter().map(|e| format!("--export={e}"));
        let said = Command::new(self.bin.join("rust-lld"))
            .args(["-flavor", "wasm", "--no-entry", "--gc-sections", "--stack-first", stack_argument])
            .args(exports)
            .arg(archive)
            .arg("-o")
            .arg(&out)
            .output();
        let said = said.map_err(|e| failed("rust-lld", &e.to_string()))?;
        if !said.status.success() {
            return Err(failed("rust-lld", &first_lines(&said.stderr)));
        }
        let bytes = std::fs::read(&out).map_err(|e| failed("rust-lld", &e.to_string()));
        let _ = std::fs::remove_file(&out);
        bytes
    }

    fn run(&self, tool: &str, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, TranslateError> {
        let mut child = Command::new(self.bin.join(tool))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(tool, &e.to_string()))?;
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output()
        })
        .map_err(|e| failed(tool, &e.to_string()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(failed(tool, &first_lines(&output.stderr))),
        }
    }
}

fn failed(tool: &str, what: &str) -> TranslateError {
    TranslateError::Tool(format!("{tool}: {what}"))
}

fn first_lines(said: &[u8]) -> String {
    String::from_utf8_lossy(said).lines().take(3).collect::<Vec<_>>().join("; ")
}
