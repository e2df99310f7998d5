//! What a measurement was made on and with.

use karakoram_kernel::running;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// The record, in the order it is shown. What cannot be read is left out.
pub fn record() -> Vec<(String, String)> {
    let count = std::thread::available_parallelism().map_or(1, |n| n.get());
    let all = [
        ("date", Some(format!("{} UTC", now()))),
        ("kara", Some(format!("{}{}", env!("CARGO_PKG_VERSION"), revision()))),
        ("kernel", Some(format!("Linux {}", running::release()))),
        ("kernel built", line("/proc/sys/kernel/version")),
        ("processor", processor()),
        ("microcode", cpu_field("microcode")),
        ("processors", Some(count.to_string())),
        ("hypervisor", hypervisor()),
        ("memory", memory()),
        ("clock source", line("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("load average", line("/proc/loadavg")),
        ("mitigations", mitigations()),
        ("options of the kernel", options()),
        ("BPF JIT", jit()),
        ("congestion control", line("/proc/sys/net/ipv4/tcp_congestion_control")),
        ("clang", version("clang-19", "--version")),
        ("memcached", version("memcached", "--version")),
        ("iperf3", version("iperf3", "--version")),
    ];
    let known = all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// Model, family and number of the processor.
pub fn processor() -> Option<String> {
    let numbers = cpu_field("cpu family").zip(cpu_field("model"));
    let numbers = numbers.map_or(String::new(), |(family, model)| format!(", family {family} model {model}"));
    Some(format!("{}{numbers}", cpu_field("model name")?))
}

/// The day, in UTC: `2026-01-31`.
pub fn today() -> String {
    date_of_day(seconds() / 86_400)
}

/// Day and time, in UTC.
fn now() -> String {
    let of_day = seconds() % 86_400;
    format!("{} {:02}:{:02}", today(), of_day / 3600, of_day / 60 % 60)
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The date of a day counted from 1970-01-01 (Gregorian calendar; years counted from March).
fn date_of_day(day: u64) -> String {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + later)
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

fn cpu_field(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text.lines().next()?.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(format!("{} MiB", kib / 1024))
}

fn hypervisor() -> Option<String> {
    let product = ["sys_vendor", "product_name"].iter().filter_map(|f| line(&format!("/sys/class/dmi/id/{f}")));
    let product = product.collect::<Vec<_>>().join(" ");
    if !product.is_empty() {
        return Some(product);
    }
    let flags = cpu_field("flags")?;
    Some(if flags.split(' ').any(|f| f == "hypervisor") { "yes, unnamed" } else { "none" }.to_string())
}

/// Vulnerabilities that something is done about, and what.
fn mitigations() -> Option<String> {
    let folder = Path::new("/sys/devices/system/cpu/vulnerabilities");
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = line(&entry.path().display().to_string())?;
        if text != "Not affected" {
            all.insert(name, text);
        }
    }
    Some(all.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join("; "))
}

fn jit() -> Option<String> {
    let setting = |name: &str| Some(format!("{name} {}", line(&format!("/proc/sys/net/core/bpf_jit_{name}"))?));
    let statistics = line("/proc/sys/kernel/bpf_stats_enabled").map(|v| format!("statistics {v}"));
    let all = ["enable", "harden", "kallsyms"].into_iter().filter_map(setting).chain(statistics);
    Some(all.collect::<Vec<_>>().join(", "))
}

/// Words of the kernel's command line that change how long things take.
fn options() -> Option<String> {
    const ABOUT: [&str; 12] = [
        "mitigations",
        "isolcpus",
        "nohz",
        "rcu_nocbs",
        "idle",
        "cpuidle",
        "intel_pstate",
        "amd_pstate",
        "preempt",
        "nosmt",
        "maxcpus",
        "tsc",
    ];
    let text = line("/proc/cmdline")?;
    let words = text.split_ascii_whitespace().filter(|w| ABOUT.iter().any(|name| w.starts_with(name)));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// First line of what a program says about itself.
fn version(program: &str, option: &str) -> Option<String> {
    let output = Command::new(program).arg(option).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|l| l.trim().to_string())
}

/// The commit of the folder we are in, if it is ours.
fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return String::new() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
    format!(" at {commit}{}", if changed { " with changes" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date_of_day(0), "1970-01-01");
        assert_eq!(date_of_day(11_016), "2000-02-29");
        assert_eq!(date_of_day(20_778), "2026-11-21");
    }

    #[test]
    fn the_record_says_what_it_ran_on() {
        let names: Vec<String> = record().into_iter().map(|(name, _)| name).collect();
        for name in ["date", "kernel", "processors", "load average"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
    }
}
