//! What programs are attached to.

use std::fmt::Write;

/// What a program is attached to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hook {
    /// Express data path.
    Xdp,
    /// Traffic control.
    Tc,
    /// What the processes of a control group send and receive.
    Cgroup,
    /// A tracepoint of the kernel.
    Tracepoint,
    /// IPv4 sockets that processes of a control group connect.
    Connect4,
    /// IPv6 sockets.
    Connect6,
    /// Options that processes of a control group ask for.
    Getsockopt,
    /// Options that they set.
    Setsockopt,
    /// What happens to TCP connections of a control group.
    SockOps,
    /// Samples of what a processor does.
    PerfEvent,
}

/// A field of the context, as wide as the kernel lets it be accessed.
struct Field {
    offset: u32,
    bytes: u32,
}

const fn u32_at(offset: u32) -> Field {
    Field { offset, bytes: 4 }
}

const fn u64_at(offset: u32) -> Field {
    Field { offset, bytes: 8 }
}

/// Address, port and protocol of `struct bpf_sock_addr`.
const CONNECT4: &[Field] = &[u32_at(4), u32_at(24), u32_at(36)];
const CONNECT6: &[Field] = &[u32_at(8), u32_at(12), u32_at(16), u32_at(20), u32_at(24), u32_at(36)];
/// What happened, family, addresses and ports of `struct bpf_sock_ops`.
const CONNECTION: &[Field] = &[u32_at(0), u32_at(20), u32_at(24), u32_at(28), u32_at(64), u32_at(68)];
/// Where the processor was (on x86-64), the period, an address: `struct bpf_perf_event_data`.
const SAMPLE: &[Field] = &[u64_at(128), u64_at(168), u64_at(176)];
/// Level, name and length of `struct bpf_sockopt`.
const OPTION: &[Field] = &[u32_at(24), u32_at(28), u32_at(32)];

/// What a program is given of its context, in the order in which the extension crate knows it, and how many of the
/// first ones it may change.
fn fields(hook: Hook) -> (&'static [Field], usize) {
    match hook {
        Hook::Connect4 => (CONNECT4, 2),
        Hook::Connect6 => (CONNECT6, 5),
        Hook::Getsockopt | Hook::Setsockopt => (OPTION, 0),
        Hook::SockOps => (CONNECTION, 0),
        Hook::PerfEvent => (SAMPLE, 0),
        Hook::Xdp | Hook::Tc | Hook::Cgroup | Hook::Tracepoint => (&[], 0),
    }
}

impl Hook {
    const ALL: [Hook; 10] = [
        Hook::Xdp,
        Hook::Tc,
        Hook::Cgroup,
        Hook::Tracepoint,
        Hook::Connect4,
        Hook::Connect6,
        Hook::Getsockopt,
        Hook::Setsockopt,
        Hook::SockOps,
        Hook::PerfEvent,
    ];

    /// Name, that of the attribute.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Xdp => "xdp",
            Hook::Tc => "tc",
            Hook::Cgroup => "cgroup",
            Hook::Tracepoint => "tracepoint",
            Hook::Connect4 => "connect4",
            Hook::Connect6 => "connect6",
            Hook::Getsockopt => "getsockopt",
            Hook::Setsockopt => "setsockopt",
            Hook::SockOps => "sock_ops",
            Hook::PerfEvent => "perf_event",
        }
    }

    /// The hook of that name.
    pub fn from_name(name: &str) -> Option<Hook> {
        Hook::ALL.into_iter().find(|h| h.name() == name)
    }

    /// The section of objects that belongs to it, for a tracepoint without its name.
    pub fn section(self) -> &'static str {
        match self {
            Hook::Cgroup => "cgroup_skb/ingress",
            Hook::Tracepoint => "tp_btf",
            Hook::Connect4 => "cgroup/connect4",
            Hook::Connect6 => "cgroup/connect6",
            Hook::Getsockopt => "cgroup/getsockopt",
            Hook::Setsockopt => "cgroup/setsockopt",
            Hook::SockOps => "sockops",
            Hook::Xdp | Hook::Tc | Hook::PerfEvent => self.name(),
        }
    }

    /// Bits of a verdict. Where not every number is one, the verifier wants to see that no other is returned, also
    /// after a panic.
    pub fn verdict_bits(self) -> Option<u32> {
        use Hook::{Cgroup, Connect4, Connect6, Getsockopt, Setsockopt, SockOps};
        matches!(self, Cgroup | Connect4 | Connect6 | Getsockopt | Setsockopt | SockOps).then_some(1)
    }

    /// Lines that put what the program is given of its context (`%ctx`) where it finds it, from `arguments` on in the
    /// control page (`%control`).
    pub fn copy_in(self, arguments: u32) -> String {
        let mut text = String::new();
        for (n, Field { offset, bytes }) in fields(self).0.iter().enumerate() {
            let bits = 8 * bytes;
            let to = arguments + 8 * n as u32;
            let value = if *bytes == 8 { format!("%field{n}") } else { format!("%wide{n}") };
            let _ = write!(
                text,
                "  %fieldp{n} = getelementptr i8, ptr %ctx, i64 {offset}\n  \
                 %field{n} = load volatile i{bits}, ptr %fieldp{n}, align {bytes}\n"
            );
            if *bytes < 8 {
                let _ = writeln!(text, "  %wide{n} = zext i{bits} %field{n} to i64");
            }
            let _ = write!(
                text,
                "  %to{n} = getelementptr i8, ptr %control, i64 {to}\n  store volatile i64 {value}, ptr %to{n}, align 8\n"
            );
        }
        text
    }

    /// Lines that put back what the program may have changed.
    pub fn copy_out(self, arguments: u32) -> String {
        let mut text = String::new();
        let (fields, changed) = fields(self);
        for (n, Field { offset, bytes }) in fields[..changed].iter().enumerate() {
            let from = arguments + 8 * n as u32;
            let _ = write!(
                text,
                "  %newp{n} = getelementptr i8, ptr %control, i64 {from}\n  \
                 %new{n} = load volatile i{bits}, ptr %newp{n}, align 8\n  \
                 %backp{n} = getelementptr i8, ptr %ctx, i64 {offset}\n  \
                 store volatile i{bits} %new{n}, ptr %backp{n}, align {bytes}\n",
                bits = 8 * bytes
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_found_by_their_names() {
        assert!(Hook::ALL.into_iter().all(|hook| Hook::from_name(hook.name()) == Some(hook)));
        assert_eq!(Hook::from_name("kprobe"), None);
    }

    #[test]
    fn what_comes_back_went_in_at_the_same_place() {
        let (into, out) = (Hook::Connect4.copy_in(0x300), Hook::Connect4.copy_out(0x300));
        assert!(into.contains("%fieldp1 = getelementptr i8, ptr %ctx, i64 24\n"), "{into}");
        assert!(into.contains("%to1 = getelementptr i8, ptr %control, i64 776\n"), "{into}");
        assert!(out.contains("%newp1 = getelementptr i8, ptr %control, i64 776\n"), "{out}");
        assert!(out.contains("%backp1 = getelementptr i8, ptr %ctx, i64 24\n"), "{out}");
        assert!(!out.contains("i64 36"), "the protocol stays");
        assert!(Hook::SockOps.copy_out(0x300).is_empty());
        assert!(Hook::PerfEvent.copy_in(0).contains("load volatile i64, ptr %fieldp0, align 8"));
    }
}
