//! What the kernel's TCP has counted in a namespace.

use karakoram_lab::error::LabError;
use std::collections::BTreeMap;
use std::path::Path;

/// Counters that loss and reordering move, of both hosts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) retransmitted: u64,
    pub(super) timeouts: u64,
    pub(super) out_of_order: u64,
}

impl Tcp {
    /// Of the namespace of this thread.
    pub(super) fn read() -> Result<Tcp, LabError> {
        let read = |name: &str| {
            let path = Path::new("/proc/thread-self/net").join(name);
            std::fs::read_to_string(&path).map_err(|e| LabError::file("read", &path, &e))
        };
        Ok(Tcp::parse(&(read("snmp")? + &read("netstat")?)))
    }

    fn parse(text: &str) -> Tcp {
        let lines: Vec<&str> = text.lines().collect();
        let pairs = lines.chunks(2).flat_map(|pair| {
            let [names, values] = [0, 1].map(|i| pair.get(i).map_or("", |line| *line).split_whitespace());
            names.zip(values)
        });
        let counted: BTreeMap<&str, u64> =
            pairs.filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect();
        let of = |name: &str| counted.get(name).copied().unwrap_or(0);
        Tcp { retransmitted: of("RetransSegs"), timeouts: of("TCPTimeouts"), out_of_order: of("TCPOFOQueue") }
    }

    pub(super) fn plus(self, other: Tcp) -> Tcp {
        Tcp {
            retransmitted: self.retransmitted + other.retransmitted,
            timeouts: self.timeouts + other.timeouts,
            out_of_order: self.out_of_order + other.out_of_order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_come_in_pairs_of_lines() {
        let text = "Tcp: InSegs RetransSegs\nTcp: 10 7\nTcpExt: TCPTimeouts TCPOFOQueue\nTcpExt: 1 2\n";
        assert_eq!(Tcp::parse(text), Tcp { retransmitted: 7, timeouts: 1, out_of_order: 2 });
        assert_eq!(Tcp::parse(""), Tcp::default());
    }
}
