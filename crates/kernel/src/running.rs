//! Facts about the running kernel that binding an object to it takes: version, types, symbols.

use crate::errno::Errno;
use crate::error::KernelError;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Release, `6.18.1-1-amd64`; empty when it cannot be read.
pub fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or(String::new(), |r| r.trim().to_string())
}

/// `LINUX_VERSION_CODE`; 0 when the release cannot be read.
pub fn version_code() -> u32 {
    code_of(&release())
}

fn code_of(release: &str) -> u32 {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse::<u32>().unwrap_or(0).min(255));
    let mut next = || parts.next().unwrap_or(0);
    next() << 16 | next() << 8 | next()
}

/// The types of the kernel: a BTF blob of a few megabytes.
pub fn btf() -> Result<Vec<u8>, KernelError> {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    std::fs::read(PATH).map_err(|e| KernelError::new(format!("read {PATH}"), Errno::of(&e)))
}

/// Addresses of the kernel's own symbols by name, of the first where several have one name. Empty
/// when they are hidden (`kernel.kptr_restrict`).
pub fn symbols() -> Result<HashMap<String, u64>, KernelError> {
    const PATH: &str = "/proc/kallsyms";
    let error = |e: std::io::Error| KernelError::new(format!("read {PATH}"), Errno::of(&e));
    let mut out = HashMap::new();
    for line in BufReader::new(File::open(PATH).map_err(error)?).lines() {
        let line = line.map_err(error)?;
        // Address, kind, name; symbols of modules have the module as a fourth word.
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(_), Some(name), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        if let Ok(address @ 1..) = u64::from_str_radix(address, 16) {
            out.entry(name.to_string()).or_insert(address);
        }
    }
    Ok(out)
}

/// The kernel's configuration by name with `CONFIG_`, from `/boot`; empty where it is not there.
pub fn configuration() -> HashMap<String, String> {
    let text = std::fs::read_to_string(format!("/boot/config-{}", release())).unwrap_or_default();
    let option = |line: &str| line.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
    text.lines().filter(|line| line.starts_with("CONFIG_")).filter_map(option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_codes() {
        assert_eq!(code_of("6.18.44-x1"), 6 << 16 | 18 << 8 | 44);
        assert_eq!(code_of("4.9.337"), 4 << 16 | 9 << 8 | 255);
        assert_eq!(code_of(""), 0);
    }
}
