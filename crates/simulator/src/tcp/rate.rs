//! Delivery rate samples (`tcp_rate.c`): how much was delivered between the sending of a segment and
//! its acknowledgement, over the longer of the times it took to send and to acknowledge that much.

/// The connection when a segment was sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Segments delivered by then.
    pub delivered: u64,
    /// When the last of them was acknowledged.
    pub delivered_at: u64,
    /// When the first segment of the flight was sent.
    pub first_sent_at: u64,
    /// Whether the application had nothing to send.
    pub is_application_limited: bool,
}

/// What an acknowledgement says about the rate.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Segments delivered since the segment was sent.
    pub delivered: u64,
    /// Over this time.
    pub interval: u64,
    /// Delivered in all when the segment was sent.
    pub prior_delivered: u64,
    /// Whether the application had nothing to send.
    pub is_application_limited: bool,
}

/// A connection's account of deliveries.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    delivered: u64,
    delivered_at: u64,
    first_sent_at: u64,
    application_limited_until: u64,
    newest: Option<(Stamp, u64)>,
}

impl Deliveries {
    /// Segments delivered in all.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The stamp of a segment sent now.
    pub fn stamp(&mut self, now: u64, in_flight: u32) -> Stamp {
        if in_flight == 0 {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_application_limited: self.application_limited_until != 0,
        }
    }

    /// The application has nothing more to send, while so many are in flight.
    pub fn limit(&mut self, in_flight: u32) {
        self.application_limited_until = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// A segment with this stamp, sent at this time, was delivered.
    pub fn deliver(&mut self, stamp: Stamp, sent_at: u64, now: u64) {
        self.delivered += 1;
        self.delivered_at = now;
        if self.newest.is_none_or(|(newest, _)| stamp.delivered >= newest.delivered) {
            self.newest = Some((stamp, sent_at));
            self.first_sent_at = sent_at;
        }
    }

    /// The sample of the acknowledgement whose deliveries were just told.
    pub fn sample(&mut self, now: u64, least_rtt: u64) -> Option<Sample> {
        if self.application_limited_until != 0 && self.delivered > self.application_limited_until {
            self.application_limited_until = 0;
        }
        let (stamp, sent_at) = self.newest.take()?;
        let interval = (sent_at - stamp.first_sent_at).max(now - stamp.delivered_at);
        (least_rtt == u64::MAX || interval >= least_rtt).then_some(Sample {
            delivered: self.delivered - stamp.delivered,
            interval: interval.max(1),
            prior_delivered: stamp.delivered,
            is_application_limited: stamp.is_application_limited,
        })
    }
}
