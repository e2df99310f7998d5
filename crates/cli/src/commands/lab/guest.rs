//! `kara lab guest`: a command in a virtual machine with another kernel.

use super::machine::CacheOption;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output::{self, Artefact};
use karakoram_lab::guest::{Done, Job};
use serde_json::json;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  kara lab guest --kernel 6.1 -- uname -r
  kara lab guest --kernel 6.12 --file prog.o -- kara stat prog.o
  kara lab guest --kernel 6.12 --module tcp_dctcp -- sysctl net.ipv4.tcp_available_congestion_control
  kara lab guest --kernel 6.12 --count --file prog.o -- kara run prog.o --input hex:00 --on kernel

The kernel comes from Debian's packages, once, into a cache folder. The guest is emulated (QEMU), so
it needs no privilege; it has busybox, kara, and the files that are named; it has no network. Times
inside mean nothing, except with --count: then a nanosecond is an instruction.
What the command writes to /out comes back with --output.

Exit status: 0 the command ended with 0, 1 it ended with something else, 2 wrong request, 3 not
possible on this machine.";

/// Options of `kara lab guest`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Version of the kernel: the newest 6.1, 6.12, ... that Debian has
    #[arg(long, value_name = "VERSION")]
    kernel: String,
    /// File or folder for the guest, under its own name in the folder of the command; may be repeated
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Module of the kernel to load before; may be repeated
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Processors of the guest; 1 with --count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    processors: u32,
    /// Folder for what the command wrote to /out
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Let the guest's clock count instructions
    #[arg(long)]
    count: bool,
    /// End the guest after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    time_limit: u64,
    /// Memory of the guest in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048, hide_short_help = true)]
    memory: u32,
    #[command(flatten)]
    cache: CacheOption,
    /// The command
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Options {
    /// Boots, runs, and hands back.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let mut job = Job {
            files: self.file.iter().map(|path| (own_name(path), path.clone())).collect(),
            modules: self.module.clone(),
            processors: if self.count { 1 } else { self.processors },
            counts_instructions: self.count,
            time_limit: Duration::from_secs(self.time_limit),
            memory_mib: self.memory,
            ..Job::new(quoted(&self.command))
        };
        let done = self.cache.run(&self.kernel, &mut job)?;
        self.keep_files(&done)?;
        let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        if common.json {
            output::print_json(&json!({
                "schema": "kara/lab/guest/1", "ok": done.exit == 0, "exit": done.exit, "stdout": stdout, "stderr": stderr,
            }));
        } else {
            output::print_text(&stdout);
            eprint!("{stderr}");
        }
        Ok(if done.exit == 0 { Answer::Yes } else { Answer::No })
    }

    fn keep_files(&self, done: &Done) -> Result<(), Failure> {
        let Some(folder) = &self.output else { return Ok(()) };
        for (name, content) in &done.files {
            // Names come from inside; they must stay below the folder.
            let is_below = name.components().all(|c| matches!(c, Component::Normal(_)));
            let path = folder.join(name);
            let text = path.display().to_string();
            if !is_below {
                return Err(Failure::input(format!("the guest sent a file with the name {}", name.display())));
            }
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(|e| Failure::file(&text, "make the folder of", &e))?;
            output::write(&text, &Artefact::Binary(content.clone()))?;
        }
        Ok(())
    }
}

fn own_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "files".to_string(), |n| n.to_string_lossy().into_owned())
}

/// Words as a shell reads them back.
pub fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        let words = ["a b".to_string(), "it's".to_string()];
        assert_eq!(quoted(&words), "'a b' 'it'\\''s'");
    }
}
