//! LLVM's own tools, as rustup installs them, from text to an object.

use crate::error::TranslateError;
use crate::launder::{Launder, launder};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::io::Write;

/// Arguments that all runs of `llc` share: the fourth instruction set is older than arenas, and x86
/// and arm64 access memory at any address.
const TARGET: [&str; 3] = ["-march=bpfel", "-mcpu=v4", "-mattr=+allows-misaligned-mem-access"];

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

    /// An object from LLVM's text form.
    pub fn compile(&self, ir: &str, how: Launder) -> Result<Vec<u8>, TranslateError> {
        self.assemble(&launder(&self.assembly(ir)?, how))
    }

    /// Optimized assembly text.
    pub fn assembly(&self, ir: &str) -> Result<String, TranslateError> {
        let optimized = self.run("opt", &["-O2", "-S", "-o", "-", "-"], ir.as_bytes())?;
        let mut arguments = TARGET.to_vec();
        arguments.extend(["-filetype=asm", "-o", "-", "-"]);
        let text = self.run("llc", &arguments, &optimized)?;
        String::from_utf8(text).map_err(|_| TranslateError::Tool("llc wrote something that is no text".into()))
    }

    /// An object from assembly text, which `llc` only takes as part of a module.
    pub fn assemble(&self, text: &str) -> Result<Vec<u8>, TranslateError> {
        let mut module = String::from("target triple = \"bpfel\"\n");
        for line in text.lines() {
            module.push_str("module asm \"");
            for byte in line.bytes() {
                match byte {
                    b'"' | b'\\' | 0..=31 | 127.. => module.push_str(&format!("\\{byte:02X}")),
                    _ => module.push(byte as char),
                }
            }
            module.push_str("\"\n");
        }
        let mut arguments = TARGET.to_vec();
        arguments.extend(["-filetype=obj", "-o", "-", "-"]);
        self.run("llc", &arguments, module.as_bytes())
    }

    fn run(&self, tool: &str, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, TranslateError> {
        let failed = |what: String| TranslateError::Tool(format!("{tool}: {what}"));
        let mut child = Command::new(self.bin.join(tool))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(e.to_string()))?;
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output()
        })
        .map_err(|e| failed(e.to_string()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(failed(said.lines().take(3).collect::<Vec<_>>().join("; ")))
            }
        }
    }
}
