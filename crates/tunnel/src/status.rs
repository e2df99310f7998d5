//! The figures of a running link.

use karakoram_link::receiver::ReceiverStats;
use karakoram_link::sender::SenderStats;

/// Figures by name, in a fixed order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    figures: Vec<(String, u64)>,
}

impl Status {
    /// All of them.
    pub fn figures(&self) -> impl Iterator<Item = (&str, u64)> {
        self.figures.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.figures().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    pub(crate) fn add(&mut self, group: &str, figures: &[(&str, u64)]) {
        self.figures.extend(figures.iter().map(|(name, value)| (format!("{group}.{name}"), *value)));
    }

    pub(crate) fn parse(text: &str) -> Status {
        let figure = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        Status { figures: text.lines().filter_map(figure).collect() }
    }

    pub(crate) fn to_text(&self) -> String {
        self.figures().map(|(name, value)| format!("{name} {value}\n")).collect()
    }
}

/// Frames counted at the interfaces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) from_inside: u64,
    pub(crate) to_inside: u64,
    pub(crate) to_line: u64,
    pub(crate) from_line: u64,
    pub(crate) line_bytes: u64,
    pub(crate) unreadable: u64,
    pub(crate) foreign: u64,
    pub(crate) marked: u64,
    pub(crate) refused_by_line: u64,
    pub(crate) refused_by_inside: u64,
}

impl Counters {
    /// With the processor time of the link's thread. A frame that goes through is counted twice here,
    /// where it comes in and where it goes out.
    pub(crate) fn figures(&self, cpu_ns: u64) -> [(&'static str, u64); 12] {
        let frames = (self.from_inside + self.to_inside + self.to_line + self.from_line).div_ceil(2);
        [
            ("cpu_ns", cpu_ns),
            ("cpu_ns_per_frame", cpu_ns / frames.max(1)),
            ("from_inside", self.from_inside),
            ("to_inside", self.to_inside),
            ("to_line", self.to_line),
            ("from_line", self.from_line),
            ("line_bytes", self.line_bytes),
            ("unreadable", self.unreadable),
            ("foreign", self.foreign),
            ("marked", self.marked),
            ("refused_by_line", self.refused_by_line),
            ("refused_by_inside", self.refused_by_inside),
        ]
    }
}

pub(crate) fn sender_figures(s: &SenderStats) -> [(&'static str, u64); 15] {
    [
        ("frames", s.frames),
        ("plain_frames", s.plain_frames),
        ("queue_drops", s.queue_drops),
        ("retransmitted_frames", s.retransmitted_frames),
        ("retransmitted_copies", s.retransmitted_copies),
        ("freed_copies", s.freed_copies),
        ("evicted_copies", s.evicted_copies),
        ("dummies", s.dummies),
        ("acknowledgements", s.acknowledgements),
        ("notifications", s.notifications),
        ("missed_frames", s.missed_frames),
        ("refused_controls", s.refused_controls),
        ("pauses", s.pauses),
        ("handshakes", s.handshakes),
        ("peak_copy_bytes", s.peak_copy_bytes),
    ]
}

pub(crate) fn receiver_figures(r: &ReceiverStats) -> [(&'static str, u64); 19] {
    [
        ("frames", r.frames),
        ("plain_frames", r.plain_frames),
        ("dummies", r.dummies),
        ("delivered_frames", r.delivered_frames),
        ("gaps", r.gaps),
        ("lost_frames", r.lost_frames),
        ("notifications", r.notifications),
        ("dropped_notifications", r.dropped_notifications),
        ("recovered_frames", r.recovered_frames),
        ("duplicates", r.duplicates),
        ("timeouts", r.timeouts),
        ("skipped_frames", r.skipped_frames),
        ("overflows", r.overflows),
        ("refused_frames", r.refused_frames),
        ("piggybacked_acknowledgements", r.piggybacked_acknowledgements),
        ("courier_acknowledgements", r.courier_acknowledgements),
        ("pauses", r.pauses),
        ("handshakes", r.handshakes),
        ("peak_waiting_bytes", r.peak_waiting_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back() {
        let mut status = Status::default();
        status.add("sender", &sender_figures(&SenderStats { frames: 7, ..Default::default() }));
        assert_eq!(status.get("sender.frames"), Some(7));
        assert_eq!(Status::parse(&status.to_text()), status);
    }
}
