//! What the two ends of any link protocol offer to whoever drives them.

use crate::config::{Protection, ReceiverConfig, SenderConfig};
use crate::frame::{Arrival, Control, Frame, LinkFrame, Slot};
use crate::go_back_n::{GoBackConfig, GoBackReceiver, GoBackSender};
use crate::receiver::Receiver;
use crate::sender::Sender;

/// The end that sends frames and keeps copies.
pub trait LinkSender<F: Frame> {
    /// Takes a frame to send; gives it back when the queue is full.
    fn enqueue(&mut self, now_ps: u64, frame: F) -> Result<(), F>;

    /// What to put on the link next. To be called when the link can take a frame: numbers are given
    /// here, behind all queueing.
    fn poll_transmit(&mut self, now_ps: u64) -> Option<LinkFrame<F>>;

    /// What the other end says.
    fn on_control(&mut self, now_ps: u64, control: Control);

    /// When [`LinkSender::on_timer`] wants to be called, or [`LinkSender::poll_transmit`] may have
    /// something again without anything else happening.
    fn next_deadline(&self) -> Option<u64>;

    /// A deadline was reached.
    fn on_timer(&mut self, now_ps: u64);
}

/// The end that notices losses and puts frames back in order.
pub trait LinkReceiver<F: Frame> {
    /// A frame came over the link undamaged.
    fn on_frame(&mut self, now_ps: u64, frame: LinkFrame<F>) -> Arrival<F>;

    /// The next frame that waited and is due. To be called until there is none, after
    /// [`LinkReceiver::on_frame`] and [`LinkReceiver::on_timer`].
    fn poll_deliver(&mut self, now_ps: u64) -> Option<F>;

    /// What to tell the sender at this chance.
    fn poll_control(&mut self, now_ps: u64, slot: Slot) -> Option<Control>;

    /// When [`LinkReceiver::on_timer`] wants to be called.
    fn next_deadline(&self) -> Option<u64>;

    /// A deadline was reached.
    fn on_timer(&mut self, now_ps: u64);
}

/// A way to protect one direction of a link: makes the two ends of it.
pub trait LinkProtocol<F: Frame> {
    /// The end that sends.
    type Sender: LinkSender<F>;
    /// The end that receives.
    type Receiver: LinkReceiver<F>;

    /// Both ends, ready to be driven.
    fn start(&self) -> (Self::Sender, Self::Receiver);
}

/// Selective retransmission: the protocol of [`Sender`] and [`Receiver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selective {
    /// Settings of the sender.
    pub sender: SenderConfig,
    /// Settings of the receiver.
    pub receiver: ReceiverConfig,
    /// How the link is protected.
    pub protection: Protection,
}

impl<F: Frame> LinkProtocol<F> for Selective {
    type Sender = Sender<F>;
    type Receiver = Receiver<F>;

    fn start(&self) -> (Sender<F>, Receiver<F>) {
        let mut sender = Sender::new(self.sender);
        sender.enable(0, self.protection);
        (sender, Receiver::new(self.receiver))
    }
}

impl<F: Frame> LinkProtocol<F> for GoBackConfig {
    type Sender = GoBackSender<F>;
    type Receiver = GoBackReceiver;

    fn start(&self) -> (GoBackSender<F>, GoBackReceiver) {
        (GoBackSender::new(*self), GoBackReceiver::default())
    }
}
