//! `kara ext build`: a crate to an object, or to a module.

use crate::arguments::Common;
use crate::commands::lab::machine::{self, CacheOption};
use crate::failure::{Answer, Failure};
use crate::output::{self, Artefact};
use karakoram_installer::{BuildOptions, vendor};
use karakoram_lab::guest::Headers;
use karakoram_native::ModuleOptions;
use karakoram_translator::launder::Launder;
use karakoram_translator::manifest::Program;
use serde_json::json;
use std::path::PathBuf;

/// Options of `kara ext build`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// The crate's folder
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Object or module to write
    #[arg(short, long, value_name = "OUT")]
    output: String,
    /// What to make of it
    #[arg(long, value_enum, default_value_t = Backend::Bpf)]
    backend: Backend,
    /// For a module: version of Debian's kernel that it is for, such as 6.12 (default: the running kernel)
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Features of the crate to build with, besides its default ones
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    features: Vec<String>,
    #[command(flatten)]
    cache: CacheOption,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Backend {
    /// An object that any kernel from 6.12 on verifies
    Bpf,
    /// A module of native code for one build of a kernel; the Rust compiler is then trusted
    Module,
}

impl Options {
    /// Builds.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let shown = self.folder.display().to_string();
        if !self.folder.join("Cargo.toml").exists() {
            return Err(Failure::usage("there is no crate here")
                .of_file(&shown)
                .help("make one with: kara ext new NAME"));
        }
        output::check(&self.output, true)?;
        // Crates that `kara ext new` made use the extension crate of this very version.
        let vendored = self.folder.join(".kara");
        if std::fs::read_to_string(self.folder.join("Cargo.toml")).is_ok_and(|m| m.contains(".kara/extension")) {
            vendor::write(&vendored).map_err(super::failure)?;
        }
        match self.backend {
            Backend::Bpf => self.build_object(common),
            Backend::Module => self.build_module(common),
        }
    }

    fn build_object(&self, common: &Common) -> Result<Answer, Failure> {
        if self.kernel.is_some() {
            return Err(Failure::usage("--kernel is for --backend module: objects are for any kernel"));
        }
        let options = BuildOptions {
            folder: self.folder.clone(),
            target_dir: self.folder.join("target"),
            extension: None,
            features: self.features.clone(),
            launder: Launder::default(),
            translation: Default::default(),
        };
        let built = karakoram_installer::build::build_with_forms(&options).map_err(super::failure)?;
        output::write(&self.output, &Artefact::Binary(built.object.clone()))?;
        let wasm = built.wasm_bytes;
        let from = String::new();
        self.report(common, &built.manifest.programs, built.object.len(), ("wasm_bytes", wasm), &from);
        Ok(Answer::Yes)
    }

    fn build_module(&self, common: &Common) -> Result<Answer, Failure> {
        let options = ModuleOptions {
            folder: self.folder.clone(),
            target_dir: self.folder.join("target"),
            extension: None,
            features: self.features.clone(),
            headers: match &self.kernel {
                Some(version) => self.cache.kernels()?.headers(version).map_err(machine::failure)?,
                None => Headers::of_running().map_err(machine::failure)?,
            },
        };
        let built = karakoram_native::build(&options).map_err(super::failure)?;
        output::write(&self.output, &Artefact::Binary(built.module.clone()))?;
        let from = format!(", module {}, {} of them the extension's", built.name, built.code_bytes);
        self.report(common, &built.programs, built.module.len(), ("code_bytes", built.code_bytes), &from);
        Ok(Answer::Yes)
    }

    fn report(&self, common: &Common, programs: &[Program], bytes: usize, inner: (&str, usize), from: &str) {
        if common.json {
            output::print_json(&json!({
                "schema": "kara/ext-build/1", "ok": true, "exit_code": 0, "output": self.output,
                "programs": programs, "bytes": bytes, inner.0: inner.1,
            }));
        } else if !common.quiet {
            let names: Vec<String> = programs.iter().map(|p| format!("{} ({})", p.name, p.hook)).collect();
            let what = if names.len() == 1 { "program" } else { "programs" };
            eprintln!("{}: {what} {}, {bytes} bytes{from}", self.output, names.join(", "));
        }
    }
}
