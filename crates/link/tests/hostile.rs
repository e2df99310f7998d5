//! Frames and control messages that no honest end sends: cut, of another era, repeated, forged. No
//! crash, no frame twice in ordered mode, no memory without bound.

mod line;

use karakoram_link::config::{LineRate, Protection, ReceiverConfig, Reorder, SenderConfig, Thresholds};
use karakoram_link::go_back_n::{GoBackConfig, GoBackReceiver, GoBackSender};
use karakoram_link::wire::{self, Content, Profile};
use karakoram_link::{
    Ack, Arrival, Control, DataHeader, Event, Frame, LinkFrame, LinkReceiver, LinkSender, Loss, Mode, Receiver, Sender,
    Slot, WireSequence,
};
use line::{Parcel, Random};
use std::collections::HashSet;

const WINDOW: usize = 256;

fn header(random: &mut Random, near: u64) -> DataHeader {
    // Mostly close to what is expected, where the damage would be.
    let distance = if random.below(4) == 0 { random.next() } else { random.below(600) };
    let number = if random.below(2) == 0 { near.wrapping_add(distance) } else { near.wrapping_sub(distance) };
    let mode = if random.below(8) == 0 { Mode::NonBlocking } else { Mode::Ordered };
    DataHeader { sequence: WireSequence::of(number), is_retransmission: random.below(3) == 0, mode }
}

fn frame(random: &mut Random, near: u64, id: u64) -> LinkFrame<Parcel> {
    let header = header(random, near);
    match random.below(12) {
        0 => LinkFrame::Dummy(header),
        1 => LinkFrame::Sync { header, epoch: random.below(50) },
        2 => LinkFrame::Plain(Parcel { id, bytes: 60 }),
        _ => LinkFrame::Data { header, frame: Parcel { id, bytes: 1514 } },
    }
}

fn control(random: &mut Random, near: u64) -> Control {
    let leading = header(random, near).sequence;
    match random.below(5) {
        0 => Control::Ack(Ack { leading, is_piggybacked: random.below(2) == 0, sync: random.below(16) as u8 }),
        1 => Control::Pause { quanta: random.next() as u16 },
        2 => Control::Replay(leading),
        _ => Control::Loss(Loss {
            leading,
            first: leading.low().wrapping_sub(random.below(40) as u16),
            count: random.next() as u8,
        }),
    }
}

fn receivers() -> Vec<ReceiverConfig> {
    let thresholds = Some(Thresholds { pause_cells: 500, resume_cells: 460, refresh_ps: Some(1_000_000) });
    let corrected = ReceiverConfig { window_frames: WINDOW, thresholds, ..ReceiverConfig::corrected(3_000_000) };
    let original = ReceiverConfig { window_frames: WINDOW, ..ReceiverConfig::original(LineRate::G100) };
    vec![corrected, ReceiverConfig { reorder: Reorder::Sorted, ..original }, original]
}

/// What a receiver delivered, by its log: no number of 64 bits may be there twice, and in ordered
/// mode they only grow.
fn numbers(log: &[(u64, Event)]) -> Vec<u64> {
    let delivered = log.iter().filter_map(|(_, e)| match e {
        Event::Delivered { sequence } => Some(*sequence),
        _ => None,
    });
    delivered.collect()
}

#[test]
fn receivers_stand_forged_frames() {
    for (seed, config) in (0..200).flat_map(|s| receivers().into_iter().map(move |c| (s, c))) {
        let mut random = Random::new(seed);
        let mut receiver: Receiver<Parcel, line::EventLog> = Receiver::with_log(config, Vec::new());
        let mut now_ps = 0;
        for id in 0..2000 {
            now_ps += random.below(300_000);
            let near = receiver.due_sequence();
            let _ = receiver.on_frame(now_ps, frame(&mut random, near, id));
            while receiver.poll_deliver(now_ps).is_some() {}
            if random.below(3) == 0 {
                let _ = receiver.visit(now_ps);
            }
            let slot = [Slot::Urgent, Slot::Piggyback, Slot::Idle][random.below(3) as usize];
            let _ = receiver.poll_control(now_ps, slot);
            let mut turns = 0;
            while receiver.next_deadline().is_some_and(|at| at <= now_ps) && turns < 5000 {
                receiver.on_timer(now_ps);
                while receiver.poll_deliver(now_ps).is_some() {}
                turns += 1;
            }
            assert!(turns < 5000, "seed {seed}: timers do not come to rest");
            assert!(receiver.waiting_bytes() <= 1514 * WINDOW as u64, "seed {seed}");
        }
        if config.drops_duplicates {
            let numbers = numbers(receiver.log());
            let unique: HashSet<&u64> = numbers.iter().collect();
            assert_eq!(unique.len(), numbers.len(), "seed {seed}: delivered twice");
        }
    }
}

#[test]
fn order_stands_forged_frames() {
    for (seed, config) in (0..200).flat_map(|s| receivers().into_iter().map(move |c| (s, c))) {
        let mut random = Random::new(seed);
        let mut receiver: Receiver<Parcel, line::EventLog> = Receiver::with_log(config, Vec::new());
        for id in 0..2000 {
            let now_ps = id * 123_280;
            let near = receiver.due_sequence();
            let ordered = match frame(&mut random, near, id) {
                LinkFrame::Data { header, frame } => {
                    LinkFrame::Data { header: DataHeader { mode: Mode::Ordered, ..header }, frame }
                }
                other => other,
            };
            let _ = receiver.on_frame(now_ps, ordered);
            while receiver.poll_deliver(now_ps).is_some() {}
            let _ = receiver.visit(now_ps);
            if receiver.next_deadline().is_some_and(|at| at <= now_ps) {
                receiver.on_timer(now_ps);
                while receiver.poll_deliver(now_ps).is_some() {}
            }
        }
        assert!(numbers(receiver.log()).is_sorted_by(|a, b| a < b), "seed {seed}: out of order or twice");
    }
}

#[test]
fn replayed_frames_are_not_delivered_again() {
    let protection = Protection { mode: Mode::Ordered, copies: 1 };
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut sender: Sender<Parcel> = Sender::new(SenderConfig::corrected(80, 3_000_000, 1));
        sender.enable(0, protection);
        let mut receiver: Receiver<Parcel> = Receiver::new(ReceiverConfig::corrected(3_000_000));
        let (mut seen, mut delivered) = (Vec::new(), HashSet::new());
        for id in 0..3000u64 {
            let now_ps = id * 123_280;
            let _ = sender.enqueue(now_ps, Parcel { id, bytes: 1514 });
            let fresh = sender.poll_transmit(now_ps);
            // Unprotected frames have no number that could tell a second one.
            seen.extend(fresh.filter(|f| !matches!(f, LinkFrame::Plain(_))));
            let old = (random.below(3) == 0).then(|| seen[random.below(seen.len() as u64) as usize]);
            for frame in fresh.into_iter().chain(old) {
                let mut deliver = |p: Parcel| assert!(delivered.insert(p.id), "seed {seed}: frame {} twice", p.id);
                if let Arrival::Deliver(parcel) = receiver.on_frame(now_ps, frame) {
                    deliver(parcel);
                }
                std::iter::from_fn(|| receiver.poll_deliver(now_ps)).for_each(deliver);
            }
            for slot in [Slot::Urgent, Slot::Idle] {
                receiver.poll_control(now_ps, slot).into_iter().for_each(|c| sender.on_control(now_ps, c));
            }
        }
        assert!(sender.is_numbering() && delivered.len() > 2900, "seed {seed}: {}", delivered.len());
    }
}

#[test]
fn senders_stand_forged_controls() {
    let configs = [
        SenderConfig { copy_frames: WINDOW, ..SenderConfig::original(LineRate::G100) },
        SenderConfig { copy_frames: WINDOW, ..SenderConfig::corrected(80, 3_000_000, 1) },
        SenderConfig { copy_frames: WINDOW, handshake: None, ..SenderConfig::corrected(80, 3_000_000, 1) },
    ];
    for (seed, config) in (0..200).flat_map(|s| configs.into_iter().map(move |c| (s, c))) {
        let mut random = Random::new(seed);
        let mut sender: Sender<Parcel> = Sender::new(config);
        sender.enable(0, Protection { mode: Mode::Ordered, copies: 2 });
        for id in 0..2000 {
            let now_ps = id * 123_280;
            let _ = sender.enqueue(now_ps, Parcel { id, bytes: 1514 });
            let _ = sender.poll_transmit(now_ps);
            let near = sender.next_sequence();
            sender.on_control(now_ps, control(&mut random, near));
            if sender.next_deadline().is_some_and(|at| at <= now_ps) {
                sender.on_timer(now_ps);
            }
            assert!(sender.copy_bytes() <= 1514 * WINDOW as u64, "seed {seed}");
            assert!(sender.outstanding() <= 1 << 16, "seed {seed}");
        }
        // What was asked for is finite: the sender comes to rest.
        let mut left = 0;
        while sender.poll_transmit(0).is_some() && left < 100_000 {
            left += 1;
        }
        assert!(left < 100_000, "seed {seed}: {left} copies");
    }
}

#[test]
fn go_back_n_stands_forgeries() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut sender: GoBackSender<Parcel> = GoBackSender::new(GoBackConfig::sample_200g());
        let mut receiver: GoBackReceiver<line::EventLog> = GoBackReceiver::with_log(Vec::new());
        let mut near = karakoram_link::sequence::FIRST;
        for id in 0..2000 {
            let now_ps = id * 123_280;
            let _ = sender.enqueue(now_ps, Parcel { id, bytes: 1514 });
            let _ = sender.poll_transmit(now_ps);
            let forged = control(&mut random, near);
            sender.on_control(now_ps, forged);
            sender.on_timer(now_ps);
            assert!(sender.outstanding() <= 61, "seed {seed}");
            if let Arrival::Deliver(_) = receiver.on_frame(now_ps, frame(&mut random, near, id)) {
                near += 1;
            }
            let _ = LinkReceiver::<Parcel>::poll_control(&mut receiver, now_ps, Slot::Urgent);
        }
        assert!(numbers(receiver.log()).is_sorted_by(|a, b| a < b), "seed {seed}");
    }
}

/// Damaged bytes: what parses is a frame like any other.
#[test]
fn damaged_bytes_reach_both_machines() {
    for (seed, profile) in (0..300).flat_map(|s| [(s, Profile::Native), (s, Profile::Authors)]) {
        let mut random = Random::new(seed);
        let mut sender: Sender<Parcel> = Sender::new(SenderConfig::original(LineRate::G100));
        sender.enable(0, Protection { mode: Mode::Ordered, copies: 1 });
        let mut receiver: Receiver<Parcel> = Receiver::new(receivers()[0]);
        let inner: Vec<u8> = (0..100).map(|i| if i == 12 { 8 } else { i }).collect();
        let mut bytes = Vec::new();
        for id in 0..200u64 {
            let header = header(&mut random, receiver.due_sequence());
            let ack = Ack { leading: header.sequence, is_piggybacked: true, sync: 0 };
            let sent = LinkFrame::Data { header, frame: &inner[..] };
            wire::emit(profile, &sent, (id % 3 == 0).then_some(ack), &mut bytes);
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
            let Some(parsed) = wire::parse(profile, &bytes) else { continue };
            parsed.ack.into_iter().for_each(|a| sender.on_control(id, Control::Ack(a)));
            match parsed.content {
                Content::Control(control) => sender.on_control(id, control),
                Content::Report(_) | Content::Foreign => {}
                Content::Frame(frame) => drop(receiver.on_frame(id, named(frame, id))),
            }
            while receiver.poll_deliver(id).is_some() {}
        }
    }
}

fn named(frame: LinkFrame<wire::Carried>, id: u64) -> LinkFrame<Parcel> {
    let parcel = |carried: wire::Carried| Parcel { id, bytes: carried.payload.len() as u32 };
    match frame {
        LinkFrame::Plain(carried) => LinkFrame::Plain(parcel(carried)),
        LinkFrame::Data { header, frame } => LinkFrame::Data { header, frame: parcel(frame) },
        LinkFrame::Dummy(header) => LinkFrame::Dummy(header),
        LinkFrame::Sync { header, epoch } => LinkFrame::Sync { header, epoch },
    }
}

#[test]
fn parcels_have_lengths() {
    assert_eq!(Parcel { id: 1, bytes: 81 }.cells(), 2);
}
