//! How many runs take so long.

/// Runs that are made first.
const FEWEST: u32 = 100;
/// Most runs in one system call.
const MOST: u32 = 20_000_000;

/// A number of runs that takes about `wanted_ns`, at least half of it where [`MOST`] allow; `spend` makes
/// so many and says what they took, in nanoseconds.
pub fn lasting<E>(wanted_ns: u64, mut spend: impl FnMut(u32) -> Result<u64, E>) -> Result<u32, E> {
    let mut repeat = FEWEST;
    let mut spent = spend(repeat)?;
    while spent < wanted_ns / 2 && repeat < MOST {
        let factor = (wanted_ns / spent.max(1)).clamp(2, 50) as u32;
        repeat = repeat.saturating_mul(factor).min(MOST);
        spent = spend(repeat)?;
    }
    let scaled = u128::from(repeat) * u128::from(wanted_ns) / u128::from(spent.max(1));
    Ok((scaled as u64).clamp(1, MOST.into()) as u32)
}

#[cfg(test)]
mod tests {
    use super::lasting;

    #[test]
    fn what_a_call_costs_by_itself_does_not_count_in_the_end() {
        let of = |call_ns: u64, run_ns: u64| {
            lasting(10_000_000, |repeat| Ok::<u64, ()>(call_ns + run_ns * u64::from(repeat))).unwrap()
        };
        for (call_ns, run_ns) in [(0, 20), (300_000, 20), (0, 5000), (300_000, 1)] {
            let took = call_ns + run_ns * u64::from(of(call_ns, run_ns));
            assert!((5_000_000..=11_000_000).contains(&took), "{call_ns} {run_ns}: {took}");
        }
        assert_eq!(of(0, 1_000_000_000), 1);
        assert_eq!(of(0, 0), super::MOST);
    }
}
