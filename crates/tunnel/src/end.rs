//! One end of a link: reads its two interfaces, drives the protocol, paces the line.

mod wait;

use crate::TunnelError;
use crate::clock::Clock;
use crate::control::{Request, Server};
use crate::delay::Delay;
use crate::health::Health;
use crate::journal::Journal;
use crate::loss::Loss;
use crate::mark::mark;
use crate::pacer::Pacer;
use crate::packet::{Packet, borrowed, owned};
use crate::port::Port;
use crate::settings::Settings;
use crate::status::{Counters, Status, receiver_figures, sender_figures};
use karakoram_kernel::sys::os::thread_cpu_ns;
use karakoram_link::wire::{self, Content, Profile};
use karakoram_link::{Ack, Arrival, Control, LinkFrame, LinkReceiver, LinkSender, Receiver, Sender, Slot};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use wait::Ready;

/// Longest frame that is read.
const LONGEST: usize = 1 << 16;
/// Frames taken from one interface before the other gets its turn.
const BATCH: usize = 64;
/// Cells a frame of ordinary length takes: room that must be there before another one is read.
const FRAME_CELLS: u32 = 20;
/// What piggybacked acknowledgements and headers add to a frame.
const MOST_OVERHEAD: usize = 10;

/// One end of a link.
pub struct End {
    settings: Settings,
    clock: Clock,
    inside: Port,
    line: Port,
    sender: Sender<Packet, Journal>,
    receiver: Receiver<Packet, Journal>,
    pacer: Pacer,
    loss: Loss,
    delay: Delay,
    health: Health,
    journal: Journal,
    server: Option<Server>,
    counters: Counters,
    ready: Ready,
    /// Frames may come that take an acknowledgement along: before this, none travels alone.
    courier_at_ps: u64,
    buffer: Box<[u8]>,
    out: Vec<u8>,
}

impl End {
    /// Opens the interfaces. A TAP device is made with a payload that fits into the line's.
    pub fn open(settings: Settings) -> Result<End, TunnelError> {
        let line = Port::open(&settings.line)?;
        let mut inside = Port::open(&settings.inside)?;
        inside.limit_mtu(line.mtu().saturating_sub(MOST_OVERHEAD))?;
        let clock = Clock::start();
        let journal = Journal::default();
        let mut sender = Sender::with_log(settings.sender(), journal.clone());
        if let Some(protection) = settings.protection {
            sender.enable(clock.now_ps(), protection);
        }
        Ok(End {
            clock,
            inside,
            line,
            sender,
            receiver: Receiver::with_log(settings.receiver(), journal.clone()),
            pacer: Pacer::new(settings.byte_ps()),
            loss: Loss::new(settings.loss.clone()),
            delay: Delay::new(settings.delay_ps),
            health: Health::new(settings.monitor, settings.on_demand),
            journal,
            server: None,
            counters: Counters::default(),
            ready: Ready::default(),
            courier_at_ps: 0,
            buffer: vec![0; LONGEST].into(),
            out: Vec::with_capacity(LONGEST),
            settings,
        })
    }

    /// Answers at a socket in the file system.
    pub fn listen(&mut self, path: &Path) -> Result<(), TunnelError> {
        self.server = Some(Server::open(path)?);
        Ok(())
    }

    /// Writes every event as a line.
    pub fn log_to(&mut self, file: File) {
        self.journal.to_file(file);
    }

    /// The interface that hosts use.
    pub fn inside(&self) -> &Port {
        &self.inside
    }

    /// Carries frames until the flag is raised.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Status, TunnelError> {
        // Wake us when we asked for it and not up to 50 microseconds later; where that is refused
        // the line is paced a little less evenly.
        let _ = std::fs::write("/proc/thread-self/timerslack_ns", "1");
        while !stop.load(Ordering::Relaxed) {
            let has_more = self.turn()?;
            self.journal.flush();
            self.wait(has_more)?;
        }
        self.journal.close().map_err(|e| TunnelError::new("write the events", e))?;
        Ok(self.status())
    }

    /// The figures as of now.
    pub fn status(&self) -> Status {
        let mut status = Status::default();
        let (milliseconds, is_protecting) = (self.clock.now_ps() / 1_000_000_000, self.sender.is_numbering());
        let times = [("milliseconds", milliseconds), ("is_protecting", u64::from(is_protecting))];
        status.add("link", &times);
        status.add("link", &self.counters.figures(thread_cpu_ns()));
        status.add(
            "link",
            &[("lost_on_purpose", self.loss.lost_frames), ("loss_per_billion", self.health.loss_per_billion())],
        );
        status.add("sender", &sender_figures(self.sender.stats()));
        status.add("receiver", &receiver_figures(self.receiver.stats()));
        status
    }

    /// A batch of everything that can be done now. Whether there is more.
    fn turn(&mut self) -> Result<bool, TunnelError> {
        if self.ready.line {
            self.ready.line = self.read_line()?;
        }
        if self.ready.inside {
            self.ready.inside = self.read_inside()?;
        }
        self.timers();
        let has_more = self.fill_line();
        self.hand_on();
        if self.ready.server {
            self.ready.server = false;
            self.serve();
        }
        Ok(has_more || self.ready.line || (self.ready.inside && self.has_room()))
    }

    /// Whether there may be more.
    fn read_line(&mut self) -> Result<bool, TunnelError> {
        for _ in 0..BATCH {
            let read = self.line.receive(&mut self.buffer);
            let Some(length) = read.map_err(|e| TunnelError::new(format!("read {}", self.line.name()), e))? else {
                return Ok(false);
            };
            self.counters.from_line += 1;
            let now_ps = self.clock.now_ps();
            self.journal_frame(now_ps, length);
            self.on_line_frame(now_ps, length);
        }
        Ok(true)
    }

    fn journal_frame(&mut self, now_ps: u64, length: usize) {
        if self.journal.has_subscribers() {
            self.journal.frame(now_ps, &self.buffer[..length]);
        }
    }

    fn on_line_frame(&mut self, now_ps: u64, length: usize) {
        let Some(parsed) = wire::parse(self.settings.profile, &self.buffer[..length]) else {
            self.counters.unreadable += 1;
            return;
        };
        if let Some(ack) = parsed.ack {
            self.sender.on_control(now_ps, Control::Ack(ack));
        }
        match parsed.content {
            Content::Control(control) => self.sender.on_control(now_ps, control),
            Content::Foreign => {
                self.counters.foreign += 1;
                return;
            }
            Content::Report(report) => {
                match self.health.on_report(now_ps, report) {
                    Some(Some(protection)) => self.sender.enable(now_ps, protection),
                    Some(None) => self.sender.disable(),
                    None => {}
                }
                return;
            }
            Content::Frame(frame) => {
                let frame = owned(frame, &mut self.out);
                if let Arrival::Deliver(packet) = self.receiver.on_frame(now_ps, frame) {
                    self.delay.push(now_ps, packet);
                }
                self.drain(now_ps);
            }
        }
        self.health.count();
    }

    fn drain(&mut self, now_ps: u64) {
        while let Some(packet) = self.receiver.poll_deliver(now_ps) {
            self.delay.push(now_ps, packet);
        }
    }

    fn has_room(&self) -> bool {
        self.sender.queue_cells() + FRAME_CELLS <= self.settings.queue_cells
    }

    /// Whether there may be more.
    fn read_inside(&mut self) -> Result<bool, TunnelError> {
        for _ in 0..BATCH {
            if !self.has_room() {
                return Ok(true);
            }
            let read = self.inside.receive(&mut self.buffer);
            let Some(length) = read.map_err(|e| TunnelError::new(format!("read {}", self.inside.name()), e))? else {
                return Ok(false);
            };
            self.counters.from_inside += 1;
            let is_long = self.settings.mark_cells.is_some_and(|cells| self.sender.queue_cells() >= cells);
            self.counters.marked += u64::from(is_long && mark(&mut self.buffer[..length]));
            // A frame that does not fit is counted by the sender.
            let _ = self.sender.enqueue(self.clock.now_ps(), Packet::new(&self.buffer[..length]));
        }
        Ok(true)
    }

    fn timers(&mut self) {
        let now_ps = self.clock.now_ps();
        if self.sender.next_deadline().is_some_and(|at| at <= now_ps) {
            self.sender.on_timer(now_ps);
        }
        while self.receiver.next_deadline().is_some_and(|at| at <= now_ps) {
            self.receiver.on_timer(now_ps);
            self.drain(now_ps);
        }
    }

    /// Sends what the line's speed permits. Whether there may be more.
    fn fill_line(&mut self) -> bool {
        for _ in 0..BATCH {
            let now_ps = self.clock.now_ps();
            if !self.pacer.may_send(now_ps) || !self.send_one(now_ps) {
                return false;
            }
        }
        true
    }

    fn send_one(&mut self, now_ps: u64) -> bool {
        if self.report(now_ps) {
            return true;
        }
        if let Some(control) = self.control_first(now_ps) {
            self.send_control(now_ps, control);
            return true;
        }
        if let Some(frame) = self.sender.poll_transmit(now_ps) {
            self.send_frame(now_ps, &frame);
            return true;
        }
        let is_time = now_ps >= self.courier_at_ps;
        let courier = if is_time { self.receiver.poll_control(now_ps, Slot::Idle) } else { None };
        courier.map(|control| self.send_courier(now_ps, control)).is_some()
    }

    /// Tells the other end how many frames it should have seen, when it is time.
    fn report(&mut self, now_ps: u64) -> bool {
        let Some(report) = self.health.poll(now_ps, self.counters.to_line) else { return false };
        if self.settings.profile == Profile::Native {
            wire::emit_report(report, &mut self.out);
            self.pacer.sent(now_ps, self.out.len());
            self.counters.refused_by_line += u64::from(!self.line.send(&self.out));
        }
        true
    }

    /// What goes before frames: also acknowledgements, where numbered frames cannot take them along.
    fn control_first(&mut self, now_ps: u64) -> Option<Control> {
        let urgent = self.receiver.poll_control(now_ps, Slot::Urgent);
        let has_no_room = self.settings.profile == Profile::Authors && self.sender.is_numbering();
        urgent.or_else(|| if has_no_room { self.receiver.poll_control(now_ps, Slot::Idle) } else { None })
    }

    fn send_courier(&mut self, now_ps: u64, control: Control) {
        self.put_courier_off(now_ps);
        self.send_control(now_ps, control);
    }

    fn put_courier_off(&mut self, now_ps: u64) {
        self.courier_at_ps = now_ps + self.settings.round_trip_ps / 8;
    }

    fn send_control(&mut self, now_ps: u64, control: Control) {
        wire::emit_control(control, &mut self.out);
        let is_lost = self.loss.is_lost::<Packet>(None, self.sender.next_sequence());
        self.put_on_line(now_ps, is_lost);
    }

    fn send_frame(&mut self, now_ps: u64, frame: &LinkFrame<Packet>) {
        let ack = self.piggyback(now_ps);
        wire::emit(self.settings.profile, &borrowed(frame), ack, &mut self.out);
        let is_lost = self.loss.is_lost(Some(frame), self.sender.next_sequence());
        self.put_on_line(now_ps, is_lost);
    }

    /// The original's layout has no room beside a number, and only IPv4 can be told behind it.
    fn piggyback(&mut self, now_ps: u64) -> Option<Ack> {
        if self.settings.profile == Profile::Authors {
            return None;
        }
        match self.receiver.poll_control(now_ps, Slot::Piggyback) {
            Some(Control::Ack(ack)) => {
                self.put_courier_off(now_ps);
                Some(ack)
            }
            _ => None,
        }
    }

    fn put_on_line(&mut self, now_ps: u64, is_lost: bool) {
        self.pacer.sent(now_ps, self.out.len());
        self.counters.to_line += 1;
        self.counters.line_bytes += self.out.len() as u64;
        if self.journal.has_subscribers() {
            self.journal.frame(now_ps, &self.out);
        }
        if !is_lost && !self.line.send(&self.out) {
            self.counters.refused_by_line += 1;
        }
    }

    /// What has waited for its delay goes to the host.
    fn hand_on(&mut self) {
        while let Some(packet) = self.delay.pop(self.clock.now_ps()) {
            self.counters.to_inside += 1;
            self.counters.refused_by_inside += u64::from(!self.inside.send(packet.bytes()));
        }
    }

    fn serve(&mut self) {
        match self.server.as_ref().and_then(Server::accept) {
            Some(Request::Status(mut stream)) => drop(stream.write_all(self.status().to_text().as_bytes())),
            Some(Request::Trace(subscriber)) => self.journal.subscribe(subscriber),
            None => {}
        }
    }
}
