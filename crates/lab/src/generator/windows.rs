//! What became of frames in each millisecond.
//!
//! A virtual machine is stopped for a tenth of a millisecond or for ten, some times in a second. A program that
//! gets all that comes loses a few hundred frames each time, and over a whole trial that looks like a program that is a
//! little too slow. By the millisecond the two are easily told apart: one loses much now and then, the
//! other some all the time. The same holds for a generator that was held up.

use crate::statistics::median;
use std::time::Duration;

/// Length of a window, as in `programs/lab/generator.c`.
const WINDOW: Duration = Duration::from_millis(1);
/// In a window the generator sent at least this share of what it should.
const KEPT_UP: f64 = 0.9;

/// Frames in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Handed to the device.
    pub offered: u64,
    /// Of these, those that it had no room for.
    pub lost: u64,
}

/// What holds in most windows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Typical {
    /// Frames offered, per second.
    pub rate: f64,
    /// Share that was lost.
    pub loss: f64,
}

/// How many end within so much time.
pub(super) fn count(within: Duration) -> usize {
    (within.as_nanos() / WINDOW.as_nanos()) as usize
}

/// The windows that end within so much time, from `struct window` one after the other.
pub(super) fn parse(bytes: &[u8], within: Duration) -> Vec<Window> {
    let number = |half: &[u8]| u64::from(u32::from_ne_bytes(half.try_into().expect("four bytes")));
    let window = |pair: &[u8]| Window { offered: number(&pair[..4]), lost: number(&pair[4..]) };
    bytes.chunks_exact(8).take(count(within)).map(window).collect()
}

/// Medians over the windows in which the generator kept up with `rate` (where it did in half of them); `None`
/// when nothing was offered.
pub fn typical(windows: &[Window], rate: Option<f64>) -> Option<Typical> {
    let wanted = rate.unwrap_or(0.0) * WINDOW.as_secs_f64() * KEPT_UP;
    let steady: Vec<&Window> = windows.iter().filter(|w| w.offered as f64 >= wanted.max(1.0)).collect();
    let all: Vec<&Window> = windows.iter().filter(|w| w.offered > 0).collect();
    let counted = if 2 * steady.len() >= all.len() { steady } else { all };
    let of = |what: &dyn Fn(&Window) -> f64| median(&counted.iter().map(|w| what(w)).collect::<Vec<_>>());
    let loss = of(&|w| w.lost as f64 / w.offered as f64);
    (!counted.is_empty()).then(|| Typical { rate: of(&|w| w.offered as f64) / WINDOW.as_secs_f64(), loss })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(offered: u64, lost: &[u64]) -> Vec<Window> {
        lost.iter().map(|lost| Window { offered, lost: *lost }).collect()
    }

    #[test]
    fn a_receiver_that_is_stopped_now_and_then_loses_nothing_typically() {
        let stopped = windows(2000, &[0, 400, 0, 0, 2000, 2000, 0, 0, 0, 0]);
        assert_eq!(typical(&stopped, Some(2e6)), Some(Typical { rate: 2e6, loss: 0.0 }));
        let slow = windows(2000, &[0, 0, 48, 32, 48, 32, 48, 32, 48, 48]);
        assert!(typical(&slow, Some(2e6)).unwrap().loss > 0.015);
    }

    #[test]
    fn windows_of_a_generator_that_was_held_up_do_not_count() {
        let mut mixed = windows(2000, &[40; 6]);
        mixed.extend(windows(900, &[0; 5]));
        assert_eq!(typical(&mixed, Some(2e6)), Some(Typical { rate: 2e6, loss: 0.02 }));
        // At its limit it is what it can do.
        assert_eq!(typical(&mixed, Some(4e6)).unwrap().rate, 2e6);
        assert_eq!(typical(&[Window { offered: 0, lost: 0 }], None), None);
    }

    #[test]
    fn only_whole_windows_are_read() {
        let bytes: Vec<u8> = [5u32, 1, 6, 2, 7, 3].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let read = parse(&bytes, Duration::from_micros(2900));
        assert_eq!(read, [Window { offered: 5, lost: 1 }, Window { offered: 6, lost: 2 }]);
    }
}
