//! The kernel's thread that receives for a device (threaded NAPI).

use super::device::Device;
use crate::error::LabError;
use karakoram_kernel::sys::thread::{ThreadId, affinity, set_affinity, set_fifo};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest name of a thread before Linux 5.17, without the closing zero.
const SHORT_NAME: usize = 15;
/// The kernel starts the thread a moment after XDP is attached.
const PATIENCE: Duration = Duration::from_secs(2);

/// That thread.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveThread {
    /// Its number.
    pub thread: ThreadId,
}

impl ReceiveThread {
    /// The one of this device. There must be only one: the devices have one queue.
    pub fn find(device: &Device) -> Result<ReceiveThread, LabError> {
        let start = Instant::now();
        loop {
            if let Some(thread) = search(&device.name) {
                return Ok(ReceiveThread { thread });
            }
            if start.elapsed() > PATIENCE {
                let what = format!("the kernel started no thread to receive for {}", device.name);
                return Err(LabError::Machine(what, "threaded NAPI needs Linux 5.12 or later".into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Puts it on one CPU, with real-time priority, and reads back that it is there.
    pub fn place(&self, cpu: usize, priority: i32) -> Result<(), LabError> {
        let failed = |e: &dyn std::fmt::Display| {
            let what = format!("could not put the receiving thread on CPU {cpu}: {e}");
            LabError::Machine(what, "run as root (CAP_SYS_NICE)".into())
        };
        set_affinity(self.thread, &[cpu]).map_err(|e| failed(&e))?;
        set_fifo(self.thread, priority).map_err(|e| failed(&e))?;
        match affinity(self.thread) {
            Ok(cpus) if cpus == [cpu] => Ok(()),
            Ok(cpus) => Err(failed(&format!("it may run on {cpus:?}"))),
            Err(e) => Err(failed(&e)),
        }
    }
}

fn search(device: &str) -> Option<ThreadId> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        is_receiver(&name_of(&entry.path())?, device).then_some(ThreadId(number))
    })
}

fn name_of(process: &Path) -> Option<String> {
    Some(fs::read_to_string(process.join("comm")).ok()?.trim_end().to_string())
}

fn is_receiver(thread: &str, device: &str) -> bool {
    let full = format!("napi/{device}-");
    thread.starts_with(&full) || (thread.len() == SHORT_NAME && full.starts_with(thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads_are_cut_short_by_older_kernels() {
        assert!(is_receiver("napi/kr00ab12000-8193", "kr00ab12000"));
        assert!(!is_receiver("napi/kr00ab12001-8193", "kr00ab12000"));
        assert!(is_receiver("napi/kr00ab1200", "kr00ab12000"));
        assert!(!is_receiver("napi/kr", "kr00ab12000"));
    }
}
