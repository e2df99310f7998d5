//! `kara ext build`: a crate to an object.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output::{self, Artefact};
use karakoram_installer::{BuildOptions, vendor};
use karakoram_translator::launder::Launder;
use serde_json::json;
use std::path::PathBuf;

/// Options of `kara ext build`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// The crate's folder
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Object to write
    #[arg(short, long, value_name = "OUT")]
    output: String,
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
        let options = BuildOptions {
            folder: self.folder.clone(),
            target_dir: self.folder.join("target"),
            extension: None,
            launder: Launder::default(),
            translation: Default::default(),
        };
        let built = karakoram_installer::build(&options).map_err(super::failure)?;
        output::write(&self.output, &Artefact::Binary(built.object.clone()))?;
        let names: Vec<&str> = built.manifest.programs.iter().map(|p| p.name.as_str()).collect();
        if common.json {
            output::print_json(&json!({
                "schema": "kara/ext-build/1", "ok": true, "exit_code": 0, "output": self.output,
                "programs": built.manifest.programs, "bytes": built.object.len(), "wasm_bytes": built.wasm_bytes,
            }));
        } else if !common.quiet {
            let bytes = built.object.len();
            eprintln!(
                "{}: {} ({bytes} bytes, from {} of WebAssembly)",
                self.output,
                names.join(", "),
                built.wasm_bytes
            );
        }
        Ok(Answer::Yes)
    }
}
