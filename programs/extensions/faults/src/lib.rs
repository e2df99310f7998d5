//! A packet program that goes wrong, in the way that the packet's first byte says, and otherwise lets the
//! packet pass.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use karakoram_extension::{Counter, Mutex, Xdp, XdpVerdict, counter, xdp};

counter!(
    /// Runs that went well.
    static WELL
);

static TABLE: Mutex<[u64; 8]> = Mutex::new([0; 8]);
static STEPS: Counter = Counter::new();

fn deep(n: u64, packet: &Xdp) -> u64 {
    let mut frame = [n; 64];
    frame[(n % 64) as usize] += packet.length() as u64;
    match n {
        u64::MAX => 0,
        _ => deep(n + 1, packet).wrapping_add(frame[(n * 7 % 64) as usize]),
    }
}

/// Goes wrong as the first byte says.
#[xdp(on_panic = drop)]
pub fn fault(packet: &mut Xdp) -> XdpVerdict {
    let Some(what) = packet.u8(0) else { return XdpVerdict::Aborted };
    let values = [1u32, 2, 3, 4];
    match what {
        // Out of bounds.
        1 => return if values[packet.length()] > 2 { XdpVerdict::Tx } else { XdpVerdict::Aborted },
        // Division by zero.
        2 => return if 100 / (packet.length() - 60) > 2 { XdpVerdict::Tx } else { XdpVerdict::Aborted },
        // A loop without an end.
        3 => loop {
            STEPS.add(1);
        },
        // A stack without an end.
        4 => {
            if deep(packet.length() as u64, packet) == 7 {
                return XdpVerdict::Tx;
            }
        }
        // A panic that holds a lock.
        5 => {
            let mut table = TABLE.lock();
            table[0] += 1;
            table[packet.length()] += 1;
        }
        // A lock that is not given back.
        6 => core::mem::forget(TABLE.lock()),
        // A panic with a message.
        7 => panic!("as asked"),
        _ => {
            // Whoever left the lock behind has lost it.
            let mut table = TABLE.lock();
            table[1] += 1;
            WELL.add(1);
        }
    }
    XdpVerdict::Pass
}
