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

static SEVERAL: [Mutex<u32>; 4] = [const { Mutex::new(0) }; 4];

/// Takes several locks, gives some back in another order than they were taken in, and takes one of these again. Then
/// it may fail, with two of them held. Whether the others were held when they should, and free when they should.
fn several(packet: &Xdp, fails: bool) -> bool {
    let [first, second, third, fourth] = &SEVERAL;
    let (one, mut two, three, four) = (first.lock(), second.lock(), third.lock(), fourth.lock());
    drop(one);
    drop(three);
    let mut one = first.lock();
    let were_held = second.try_lock().is_none() && first.try_lock().is_none() && fourth.try_lock().is_none();
    drop(four);
    let are_free = third.try_lock().is_some() && fourth.try_lock().is_some();
    *one += 1;
    *two += [1, 2, 3][if fails { packet.length() } else { 0 }];
    were_held && are_free
}

/// Takes one lock after the other, always the next one before the last one is given back.
fn handed_on(steps: usize) {
    let mut held = SEVERAL[0].lock();
    for step in 1..steps {
        let next = SEVERAL[step % SEVERAL.len()].lock();
        *held += 1;
        held = next;
    }
}

/// Whether nobody has any of them.
fn are_free() -> bool {
    SEVERAL.iter().all(|lock| lock.try_lock().is_some())
}

fn deep(n: u64, packet: &Xdp) -> u64 {
    let mut frame = [n; 64];
    frame[(n % 64) as usize] += packet.length() as u64;
    match n {
        u64::MAX => 0,
        _ => deep(n + 1, packet).wrapping_add(frame[(n * 7 % 64) as usize]),
    }
}

/// Calls that never get deep and never come to an end.
fn wide(n: u64) -> u64 {
    if n < 2 { n } else { wide(n - 1) ^ wide(n - 2).rotate_left(1) }
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
        // Several locks, given back in any order, and a panic with two of them held.
        8 => return if several(packet, true) { XdpVerdict::Pass } else { XdpVerdict::Aborted },
        // The same without a panic.
        9 => return if several(packet, false) { XdpVerdict::Pass } else { XdpVerdict::Aborted },
        // More locks than there is room for on record, but never more than two at a time.
        10 => handed_on(packet.length()),
        11 => return if are_free() { XdpVerdict::Pass } else { XdpVerdict::Aborted },
        12 => {
            if wide(30 + packet.length() as u64) == 7 {
                return XdpVerdict::Tx;
            }
        }
        _ => {
            // Whoever left the lock behind has lost it.
            let mut table = TABLE.lock();
            table[1] += 1;
            WELL.add(1);
        }
    }
    XdpVerdict::Pass
}
