//! Sockets. There are none in this model: look-ups find nothing.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;
use crate::interpreter::random::hash;

pub(super) const FAMILY: Family = &[
    (46, "get_socket_cookie", cookie),
    (47, "get_socket_uid", user),
    (84, "sk_lookup_tcp", look_up),
    (85, "sk_lookup_udp", look_up),
    (86, "sk_release", release),
    (99, "skc_lookup_tcp", look_up),
    (122, "get_netns_cookie", namespace),
];

fn cookie(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(hash([m.memory.kernel.seed, 0x636f_6f6b]) >> 32 | 1)
}

fn namespace(_: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(1)
}

/// `overflowuid`, as for packets without a socket.
fn user(_: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(65534)
}

fn look_up(m: &mut Machine, [_, tuple, len, ..]: [u64; 5]) -> Result<u64, Trap> {
    m.memory.read(tuple, len as u32 as usize)?;
    Ok(0)
}

fn release(_: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(negative(EINVAL))
}
