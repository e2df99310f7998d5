//! How many frames a second the two machines handle, back to back, at a loss rate: `speed [LOSS] [FRAMES]`.

use karakoram_link::config::{LineRate, Protection, Reorder};
use karakoram_link::{
    Arrival, LinkReceiver, LinkSender, Mode, Probability, Receiver, ReceiverConfig, Sender, SenderConfig, Slot,
};
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let loss: Probability = arguments.next().map_or(Ok(Probability::ZERO), |t| t.parse()).expect("a probability");
    let frames: u64 = arguments.next().map_or(Ok(50_000_000), |t| t.parse()).expect("a number");
    let loss_limit = (loss.to_f64() * u64::MAX as f64) as u64;
    let mut sender = Sender::new(SenderConfig::original(LineRate::G100));
    let config = ReceiverConfig { reorder: Reorder::Sorted, ..ReceiverConfig::original(LineRate::G100) };
    let mut receiver = Receiver::new(config);
    sender.enable(0, Protection::against(loss, Mode::Ordered));
    let (mut now_ps, mut random, mut delivered) = (0u64, 1u64, 0u64);
    let start = Instant::now();
    for _ in 0..frames {
        now_ps += 123_280;
        let _ = sender.enqueue(now_ps, 1514u32);
        let Some(frame) = sender.poll_transmit(now_ps) else { continue };
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if random < loss_limit {
            continue;
        }
        delivered += u64::from(matches!(receiver.on_frame(now_ps, frame), Arrival::Deliver(_)));
        while receiver.poll_deliver(now_ps).is_some() {
            delivered += 1;
        }
        for slot in [Slot::Urgent, Slot::Idle] {
            if let Some(control) = receiver.poll_control(now_ps, slot) {
                sender.on_control(now_ps, control);
            }
        }
        if receiver.next_deadline().is_some_and(|at| at <= now_ps) {
            receiver.on_timer(now_ps);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{delivered} of {frames} frames delivered, {:.1} million a second", frames as f64 / seconds / 1e6);
}
