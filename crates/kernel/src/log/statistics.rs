//! The numbers at the end of the log (kernel `print_verification_stats`).

/// Effort of verifying a program. What the kernel did not print is missing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Instructions processed, on all paths together.
    pub processed_insns: Option<u64>,
    /// Most that may be processed.
    pub limit: Option<u64>,
    /// Most states kept for one instruction.
    pub max_states_per_insn: Option<u64>,
    /// States kept.
    pub total_states: Option<u64>,
    /// States kept at one time.
    pub peak_states: Option<u64>,
    /// Longest walk up the states to mark registers as read.
    pub mark_read: Option<u64>,
    /// Time of verification in microseconds.
    pub verification_time_us: Option<u64>,
    /// Bytes of stack of each function, the entry first.
    pub stack_depth: Vec<u32>,
}

impl Statistics {
    /// Finds them in a log. The last value wins.
    pub fn parse(log: &str) -> Statistics {
        let mut out = Statistics::default();
        for line in log.lines().filter(|l| Statistics::is_statistics(l)) {
            out.parse_line(line);
        }
        out
    }

    /// Whether a line of the log holds statistics.
    pub(super) fn is_statistics(line: &str) -> bool {
        line.starts_with("processed ") && line.contains(" insns")
            || line.starts_with("verification time ")
            || line.starts_with("stack depth ")
            || line.starts_with("max_states_per_insn ")
    }

    fn parse_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split([' ', '(', ')', ',']).filter(|w| !w.is_empty()).collect();
        for pair in words.windows(2) {
            let number = pair[1].parse().ok();
            let place = match pair[0] {
                "processed" => &mut self.processed_insns,
                "limit" => &mut self.limit,
                "max_states_per_insn" => &mut self.max_states_per_insn,
                "total_states" => &mut self.total_states,
                "peak_states" => &mut self.peak_states,
                "mark_read" => &mut self.mark_read,
                "time" => &mut self.verification_time_us,
                "depth" => {
                    self.stack_depth = pair[1].split('+').filter_map(|n| n.parse().ok()).collect();
                    continue;
                }
                _ => continue,
            };
            *place = number.or(*place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them() {
        let s = Statistics::parse(
            "verification time 123 usec\nstack depth 32+0+8\n\
             processed 40 insns (limit 1000000) max_states_per_insn 1 total_states 3 peak_states 2 mark_read 1\n",
        );
        assert_eq!(s.processed_insns, Some(40));
        assert_eq!(s.limit, Some(1_000_000));
        assert_eq!((s.max_states_per_insn, s.total_states, s.peak_states), (Some(1), Some(3), Some(2)));
        assert_eq!((s.mark_read, s.verification_time_us), (Some(1), Some(123)));
        assert_eq!(s.stack_depth, [32, 0, 8]);
    }

    #[test]
    fn the_older_form() {
        let s = Statistics::parse("processed 14 insns (limit 131072), stack depth 64\n");
        assert_eq!((s.processed_insns, s.limit), (Some(14), Some(131_072)));
        assert_eq!(s.stack_depth, [64]);
    }
}
