//! A client on a UDP socket: requests at chosen times, replies checked, every one of them.
//!
//! In an open loop requests are sent when their time has come, whatever became of earlier ones, and a reply's
//! time counts from the moment its request *should* have been sent; so a slow reply cannot make later ones
//! look fast (coordinated omission). In a closed loop the next request waits for a reply, and its time counts
//! from when it was sent.

use super::clock::now_ns;
use super::lateness::Lateness;
use crate::error::LabError;
use crate::random::Random;
use crate::trial::histogram;
use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

/// Requests that can be under way at once: their numbers have 16 bits.
const MOST_OUTSTANDING: usize = 1 << 16;
/// Time to wait for the last replies, and for any in a closed loop.
const PATIENCE_NS: u64 = 500_000_000;
/// Replies before this share of the requests are not counted.
const WARM_UP: f64 = 0.1;
/// Time before the first request.
const LEAD_NS: u64 = 1_000_000;
/// Longest datagram.
const DATAGRAM: usize = 2048;
/// Replies between two looks at whether there is something to send.
const REPLIES_IN_A_ROW: usize = 16;

/// When requests are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// So many a second, as a Poisson process or evenly.
    Open {
        /// Requests per second.
        rate: f64,
        /// Whether gaps are random.
        poisson: bool,
    },
    /// When fewer than so many replies are missing, and the last reply is so long ago.
    Closed {
        /// Requests under way.
        outstanding: usize,
        /// Time between a reply and the next request.
        think: Duration,
    },
}

/// How the client waits in a closed loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It sleeps until there is a reply, as ordinary programs do.
    Asleep,
    /// It asks again and again.
    Awake,
}

/// What is sent and expected.
pub trait Dialogue {
    /// Puts the request of that number into `request`, which is empty.
    fn ask(&mut self, number: u16, request: &mut Vec<u8>);

    /// The number of the request that this answers, or what is wrong with it.
    fn check(&mut self, reply: &[u8]) -> Result<u16, String>;
}

/// How much, and when.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// When.
    pub pace: Pace,
    /// How to wait.
    pub waiting: Waiting,
    /// For how long.
    pub duration: Duration,
    /// Of random gaps.
    pub seed: u64,
}

/// What came of it. The first tenth is warm-up and only counted in `sent`, `lost` and `wrong`.
#[derive(Clone, Debug)]
pub struct Exchanged {
    /// Times from when requests should have been sent, in ns.
    pub response: Histogram<u64>,
    /// Times from when they were sent, in ns.
    pub service: Histogram<u64>,
    /// How late requests were sent; of an open loop.
    pub lateness: Lateness,
    /// Requests.
    pub sent: u64,
    /// Requests without a reply.
    pub lost: u64,
    /// What was wrong with the first wrong reply.
    pub wrong: Option<String>,
    /// Replies a second, after the warm-up.
    pub rate: f64,
}

#[derive(Clone, Copy, Default)]
struct Pending {
    intended_ns: u64,
    sent_ns: u64,
    is_open: bool,
}

/// Runs it on a connected socket.
pub fn exchange(socket: &UdpSocket, plan: Exchange, dialogue: &mut dyn Dialogue) -> Result<Exchanged, LabError> {
    socket.set_nonblocking(true).map_err(|e| failed("set up", &e))?;
    let pending = vec![Pending::default(); MOST_OUTSTANDING];
    let now = now_ns() + LEAD_NS;
    let mut client = Client {
        socket,
        plan,
        random: Random::new(plan.seed),
        pending,
        outstanding: 0,
        next_ns: now,
        stop_ns: now + plan.duration.as_nanos() as u64,
        count_from_ns: now + (plan.duration.as_nanos() as f64 * WARM_UP) as u64,
        counted: 0,
        request: Vec::with_capacity(DATAGRAM),
        result: Exchanged {
            response: histogram(),
            service: histogram(),
            lateness: Lateness::default(),
            sent: 0,
            lost: 0,
            wrong: None,
            rate: 0.0,
        },
    };
    client.run(dialogue)?;
    let seconds = (client.stop_ns - client.count_from_ns) as f64 / 1e9;
    client.result.rate = client.counted as f64 / seconds;
    client.result.lost += client.outstanding as u64;
    Ok(client.result)
}

struct Client<'a> {
    socket: &'a UdpSocket,
    plan: Exchange,
    random: Random,
    pending: Vec<Pending>,
    outstanding: usize,
    /// When the next request is due.
    next_ns: u64,
    stop_ns: u64,
    count_from_ns: u64,
    /// Replies after the warm-up and before the end.
    counted: u64,
    request: Vec<u8>,
    result: Exchanged,
}

impl Client<'_> {
    fn run(&mut self, dialogue: &mut dyn Dialogue) -> Result<(), LabError> {
        let mut last_progress_ns = now_ns();
        loop {
            let now = now_ns();
            let is_over = now >= self.stop_ns;
            if is_over && (self.outstanding == 0 || now > self.stop_ns + PATIENCE_NS) {
                return Ok(());
            }
            if !is_over && self.may_send(now) {
                self.send(dialogue, now)?;
                last_progress_ns = now;
            }
            if self.receive(dialogue)? {
                last_progress_ns = now_ns();
            } else if self.outstanding > 0 && now > last_progress_ns + PATIENCE_NS {
                self.give_up();
                last_progress_ns = now;
            } else if self.plan.waiting == Waiting::Asleep && self.outstanding > 0 {
                self.sleep()?;
            }
        }
    }

    fn may_send(&self, now: u64) -> bool {
        now >= self.next_ns
            && match self.plan.pace {
                Pace::Open { .. } => self.outstanding < MOST_OUTSTANDING,
                Pace::Closed { outstanding, .. } => self.outstanding < outstanding,
            }
    }

    fn send(&mut self, dialogue: &mut dyn Dialogue, now: u64) -> Result<(), LabError> {
        let number = self.result.sent as u16;
        let intended_ns = match self.plan.pace {
            Pace::Open { rate, poisson } => {
                let due = self.next_ns;
                if due >= self.count_from_ns {
                    self.result.lateness.record(now - due);
                }
                self.next_ns += gap_ns(rate, poisson, &mut self.random);
                due
            }
            Pace::Closed { .. } => now,
        };
        self.request.clear();
        dialogue.ask(number, &mut self.request);
        let place = &mut self.pending[usize::from(number)];
        if place.is_open {
            // So old that its number comes again.
            self.result.lost += 1;
            self.outstanding -= 1;
        }
        *place = Pending { intended_ns, sent_ns: now_ns(), is_open: true };
        self.result.sent += 1;
        self.outstanding += 1;
        match self.socket.send(&self.request) {
            Ok(_) => Ok(()),
            // Nobody listens yet, or the queue is full: the request is lost.
            Err(e) if [ErrorKind::ConnectionRefused, ErrorKind::WouldBlock].contains(&e.kind()) => Ok(()),
            Err(e) => Err(failed("send", &e)),
        }
    }

    /// Takes some replies; whether there was one.
    fn receive(&mut self, dialogue: &mut dyn Dialogue) -> Result<bool, LabError> {
        let mut reply = [0; DATAGRAM];
        for taken in 0..REPLIES_IN_A_ROW {
            match self.socket.recv(&mut reply) {
                Ok(length) => self.take(dialogue, &reply[..length]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(taken > 0),
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => return Ok(taken > 0),
                Err(e) => return Err(failed("receive", &e)),
            }
        }
        Ok(true)
    }

    fn take(&mut self, dialogue: &mut dyn Dialogue, reply: &[u8]) {
        let now = now_ns();
        let number = match dialogue.check(reply) {
            Ok(number) => number,
            Err(why) => {
                self.result.wrong.get_or_insert(why);
                return;
            }
        };
        let place = &mut self.pending[usize::from(number)];
        if !std::mem::take(&mut place.is_open) {
            self.result.wrong.get_or_insert(format!("a second reply to request {number}"));
            return;
        }
        let asked = *place;
        self.outstanding -= 1;
        if let Pace::Closed { think, .. } = self.plan.pace {
            self.next_ns = now + think.as_nanos() as u64;
        }
        if now >= self.count_from_ns && now < self.stop_ns {
            self.counted += 1;
        }
        if asked.intended_ns >= self.count_from_ns {
            self.result.response.record(now - asked.intended_ns).expect("the histogram grows");
            self.result.service.record(now - asked.sent_ns).expect("the histogram grows");
        }
    }

    /// What is under way is lost; a closed loop would wait for ever.
    fn give_up(&mut self) {
        self.result.lost += self.outstanding as u64;
        self.outstanding = 0;
        self.pending.iter_mut().for_each(|p| p.is_open = false);
    }

    fn sleep(&self) -> Result<(), LabError> {
        const WAKE_UP_MS: u16 = 100;
        let mut wanted = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, PollTimeout::from(WAKE_UP_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(failed("wait", &e.into())),
        }
    }
}

fn gap_ns(rate: f64, poisson: bool, random: &mut Random) -> u64 {
    let share = if poisson { random.exponential() } else { 1.0 };
    (share * 1e9 / rate) as u64
}

fn failed(doing: &str, error: &io::Error) -> LabError {
    LabError::Machine(format!("the client could not {doing}: {error}"), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Numbers;

    impl Dialogue for Numbers {
        fn ask(&mut self, number: u16, request: &mut Vec<u8>) {
            request.extend(number.to_ne_bytes());
        }
        fn check(&mut self, reply: &[u8]) -> Result<u16, String> {
            let number = reply.try_into().map_err(|_| format!("{} bytes", reply.len()))?;
            Ok(u16::from_ne_bytes(number))
        }
    }

    /// An echo server on the loopback device that stops answering for `pause` in the middle.
    fn with_server(pause: Duration, plan: Exchange) -> Exchanged {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (start, mut paused) = (now_ns(), false);
                let mut bytes = [0; 64];
                while !is_over.load(Ordering::Relaxed) {
                    if !paused && now_ns() - start > plan.duration.as_nanos() as u64 / 2 {
                        paused = true;
                        std::thread::sleep(pause);
                    }
                    if let Ok((length, from)) = server.recv_from(&mut bytes) {
                        server.send_to(&bytes[..length], from).unwrap();
                    }
                }
            });
            let result = exchange(&client, plan, &mut Numbers).unwrap();
            is_over.store(true, Ordering::Relaxed);
            result
        })
    }

    /// A pause of a fifth of the time is seen by a fifth of the requests of an open loop, and by one
    /// request of a closed one.
    #[test]
    fn a_pause_is_not_omitted() {
        let pause = Duration::from_millis(100);
        let open = Exchange {
            pace: Pace::Open { rate: 2000.0, poisson: false },
            waiting: Waiting::Awake,
            duration: Duration::from_millis(500),
            seed: 1,
        };
        let result = with_server(pause, open);
        assert_eq!((result.lost, result.wrong), (0, None));
        assert!(result.response.value_at_quantile(0.9) > 20_000_000, "{:?}", result.response.value_at_quantile(0.9));
        let pace = Pace::Closed { outstanding: 1, think: Duration::ZERO };
        let result = with_server(pause, Exchange { pace, waiting: Waiting::Asleep, ..open });
        assert!(result.response.max() > 90_000_000 && result.response.value_at_quantile(0.9) < 20_000_000);
    }
}
