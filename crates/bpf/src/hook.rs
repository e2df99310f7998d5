//! Where a program is attached, and what its context looks like from inside.

/// What a load of a context field yields besides a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ContextField {
    /// First byte of the packet.
    PacketStart,
    /// One past the last byte of the packet.
    PacketEnd,
    /// First byte of the metadata before the packet; its end is the start of the packet.
    MetaStart,
}

/// `enum bpf_prog_type` (kernel `include/uapi/linux/bpf.h`), or the plain buffer that `.k2` and
/// `.bpf` programs may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Hook {
    /// A kernel program type.
    Kernel(ProgramType),
    /// `r1` is a number.
    Constant,
    /// `r1` points to a readable and writable buffer of that many bytes, which is part of the output.
    Buffer(u32),
}

/// `enum bpf_prog_type` by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProgramType(pub u32);

#[allow(missing_docs)]
impl ProgramType {
    pub const UNSPEC: ProgramType = ProgramType(0);
    pub const SOCKET_FILTER: ProgramType = ProgramType(1);
    pub const KPROBE: ProgramType = ProgramType(2);
    pub const SCHED_CLS: ProgramType = ProgramType(3);
    pub const SCHED_ACT: ProgramType = ProgramType(4);
    pub const TRACEPOINT: ProgramType = ProgramType(5);
    pub const XDP: ProgramType = ProgramType(6);
    pub const PERF_EVENT: ProgramType = ProgramType(7);
    pub const CGROUP_SKB: ProgramType = ProgramType(8);
    pub const CGROUP_SOCK: ProgramType = ProgramType(9);
    pub const LWT_IN: ProgramType = ProgramType(10);
    pub const LWT_OUT: ProgramType = ProgramType(11);
    pub const LWT_XMIT: ProgramType = ProgramType(12);
    pub const SOCK_OPS: ProgramType = ProgramType(13);
    pub const SK_SKB: ProgramType = ProgramType(14);
    pub const CGROUP_DEVICE: ProgramType = ProgramType(15);
    pub const SK_MSG: ProgramType = ProgramType(16);
    pub const RAW_TRACEPOINT: ProgramType = ProgramType(17);
    pub const CGROUP_SOCK_ADDR: ProgramType = ProgramType(18);
    pub const LWT_SEG6LOCAL: ProgramType = ProgramType(19);
    pub const LIRC_MODE2: ProgramType = ProgramType(20);
    pub const SK_REUSEPORT: ProgramType = ProgramType(21);
    pub const FLOW_DISSECTOR: ProgramType = ProgramType(22);
    pub const CGROUP_SYSCTL: ProgramType = ProgramType(23);
    pub const RAW_TRACEPOINT_WRITABLE: ProgramType = ProgramType(24);
    pub const CGROUP_SOCKOPT: ProgramType = ProgramType(25);
    pub const TRACING: ProgramType = ProgramType(26);
    pub const STRUCT_OPS: ProgramType = ProgramType(27);
    pub const EXT: ProgramType = ProgramType(28);
    pub const LSM: ProgramType = ProgramType(29);
    pub const SK_LOOKUP: ProgramType = ProgramType(30);
    pub const SYSCALL: ProgramType = ProgramType(31);
    pub const NETFILTER: ProgramType = ProgramType(32);

    const NAMES: [&'static str; 33] = [
        "unspec",
        "socket_filter",
        "kprobe",
        "sched_cls",
        "sched_act",
        "tracepoint",
        "xdp",
        "perf_event",
        "cgroup_skb",
        "cgroup_sock",
        "lwt_in",
        "lwt_out",
        "lwt_xmit",
        "sock_ops",
        "sk_skb",
        "cgroup_device",
        "sk_msg",
        "raw_tracepoint",
        "cgroup_sock_addr",
        "lwt_seg6local",
        "lirc_mode2",
        "sk_reuseport",
        "flow_dissector",
        "cgroup_sysctl",
        "raw_tracepoint_writable",
        "cgroup_sockopt",
        "tracing",
        "struct_ops",
        "ext",
        "lsm",
        "sk_lookup",
        "syscall",
        "netfilter",
    ];

    /// The kernel's name in lower case.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self.0 as usize).copied().unwrap_or("unknown")
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<ProgramType> {
        Self::NAMES.iter().position(|n| *n == name).map(|i| ProgramType(i as u32))
    }

    /// The type libbpf's section-name conventions give (libbpf `section_defs`), for the part of the
    /// name before `/`, with a leading `?` ignored. Old sample names (`xdp1`, `socket2`, `classifier`)
    /// go by prefix, as libbpf before 1.0 did.
    pub fn from_section(section: &str) -> Option<ProgramType> {
        const PREFIXES: &[(&str, ProgramType)] = &[
            ("raw_tracepoint.w", ProgramType::RAW_TRACEPOINT_WRITABLE),
            ("raw_tp.w", ProgramType::RAW_TRACEPOINT_WRITABLE),
            ("raw_tracepoint", ProgramType::RAW_TRACEPOINT),
            ("raw_tp", ProgramType::RAW_TRACEPOINT),
            ("tracepoint", ProgramType::TRACEPOINT),
            ("tp_btf", ProgramType::TRACING),
            ("tp", ProgramType::TRACEPOINT),
            ("kprobe", ProgramType::KPROBE),
            ("kretprobe", ProgramType::KPROBE),
            ("uprobe", ProgramType::KPROBE),
            ("uretprobe", ProgramType::KPROBE),
            ("ksyscall", ProgramType::KPROBE),
            ("kretsyscall", ProgramType::KPROBE),
            ("usdt", ProgramType::KPROBE),
            ("fentry", ProgramType::TRACING),
            ("fexit", ProgramType::TRACING),
            ("fmod_ret", ProgramType::TRACING),
            ("freplace", ProgramType::EXT),
            ("iter", ProgramType::TRACING),
            ("lsm_cgroup", ProgramType::LSM),
            ("lsm", ProgramType::LSM),
            ("syscall", ProgramType::SYSCALL),
            ("xdp", ProgramType::XDP),
            ("perf_event", ProgramType::PERF_EVENT),
            ("lwt_in", ProgramType::LWT_IN),
            ("lwt_out", ProgramType::LWT_OUT),
            ("lwt_xmit", ProgramType::LWT_XMIT),
            ("lwt_seg6local", ProgramType::LWT_SEG6LOCAL),
            ("sockops", ProgramType::SOCK_OPS),
            ("sk_skb", ProgramType::SK_SKB),
            ("sk_msg", ProgramType::SK_MSG),
            ("lirc_mode2", ProgramType::LIRC_MODE2),
            ("flow_dissector", ProgramType::FLOW_DISSECTOR),
            ("cgroup_skb", ProgramType::CGROUP_SKB),
            ("cgroup/skb", ProgramType::CGROUP_SKB),
            ("cgroup/sockopt", ProgramType::CGROUP_SOCKOPT),
            ("cgroup/getsockopt", ProgramType::CGROUP_SOCKOPT),
            ("cgroup/setsockopt", ProgramType::CGROUP_SOCKOPT),
            ("cgroup/sysctl", ProgramType::CGROUP_SYSCTL),
            ("cgroup/dev", ProgramType::CGROUP_DEVICE),
            ("cgroup/sock", ProgramType::CGROUP_SOCK),
            ("cgroup/post_bind", ProgramType::CGROUP_SOCK),
            ("cgroup/bind", ProgramType::CGROUP_SOCK_ADDR),
            ("cgroup/connect", ProgramType::CGROUP_SOCK_ADDR),
            ("cgroup/sendmsg", ProgramType::CGROUP_SOCK_ADDR),
            ("cgroup/recvmsg", ProgramType::CGROUP_SOCK_ADDR),
            ("cgroup/getpeername", ProgramType::CGROUP_SOCK_ADDR),
            ("cgroup/getsockname", ProgramType::CGROUP_SOCK_ADDR),
            ("struct_ops", ProgramType::STRUCT_OPS),
            ("sk_lookup", ProgramType::SK_LOOKUP),
            ("sk_reuseport", ProgramType::SK_REUSEPORT),
            ("netfilter", ProgramType::NETFILTER),
            ("socket", ProgramType::SOCKET_FILTER),
            ("classifier", ProgramType::SCHED_CLS),
            ("action", ProgramType::SCHED_ACT),
            ("tcx", ProgramType::SCHED_CLS),
            ("tc", ProgramType::SCHED_CLS),
            ("netkit", ProgramType::SCHED_CLS),
        ];
        let name = section.strip_prefix('?').unwrap_or(section);
        PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, t)| *t)
    }

    fn has_skb(self) -> bool {
        use ProgramType as T;
        matches!(
            self,
            T::SOCKET_FILTER
                | T::SCHED_CLS
                | T::SCHED_ACT
                | T::CGROUP_SKB
                | T::LWT_IN
                | T::LWT_OUT
                | T::LWT_XMIT
                | T::LWT_SEG6LOCAL
                | T::SK_SKB
                | T::FLOW_DISSECTOR
        )
    }
}

impl Hook {
    /// The packet pointer that a load of `bytes` bytes at `offset` into the context yields, if any
    /// (kernel `struct xdp_md`, `struct __sk_buff`, `struct sk_msg_md`, `struct sk_reuseport_md`).
    pub fn context_field(self, offset: i64, bytes: u32) -> Option<ContextField> {
        use ContextField::*;
        let Hook::Kernel(kind) = self else { return None };
        let field = match (kind, offset) {
            (ProgramType::XDP, 0) => (PacketStart, 4),
            (ProgramType::XDP, 4) => (PacketEnd, 4),
            (ProgramType::XDP, 8) => (MetaStart, 4),
            (ProgramType::SK_MSG | ProgramType::SK_REUSEPORT, 0) => (PacketStart, 8),
            (ProgramType::SK_MSG | ProgramType::SK_REUSEPORT, 8) => (PacketEnd, 8),
            // A socket filter sees no packet pointers, only `skb` metadata.
            (ProgramType::SOCKET_FILTER, _) => return None,
            (kind, 76) if kind.has_skb() => (PacketStart, 4),
            (kind, 80) if kind.has_skb() => (PacketEnd, 4),
            (ProgramType::SCHED_CLS | ProgramType::SCHED_ACT, 140) => (MetaStart, 4),
            _ => return None,
        };
        (field.1 == bytes).then_some(field.0)
    }

    /// Whether every kernel permits loads of the field at `offset` to programs with this hook that may load it at
    /// all: fields that are as old as what this project reads (Linux 4.20), and registers of the machine. Other fields,
    /// and arguments of kernel functions, come and go with versions.
    pub fn has_lasting_field(self, offset: u64) -> bool {
        match self {
            Hook::Kernel(ProgramType::XDP) => offset < 20,
            Hook::Kernel(kind) if kind.has_skb() => offset < 152,
            Hook::Kernel(kind) => [ProgramType::KPROBE, ProgramType::PERF_EVENT].contains(&kind),
            Hook::Constant | Hook::Buffer(_) => true,
        }
    }

    /// Whether some loads of the context yield packet pointers.
    pub fn has_packet(self) -> bool {
        (0..160).any(|o| self.context_field(o, 4).or(self.context_field(o, 8)).is_some())
    }

    /// Whether whoever runs the program only sees the low half of what it returns, because it calls it
    /// as a function of type `unsigned int` (kernel `struct bpf_prog`, `bpf_func`). Trampolines call
    /// the machine code itself and can see all of it.
    pub fn returns_32_bits(self) -> bool {
        use ProgramType as T;
        match self {
            Hook::Kernel(T::UNSPEC | T::TRACING | T::STRUCT_OPS | T::EXT | T::LSM) => false,
            Hook::Kernel(t) => t.0 <= T::NETFILTER.0,
            Hook::Constant | Hook::Buffer(_) => false,
        }
    }

    /// The kernel program type; plain buffers have none.
    pub fn program_type(self) -> Option<ProgramType> {
        match self {
            Hook::Kernel(t) => Some(t),
            _ => None,
        }
    }

    /// Name for reports.
    pub fn name(self) -> String {
        match self {
            Hook::Kernel(t) => t.name().to_string(),
            Hook::Constant => "constant".to_string(),
            Hook::Buffer(n) => format!("buffer of {n} bytes"),
        }
    }
}
