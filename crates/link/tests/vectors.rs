//! Losses made by hand: at the wrap of the 16 bits, at the end of bursts, of notifications, at the
//! moment of a pause.

use karakoram_link::config::{CopyStore, LineRate, MOST_WINDOW, Protection, Reorder, TICK_PS};
use karakoram_link::sender::Visit;
use karakoram_link::sequence::FIRST;
use karakoram_link::{
    Ack, Arrival, Control, Event, Frame, LinkFrame, LinkReceiver, LinkSender, Loss, Mode, Receiver, ReceiverConfig,
    Sender, SenderConfig, Slot, WireSequence,
};

type Log = Vec<(u64, Event)>;

/// Frames of one length that can be told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name(u32);

impl Frame for Name {
    fn bytes(&self) -> u32 {
        1514
    }
}

/// A sender and a receiver without time between them.
struct Pair {
    sender: Sender<Name, Log>,
    receiver: Receiver<Name, Log>,
    delivered: Vec<u32>,
    now_ps: u64,
}

impl Pair {
    fn original(copies: u8, mode: Mode) -> Pair {
        let receiver = ReceiverConfig { reorder: Reorder::Sorted, ..ReceiverConfig::original(LineRate::G100) };
        Pair::new(SenderConfig::original(LineRate::G100), receiver, Protection { mode, copies })
    }

    fn corrected(copies: u8, mode: Mode) -> Pair {
        let sender = SenderConfig { handshake: None, ..SenderConfig::corrected(80, 3_000_000, 1) };
        Pair::new(sender, ReceiverConfig::corrected(3_000_000), Protection { mode, copies })
    }

    fn new(sender: SenderConfig, receiver: ReceiverConfig, protection: Protection) -> Pair {
        let mut sender = Sender::with_log(sender, Log::new());
        sender.enable(0, protection);
        let receiver = Receiver::with_log(receiver, Log::new());
        Pair { sender, receiver, delivered: Vec::new(), now_ps: 0 }
    }

    /// Sends frames without loss until this number is next.
    fn advance_to(&mut self, next: u64) {
        while self.sender.next_sequence() < FIRST + next {
            let frame = self.send();
            self.receive(frame);
            self.answer();
        }
        self.delivered.clear();
        self.sender.log().clear();
        self.receiver.log().clear();
    }

    /// The next numbered frame, named by its number.
    fn send(&mut self) -> LinkFrame<Name> {
        let name = (self.sender.next_sequence() - FIRST) as u32;
        self.sender.enqueue(self.now_ps, Name(name)).expect("room");
        self.sender.poll_transmit(self.now_ps).expect("a frame")
    }

    fn receive(&mut self, frame: LinkFrame<Name>) {
        if let Arrival::Deliver(Name(name)) = self.receiver.on_frame(self.now_ps, frame) {
            self.delivered.push(name);
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(Name(name)) = self.receiver.poll_deliver(self.now_ps) {
            self.delivered.push(name);
        }
    }

    /// All that the receiver has to say reaches the sender.
    fn answer(&mut self) {
        for slot in [Slot::Urgent, Slot::Idle] {
            while let Some(control) = self.receiver.poll_control(self.now_ps, slot) {
                self.sender.on_control(self.now_ps, control);
            }
        }
    }

    /// What the sender sends on its own reaches the receiver.
    fn transmit(&mut self) {
        while let Some(frame) = self.sender.poll_transmit(self.now_ps) {
            self.receive(frame);
            self.answer();
        }
    }

    /// Time passes.
    fn wait(&mut self, ps: u64) {
        let end = self.now_ps + ps;
        loop {
            let deadlines = [self.sender.next_deadline(), self.receiver.next_deadline()];
            let Some(at) = deadlines.into_iter().flatten().min().filter(|at| *at <= end) else { break };
            self.now_ps = self.now_ps.max(at);
            self.sender.on_timer(self.now_ps);
            self.receiver.on_timer(self.now_ps);
            self.drain();
            self.answer();
            self.transmit();
        }
        self.now_ps = end;
    }

    fn lines(log: &Log) -> Vec<String> {
        log.iter().map(|(_, event)| event.to_string()).collect()
    }
}

fn both() -> [Pair; 2] {
    [Pair::original(2, Mode::Ordered), Pair::corrected(2, Mode::Ordered)]
}

#[test]
fn the_last_number_before_the_wrap_is_lost() {
    for mut pair in both() {
        pair.advance_to(65534);
        let frames = [pair.send(), pair.send(), pair.send()];
        pair.receive(frames[0]);
        pair.receive(frames[2]);
        pair.answer();
        pair.transmit();
        assert_eq!(pair.delivered, [65534, 65535, 65536]);
        assert_eq!(
            Pair::lines(pair.receiver.log())[..6],
            [
                "delivered 65534",
                "lost 65535 count 1",
                "notified 65535 count 1",
                "delivered 65535",
                "delivered 65536",
                "duplicate 65535"
            ]
        );
        assert_eq!(pair.sender.outstanding(), 0);
    }
}

#[test]
fn a_dummy_shows_that_number_0_of_the_next_era_is_lost() {
    for mut pair in both() {
        pair.advance_to(65536);
        pair.send();
        let dummy = pair.sender.poll_transmit(pair.now_ps).expect("a dummy");
        assert!(matches!(dummy, LinkFrame::Dummy(h) if h.sequence.low() == 1 && h.sequence.era()));
        pair.receive(dummy);
        pair.answer();
        pair.transmit();
        assert_eq!(pair.delivered, [65536]);
    }
}

#[test]
fn a_dummy_with_number_0_speaks_of_the_era_before() {
    let mut pair = Pair::original(1, Mode::Ordered);
    pair.advance_to(65535);
    pair.send();
    let dummy = pair.sender.poll_transmit(pair.now_ps).expect("a dummy");
    pair.receive(dummy);
    let control = pair.receiver.poll_control(pair.now_ps, Slot::Urgent);
    let leading = WireSequence::from_fields(false, 65535);
    assert_eq!(control, Some(Control::Loss(Loss { leading, first: 65535, count: 1 })));
    pair.sender.on_control(pair.now_ps, control.unwrap());
    pair.transmit();
    assert_eq!(pair.delivered, [65535]);
}

#[test]
fn of_a_burst_of_six_the_original_recovers_five() {
    let mut pair = Pair::original(1, Mode::Ordered);
    pair.advance_to(10);
    let frames: Vec<_> = (0..8).map(|_| pair.send()).collect();
    pair.receive(frames[0]);
    pair.receive(frames[7]);
    pair.answer();
    pair.transmit();
    assert_eq!(pair.delivered, [10, 11, 12, 13, 14, 15]);
    pair.wait(72 * TICK_PS);
    assert_eq!(pair.delivered, [10, 11, 12, 13, 14, 15, 17]);
    assert_eq!(pair.receiver.stats().skipped_frames, 1);

    let mut pair = Pair::corrected(1, Mode::Ordered);
    pair.advance_to(10);
    let frames: Vec<_> = (0..600).map(|_| pair.send()).collect();
    pair.receive(frames[599]);
    pair.answer();
    pair.transmit();
    assert_eq!(pair.delivered, (10..610).collect::<Vec<u32>>());
    assert_eq!(pair.receiver.stats().notifications, 3); // 255 + 255 + 89
}

#[test]
fn the_original_says_256_lost_frames_are_none() {
    let mut pair = Pair::original(1, Mode::Ordered);
    pair.advance_to(10);
    let frames: Vec<_> = (0..257).map(|_| pair.send()).collect();
    pair.receive(frames[256]);
    let control = pair.receiver.poll_control(pair.now_ps, Slot::Urgent);
    assert!(matches!(control, Some(Control::Loss(Loss { count: 0, .. }))));
}

#[test]
fn a_burst_over_the_wrap() {
    for mut pair in both() {
        pair.advance_to(65533);
        let frames: Vec<_> = (0..6).map(|_| pair.send()).collect();
        pair.receive(frames[5]);
        pair.answer();
        pair.transmit();
        assert_eq!(pair.delivered, (65533..65539).collect::<Vec<u32>>());
    }
}

#[test]
fn all_copies_of_the_last_number_before_the_wrap_are_lost() {
    for mut pair in both() {
        pair.advance_to(65535);
        pair.send();
        let next = pair.send();
        pair.receive(next);
        pair.answer();
        // The copies go nowhere, nor do those that are asked for again.
        let end = pair.now_ps + 40_000_000;
        while pair.now_ps < end {
            while pair.sender.poll_transmit(pair.now_ps).is_some() {}
            pair.now_ps += TICK_PS;
            pair.receiver.on_timer(pair.now_ps);
            pair.drain();
            pair.answer();
        }
        assert_eq!(pair.delivered, [65536]);
        for _ in 0..40_000 {
            let frame = pair.send();
            pair.receive(frame);
            pair.answer();
        }
        assert_eq!(pair.delivered.len(), 40_001);
    }
}

/// After that, the original takes frames of the upper half for duplicates while one of the lower half is due.
#[test]
fn after_a_timeout_at_the_wrap_the_original_misjudges_frames() {
    for (is_given_up, expected) in [(false, vec![98303, 98304, 98305]), (true, vec![98303])] {
        let mut pair = Pair::original(1, Mode::Ordered);
        pair.advance_to(65535);
        let frames = [pair.send(), pair.send()];
        if !is_given_up {
            pair.receive(frames[0]);
        }
        pair.receive(frames[1]);
        // The notification is lost.
        while pair.receiver.poll_control(pair.now_ps, Slot::Urgent).is_some() {}
        pair.wait(72 * TICK_PS);
        assert_eq!(pair.receiver.stats().skipped_frames, u64::from(is_given_up));
        // 98303 is the last number of the lower half of the next era.
        pair.advance_to(98303);
        let frames = [pair.send(), pair.send(), pair.send()];
        pair.receive(frames[1]);
        pair.receive(frames[2]);
        pair.answer();
        pair.transmit();
        assert_eq!(pair.delivered, expected);
    }
}

/// Without order, nothing but the timeout moves the original's due number.
#[test]
fn the_original_has_to_catch_up_when_order_is_asked_for() {
    let mut pair = Pair::original(1, Mode::NonBlocking);
    pair.advance_to(50);
    pair.sender.enable(pair.now_ps, Protection { mode: Mode::Ordered, copies: 1 });
    let frame = pair.send();
    pair.receive(frame);
    assert!(pair.delivered.is_empty());
    assert_eq!(pair.receiver.due_sequence(), FIRST);
    pair.wait(49 * 71 * TICK_PS);
    assert!(pair.delivered.is_empty());
    pair.wait(3 * 71 * TICK_PS);
    assert_eq!(pair.delivered, [50]);
    assert_eq!(pair.receiver.stats().skipped_frames, 50);

    let mut pair = Pair::corrected(1, Mode::NonBlocking);
    pair.advance_to(50);
    pair.sender.enable(pair.now_ps, Protection { mode: Mode::Ordered, copies: 1 });
    let frame = pair.send();
    pair.receive(frame);
    assert_eq!(pair.delivered, [50]);
}

/// A notification overtakes an acknowledgement; the original forgets what it knew.
#[test]
fn the_original_goes_back_with_an_old_acknowledgement() {
    for (mut pair, expected) in both().into_iter().zip([2, 0]) {
        pair.advance_to(10);
        let old = Control::Ack(Ack { leading: WireSequence::of(FIRST + 9), is_piggybacked: false, sync: 0 });
        for _ in 0..2 {
            let frame = pair.send();
            pair.receive(frame);
        }
        pair.answer();
        assert_eq!(pair.sender.outstanding(), 0);
        pair.sender.on_control(pair.now_ps, old);
        assert_eq!(pair.sender.outstanding(), expected);
    }
}

#[test]
fn a_lost_notification() {
    let mut pair = Pair::original(1, Mode::Ordered);
    pair.advance_to(5);
    let frames = [pair.send(), pair.send(), pair.send()];
    pair.receive(frames[1]);
    assert!(pair.receiver.poll_control(pair.now_ps, Slot::Urgent).is_some());
    pair.receive(frames[2]);
    pair.answer(); // An acknowledgement, which covers the gap.
    pair.transmit();
    assert!(pair.delivered.is_empty());
    assert_eq!(pair.sender.outstanding(), 0);
    pair.wait(72 * TICK_PS);
    assert_eq!(pair.delivered, [6, 7]);

    let mut pair = Pair::corrected(1, Mode::Ordered);
    pair.advance_to(5);
    let frames = [pair.send(), pair.send(), pair.send()];
    pair.receive(frames[1]);
    assert!(pair.receiver.poll_control(pair.now_ps, Slot::Urgent).is_some());
    pair.receive(frames[2]);
    pair.answer();
    assert_eq!(pair.sender.outstanding(), 3);
    pair.wait(10_000_000);
    assert_eq!(pair.delivered, [5, 6, 7]);
    assert_eq!(pair.receiver.stats().skipped_frames, 0);
}

#[test]
fn order_is_asked_for_in_the_middle() {
    let mut pair = Pair::corrected(2, Mode::NonBlocking);
    pair.advance_to(5);
    let frames = [pair.send(), pair.send()];
    pair.receive(frames[1]);
    assert_eq!(pair.delivered, [6]);
    pair.sender.enable(pair.now_ps, Protection { mode: Mode::Ordered, copies: 2 });
    let next = pair.send();
    pair.receive(next);
    assert_eq!(pair.delivered, [6]);
    pair.answer();
    pair.transmit();
    assert_eq!(pair.delivered, [6, 5, 7]);
}

#[test]
fn non_blocking_passes_copies_twice_only_in_the_original() {
    for (mut pair, expected) in [
        (Pair::original(2, Mode::NonBlocking), vec![5, 7, 6, 6]),
        (Pair::corrected(2, Mode::NonBlocking), vec![5, 7, 6]),
    ] {
        pair.advance_to(5);
        let frames = [pair.send(), pair.send(), pair.send()];
        pair.receive(frames[0]);
        pair.receive(frames[2]);
        pair.answer();
        pair.transmit();
        assert_eq!(pair.delivered, expected);
    }
}

#[test]
fn a_sender_begins_again() {
    let config = |epoch| SenderConfig::corrected(80, 3_000_000, epoch);
    let protection = Protection { mode: Mode::Ordered, copies: 1 };
    let mut pair = Pair::new(config(100), ReceiverConfig::corrected(3_000_000), protection);
    let transmit = |pair: &mut Pair| {
        pair.transmit();
        assert!(pair.sender.is_numbering());
    };
    transmit(&mut pair);
    pair.advance_to(1000);
    let old = pair.send();
    pair.sender = Sender::with_log(config(200), Log::new());
    pair.sender.enable(pair.now_ps, protection);
    transmit(&mut pair);
    assert_eq!(pair.receiver.stats().handshakes, 2);
    for _ in 0..10 {
        let frame = pair.send();
        pair.receive(frame);
    }
    assert_eq!(pair.delivered, (0..10).collect::<Vec<u32>>());
    // An earlier beginning that comes again, with a frame of its time, is not followed.
    pair.receive(LinkFrame::Sync { header: sync_header(), epoch: 101 });
    assert_eq!(pair.receiver.stats().handshakes, 2);
    let held = pair.receiver.on_frame(pair.now_ps, old);
    assert!(!matches!(held, Arrival::Deliver(_)));
}

#[test]
fn a_receiver_begins_again() {
    let mut pair = Pair::corrected(1, Mode::Ordered);
    pair.advance_to(1000);
    pair.send();
    pair.receiver = Receiver::with_log(ReceiverConfig::corrected(3_000_000), Log::new());
    let frame = pair.send();
    pair.receive(frame);
    pair.answer();
    assert_eq!((&pair.delivered[..], pair.sender.outstanding()), (&[1001][..], 0));
}

#[test]
fn a_sender_without_room_waits_and_asks() {
    let sender = SenderConfig { copy_frames: 4, handshake: None, ..SenderConfig::corrected(80, 3_000_000, 1) };
    let protection = Protection { mode: Mode::Ordered, copies: 1 };
    let mut pair = Pair::new(sender, ReceiverConfig::corrected(3_000_000), protection);
    let mut receiver = Receiver::with_log(ReceiverConfig::corrected(3_000_000), Log::new());
    for _ in 0..4 {
        let frame = pair.send();
        pair.receive(frame);
        // What it says is lost.
        while pair.receiver.poll_control(0, Slot::Idle).is_some() {}
    }
    std::mem::swap(&mut receiver, &mut pair.receiver);
    pair.sender.enqueue(0, Name(4)).unwrap();
    let next = pair.sender.poll_transmit(0);
    assert!(matches!(next, Some(LinkFrame::Dummy(_))), "{next:?}");
    std::mem::swap(&mut receiver, &mut pair.receiver);
    pair.wait(20_000_000);
    assert_eq!(pair.delivered, [0, 1, 2, 3, 4]);
}

fn sync_header() -> karakoram_link::DataHeader {
    let sequence = WireSequence::of(FIRST);
    karakoram_link::DataHeader { sequence, is_retransmission: false, mode: Mode::Ordered }
}

#[test]
fn frames_go_unprotected_until_the_receiver_agrees() {
    let protection = Protection { mode: Mode::Ordered, copies: 1 };
    let mut pair =
        Pair::new(SenderConfig::corrected(80, 3_000_000, 1), ReceiverConfig::corrected(3_000_000), protection);
    assert!(matches!(pair.sender.poll_transmit(0), Some(LinkFrame::Sync { .. })));
    assert!(matches!(pair.send(), LinkFrame::Plain(_)));
    pair.wait(12_000_000);
    assert!(matches!(pair.send(), LinkFrame::Data { .. }));
}

#[test]
fn a_pause_stops_frames_but_not_copies_and_dummies() {
    let mut pair = Pair::original(1, Mode::Ordered);
    pair.advance_to(5);
    let frames = [pair.send(), pair.send()];
    pair.receive(frames[1]);
    pair.sender.on_control(pair.now_ps, Control::Pause { quanta: 65535 });
    pair.sender.enqueue(pair.now_ps, Name(99)).unwrap();
    pair.answer();
    let copy = pair.sender.poll_transmit(pair.now_ps);
    assert!(matches!(copy, Some(LinkFrame::Data { header, .. }) if header.is_retransmission));
    assert!(matches!(pair.sender.poll_transmit(pair.now_ps), Some(LinkFrame::Dummy(_))));
    assert_eq!(pair.sender.next_deadline(), Some(0)); // More dummies.
    while pair.sender.poll_transmit(pair.now_ps).is_some() {}
    let quantum_ps = 512 * 10;
    assert_eq!(pair.sender.next_deadline(), Some(65535 * quantum_ps)); // 335 microseconds
    pair.sender.on_control(pair.now_ps, Control::Pause { quanta: 0 });
    assert!(matches!(pair.sender.poll_transmit(pair.now_ps), Some(LinkFrame::Data { .. })));
}

#[test]
fn the_timeout_of_the_original_counts_ticks() {
    let mut pair = Pair::original(1, Mode::Ordered);
    pair.advance_to(5);
    pair.now_ps = 1_000_050_000;
    pair.send();
    let next = pair.send();
    pair.receive(next);
    assert_eq!(pair.receiver.next_deadline(), Some(1_000_100_000 + 70 * TICK_PS));
}

#[test]
fn copies_that_go_round_wait_for_their_turn() {
    let config = SenderConfig { copy_store: CopyStore::Ring, ..SenderConfig::original(LineRate::G100) };
    let receiver = ReceiverConfig::original(LineRate::G100);
    let mut pair = Pair::new(config, receiver, Protection { mode: Mode::Ordered, copies: 1 });
    let frames = [pair.send(), pair.send(), pair.send()];
    assert_eq!(pair.sender.visit(0, FIRST), Visit::Keep);
    pair.receive(frames[0]);
    pair.receive(frames[2]);
    assert_eq!(pair.receiver.ring_frames(), 1);
    assert!(matches!(pair.receiver.visit(0), Some(karakoram_link::receiver::Visited::Again)));
    pair.answer();
    assert_eq!(pair.sender.visit(0, FIRST), Visit::Free);
    assert_eq!(pair.sender.visit(0, FIRST + 1), Visit::Retransmit);
    assert_eq!(pair.sender.visit(0, FIRST + 2), Visit::Free);
    pair.transmit();
    assert!(matches!(pair.receiver.visit(0), Some(karakoram_link::receiver::Visited::Deliver(Name(2)))));
    assert_eq!(pair.delivered, [0, 1]);
    assert_eq!(pair.sender.copy_bytes(), 0);
}

#[test]
fn stale_and_impossible_acknowledgements_change_nothing() {
    let mut pair = Pair::corrected(1, Mode::Ordered);
    pair.advance_to(100);
    pair.send();
    for leading in [99, 50, 101, 30_000, 65_635] {
        let ack = Ack { leading: WireSequence::of(FIRST + leading), is_piggybacked: false, sync: 0 };
        pair.sender.on_control(0, Control::Ack(ack));
        assert_eq!(pair.sender.outstanding(), 1, "{leading}");
    }
    assert!(pair.sender.stats().refused_controls > 0);
}

#[test]
fn windows_are_bounded() {
    let config = ReceiverConfig { window_frames: usize::MAX, ..ReceiverConfig::corrected(1) };
    let receiver: Receiver<Name> = Receiver::new(ReceiverConfig { window_frames: MOST_WINDOW, ..config });
    assert_eq!(receiver.waiting_bytes(), 0);
}
