//! What a program finds when it starts: context, packet, memory.

use super::memory::{MAX_FRAMES, Memory};
use super::packet::Packet;
use super::state::State;
use super::{CONTEXT_ADDRESS, Input, Options, address};
use crate::hook::{Hook, ProgramType};

/// Longest context.
const MAX_CONTEXT: usize = 1 << 20;

/// Bytes of context at a hook.
pub(super) fn context_size(hook: Hook) -> usize {
    match hook {
        Hook::Constant => 0,
        Hook::Buffer(bytes) => (bytes as usize).min(MAX_CONTEXT),
        Hook::Kernel(ProgramType::XDP) => 24,
        Hook::Kernel(_) if has_skb(hook) => 192,
        Hook::Kernel(_) => 1024,
    }
}

/// Whether the context is a `struct __sk_buff`.
pub(super) fn has_skb(hook: Hook) -> bool {
    use ProgramType as T;
    matches!(
        hook.program_type(),
        Some(
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
    )
}

/// The memory of a run. Takes the maps out of the state.
pub(super) fn memory(hook: Hook, input: &Input, state: &mut State, options: &Options) -> Memory {
    let mut context = input.context.clone();
    context.truncate(MAX_CONTEXT);
    context.resize(context.len().max(context_size(hook)), 0);
    let mut memory = Memory {
        maps: std::mem::take(&mut state.maps),
        packet: Packet::new(&input.metadata, &input.packet),
        context,
        hook,
        stack: vec![0; MAX_FRAMES * address::FRAME_BYTES],
        depth: 0,
        records: Vec::new(),
        kernel: std::mem::take(&mut state.kernel),
        kernel_loads: options.kernel_loads,
        record_limit: options.limits.record_bytes,
    };
    match hook.program_type() {
        Some(ProgramType::FLOW_DISSECTOR) => point_to(&mut memory, skb::FLOW_KEYS, None, &[0; FLOW_KEYS_BYTES]),
        Some(ProgramType::CGROUP_SOCKOPT) => {
            point_to(&mut memory, sockopt::OPTVAL, Some(sockopt::OPTVAL_END), &input.packet);
        }
        _ => {}
    }
    if has_skb(hook) {
        describe_packet(&mut memory);
        describe_protocol(&mut memory);
    }
    memory
}

/// `r1` at entry.
pub(super) fn first_argument(hook: Hook, input: &Input) -> u64 {
    match hook {
        Hook::Constant => {
            let mut number = [0; 8];
            let len = input.context.len().min(8);
            number[..len].copy_from_slice(&input.context[..len]);
            u64::from_le_bytes(number)
        }
        Hook::Buffer(_) | Hook::Kernel(_) => CONTEXT_ADDRESS,
    }
}

/// Offsets in `struct __sk_buff`.
mod skb {
    pub const LEN: usize = 0;
    pub const PROTOCOL: usize = 16;
    pub const IFINDEX: usize = 40;
    pub const FLOW_KEYS: usize = 144;
}

/// Offsets in `struct bpf_sockopt`.
mod sockopt {
    pub const OPTVAL: usize = 8;
    pub const OPTVAL_END: usize = 16;
}

/// Bytes of `struct bpf_flow_keys`.
const FLOW_KEYS_BYTES: usize = 56;

/// Puts the address of a new record into a field of the context, and its end into another.
fn point_to(memory: &mut Memory, field: usize, end: Option<usize>, bytes: &[u8]) {
    let Ok(address) = memory.make_record(0, bytes.len()) else { return };
    if let Ok(record) = memory.write(address, bytes.len()) {
        record.copy_from_slice(bytes);
    }
    let fields = [Some((field, address)), end.map(|end| (end, address + bytes.len() as u64))];
    for (field, value) in fields.into_iter().flatten() {
        if let Some(target) = memory.context.get_mut(field..field + 8) {
            target.copy_from_slice(&value.to_le_bytes());
        }
    }
}

fn put(memory: &mut Memory, offset: usize, value: u32) {
    if let Some(field) = memory.context.get_mut(offset..offset + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// Sets the context fields that follow the packet; to be called whenever its length changes.
pub(super) fn describe_packet(memory: &mut Memory) {
    if has_skb(memory.hook) {
        put(memory, skb::LEN, memory.packet.len() as u32);
    }
}

/// Fields of a packet that nobody described, which are 0: its protocol is what it says, and it came
/// from the first interface.
fn describe_protocol(memory: &mut Memory) {
    let bytes = memory.packet.bytes();
    let ethertype = bytes.get(12..14).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    let protocol = match (super::machine::network_offset(memory.hook), bytes.first().map(|b| b >> 4)) {
        (14, _) => ethertype,
        (_, Some(4)) => 0x0800u16.to_be(),
        (_, Some(6)) => 0x86ddu16.to_be(),
        _ => ethertype,
    };
    for (offset, value) in [(skb::PROTOCOL, protocol as u32), (skb::IFINDEX, 1)] {
        if field(memory, offset) == 0 {
            put(memory, offset, value);
        }
    }
}

/// A field of the context, as the kernel's helpers use it.
pub(super) fn field(memory: &Memory, offset: usize) -> u32 {
    let bytes = memory.context.get(offset..offset + 4);
    bytes.and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Sets a field of the context, as the kernel's helpers do.
pub(super) fn set_field(memory: &mut Memory, offset: usize, value: u32) {
    put(memory, offset, value);
}
