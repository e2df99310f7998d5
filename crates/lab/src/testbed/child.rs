//! Programs that run in a namespace: servers and generators that are not ours.

use super::namespace::Namespace;
use crate::error::LabError;
use karakoram_kernel::sys::process::spawn_bound;
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A running program; killed when dropped, and by the kernel when this thread ends.
pub struct Child {
    process: std::process::Child,
    name: String,
}

impl Child {
    /// Starts it on these CPUs (none means any), without input. Its output can be had from
    /// [`Child::output`].
    pub fn start(command: &mut Command, namespace: &Namespace, cpus: &[usize]) -> Result<Child, LabError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = spawn_bound(command, namespace.fd(), cpus).map_err(|e| LabError::tool(&name, &e))?;
        Ok(Child { process, name })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ended.
    pub fn is_over(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// As [`Child::output`], but none when it has not ended by then; it is killed.
    pub fn output_within(mut self, time: Duration) -> Result<Option<String>, LabError> {
        let start = Instant::now();
        while !self.is_over() {
            if start.elapsed() > time {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.output().map(Some)
    }

    /// Waits until it ends, and returns what it printed; an error with its complaint when it failed.
    pub fn output(mut self) -> Result<String, LabError> {
        let read = |from: Option<&mut dyn io::Read>| {
            let mut text = String::new();
            from.map(|f| f.read_to_string(&mut text)).transpose().map(|_| text)
        };
        let said = read(self.process.stdout.as_mut().map(|s| s as _)).map_err(|e| LabError::tool(&self.name, &e))?;
        let complaint = read(self.process.stderr.as_mut().map(|s| s as _)).unwrap_or_default();
        let status = self.process.wait().map_err(|e| LabError::tool(&self.name, &e))?;
        if status.success() {
            return Ok(said);
        }
        let why = if complaint.trim().is_empty() { said } else { complaint };
        Err(LabError::Machine(format!("{} failed ({status}): {}", self.name, why.trim()), String::new()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
