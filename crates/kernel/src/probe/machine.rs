//! What files under /proc and /sys say.

use super::{Check, Status};
use crate::running::version_code;
use crate::sys::os;

fn read(path: &str) -> Result<String, std::io::Error> {
    std::fs::read_to_string(path).map(|text| text.trim().to_string())
}

/// One check for each capability that matters, from the effective set of this process.
pub(super) fn capabilities() -> Vec<Check> {
    const WANTED: [(u32, &str, &str); 4] = [
        (39, "CAP_BPF", "loading programs and maps, unless CAP_SYS_ADMIN is there"),
        (12, "CAP_NET_ADMIN", "network programs (xdp, tc, ...), unless CAP_SYS_ADMIN is there; the testbed"),
        (38, "CAP_PERFMON", "tracing programs, unless CAP_SYS_ADMIN is there"),
        (21, "CAP_SYS_ADMIN", "the testbed (network namespaces); run-time statistics of the kernel"),
    ];
    let effective = effective_capabilities();
    let check = |(bit, name, disables): (u32, &str, &'static str)| match effective {
        Some(set) => Check::new(name, Status::of(set >> bit & 1 == 1), "", disables),
        None => Check::new(name, Status::Unknown, "/proc/self/status cannot be read", disables),
    };
    WANTED.into_iter().map(check).collect()
}

fn effective_capabilities() -> Option<u64> {
    let status = read("/proc/self/status").ok()?;
    let set = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// Whether programs are compiled to machine code.
pub(super) fn jit() -> Check {
    let disables = "figures of machine code (`kara stat` jited sizes, `kara print --jited`); all timings are of the kernel's interpreter";
    let (status, detail) = match read("/proc/sys/net/core/bpf_jit_enable").as_deref() {
        Ok("0") => (Status::No, "net.core.bpf_jit_enable is 0"),
        Ok(_) => (Status::Yes, ""),
        // The file is readable for root only; kernels with CONFIG_BPF_JIT_ALWAYS_ON have it fixed at 1.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => (Status::Unknown, "the setting is hidden"),
        Err(_) => (Status::Unknown, "net.core.bpf_jit_enable cannot be read"),
    };
    Check::new("JIT", status, detail, disables)
}

/// Types of the kernel.
pub(super) fn btf() -> Check {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    let disables =
        "programs with CO-RE relocations, kernel functions, fentry, struct_ops: they cannot be bound to this kernel";
    let (status, detail) = match std::fs::File::open(PATH).and_then(|f| f.metadata()) {
        Ok(meta) => (Status::Yes, format!("{PATH}, {} bytes", meta.len())),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => (Status::NotPermitted, PATH.to_string()),
        Err(_) => (Status::No, format!("there is no {PATH}")),
    };
    Check::new("kernel BTF", status, detail, disables)
}

/// Kernel lockdown, which takes tracing away even from root.
pub(super) fn lockdown() -> Check {
    let disables = "programs that read or change kernel memory (kprobes, fentry, lsm)";
    match read("/sys/kernel/security/lockdown") {
        Ok(modes) => {
            let mode = modes.split(['[', ']']).nth(1).unwrap_or("").to_string();
            Check::new("no lockdown", Status::of(mode == "none"), format!("mode {mode}"), disables)
        }
        Err(_) => Check::new("no lockdown", Status::Unknown, "/sys/kernel/security/lockdown cannot be read", disables),
    }
}

/// Addresses of kernel symbols, and with them machine code.
pub(super) fn kallsyms() -> Check {
    use std::io::{BufRead, BufReader};
    let disables = "names of called helpers in machine code";
    let first = std::fs::File::open("/proc/kallsyms").and_then(|f| {
        let mut line = String::new();
        BufReader::new(f).read_line(&mut line).map(|_| line)
    });
    let (status, detail) = match first {
        Err(e) => (Status::Unknown, format!("/proc/kallsyms: {e}")),
        Ok(line) if line.split(' ').next().is_none_or(|a| a.bytes().all(|b| b == b'0')) => {
            (Status::NotPermitted, "the addresses are hidden (kernel.kptr_restrict)".to_string())
        }
        Ok(_) => (Status::Yes, String::new()),
    };
    Check::new("kernel symbols", status, detail, disables)
}

/// Room for maps on kernels that charge them to locked memory.
pub(super) fn memory_lock() -> Check {
    let disables = "large maps on kernels before 5.11, which charge them to locked memory";
    let (status, detail) = match os::memory_lock_limit() {
        None => (Status::Yes, "unlimited".to_string()),
        Some(bytes) if version_code() >= CHARGED_ELSEWHERE => {
            (Status::Yes, format!("{bytes} bytes, not charged on this kernel"))
        }
        Some(bytes) => (Status::No, format!("{bytes} bytes")),
    };
    Check::new("locked memory", status, detail, disables)
}

/// Linux 5.11, which charges BPF memory to the control group.
const CHARGED_ELSEWHERE: u32 = 5 << 16 | 11 << 8;

/// Whether users without capabilities may load programs.
pub(super) fn unprivileged() -> Check {
    let disables = "loading socket filters without privilege (usual, and safer so)";
    let (status, detail) = match read("/proc/sys/kernel/unprivileged_bpf_disabled").as_deref() {
        Ok("0") => (Status::Yes, "kernel.unprivileged_bpf_disabled is 0".to_string()),
        Ok(value) => (Status::No, format!("kernel.unprivileged_bpf_disabled is {value}")),
        Err(e) => (Status::Unknown, e.to_string()),
    };
    Check::new("unprivileged BPF", status, detail, disables)
}

/// The number of CPUs, which sizes per-CPU values.
pub(super) fn cpus() -> Check {
    let disables = "per-CPU maps";
    match os::possible_cpus() {
        Some(n) => Check::new("number of CPUs", Status::Yes, n.to_string(), disables),
        None => Check::new("number of CPUs", Status::No, "/sys/devices/system/cpu/possible cannot be read", disables),
    }
}
