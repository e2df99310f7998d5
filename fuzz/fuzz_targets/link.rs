//! Bytes as frames of a link and as moments between them: both ends of the protocol stand them, and
//! in ordered mode no number is delivered twice.
#![no_main]

use karakoram_link::config::{LineRate, Protection};
use karakoram_link::wire::{Content, Profile, parse};
use karakoram_link::{
    Control, Event, Frame, LinkFrame, LinkReceiver, LinkSender, Mode, Receiver, ReceiverConfig, Sender, SenderConfig, Slot,
};
use libfuzzer_sys::fuzz_target;

#[derive(Clone, Copy)]
struct Length(u32);

impl Frame for Length {
    fn bytes(&self) -> u32 {
        self.0
    }
}

const WINDOW: usize = 64;
const MOST_BYTES: u64 = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Some((&[profile, which], mut rest)) = data.split_first_chunk() else { return };
    let profile = if profile & 1 == 0 { Profile::Native } else { Profile::Authors };
    let (sender, receiver) = match which & 1 {
        0 => (SenderConfig::corrected(80, 3_000_000, 1), ReceiverConfig::corrected(3_000_000)),
        _ => (SenderConfig::original(LineRate::G100), ReceiverConfig::original(LineRate::G100)),
    };
    let mut sender: Sender<Length> = Sender::new(SenderConfig { copy_frames: WINDOW, ..sender });
    sender.enable(0, Protection { mode: Mode::Ordered, copies: 2 });
    let config = ReceiverConfig { window_frames: WINDOW, ..receiver };
    let mut receiver: Receiver<Length, Vec<(u64, Event)>> = Receiver::with_log(config, Vec::new());
    let mut now_ps = 0;
    while let Some((&[length, pause], more)) = rest.split_first_chunk() {
        let (frame, more) = more.split_at(more.len().min(length.into()));
        rest = more;
        now_ps += u64::from(pause) * 50_000;
        let _ = sender.enqueue(now_ps, Length(1514));
        let _ = sender.poll_transmit(now_ps);
        if let Some(parsed) = parse(profile, frame) {
            parsed.ack.into_iter().for_each(|a| sender.on_control(now_ps, Control::Ack(a)));
            match parsed.content {
                Content::Control(control) => sender.on_control(now_ps, control),
                Content::Frame(LinkFrame::Data { header, frame }) => {
                    let frame = Length(frame.payload.len() as u32);
                    let _ = receiver.on_frame(now_ps, LinkFrame::Data { header, frame });
                }
                Content::Frame(LinkFrame::Plain(_)) | Content::Report(_) | Content::Foreign => {}
                Content::Frame(LinkFrame::Dummy(h)) => drop(receiver.on_frame(now_ps, LinkFrame::Dummy(h))),
                Content::Frame(LinkFrame::Sync { header, epoch }) => {
                    let _ = receiver.on_frame(now_ps, LinkFrame::Sync { header, epoch });
                }
            }
        }
        while receiver.poll_deliver(now_ps).is_some() {}
        let _ = receiver.visit(now_ps);
        for slot in [Slot::Urgent, Slot::Idle] {
            receiver.poll_control(now_ps, slot).into_iter().for_each(|c| sender.on_control(now_ps, c));
        }
        if receiver.next_deadline().is_some_and(|at| at <= now_ps) {
            receiver.on_timer(now_ps);
        }
        if sender.next_deadline().is_some_and(|at| at <= now_ps) {
            sender.on_timer(now_ps);
        }
        assert!(receiver.waiting_bytes() <= WINDOW as u64 * MOST_BYTES);
        assert!(sender.copy_bytes() <= WINDOW as u64 * 1514);
    }
    // The original passes frames without order as often as they come.
    if config.drops_duplicates {
        check_delivered(receiver.log());
    }
});

/// No number is delivered twice.
fn check_delivered(log: &[(u64, Event)]) {
    let mut numbers: Vec<u64> = log
        .iter()
        .filter_map(|(_, e)| match e {
            Event::Delivered { sequence } => Some(*sequence),
            _ => None,
        })
        .collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(count, numbers.len());
}
