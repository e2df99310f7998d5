//! Packets at the hooks whose context is a `struct __sk_buff`.

use super::Family;
use crate::interpreter::context::{describe_packet, field, set_field};
use crate::interpreter::errno::*;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::{Machine, network_offset};
use crate::interpreter::packet::NoRoom;
use crate::interpreter::random::hash;

pub(super) const FAMILY: Family = &[
    (9, "skb_store_bytes", store),
    (17, "get_cgroup_classid", zero),
    (18, "skb_vlan_push", vlan_push),
    (19, "skb_vlan_pop", vlan_pop),
    (24, "get_route_realm", zero),
    (26, "skb_load_bytes", load),
    (32, "skb_change_type", change_type),
    (34, "get_hash_recalc", flow_hash),
    (38, "skb_change_tail", change_tail),
    (39, "skb_pull_data", pull),
    (41, "set_hash_invalid", forget_hash),
    (43, "skb_change_head", change_head),
    (48, "set_hash", set_hash),
    (50, "skb_adjust_room", adjust_room),
    (68, "skb_load_bytes_relative", load_relative),
    (97, "skb_ecn_set_ce", mark_congestion),
];

/// Offsets in `struct __sk_buff`.
const PKT_TYPE: usize = 4;
const PROTOCOL: usize = 16;
const VLAN_PRESENT: usize = 20;
const VLAN_TCI: usize = 24;
const VLAN_PROTO: usize = 28;
const HASH: usize = 68;

/// EtherTypes in network order, as they are in memory.
const ETH_P_IP: u16 = 0x0800u16.to_be();
const ETH_P_IPV6: u16 = 0x86ddu16.to_be();
const ETH_P_8021Q: u16 = 0x8100u16.to_be();
const ETH_P_8021AD: u16 = 0x88a8u16.to_be();

/// Longest packet that may be made (kernel `BPF_SKB_MAX_LEN`).
const MAX_LEN: usize = 65535;
/// Ethernet destination and source.
const ADDRESSES: usize = 12;
const ETHERNET_HEADER: usize = 14;

fn changed(m: &mut Machine, result: Result<(), NoRoom>, errno: i64) -> Result<u64, Trap> {
    describe_packet(&mut m.memory);
    Ok(result.map_or(negative(errno), |()| 0))
}

fn zero(_: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(0)
}

fn load_at(m: &mut Machine, offset: Option<usize>, target: u64, len: u64) -> Result<u64, Trap> {
    let len = len as u32 as usize;
    let bytes = offset.and_then(|o| m.memory.packet.bytes().get(o..o.checked_add(len)?)).map(<[u8]>::to_vec);
    let target = m.memory.write(target, len)?;
    match bytes {
        Some(bytes) => {
            target.copy_from_slice(&bytes);
            Ok(0)
        }
        None => {
            target.fill(0);
            Ok(negative(EFAULT))
        }
    }
}

fn load(m: &mut Machine, [_, offset, target, len, _]: [u64; 5]) -> Result<u64, Trap> {
    load_at(m, usize::try_from(offset as u32 as i32).ok(), target, len)
}

/// From the link header (0) or the network header (1).
fn load_relative(m: &mut Machine, [_, offset, target, len, from]: [u64; 5]) -> Result<u64, Trap> {
    let offset = usize::try_from(offset as u32).ok().filter(|o| *o <= 0xffff);
    let start = match from {
        0 => Some(0),
        1 => usize::try_from(network_offset(m.memory.hook)).ok(),
        _ => None,
    };
    load_at(m, offset.zip(start).map(|(offset, start)| offset + start), target, len)
}

fn store(m: &mut Machine, [_, offset, source, len, flags]: [u64; 5]) -> Result<u64, Trap> {
    const RECOMPUTE_CHECKSUM: u64 = 1;
    const INVALIDATE_HASH: u64 = 2;
    let bytes = m.memory.read(source, len as u32 as usize)?.to_vec();
    if flags & !(RECOMPUTE_CHECKSUM | INVALIDATE_HASH) != 0 {
        return Ok(negative(EINVAL));
    }
    let at = usize::try_from(offset as u32 as i32).ok();
    let target = at.and_then(|at| m.memory.packet.bytes_mut().get_mut(at..at.checked_add(bytes.len())?));
    let Some(target) = target else { return Ok(negative(EFAULT)) };
    target.copy_from_slice(&bytes);
    if flags & INVALIDATE_HASH != 0 {
        set_field(&mut m.memory, HASH, 0);
    }
    Ok(0)
}

fn pull(m: &mut Machine, [_, len, ..]: [u64; 5]) -> Result<u64, Trap> {
    Ok(if len as u32 as usize > m.memory.packet.len() { negative(ENOMEM) } else { 0 })
}

fn change_tail(m: &mut Machine, [_, len, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let len = len as u32 as usize;
    let shortest = network_offset(m.memory.hook) as usize;
    if flags != 0 || len > MAX_LEN || len < shortest {
        return Ok(negative(EINVAL));
    }
    let result = m.memory.packet.set_len(len);
    changed(m, result, ENOMEM)
}

fn change_head(m: &mut Machine, [_, room, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let room = room as u32 as usize;
    if flags != 0 || room > MAX_LEN || m.memory.packet.len() + room > MAX_LEN {
        return Ok(negative(EINVAL));
    }
    let result = m.memory.packet.insert(0, room);
    changed(m, result, ENOMEM)
}

fn change_type(m: &mut Machine, [_, kind, ..]: [u64; 5]) -> Result<u64, Trap> {
    // Only from and to the types for packets on the wire: host, broadcast, multicast, other host.
    if kind > 3 || field(&m.memory, PKT_TYPE) > 3 {
        return Ok(negative(EINVAL));
    }
    set_field(&mut m.memory, PKT_TYPE, kind as u32);
    Ok(0)
}

fn flow_hash(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    let known = field(&m.memory, HASH);
    if known != 0 {
        return Ok(known as u64);
    }
    let start = network_offset(m.memory.hook) as usize;
    let addresses = m.memory.packet.bytes().get(start + 12..start + 24).unwrap_or(&[]);
    let hash = hash(addresses.iter().map(|b| *b as u64)) as u32 | 1;
    set_field(&mut m.memory, HASH, hash);
    Ok(hash as u64)
}

fn forget_hash(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    set_field(&mut m.memory, HASH, 0);
    Ok(0)
}

fn set_hash(m: &mut Machine, [_, hash, ..]: [u64; 5]) -> Result<u64, Trap> {
    set_field(&mut m.memory, HASH, hash as u32);
    Ok(0)
}

fn is_vlan(protocol: u16) -> bool {
    matches!(protocol, ETH_P_8021Q | ETH_P_8021AD)
}

fn ethertype(m: &Machine) -> u16 {
    m.memory.packet.bytes().get(ADDRESSES..ETHERNET_HEADER).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

/// The kernel keeps the outermost tag beside the packet; one that is there already goes into it.
fn vlan_push(m: &mut Machine, [_, protocol, tag, ..]: [u64; 5]) -> Result<u64, Trap> {
    let protocol = if is_vlan(protocol as u16) { protocol as u16 } else { ETH_P_8021Q };
    let mut result = Ok(());
    if field(&m.memory, VLAN_PRESENT) != 0 {
        let (outer, tag) = (field(&m.memory, VLAN_PROTO) as u16, field(&m.memory, VLAN_TCI) as u16);
        result = m.memory.packet.insert(ADDRESSES, 4);
        if result.is_ok() && m.memory.packet.len() >= ADDRESSES + 4 {
            let header = &mut m.memory.packet.bytes_mut()[ADDRESSES..ADDRESSES + 4];
            header[..2].copy_from_slice(&outer.to_le_bytes());
            header[2..].copy_from_slice(&tag.to_be_bytes());
            set_field(&mut m.memory, PROTOCOL, outer as u32);
        }
    }
    if result.is_ok() {
        set_tag(m, Some((protocol, tag as u16)));
    }
    changed(m, result, ENOMEM)
}

fn set_tag(m: &mut Machine, tag: Option<(u16, u16)>) {
    let (protocol, tci) = tag.unwrap_or((0, 0));
    set_field(&mut m.memory, VLAN_PRESENT, tag.is_some() as u32);
    set_field(&mut m.memory, VLAN_PROTO, protocol as u32);
    set_field(&mut m.memory, VLAN_TCI, tci as u32);
}

/// Takes a tag out of the packet.
fn take_tag(m: &mut Machine) -> Result<Option<(u16, u16)>, NoRoom> {
    let protocol = field(&m.memory, PROTOCOL) as u16;
    if !is_vlan(protocol) {
        return Ok(None);
    }
    let tag = m.memory.packet.bytes().get(ETHERNET_HEADER..ETHERNET_HEADER + 2).ok_or(NoRoom)?;
    let tag = u16::from_be_bytes([tag[0], tag[1]]);
    m.memory.packet.remove(ADDRESSES, 4)?;
    let inner = ethertype(m);
    set_field(&mut m.memory, PROTOCOL, inner as u32);
    Ok(Some((protocol, tag)))
}

fn vlan_pop(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    if field(&m.memory, VLAN_PRESENT) != 0 {
        set_tag(m, None);
    } else {
        match take_tag(m) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(0),
            Err(e) => return changed(m, Err(e), ENOMEM),
        }
    }
    let next = take_tag(m);
    if let Ok(Some(tag)) = next {
        set_tag(m, Some(tag));
    }
    changed(m, next.map(drop), ENOMEM)
}

/// Makes or removes room after the link header (`BPF_ADJ_ROOM_MAC`) or the network header
/// (`BPF_ADJ_ROOM_NET`).
fn adjust_room(m: &mut Machine, [_, delta, mode, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    const AFTER_NETWORK: u64 = 0;
    const AFTER_LINK: u64 = 1;
    const KNOWN_FLAGS: u64 = 0x1ff | 0xff << 56;
    let delta = delta as i32;
    let count = delta.unsigned_abs() as usize;
    if flags & !KNOWN_FLAGS != 0 {
        return Ok(negative(EINVAL));
    }
    if count > 0xfff {
        return Ok(negative(EFAULT));
    }
    let network_header = match field(&m.memory, PROTOCOL) as u16 {
        ETH_P_IP => 20,
        ETH_P_IPV6 => 40,
        _ => return Ok(negative(ENOTSUPP)),
    };
    let link_header = network_offset(m.memory.hook) as usize;
    let at = match mode {
        AFTER_NETWORK => link_header + network_header,
        AFTER_LINK => link_header,
        _ => return Ok(negative(ENOTSUPP)),
    };
    let len = m.memory.packet.len();
    let result = if delta < 0 {
        let after_link = len.saturating_sub(link_header);
        if count >= after_link || after_link - count < network_header {
            return Ok(negative(ENOTSUPP));
        }
        m.memory.packet.remove(at, count)
    } else {
        if len + count > MAX_LEN {
            return Ok(negative(ENOTSUPP));
        }
        m.memory.packet.insert(at, count)
    };
    changed(m, result, ENOMEM)
}

/// Sets the congestion mark of an IP packet that allows it; 1 when it is marked afterwards.
fn mark_congestion(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    let at = network_offset(m.memory.hook) as usize;
    let Some(header) = m.memory.packet.bytes_mut().get_mut(at..at + 20) else { return Ok(0) };
    let bits = match header[0] >> 4 {
        4 => header[1] & 3,
        6 => header[1] >> 4 & 3,
        _ => return Ok(0),
    };
    if bits == 0 {
        return Ok(0);
    }
    if bits == 3 {
        return Ok(1);
    }
    if header[0] >> 4 == 6 {
        header[1] |= 3 << 4;
        return Ok(1);
    }
    // Incremental update of the header checksum, as the kernel's `IP_ECN_set_ce`.
    let sum = u16::from_le_bytes([header[10], header[11]]) as u32;
    let (old, new) = (header[1], header[1] | 3);
    header[1] = new;
    let mut sum = (!sum & 0xffff) + (!((old as u32) << 8) & 0xffff) + ((new as u32) << 8);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_le_bytes());
    Ok(1)
}
