//! Calls, as deep as the packet says: its first number is the depth, the second what must come out. The same
//! with tail calls, as far as C for the verifier can do it, is in `recursion.c`.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use karakoram_extension::{Xdp, XdpVerdict, xdp};

/// Numbers in the frame of [`framed`].
const FRAME: usize = 8;

fn verdict(packet: &Xdp, value: u32) -> XdpVerdict {
    if packet.be32(4) == Some(value) { XdpVerdict::Pass } else { XdpVerdict::Drop }
}

fn depth(packet: &Xdp) -> u32 {
    packet.be32(0).unwrap_or(0)
}

/// No loop can be made of it: what is added at each step is added to what comes back.
fn chain(n: u32) -> u32 {
    if n == 0 { 1 } else { chain(n - 1).rotate_left(1) ^ n }
}

/// A step of the same, in a function that has something on its stack.
#[inline(never)]
fn framed(value: u32, n: u32) -> u32 {
    let mut frame = [0; FRAME];
    for (place, number) in frame.iter_mut().enumerate() {
        *number = value.rotate_left(1) ^ (place as u32) ^ (n % FRAME as u32);
    }
    frame[n as usize % FRAME] ^ n
}

/// A function that calls itself.
#[xdp]
pub fn recursion(packet: &mut Xdp) -> XdpVerdict {
    let value = chain(depth(packet));
    verdict(packet, value)
}

/// A function that is called so often from a loop.
#[xdp]
pub fn calls(packet: &mut Xdp) -> XdpVerdict {
    let mut value = 1;
    for n in 1..=depth(packet) {
        value = framed(value, n);
    }
    verdict(packet, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_extension::testing;

    #[test]
    fn both_come_to_the_same() {
        for depth in [0u32, 1, 2, 7, 33, 1000] {
            let value = (1..=depth).fold(1u32, |value, n| value.rotate_left(1) ^ n);
            for program in [recursion, calls] {
                let packet = |value: u32| [depth.to_be_bytes(), value.to_be_bytes()].concat();
                assert_eq!(testing::xdp(program, &mut packet(value)), XdpVerdict::Pass);
                assert_eq!(testing::xdp(program, &mut packet(value + 1)), XdpVerdict::Drop);
            }
        }
    }
}
