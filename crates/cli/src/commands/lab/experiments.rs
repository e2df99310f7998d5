//! Where experiments are.

use super::machine::failure;
use crate::failure::Failure;
use karakoram_lab::experiment::Experiment;
use std::path::{Path, PathBuf};

/// The folder of experiments.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FolderOption {
    /// Folder with a folder for each experiment (default: experiments, here or in a folder above)
    #[arg(long, value_name = "DIR")]
    experiments: Option<PathBuf>,
}

impl FolderOption {
    /// The folder.
    pub fn find(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.experiments {
            return Ok(folder.clone());
        }
        let here = std::env::current_dir().map_err(|e| Failure::file(".", "find", &e))?;
        let found = here.ancestors().map(|f| f.join("experiments")).find(|f| f.is_dir());
        found.ok_or_else(|| {
            Failure::usage("there is no folder of experiments here or above").help("name it with --experiments DIR")
        })
    }

    /// The experiment of that name.
    pub fn named(&self, name: &str) -> Result<Experiment, Failure> {
        let folder = self.find()?;
        let path = folder.join(name);
        if !path.join("experiment.toml").is_file() {
            let names: Vec<String> = names(&folder)?;
            return Err(Failure::usage(format!("there is no experiment {name}"))
                .help(format!("there are: {}", names.join(", "))));
        }
        Experiment::read(&path).map_err(failure)
    }

    /// All of them, by name.
    pub fn all(&self) -> Result<Vec<Experiment>, Failure> {
        let folder = self.find()?;
        names(&folder)?.iter().map(|name| Experiment::read(&folder.join(name)).map_err(failure)).collect()
    }
}

fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let shown = folder.display().to_string();
    let entries = std::fs::read_dir(folder).map_err(|e| Failure::file(&shown, "read", &e).of_file(&shown))?;
    let is_one = |e: &std::fs::DirEntry| e.path().join("experiment.toml").is_file();
    let found = entries.flatten().filter(is_one).map(|e| e.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = found.collect();
    names.sort();
    Ok(names)
}
