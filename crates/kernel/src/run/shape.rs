//! What a test run takes and gives, by program type (kernel `bpf_prog_test_run_*`).

use karakoram_bpf::hook::ProgramType;

/// Parts of a test run. Where a part is false, giving it is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// A packet goes in and comes out.
    pub data: bool,
    /// A context that is given comes out again.
    pub ctx_out: bool,
    /// The context is memory that the program changes in place.
    pub ctx_in_place: bool,
    /// It can be run many times in one call.
    pub repeat: bool,
}

/// Bytes of `struct xdp_md`.
const XDP_MD: usize = 24;
/// Bytes of `struct __sk_buff` in 6.18; the kernel takes any length whose tail is zero.
const SK_BUFF: usize = 192;
/// Bytes of `struct bpf_sk_lookup`.
const SK_LOOKUP: usize = 72;

fn is_skb(kind: ProgramType) -> bool {
    use ProgramType as T;
    [T::SOCKET_FILTER, T::SCHED_CLS, T::SCHED_ACT, T::CGROUP_SKB, T::LWT_IN, T::LWT_OUT, T::LWT_XMIT].contains(&kind)
}

/// The shape of a program type; None when the kernel has no test run for it.
pub fn shape(kind: ProgramType) -> Option<Shape> {
    use ProgramType as T;
    let packet = Shape { data: true, ctx_out: true, ctx_in_place: false, repeat: true };
    let arguments = Shape { data: false, ctx_out: false, ctx_in_place: false, repeat: false };
    Some(match kind {
        T::XDP | T::NETFILTER => packet,
        kind if is_skb(kind) => packet,
        T::FLOW_DISSECTOR => packet,
        T::SK_LOOKUP => Shape { ctx_out: true, repeat: true, ..arguments },
        T::RAW_TRACEPOINT => arguments,
        T::SYSCALL => Shape { ctx_in_place: true, ..arguments },
        _ => return None,
    })
}

/// The plainest context the kernel accepts, with a packet of that many bytes where the type takes
/// one; empty where there is none.
pub fn default_context(kind: ProgramType, data_bytes: usize) -> Vec<u8> {
    match kind {
        ProgramType::XDP => {
            let mut ctx = vec![0; XDP_MD];
            // `data_end`; `data` is the length of the metadata before the packet, none.
            ctx[4..8].copy_from_slice(&(data_bytes as u32).to_ne_bytes());
            ctx
        }
        kind if is_skb(kind) => vec![0; SK_BUFF],
        ProgramType::SK_LOOKUP => {
            let mut ctx = vec![0; SK_LOOKUP];
            // `family` and `protocol`: TCP over IPv4.
            ctx[8] = 2;
            ctx[12] = 6;
            ctx
        }
        _ => Vec::new(),
    }
}
