//! Sending packets elsewhere, and asking for routes.

use super::Family;
use crate::hook::ProgramType;
use crate::interpreter::errno::*;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;
use crate::interpreter::random::hash;
use crate::map::MapType;

pub(super) const FAMILY: Family = &[
    (13, "clone_redirect", clone_redirect),
    (23, "redirect", redirect),
    (51, "redirect_map", redirect_map),
    (52, "sk_redirect_map", to_socket),
    (60, "msg_redirect_map", to_socket),
    (69, "fib_lookup", fib_lookup),
    (71, "msg_redirect_hash", to_socket_of_key),
    (72, "sk_redirect_hash", to_socket_of_key),
    (152, "redirect_neigh", redirect_neigh),
    (155, "redirect_peer", redirect_peer),
];

const XDP_ABORTED: u64 = 0;
const XDP_REDIRECT: u64 = 4;
const TC_ACT_SHOT: u64 = 2;
const TC_ACT_REDIRECT: u64 = 7;
const SK_PASS: u64 = 1;
const SK_DROP: u64 = 0;
/// `BPF_F_INGRESS`
const INGRESS: u64 = 1;
/// Low bits of the flags of `bpf_redirect_map`: what to return when there is no such entry.
const ACTION: u64 = 3;
/// `BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS`
const BROADCAST: u64 = 8;
const TO_MANY: u64 = BROADCAST | 16;

fn is_xdp(m: &Machine) -> bool {
    m.memory.hook.program_type() == Some(ProgramType::XDP)
}

fn numbers(values: &[u64]) -> Vec<Argument> {
    values.iter().map(|v| Argument::Number(*v)).collect()
}

fn redirect(m: &mut Machine, [interface, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    m.record(numbers(&[interface as u32 as u64, flags]))?;
    Ok(match is_xdp(m) {
        true if flags != 0 => XDP_ABORTED,
        true => XDP_REDIRECT,
        false if flags & !INGRESS != 0 => TC_ACT_SHOT,
        false => TC_ACT_REDIRECT,
    })
}

fn redirect_peer(m: &mut Machine, [interface, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    m.record(numbers(&[interface as u32 as u64, flags]))?;
    Ok(if flags != 0 { TC_ACT_SHOT } else { TC_ACT_REDIRECT })
}

/// Bytes of `struct bpf_redir_neigh`.
const NEIGHBOUR_BYTES: u64 = 20;

fn redirect_neigh(m: &mut Machine, [interface, neighbour, len, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let bytes = m.memory.read(neighbour, len as u32 as usize)?.to_vec();
    m.record(vec![Argument::Number(interface as u32 as u64), Argument::Bytes(bytes), Argument::Number(flags)])?;
    let short = len != 0 && len < NEIGHBOUR_BYTES;
    Ok(if short || flags != 0 { TC_ACT_SHOT } else { TC_ACT_REDIRECT })
}

fn redirect_map(m: &mut Machine, [map, key, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    let key = key as u32;
    let kind = m.memory.maps[map].def().kind;
    let many = if matches!(kind, MapType::DEVMAP | MapType::DEVMAP_HASH) { TO_MANY } else { 0 };
    if flags & !(ACTION | many) != 0 {
        return Ok(XDP_ABORTED);
    }
    let to_many = flags & BROADCAST != 0;
    if !to_many && !m.memory.maps[map].contains(&key.to_le_bytes()) {
        return Ok(flags & ACTION);
    }
    // Where broadcasts go does not depend on the key.
    let key = if to_many { 0 } else { key as u64 };
    m.record(numbers(&[map as u64, key, flags & many]))?;
    Ok(XDP_REDIRECT)
}

fn clone_redirect(m: &mut Machine, [_, interface, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    if flags & !INGRESS != 0 {
        return Ok(negative(EINVAL));
    }
    let packet = m.memory.packet.bytes().to_vec();
    m.record(vec![Argument::Number(interface as u32 as u64), Argument::Number(flags), Argument::Bytes(packet)])?;
    Ok(0)
}

fn to_socket(m: &mut Machine, [_, map, key, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    let key = key as u32;
    send_to_socket(m, map, key.to_le_bytes().to_vec(), flags)
}

fn to_socket_of_key(m: &mut Machine, [_, map, key, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    let key = m.memory.read(key, m.memory.maps[map].def().key_size as usize)?.to_vec();
    send_to_socket(m, map, key, flags)
}

fn send_to_socket(m: &mut Machine, map: usize, key: Vec<u8>, flags: u64) -> Result<u64, Trap> {
    if flags & !INGRESS != 0 || !m.memory.maps[map].contains(&key) {
        return Ok(SK_DROP);
    }
    m.record(vec![Argument::Number(map as u64), Argument::Bytes(key), Argument::Number(flags)])?;
    Ok(SK_PASS)
}

/// Bytes of `struct bpf_fib_lookup`.
const ROUTE_BYTES: usize = 64;

/// A route exists when [`crate::interpreter::State::fib_result`] is 0; its link addresses follow from
/// the destination.
fn fib_lookup(m: &mut Machine, [_, route, len, _, _]: [u64; 5]) -> Result<u64, Trap> {
    let (result, seed) = (m.world.fib_result, m.memory.kernel.seed);
    let bytes = m.memory.write(route, len as u32 as usize)?;
    if bytes.len() < ROUTE_BYTES {
        return Ok(negative(EINVAL));
    }
    if result == 0 {
        let destination = bytes[32..48].iter().map(|b| *b as u64);
        let next_hop = hash([seed].into_iter().chain(destination));
        let interface = 2 + (next_hop % 3) as u32;
        bytes[8..12].copy_from_slice(&interface.to_le_bytes());
        bytes[12..16].fill(0);
        bytes[48..52].fill(0);
        // Locally administered unicast addresses.
        bytes[52..58].copy_from_slice(&[2, 0, 0, 0, 0, interface as u8]);
        bytes[58..60].copy_from_slice(&[2, 1]);
        bytes[60..64].copy_from_slice(&(next_hop as u32).to_le_bytes());
    }
    Ok(result as u64)
}
