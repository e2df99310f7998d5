//! A virtual machine with another kernel: Debian's kernel image, an initial file system with busybox
//! and the programs that are wanted, QEMU with software emulation, two serial ports. Needs no
//! privilege, no network inside, no modules but those that are asked for, and leaves nothing behind but the kernel in the cache.
//!
//! With [`Job::counts_instructions`] the guest's clock advances by one nanosecond for each
//! instruction (`-icount shift=0`), so that times inside are instruction counts, the same in every
//! run. Without it they mean nothing.

mod headers;
mod initramfs;
mod kernels;

pub use headers::Headers;
pub use initramfs::Initramfs;
pub use kernels::{Kernel, Kernels, default_cache};

use crate::error::LabError;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often a running guest is looked at.
const POLL: Duration = Duration::from_millis(20);
/// The guest's first process.
const INIT: &str = include_str!("guest/init.sh");

/// What a guest is to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// Files and folders, by their place below `/job` and their place here.
    pub files: Vec<(String, PathBuf)>,
    /// Programs for `/bin`, with the shared libraries they need.
    pub programs: Vec<(String, PathBuf)>,
    /// Modules of the kernel that are loaded before, in this order.
    pub modules: Vec<String>,
    /// Processors.
    pub processors: u32,
    /// Shell command that is run in `/job`. What it leaves in `/out` comes back.
    pub command: String,
    /// Whether the guest's clock counts instructions.
    pub counts_instructions: bool,
    /// When the guest is ended.
    pub time_limit: Duration,
    /// Memory of the guest.
    pub memory_mib: u32,
}

impl Job {
    /// A job without files.
    pub fn new(command: impl Into<String>) -> Job {
        Job {
            files: Vec::new(),
            programs: Vec::new(),
            modules: Vec::new(),
            processors: 1,
            command: command.into(),
            counts_instructions: false,
            time_limit: Duration::from_secs(600),
            memory_mib: 2048,
        }
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Exit status of the command.
    pub exit: i32,
    /// Its output.
    pub stdout: Vec<u8>,
    /// Its errors.
    pub stderr: Vec<u8>,
    /// Files from `/out`, by name.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

/// Boots a kernel, does the job, and shuts down. `is_interrupted` is asked now and then.
pub fn run(kernel: &Kernel, job: &Job, is_interrupted: &dyn Fn() -> bool) -> Result<Done, LabError> {
    let folder = tempfile::Builder::new()
        .prefix("kara-guest-")
        .tempdir()
        .map_err(|e| LabError::file("make a folder in", &std::env::temp_dir(), &e))?;
    let image = folder.path().join("initramfs");
    let result = folder.path().join("result");
    let console = folder.path().join("console");
    let bytes = initial_files(kernel, job)?;
    std::fs::write(&image, bytes).map_err(|e| LabError::file("write", &image, &e))?;
    let mut qemu = Running(start(&kernel.image, &image, &console, &result, job)?);
    qemu.wait(job.time_limit, is_interrupted, &console)?;
    let bytes = std::fs::read(&result).map_err(|e| LabError::file("read", &result, &e))?;
    unpack(&bytes).map_err(|why| died(&why, &console))
}

fn initial_files(kernel: &Kernel, job: &Job) -> Result<Vec<u8>, LabError> {
    let mut files = Initramfs::new();
    files.program("busybox", &kernels::find_tool("busybox")?)?;
    for (name, path) in &job.programs {
        files.program(name, path)?;
    }
    for (name, path) in &job.files {
        files.tree(&format!("job/{name}"), path)?;
    }
    for (place, name) in job.modules.iter().enumerate() {
        files.tree(&format!("modules/{place:02}-{name}.ko"), &kernel.module(name))?;
    }
    files.tree("boot/config", &kernel.configuration)?;
    files.file("init", 0o755, INIT.as_bytes());
    files.file("job/.command", 0o644, job.command.as_bytes());
    Ok(files.finish())
}

fn start(kernel: &Path, image: &Path, console: &Path, result: &Path, job: &Job) -> Result<Child, LabError> {
    const QEMU: &str = "qemu-system-x86_64";
    let file = |path: &Path| format!("file:{}", path.display());
    let mut command = Command::new(QEMU);
    command.args(["-accel", "tcg", "-cpu", "max", "-nodefaults", "-display", "none", "-no-reboot"]);
    command.args(["-smp", &job.processors.to_string()]);
    command.args(["-m", &job.memory_mib.to_string()]).arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    command.args(["-append", "console=ttyS0 panic=-1 quiet sysctl.kernel.panic_on_oops=1"]);
    command.args(["-serial", &file(console), "-serial", &file(result)]);
    if job.counts_instructions {
        // The time of day would be the only thing that differs between runs.
        command.args(["-icount", "shift=0", "-rtc", "base=2026-01-01,clock=vm"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|e| LabError::tool(QEMU, &e))
}

/// A guest that is ended when nobody waits for it any more.
struct Running(Child);

impl Running {
    fn wait(&mut self, limit: Duration, is_interrupted: &dyn Fn() -> bool, console: &Path) -> Result<(), LabError> {
        let started = Instant::now();
        loop {
            match self.0.try_wait() {
                _ if is_interrupted() => return Err(LabError::Interrupted),
                Ok(Some(_)) => return Ok(()),
                Ok(None) if started.elapsed() > limit => {
                    return Err(died(&format!("it was ended after {} s", limit.as_secs()), console));
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(e) => return Err(LabError::tool("qemu-system-x86_64", &e)),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The guest gave no result; its last words say more.
fn died(why: &str, console: &Path) -> LabError {
    let text = std::fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
    LabError::Machine(
        format!("the guest did not finish its job: {why}"),
        match last.is_empty() {
            true => "its console says nothing".into(),
            false => format!("its console ends with\n  {last}"),
        },
    )
}

/// The archive that the guest wrote: `exit`, `stdout`, `stderr` and files below `out`.
fn unpack(archive: &[u8]) -> Result<Done, String> {
    let mut done = Done { exit: -1, ..Done::default() };
    let mut has_exit = false;
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries().map_err(|e| e.to_string())? {
        let mut entry = entry.map_err(|e| format!("its result is cut short ({e})"))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().map_err(|e| e.to_string())?.into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|e| format!("its result is cut short ({e})"))?;
        match path.strip_prefix(".").unwrap_or(&path) {
            p if p == Path::new("exit") => {
                let text = String::from_utf8_lossy(&bytes);
                done.exit = text.trim().parse().map_err(|_| "its exit status is no number".to_string())?;
                has_exit = true;
            }
            p if p == Path::new("stdout") => done.stdout = bytes,
            p if p == Path::new("stderr") => done.stderr = bytes,
            p => done.files.push((p.strip_prefix("out").unwrap_or(p).to_path_buf(), bytes)),
        }
    }
    if has_exit { Ok(done) } else { Err("it sent no result".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_unpacked() {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, text) in [("./exit", "3\n"), ("./stdout", "a"), ("./out/x/y", "b")] {
            let mut header = tar::Header::new_ustar();
            header.set_size(text.len() as u64);
            archive.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        let done = unpack(&archive.into_inner().unwrap()).unwrap();
        assert_eq!((done.exit, done.stdout.as_slice()), (3, &b"a"[..]));
        assert_eq!(done.files, [(PathBuf::from("x/y"), b"b".to_vec())]);
    }

    #[test]
    fn no_result_is_no_success() {
        assert!(unpack(&[]).is_err());
        assert!(unpack(b"Kernel panic").is_err());
    }
}
