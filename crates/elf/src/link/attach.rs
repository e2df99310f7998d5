//! What the name of a section says about its programs: type, attach type, target
//! (the conventions of libbpf's documentation, `program_types.rst`).

use super::error::{LinkError, missing};
use crate::btf::{Btf, Kind};
use karakoram_bpf::hook::ProgramType;

/// `BPF_F_SLEEPABLE`.
pub const SLEEPABLE: u32 = 1 << 4;
/// `BPF_F_XDP_HAS_FRAGS`.
pub const XDP_HAS_FRAGS: u32 = 1 << 5;

/// `enum bpf_attach_type` (kernel `include/uapi/linux/bpf.h`), for what section names can say.
mod attach_type {
    pub const CGROUP_INET_INGRESS: u32 = 0;
    pub const CGROUP_INET_EGRESS: u32 = 1;
    pub const CGROUP_INET_SOCK_CREATE: u32 = 2;
    pub const CGROUP_SOCK_OPS: u32 = 3;
    pub const SK_SKB_STREAM_PARSER: u32 = 4;
    pub const SK_SKB_STREAM_VERDICT: u32 = 5;
    pub const CGROUP_DEVICE: u32 = 6;
    pub const SK_MSG_VERDICT: u32 = 7;
    pub const CGROUP_INET4_BIND: u32 = 8;
    pub const CGROUP_INET6_BIND: u32 = 9;
    pub const CGROUP_INET4_CONNECT: u32 = 10;
    pub const CGROUP_INET6_CONNECT: u32 = 11;
    pub const CGROUP_INET4_POST_BIND: u32 = 12;
    pub const CGROUP_INET6_POST_BIND: u32 = 13;
    pub const CGROUP_UDP4_SENDMSG: u32 = 14;
    pub const CGROUP_UDP6_SENDMSG: u32 = 15;
    pub const LIRC_MODE2: u32 = 16;
    pub const FLOW_DISSECTOR: u32 = 17;
    pub const CGROUP_SYSCTL: u32 = 18;
    pub const CGROUP_UDP4_RECVMSG: u32 = 19;
    pub const CGROUP_UDP6_RECVMSG: u32 = 20;
    pub const CGROUP_GETSOCKOPT: u32 = 21;
    pub const CGROUP_SETSOCKOPT: u32 = 22;
    pub const TRACE_RAW_TP: u32 = 23;
    pub const TRACE_FENTRY: u32 = 24;
    pub const TRACE_FEXIT: u32 = 25;
    pub const MODIFY_RETURN: u32 = 26;
    pub const LSM_MAC: u32 = 27;
    pub const TRACE_ITER: u32 = 28;
    pub const CGROUP_INET4_GETPEERNAME: u32 = 29;
    pub const CGROUP_INET6_GETPEERNAME: u32 = 30;
    pub const CGROUP_INET4_GETSOCKNAME: u32 = 31;
    pub const CGROUP_INET6_GETSOCKNAME: u32 = 32;
    pub const XDP_DEVMAP: u32 = 33;
    pub const CGROUP_INET_SOCK_RELEASE: u32 = 34;
    pub const XDP_CPUMAP: u32 = 35;
    pub const SK_LOOKUP: u32 = 36;
    pub const XDP: u32 = 37;
    pub const SK_SKB_VERDICT: u32 = 38;
    pub const SK_REUSEPORT_SELECT: u32 = 39;
    pub const SK_REUSEPORT_SELECT_OR_MIGRATE: u32 = 40;
    pub const PERF_EVENT: u32 = 41;
    pub const TRACE_KPROBE_MULTI: u32 = 42;
    pub const LSM_CGROUP: u32 = 43;
    pub const NETFILTER: u32 = 45;
    pub const TCX_INGRESS: u32 = 46;
    pub const TCX_EGRESS: u32 = 47;
    pub const TRACE_UPROBE_MULTI: u32 = 48;
    pub const CGROUP_UNIX_CONNECT: u32 = 49;
    pub const CGROUP_UNIX_SENDMSG: u32 = 50;
    pub const CGROUP_UNIX_RECVMSG: u32 = 51;
    pub const CGROUP_UNIX_GETPEERNAME: u32 = 52;
    pub const CGROUP_UNIX_GETSOCKNAME: u32 = 53;
    pub const NETKIT_PRIMARY: u32 = 54;
    pub const NETKIT_PEER: u32 = 55;
    pub const TRACE_KPROBE_SESSION: u32 = 56;
    pub const TRACE_UPROBE_SESSION: u32 = 57;
}

use attach_type as A;

/// Sections that mean more than a program type: the name or what comes before a `/`, its attach
/// type, its load flags. The first that fits counts.
const SECTIONS: &[(&str, u32, u32)] = &[
    ("sk_reuseport/migrate", A::SK_REUSEPORT_SELECT_OR_MIGRATE, 0),
    ("sk_reuseport", A::SK_REUSEPORT_SELECT, 0),
    ("kprobe.multi", A::TRACE_KPROBE_MULTI, 0),
    ("kretprobe.multi", A::TRACE_KPROBE_MULTI, 0),
    ("kprobe.session", A::TRACE_KPROBE_SESSION, 0),
    ("uprobe.multi", A::TRACE_UPROBE_MULTI, 0),
    ("uretprobe.multi", A::TRACE_UPROBE_MULTI, 0),
    ("uprobe.session", A::TRACE_UPROBE_SESSION, 0),
    ("uprobe.multi.s", A::TRACE_UPROBE_MULTI, SLEEPABLE),
    ("uretprobe.multi.s", A::TRACE_UPROBE_MULTI, SLEEPABLE),
    ("uprobe.session.s", A::TRACE_UPROBE_SESSION, SLEEPABLE),
    ("uprobe.s", 0, SLEEPABLE),
    ("uretprobe.s", 0, SLEEPABLE),
    ("usdt.s", 0, SLEEPABLE),
    ("tc/ingress", A::TCX_INGRESS, 0),
    ("tc/egress", A::TCX_EGRESS, 0),
    ("tcx/ingress", A::TCX_INGRESS, 0),
    ("tcx/egress", A::TCX_EGRESS, 0),
    ("netkit/primary", A::NETKIT_PRIMARY, 0),
    ("netkit/peer", A::NETKIT_PEER, 0),
    ("tp_btf", A::TRACE_RAW_TP, 0),
    ("fentry", A::TRACE_FENTRY, 0),
    ("fexit", A::TRACE_FEXIT, 0),
    ("fmod_ret", A::MODIFY_RETURN, 0),
    ("fentry.s", A::TRACE_FENTRY, SLEEPABLE),
    ("fexit.s", A::TRACE_FEXIT, SLEEPABLE),
    ("fmod_ret.s", A::MODIFY_RETURN, SLEEPABLE),
    ("lsm", A::LSM_MAC, 0),
    ("lsm.s", A::LSM_MAC, SLEEPABLE),
    ("lsm_cgroup", A::LSM_CGROUP, 0),
    ("iter", A::TRACE_ITER, 0),
    ("iter.s", A::TRACE_ITER, SLEEPABLE),
    ("syscall", 0, SLEEPABLE),
    ("xdp.frags/devmap", A::XDP_DEVMAP, XDP_HAS_FRAGS),
    ("xdp.frags/cpumap", A::XDP_CPUMAP, XDP_HAS_FRAGS),
    ("xdp.frags", A::XDP, XDP_HAS_FRAGS),
    ("xdp/devmap", A::XDP_DEVMAP, 0),
    ("xdp/cpumap", A::XDP_CPUMAP, 0),
    ("xdp_devmap", A::XDP_DEVMAP, 0),
    ("xdp_cpumap", A::XDP_CPUMAP, 0),
    ("xdp", A::XDP, 0),
    ("perf_event", A::PERF_EVENT, 0),
    ("sockops", A::CGROUP_SOCK_OPS, 0),
    ("sk_skb/stream_parser", A::SK_SKB_STREAM_PARSER, 0),
    ("sk_skb/stream_verdict", A::SK_SKB_STREAM_VERDICT, 0),
    ("sk_skb/verdict", A::SK_SKB_VERDICT, 0),
    ("sk_msg", A::SK_MSG_VERDICT, 0),
    ("lirc_mode2", A::LIRC_MODE2, 0),
    ("flow_dissector", A::FLOW_DISSECTOR, 0),
    ("cgroup_skb/ingress", A::CGROUP_INET_INGRESS, 0),
    ("cgroup_skb/egress", A::CGROUP_INET_EGRESS, 0),
    ("cgroup/sock_create", A::CGROUP_INET_SOCK_CREATE, 0),
    ("cgroup/sock_release", A::CGROUP_INET_SOCK_RELEASE, 0),
    ("cgroup/sock", A::CGROUP_INET_SOCK_CREATE, 0),
    ("cgroup/post_bind4", A::CGROUP_INET4_POST_BIND, 0),
    ("cgroup/post_bind6", A::CGROUP_INET6_POST_BIND, 0),
    ("cgroup/bind4", A::CGROUP_INET4_BIND, 0),
    ("cgroup/bind6", A::CGROUP_INET6_BIND, 0),
    ("cgroup/connect4", A::CGROUP_INET4_CONNECT, 0),
    ("cgroup/connect6", A::CGROUP_INET6_CONNECT, 0),
    ("cgroup/connect_unix", A::CGROUP_UNIX_CONNECT, 0),
    ("cgroup/sendmsg4", A::CGROUP_UDP4_SENDMSG, 0),
    ("cgroup/sendmsg6", A::CGROUP_UDP6_SENDMSG, 0),
    ("cgroup/sendmsg_unix", A::CGROUP_UNIX_SENDMSG, 0),
    ("cgroup/recvmsg4", A::CGROUP_UDP4_RECVMSG, 0),
    ("cgroup/recvmsg6", A::CGROUP_UDP6_RECVMSG, 0),
    ("cgroup/recvmsg_unix", A::CGROUP_UNIX_RECVMSG, 0),
    ("cgroup/getpeername4", A::CGROUP_INET4_GETPEERNAME, 0),
    ("cgroup/getpeername6", A::CGROUP_INET6_GETPEERNAME, 0),
    ("cgroup/getpeername_unix", A::CGROUP_UNIX_GETPEERNAME, 0),
    ("cgroup/getsockname4", A::CGROUP_INET4_GETSOCKNAME, 0),
    ("cgroup/getsockname6", A::CGROUP_INET6_GETSOCKNAME, 0),
    ("cgroup/getsockname_unix", A::CGROUP_UNIX_GETSOCKNAME, 0),
    ("cgroup/sysctl", A::CGROUP_SYSCTL, 0),
    ("cgroup/getsockopt", A::CGROUP_GETSOCKOPT, 0),
    ("cgroup/setsockopt", A::CGROUP_SETSOCKOPT, 0),
    ("cgroup/dev", A::CGROUP_DEVICE, 0),
    ("struct_ops.s", 0, SLEEPABLE),
    ("sk_lookup", A::SK_LOOKUP, 0),
    ("netfilter", A::NETFILTER, 0),
];

/// How to load the programs of a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attach {
    /// Program type.
    pub program_type: ProgramType,
    /// `enum bpf_attach_type`.
    pub expected_attach_type: u32,
    /// `BPF_F_*` of program load.
    pub flags: u32,
    /// What it is attached to: what comes after the `/`, when the type has targets.
    pub target: Option<String>,
}

impl Attach {
    /// Reads a section name.
    pub fn from_section(section: &str) -> Attach {
        let name = section.strip_prefix('?').unwrap_or(section);
        let program_type = ProgramType::from_section(name).unwrap_or(ProgramType::UNSPEC);
        let is_it = |known: &str| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let known = SECTIONS.iter().find(|(known, ..)| is_it(known));
        let (expected_attach_type, flags) = match known {
            Some((_, attach, flags)) => (*attach, *flags),
            // Old names such as `xdp1` say what `xdp` says.
            None if program_type == ProgramType::XDP => (A::XDP, 0),
            None => (0, 0),
        };
        let target = name.split_once('/').map(|(_, target)| target.to_string()).filter(|t| !t.is_empty());
        Attach { program_type, expected_attach_type, flags, target }
    }

    /// Number of the kernel type that the program is attached to; 0 when the type has none.
    pub(super) fn btf_id(&self, kernel: Option<&Btf>) -> Result<u32, LinkError> {
        let Some((prefix, kind)) = self.target_type() else { return Ok(0) };
        let Some(target) = &self.target else {
            return missing("target for the program: its section does not name one");
        };
        let Some(kernel) = kernel else {
            return missing(format!("BTF, which is needed to attach to {target}"));
        };
        let name = format!("{prefix}{target}");
        match kernel.find(&name, kind) {
            Some(ty) => Ok(ty.id),
            None => missing(format!("type {name} to attach to")),
        }
    }

    /// Prefix and kind of the kernel's type for a target.
    fn target_type(&self) -> Option<(&'static str, Kind)> {
        match (self.program_type, self.expected_attach_type) {
            (ProgramType::TRACING, A::TRACE_RAW_TP) => Some(("btf_trace_", Kind::Typedef)),
            (ProgramType::TRACING, A::TRACE_ITER) => Some(("bpf_iter_", Kind::Function)),
            (ProgramType::TRACING, _) => Some(("", Kind::Function)),
            (ProgramType::LSM, _) => Some(("bpf_lsm_", Kind::Function)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_say_what_libbpf_says() {
        let of = |section: &str| {
            let a = Attach::from_section(section);
            (a.program_type.name(), a.expected_attach_type, a.flags, a.target)
        };
        assert_eq!(of("xdp"), ("xdp", 37, 0, None));
        assert_eq!(of("xdp_drop_all"), ("xdp", 37, 0, None));
        assert_eq!(of("?xdp.frags/cpumap"), ("xdp", 35, XDP_HAS_FRAGS, Some("cpumap".into())));
        assert_eq!(of("tc"), ("sched_cls", 0, 0, None));
        assert_eq!(of("tp_btf/sched_switch"), ("tracing", 23, 0, Some("sched_switch".into())));
        assert_eq!(of("fentry.s/do_unlinkat"), ("tracing", 24, SLEEPABLE, Some("do_unlinkat".into())));
        assert_eq!(of("lsm_cgroup/socket_bind"), ("lsm", 43, 0, Some("socket_bind".into())));
        assert_eq!(of("cgroup/connect4"), ("cgroup_sock_addr", 10, 0, Some("connect4".into())));
        assert_eq!(of("cgroup_skb/egress"), ("cgroup_skb", 1, 0, Some("egress".into())));
    }
}
