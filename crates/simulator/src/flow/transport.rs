//! The two ends of a flow, whichever transport it has.

use super::frame::{Content, Ecn, Frame};
use crate::rdma;
use crate::tcp;
use crate::tcp::congestion::Algorithm;

/// A transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP with a congestion control.
    Tcp(Algorithm),
    /// RDMA over a reliable connection.
    Rdma(rdma::Repair),
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tcp(algorithm) => algorithm.name(),
            Kind::Rdma(rdma::Repair::GoBackN) => "rdma",
            Kind::Rdma(rdma::Repair::Selective) => "rdma-selective",
        }
    }
}

/// A flow's two ends.
#[allow(clippy::large_enum_variant)] // one for each flow
pub enum Transport {
    /// TCP.
    Tcp(tcp::Sender, tcp::Receiver),
    /// RDMA.
    Rdma(rdma::Sender, rdma::Receiver),
}

impl Transport {
    /// Whether everything is acknowledged.
    pub fn is_done(&self) -> bool {
        match self {
            Transport::Tcp(sender, _) => sender.is_done(),
            Transport::Rdma(sender, _) => sender.is_done(),
        }
    }

    /// What was sent more than once.
    pub fn retransmissions(&self) -> u64 {
        match self {
            Transport::Tcp(sender, _) => sender.statistics().retransmissions,
            Transport::Rdma(sender, _) => sender.statistics().retransmissions,
        }
    }

    /// Timeouts, probes of the tail among them.
    pub fn timeouts(&self) -> u64 {
        match self {
            Transport::Tcp(sender, _) => sender.statistics().timeouts + sender.statistics().probes,
            Transport::Rdma(sender, _) => sender.statistics().timeouts,
        }
    }

    /// When the sending end wants to be asked again.
    pub fn next_deadline(&self) -> Option<u64> {
        match self {
            Transport::Tcp(sender, _) => sender.next_deadline(),
            Transport::Rdma(sender, _) => sender.next_deadline(),
        }
    }

    /// A deadline was reached.
    pub fn on_timer(&mut self, now: u64) -> Option<Frame> {
        match self {
            Transport::Tcp(sender, _) => {
                let segment = sender.on_timer(now)?;
                Some(Frame::new(Content::Segment(segment), sender.is_ecn()))
            }
            Transport::Rdma(sender, _) => {
                sender.on_timer(now);
                None
            }
        }
    }

    /// The next frame to send.
    pub fn poll(&mut self, now: u64) -> Option<Frame> {
        match self {
            Transport::Tcp(sender, _) => {
                let segment = sender.poll(now)?;
                Some(Frame::new(Content::Segment(segment), sender.is_ecn()))
            }
            Transport::Rdma(sender, _) => Some(Frame::new(Content::Packet(sender.poll(now)?), true)),
        }
    }

    /// A frame has arrived at the receiving end; what it answers.
    pub fn on_data(&mut self, frame: &Frame) -> [Option<Frame>; 2] {
        let is_marked = frame.ecn == Ecn::Experienced;
        match (self, frame.content) {
            (Transport::Tcp(_, receiver), Content::Segment(segment)) => {
                receiver.on_segment(segment, is_marked).map(|ack| Some(Frame::new(Content::Ack(ack?), false)))
            }
            (Transport::Rdma(_, receiver), Content::Packet(packet)) => {
                [receiver.on_packet(packet).map(|answer| Frame::new(Content::Answer(answer), false)), None]
            }
            _ => [None, None],
        }
    }

    /// An answer has arrived at the sending end.
    pub fn on_answer(&mut self, now: u64, frame: &Frame) {
        match (self, frame.content) {
            (Transport::Tcp(sender, _), Content::Ack(ack)) => sender.on_ack(now, &ack),
            (Transport::Rdma(sender, _), Content::Answer(answer)) => sender.on_answer(now, answer),
            _ => {}
        }
    }
}
