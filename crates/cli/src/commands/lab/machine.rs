//! The kernels that lab commands work on: the running one, and guests.

use crate::failure::Failure;
use crate::interrupt;
use karakoram_lab::error::LabError;
use karakoram_lab::guest::{self, Done, Job, Kernels};
use std::path::PathBuf;

/// A kernel to work on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The one of this machine.
    Running,
    /// One of Debian's, in a guest.
    Guest(String),
}

impl Target {
    /// Reads `running` or a version.
    pub fn parse(text: &str) -> Result<Target, String> {
        match text {
            "running" => Ok(Target::Running),
            version if version.starts_with(|c: char| c.is_ascii_digit()) => Ok(Target::Guest(version.to_string())),
            _ => Err("expected `running` or a version such as 6.12".to_string()),
        }
    }
}

/// Where kernels are kept.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CacheOption {
    /// Folder for the kernels of guests (default: karakoram in the user's cache folder)
    #[arg(id = "cache", long = "cache", value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl CacheOption {
    /// The kernels there.
    pub fn kernels(&self) -> Result<Kernels, Failure> {
        let folder = self.folder.clone().or_else(guest::default_cache).ok_or_else(|| {
            Failure::usage("it is not known where kernels are to be kept: HOME is not set").help("say it with --cache")
        })?;
        Ok(Kernels::new(folder))
    }

    /// Runs a job on the newest kernel of a version, with this program as `kara`.
    pub fn run(&self, version: &str, job: &mut Job) -> Result<Done, Failure> {
        let kernels = self.kernels()?;
        let kara =
            std::env::current_exe().map_err(|e| Failure::machine(format!("this program cannot be found: {e}")))?;
        job.programs.push(("kara".to_string(), kara));
        let kernel = kernels.get(version, &job.modules).map_err(failure)?;
        guest::run(&kernel, job, &interrupt::is_asked).map_err(failure)
    }
}

/// What the lab says, as all commands say it.
pub fn failure(error: LabError) -> Failure {
    match &error {
        LabError::Machine(_, help) => Failure::machine(error.to_string()).help(help.clone()),
        LabError::Request(_) => Failure::usage(error.to_string()),
        LabError::Interrupted => Failure::machine("interrupted: the guest was ended, nothing is left of it"),
    }
}
