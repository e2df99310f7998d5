//! A client of memcached: requests over UDP, many in a system call, writes over one TCP connection, and a
//! check of every reply. Each write of a key has a number that is in the value; a reply must have one that
//! is not older than the last write that memcached had confirmed when the request was sent.

use super::zipf::Zipf;
use karakoram_lab::error::LabError;
use karakoram_lab::generator::now_ns;
use karakoram_lab::memcached::{PORT, get};
use karakoram_lab::testbed::{Testbed, connected_udp};
use nix::sys::socket::sockopt::RcvBufForce;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Messages in a system call.
const BATCH: usize = 16;
/// Requests under way: so many that the other processor always has some, and so few that all of them fit into
/// memcached's socket, at the page for each that a packet takes which has been seen by XDP (212 992 bytes by
/// default). One that is lost is missing until patience ends.
const OUTSTANDING: usize = 48;
/// Room for replies to all of them and more.
const RECEIVE_BYTES: usize = 8 << 20;
/// Writes under way.
const WRITES: usize = 16;
/// A request that has waited so long is lost.
const PATIENCE_NS: u64 = 100_000_000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 32;
const DATAGRAM: usize = 256;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Exchanged {
    /// Requests that were answered in time.
    pub answered: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests without an answer.
    pub lost: u64,
    /// Writes that were confirmed.
    pub written: u64,
    /// Replies that were not right.
    pub wrong: u64,
    /// The first of them.
    pub first_wrong: Option<String>,
    /// Over this time.
    pub elapsed_ns: u64,
}

impl Exchanged {
    /// Counts another one with it.
    pub fn add(&mut self, more: &Exchanged) {
        self.answered += more.answered;
        self.sent += more.sent;
        self.lost += more.lost;
        self.written += more.written;
        self.wrong += more.wrong;
        self.elapsed_ns += more.elapsed_ns;
        if self.first_wrong.is_none() {
            self.first_wrong.clone_from(&more.first_wrong);
        }
    }
}

/// A request under way.
#[derive(Clone, Copy, Default)]
struct Pending {
    key: u32,
    least: u32,
    sent_ns: u64,
    is_open: bool,
}

/// A client and what it knows of the keys.
pub struct Client {
    requests: UdpSocket,
    writes: TcpStream,
    /// Number of the last write of each key that was confirmed, and that was sent.
    confirmed: Vec<u32>,
    issued: Vec<u32>,
    unconfirmed: VecDeque<u32>,
    unsent: Vec<u8>,
    heard: Vec<u8>,
    pending: Vec<Pending>,
    order: VecDeque<u16>,
    next: u16,
    outstanding: usize,
    result: Exchanged,
    /// Keys that were asked for and written so far: the next ones are those that follow.
    asked: u64,
    stored: u64,
}

/// The text of a key.
fn key_text(key: u32) -> String {
    format!("k{key:015}")
}

/// The value of a key after a write.
fn value_text(key: u32, number: u32) -> String {
    format!("{}{number:016x}", key_text(key))
}

impl Client {
    /// Connects, and stores all keys.
    pub fn new(bed: &Testbed, keys: usize) -> Result<Client, LabError> {
        let from = SocketAddrV4::new(bed.generator.host.ip, 0);
        let to = SocketAddrV4::new(bed.tested.host.ip, PORT);
        let requests = connected_udp(&bed.generator.namespace, from, to)?;
        setsockopt(&requests, RcvBufForce, &RECEIVE_BYTES).map_err(|e| failed("get room for replies", &e.into()))?;
        let writes = connect(bed)?;
        let mut client = Client {
            requests,
            writes,
            confirmed: vec![0; keys],
            issued: vec![0; keys],
            unconfirmed: VecDeque::new(),
            unsent: Vec::new(),
            heard: Vec::new(),
            pending: vec![Pending::default(); 1 << 16],
            order: VecDeque::new(),
            next: 0,
            outstanding: 0,
            result: Exchanged::default(),
            asked: 0,
            stored: 0,
        };
        client.store_all(keys as u32)?;
        client.requests.set_nonblocking(true).map_err(|e| failed("connect", &e))?;
        Ok(client)
    }

    /// Writes over a new connection from now on, which whoever is attached by now has seen from its begin.
    pub fn reconnect(&mut self, bed: &Testbed) -> Result<(), LabError> {
        self.writes = connect(bed)?;
        self.writes.set_nonblocking(true).map_err(|e| failed("connect", &e))
    }

    fn store_all(&mut self, keys: u32) -> Result<(), LabError> {
        const CHUNK: usize = 1 << 16;
        let mut text = Vec::with_capacity(CHUNK + 128);
        for key in 0..keys {
            let (name, value) = (key_text(key), value_text(key, 0));
            text.extend(format!("set {name} 0 0 {VALUE_BYTES} noreply\r\n{value}\r\n").as_bytes());
            if text.len() > CHUNK || key + 1 == keys {
                self.writes.write_all(&text).map_err(|e| failed("store", &e))?;
                text.clear();
            }
        }
        // Answered when all before it is done.
        self.writes.write_all(b"mn\r\n").map_err(|e| failed("store", &e))?;
        let mut said = [0; 4];
        self.writes.read_exact(&mut said).map_err(|e| failed("store", &e))?;
        match &said {
            b"MN\r\n" => Ok(()),
            other => Err(failed("store", &std::io::Error::other(format!("memcached said {other:?}")))),
        }
    }

    /// Asks for that long, with a write for every so many requests (0: none). Goes on with the keys where the last
    /// run ended, so that runs with the same seed make one sequence.
    pub fn run(
        &mut self,
        zipf: &Zipf,
        seed: u64,
        duration: Duration,
        gets_per_set: u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Exchanged, LabError> {
        self.result = Exchanged::default();
        let mut keys = zipf.from(seed.wrapping_add(self.asked));
        let mut written_keys = zipf.from((seed ^ 0x5555_5555).wrapping_add(self.stored));
        let start = now_ns();
        let stop = start + duration.as_nanos() as u64;
        let mut sets = 0;
        loop {
            let now = now_ns();
            if now >= stop || is_over() {
                break;
            }
            if self.unconfirmed.len() < WRITES {
                self.ask(&mut keys, now)?;
            }
            while gets_per_set > 0 && sets < self.result.sent / gets_per_set && self.unconfirmed.len() < WRITES {
                sets += 1;
                self.stored += 1;
                self.write(written_keys.next().expect("for ever"));
            }
            self.exchange_writes()?;
            self.receive()?;
            self.forget_lost(now);
        }
        self.result.elapsed_ns = now_ns() - start;
        let counted = self.result.clone();
        self.drain()?;
        // Replies that came late do not count, but may be wrong.
        let late = std::mem::take(&mut self.result);
        Ok(Exchanged { wrong: late.wrong, first_wrong: late.first_wrong, lost: late.lost, ..counted })
    }

    /// Takes what is still under way.
    fn drain(&mut self) -> Result<(), LabError> {
        let until = now_ns() + PATIENCE_NS;
        while (self.outstanding > 0 || !self.unconfirmed.is_empty()) && now_ns() < until {
            self.exchange_writes()?;
            self.receive()?;
        }
        self.forget_lost(u64::MAX);
        Ok(())
    }

    fn ask(&mut self, keys: &mut impl Iterator<Item = u32>, now: u64) -> Result<(), LabError> {
        let count = BATCH.min(OUTSTANDING - self.outstanding);
        // Not for a few: a system call costs as much as many messages.
        if count < BATCH / 4 {
            return Ok(());
        }
        let mut texts: Vec<Vec<u8>> = Vec::with_capacity(count);
        for key in keys.take(count) {
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            let mut text = Vec::with_capacity(32);
            get(number, &key_text(key), &mut text);
            texts.push(text);
            let least = self.confirmed[key as usize];
            self.pending[usize::from(number)] = Pending { key, least, sent_ns: now, is_open: true };
            self.order.push_back(number);
        }
        self.outstanding += count;
        self.result.sent += count as u64;
        self.asked += count as u64;
        let slices: Vec<[IoSlice; 1]> = texts.iter().map(|t| [IoSlice::new(t)]).collect();
        let mut headers = MultiHeaders::<SockaddrIn>::preallocate(count, None);
        let nobody = vec![None; count];
        let sent = sendmmsg(self.requests.as_raw_fd(), &mut headers, &slices, &nobody, [], MsgFlags::empty());
        match sent {
            // What was not sent is lost.
            Ok(_) | Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ECONNREFUSED) => Ok(()),
            Err(e) => Err(failed("send", &e.into())),
        }
    }

    fn receive(&mut self) -> Result<(), LabError> {
        let mut bytes = [[0; DATAGRAM]; BATCH];
        let mut lengths = [0; BATCH];
        let mut count = 0;
        {
            let mut slices: Vec<[IoSliceMut; 1]> = bytes.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
            let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
            let fd = self.requests.as_raw_fd();
            match recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
                Ok(messages) => {
                    for message in messages {
                        lengths[count] = message.bytes;
                        count += 1;
                    }
                }
                Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::ECONNREFUSED) => {}
                Err(e) => return Err(failed("receive", &e.into())),
            }
        }
        for (bytes, length) in bytes.iter().zip(lengths).take(count) {
            self.take(&bytes[..length]);
        }
        Ok(())
    }

    fn take(&mut self, reply: &[u8]) {
        match self.check(reply) {
            Ok(number) => {
                self.pending[usize::from(number)].is_open = false;
                self.outstanding -= 1;
                self.result.answered += 1;
            }
            Err(why) => {
                self.result.wrong += 1;
                self.result.first_wrong.get_or_insert(why);
            }
        }
    }

    /// Number of the request that a right reply is for.
    fn check(&self, reply: &[u8]) -> Result<u16, String> {
        let (number, rest) = reply.split_first_chunk::<2>().ok_or("an empty reply")?;
        let number = u16::from_be_bytes(*number);
        let asked = self.pending[usize::from(number)];
        if !asked.is_open {
            return Err(format!("a second reply to request {number}"));
        }
        let bad = || format!("{:?} for {}", String::from_utf8_lossy(rest), key_text(asked.key));
        let name = key_text(asked.key);
        let digits = rest
            .strip_prefix(&[0, 0, 0, 1, 0, 0])
            .and_then(|r| r.strip_prefix(b"VALUE "))
            .and_then(|r| r.strip_prefix(name.as_bytes()))
            .and_then(|r| r.strip_prefix(b" 0 32\r\n"))
            .and_then(|r| r.strip_prefix(name.as_bytes()))
            .and_then(|r| r.strip_suffix(b"\r\nEND\r\n"))
            .ok_or_else(bad)?;
        let written = std::str::from_utf8(digits).ok().and_then(|d| u32::from_str_radix(d, 16).ok());
        let written = written.filter(|_| digits.len() == 16).ok_or_else(bad)?;
        match (asked.least..=self.issued[asked.key as usize]).contains(&written) {
            true => Ok(number),
            false => Err(format!("write {written} of {name}, when write {} was confirmed", asked.least)),
        }
    }

    fn write(&mut self, key: u32) {
        let number = &mut self.issued[key as usize];
        *number += 1;
        let text = format!("set {} 0 0 {VALUE_BYTES}\r\n{}\r\n", key_text(key), value_text(key, *number));
        self.unsent.extend(text.as_bytes());
        self.unconfirmed.push_back(key);
    }

    fn exchange_writes(&mut self) -> Result<(), LabError> {
        if !self.unsent.is_empty() {
            match self.writes.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(failed("write", &e)),
            }
        }
        if self.unconfirmed.is_empty() {
            return Ok(());
        }
        let mut bytes = [0; 1024];
        match self.writes.read(&mut bytes) {
            Ok(length) => self.heard.extend(&bytes[..length]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(failed("read", &e)),
        }
        while let Some(end) = self.heard.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            let key = self.unconfirmed.pop_front();
            match key {
                Some(key) if line == b"STORED\r\n" => {
                    // Writes of a key are confirmed in order.
                    self.confirmed[key as usize] += 1;
                    self.result.written += 1;
                }
                _ => return Err(failed("write", &std::io::Error::other(String::from_utf8_lossy(&line).into_owned()))),
            }
        }
        Ok(())
    }

    fn forget_lost(&mut self, now: u64) {
        while let Some(number) = self.order.front() {
            let pending = &mut self.pending[usize::from(*number)];
            if pending.is_open {
                if now.saturating_sub(pending.sent_ns) < PATIENCE_NS {
                    return;
                }
                pending.is_open = false;
                self.outstanding -= 1;
                self.result.lost += 1;
            }
            self.order.pop_front();
        }
    }
}

fn connect(bed: &Testbed) -> Result<TcpStream, LabError> {
    let to = SocketAddrV4::new(bed.tested.host.ip, PORT);
    let connected = bed.generator.namespace.run(|| TcpStream::connect(to))?;
    let connection = connected.map_err(|e| failed("connect", &e))?;
    connection.set_nodelay(true).map_err(|e| failed("connect", &e))?;
    Ok(connection)
}

fn failed(doing: &str, error: &std::io::Error) -> LabError {
    LabError::Machine(format!("the client could not {doing}: {error}"), String::new())
}
