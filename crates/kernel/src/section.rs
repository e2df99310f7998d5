//! What the name of a section says about loading its program, besides the type (libbpf
//! `section_defs`): attach type, flags, target in the kernel.

use crate::kernel_types::{KernelTypes, TypeKind};

/// `BPF_F_SLEEPABLE`.
pub const SLEEPABLE: u32 = 1 << 4;
/// `BPF_F_XDP_HAS_FRAGS`.
pub const XDP_HAS_FRAGS: u32 = 1 << 5;

/// What a program wants to attach to in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Kind of its type.
    pub kind: TypeKind,
    /// Name of its type.
    pub name: String,
}

/// What a section name asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SectionHints {
    /// `enum bpf_attach_type`, 0 when the type needs none.
    pub expected_attach_type: u32,
    /// Flags of program load.
    pub flags: u32,
    /// What it attaches to.
    pub target: Option<Target>,
}

impl SectionHints {
    /// The `attach_btf_id` of the target, when the kernel has it; 0 when there is no target.
    pub fn attach_btf_id(&self, kernel: &KernelTypes) -> Option<u32> {
        self.target.as_ref().map_or(Some(0), |t| kernel.find(t.kind, &t.name))
    }
}

/// Prefix up to `/`, attach type, and what is put before the name after `/` to find the target.
const TARGETS: &[(&str, u32, TypeKind, &str)] = &[
    ("tp_btf", 23, TypeKind::Typedef, "btf_trace_"),
    ("fentry", 24, TypeKind::Function, ""),
    ("fexit", 25, TypeKind::Function, ""),
    ("fmod_ret", 26, TypeKind::Function, ""),
    ("lsm", 27, TypeKind::Function, "bpf_lsm_"),
    ("lsm_cgroup", 43, TypeKind::Function, "bpf_lsm_"),
    ("iter", 28, TypeKind::Function, "bpf_iter_"),
];

/// Whole names.
const ATTACH_TYPES: &[(&str, u32)] = &[
    ("cgroup_skb/egress", 1),
    ("cgroup/sock_create", 2),
    ("cgroup/sock", 2),
    ("cgroup/sock_release", 34),
    ("cgroup/bind4", 8),
    ("cgroup/bind6", 9),
    ("cgroup/connect4", 10),
    ("cgroup/connect6", 11),
    ("cgroup/connect_unix", 49),
    ("cgroup/post_bind4", 12),
    ("cgroup/post_bind6", 13),
    ("cgroup/sendmsg4", 14),
    ("cgroup/sendmsg6", 15),
    ("cgroup/sendmsg_unix", 50),
    ("cgroup/recvmsg4", 19),
    ("cgroup/recvmsg6", 20),
    ("cgroup/recvmsg_unix", 51),
    ("cgroup/getpeername4", 29),
    ("cgroup/getpeername6", 30),
    ("cgroup/getpeername_unix", 52),
    ("cgroup/getsockname4", 31),
    ("cgroup/getsockname6", 32),
    ("cgroup/getsockname_unix", 53),
    ("cgroup/sysctl", 18),
    ("cgroup/getsockopt", 21),
    ("cgroup/setsockopt", 22),
    ("cgroup/dev", 6),
    ("sockops", 3),
    ("sk_skb/stream_parser", 4),
    ("sk_skb/stream_verdict", 5),
    ("sk_skb/verdict", 38),
    ("sk_msg", 7),
    ("lirc_mode2", 16),
    ("flow_dissector", 17),
    ("sk_lookup", 36),
    ("sk_reuseport", 39),
    ("sk_reuseport/migrate", 40),
    ("netfilter", 45),
    ("xdp/devmap", 33),
    ("xdp.frags/devmap", 33),
    ("xdp/cpumap", 35),
    ("xdp.frags/cpumap", 35),
];

/// Reads a section name; `?` in front is ignored. Unknown names ask for nothing.
pub fn hints(section: &str) -> SectionHints {
    let name = section.strip_prefix('?').unwrap_or(section);
    let (head, rest) = name.split_once('/').unwrap_or((name, ""));
    let (plain, suffix) = head.split_once('.').unwrap_or((head, ""));
    let flags = match (plain, suffix) {
        ("xdp", "frags") => XDP_HAS_FRAGS,
        ("syscall", _) | (_, "s") => SLEEPABLE,
        _ => 0,
    };
    if let Some((_, attach, kind, before)) = TARGETS.iter().find(|t| t.0 == plain) {
        let target = Some(Target { kind: *kind, name: format!("{before}{rest}") });
        return SectionHints { expected_attach_type: *attach, flags, target };
    }
    // Several programs of a kind are told apart by what follows a second `/`.
    let whole = ATTACH_TYPES.iter().find(|(n, _)| name == *n);
    let found = whole.or_else(|| {
        ATTACH_TYPES.iter().find(|(n, _)| name.strip_prefix(n).is_some_and(|after| after.starts_with('/')))
    });
    SectionHints { expected_attach_type: found.map_or(0, |(_, attach)| *attach), flags, target: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(hints("xdp").expected_attach_type, 0);
        assert_eq!(hints("xdp.frags/devmap").expected_attach_type, 33);
        assert_eq!(hints("xdp.frags/devmap").flags, XDP_HAS_FRAGS);
        assert_eq!(hints("cgroup/connect4").expected_attach_type, 10);
        assert_eq!(hints("cgroup/sock_create").expected_attach_type, 2);
        assert_eq!(hints("sk_lookup/one").expected_attach_type, 36);
        assert_eq!(hints("?fentry.s/do_unlinkat").flags, SLEEPABLE);
        let target = hints("tp_btf/sched_switch").target.unwrap();
        assert_eq!((target.kind, target.name.as_str()), (TypeKind::Typedef, "btf_trace_sched_switch"));
        assert_eq!(hints("lsm/file_open").target.unwrap().name, "bpf_lsm_file_open");
        assert_eq!(hints("").expected_attach_type, 0);
    }
}
