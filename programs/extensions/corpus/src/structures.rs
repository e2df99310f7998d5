//! State and structures: tables with eviction, queues by priority, graphs with counted references, objects behind
//! traits, machines with types for states.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use alloc::rc::{Rc, Weak};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::cmp::{Ordering, Reverse};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn mix(all: u64, value: u64) -> u64 {
    (all ^ value).wrapping_mul(0x9e3779b97f4a7c15).rotate_left(23)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    from: [u8; 2],
    to: [u8; 2],
    port: u16,
}

#[derive(Clone, Default, Debug)]
struct Stats {
    packets: u32,
    bytes: u64,
    last: u64,
    recent: VecDeque<u8>,
}

/// Flows, of which the one that was silent longest leaves.
struct Flows {
    flows: BTreeMap<Key, Stats>,
    by_age: BTreeSet<(u64, Key)>,
    most: usize,
    evicted: u64,
}

impl Flows {
    fn seen(&mut self, key: Key, bytes: u8, now: u64) {
        if let Some(stats) = self.flows.get(&key) {
            self.by_age.remove(&(stats.last, key));
        } else if self.flows.len() == self.most
            && let Some((_, oldest)) = self.by_age.pop_first()
            && let Some(gone) = self.flows.remove(&oldest)
        {
            self.evicted = mix(self.evicted, gone.bytes + u64::from(gone.packets));
        }
        let stats = self.flows.entry(key).or_default();
        stats.packets += 1;
        stats.bytes += u64::from(bytes);
        stats.last = now;
        if stats.recent.len() == 4 {
            stats.recent.pop_front();
        }
        stats.recent.push_back(bytes);
        self.by_age.insert((now, key));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Event {
    at: u32,
    kind: EventKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Timer(u8),
    Arrives { port: u8, bytes: u16 },
    Leaves(u8),
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        other.at.cmp(&self.at).then_with(|| self.kind.cmp(&other.kind))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn simulated(bytes: &[u8]) -> u64 {
    let mut events = BinaryHeap::new();
    for (i, c) in bytes.chunks_exact(3).take(30).enumerate() {
        let at = u32::from(c[0]) * 4 + i as u32;
        events.push(match c[1] % 3 {
            0 => Event { at, kind: EventKind::Timer(c[2]) },
            _ => Event { at, kind: EventKind::Arrives { port: c[1] % 4, bytes: u16::from(c[2]) * 8 } },
        });
    }
    let mut queues: [VecDeque<u16>; 4] = Default::default();
    let (mut result, mut steps) = (0, 0);
    while let Some(Event { at, kind }) = events.pop() {
        steps += 1;
        if steps > 200 {
            break;
        }
        match kind {
            EventKind::Timer(n) if n > 3 => events.push(Event { at: at + u32::from(n), kind: EventKind::Timer(n / 3) }),
            EventKind::Timer(n) => result = mix(result, u64::from(n)),
            EventKind::Arrives { port, bytes } => {
                let queue = &mut queues[usize::from(port)];
                if queue.is_empty() {
                    events.push(Event { at: at + u32::from(bytes) / 16 + 1, kind: EventKind::Leaves(port) });
                }
                if queue.len() < 5 {
                    queue.push_back(bytes);
                } else {
                    result = mix(result, 0xdead);
                }
            }
            EventKind::Leaves(port) => {
                let queue = &mut queues[usize::from(port)];
                let gone = queue.pop_front();
                result = mix(result, u64::from(at) << 16 | u64::from(gone.unwrap_or(0)));
                if let Some(next) = queue.front() {
                    events.push(Event { at: at + u32::from(*next) / 16 + 1, kind: EventKind::Leaves(port) });
                }
            }
        }
    }
    mix(result, steps)
}

fn shortest(bytes: &[u8]) -> u64 {
    const N: usize = 12;
    let mut edges: Vec<Vec<(usize, u32)>> = alloc::vec![Vec::new(); N];
    for c in bytes.chunks_exact(3).take(40) {
        edges[usize::from(c[0]) % N].push((usize::from(c[1]) % N, u32::from(c[2]) + 1));
    }
    let mut distance = [None; N];
    let mut queue = BinaryHeap::from([Reverse((0u32, 0usize))]);
    while let Some(Reverse((far, node))) = queue.pop() {
        if distance[node].is_some_and(|d| d <= far) {
            continue;
        }
        distance[node] = Some(far);
        queue.extend(edges[node].iter().map(|(to, cost)| Reverse((far + cost, *to))));
    }
    distance.iter().flatten().fold(0, |all, d| mix(all, u64::from(*d)))
}

/// A tree whose nodes know their parents.
struct Node {
    value: Cell<u32>,
    parent: RefCell<Weak<Node>>,
    children: RefCell<Vec<Rc<Node>>>,
}

impl Node {
    fn new(value: u32) -> Rc<Node> {
        Rc::new(Node { value: Cell::new(value), parent: RefCell::default(), children: RefCell::default() })
    }

    fn adopt(self: &Rc<Node>, child: &Rc<Node>) {
        *child.parent.borrow_mut() = Rc::downgrade(self);
        self.children.borrow_mut().push(Rc::clone(child));
    }

    fn depth(&self) -> u32 {
        self.parent.borrow().upgrade().map_or(0, |p| 1 + p.depth())
    }

    fn sum(&self) -> u32 {
        self.children.borrow().iter().map(|c| c.sum()).sum::<u32>().wrapping_add(self.value.get())
    }
}

/// A chain of things that look at packets.
trait Filter {
    fn name(&self) -> &str;
    fn look(&mut self, packet: &Seen) -> Outcome;
    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "{}", self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    size: u16,
    port: u16,
    at: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Next,
    Stop(bool),
    Mark(u8),
}

struct Ports(BTreeSet<u16>);
struct Rate {
    tokens: u32,
    last: u32,
}
struct Sampler<F> {
    every: u32,
    count: u32,
    then: F,
}

impl Filter for Ports {
    fn name(&self) -> &str {
        "ports"
    }
    fn look(&mut self, packet: &Seen) -> Outcome {
        if self.0.contains(&packet.port) { Outcome::Stop(false) } else { Outcome::Next }
    }
    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "{}: {:?}", self.name(), self.0)
    }
}

impl Filter for Rate {
    fn name(&self) -> &str {
        "rate"
    }
    fn look(&mut self, packet: &Seen) -> Outcome {
        self.tokens = (self.tokens + packet.at.saturating_sub(self.last) * 3).min(500);
        self.last = packet.at;
        match self.tokens.checked_sub(u32::from(packet.size)) {
            Some(rest) => {
                self.tokens = rest;
                Outcome::Next
            }
            None => Outcome::Mark(2),
        }
    }
}

impl<F: FnMut(&Seen) -> Outcome> Filter for Sampler<F> {
    fn name(&self) -> &str {
        "sampler"
    }
    fn look(&mut self, packet: &Seen) -> Outcome {
        self.count += 1;
        if self.count.is_multiple_of(self.every) { (self.then)(packet) } else { Outcome::Next }
    }
}

fn filtered(bytes: &[u8]) -> u64 {
    let marked = Rc::new(Cell::new(0u64));
    let seen = Rc::clone(&marked);
    let mut chain: Vec<Box<dyn Filter>> = alloc::vec![
        Box::new(Ports(bytes.iter().take(6).map(|b| u16::from(b % 32)).collect())),
        Box::new(Rate { tokens: 300, last: 0 }),
        Box::new(Sampler {
            every: 3,
            count: 0,
            then: move |p: &Seen| {
                seen.set(seen.get() + u64::from(p.size));
                if p.size > 200 { Outcome::Stop(true) } else { Outcome::Mark(1) }
            },
        }),
    ];
    let mut result = 0;
    for (i, c) in bytes.windows(2).step_by(2).enumerate() {
        let packet = Seen { size: u16::from(c[0]), port: u16::from(c[1] % 32), at: i as u32 * 17 };
        let mut marks = 0u64;
        let verdict = chain.iter_mut().find_map(|filter| match filter.look(&packet) {
            Outcome::Next => None,
            Outcome::Stop(keep) => Some(keep),
            Outcome::Mark(m) => {
                marks = marks << 2 | u64::from(m);
                None
            }
        });
        result = mix(result, marks << 2 | verdict.map_or(2, u64::from));
    }
    let mut text = String::new();
    for filter in &chain {
        let _ = filter.report(&mut text);
    }
    text.bytes().fold(result ^ marked.get(), |all, b| mix(all, u64::from(b)))
}

/// A connection, its state in its type.
struct Connection<S> {
    log: Vec<&'static str>,
    state: S,
}

struct Closed;
struct Opening {
    sequence: u32,
}
struct Open {
    next: u32,
    window: u16,
}

enum Any {
    Closed(Connection<Closed>),
    Opening(Connection<Opening>),
    Open(Connection<Open>),
}

impl Connection<Closed> {
    fn open(mut self, sequence: u32) -> Connection<Opening> {
        self.log.push("syn");
        Connection { log: self.log, state: Opening { sequence } }
    }
}

impl Connection<Opening> {
    fn acknowledged(mut self, number: u32, window: u16) -> Result<Connection<Open>, Connection<Closed>> {
        if number == self.state.sequence + 1 {
            self.log.push("open");
            Ok(Connection { log: self.log, state: Open { next: number, window } })
        } else {
            self.log.push("reset");
            Err(Connection { log: self.log, state: Closed })
        }
    }
}

impl Connection<Open> {
    fn data(&mut self, bytes: u16) -> bool {
        let fits = bytes <= self.state.window;
        if fits {
            self.state.next = self.state.next.wrapping_add(u32::from(bytes));
            self.state.window -= bytes;
        }
        fits
    }

    fn close(mut self) -> Connection<Closed> {
        self.log.push("fin");
        Connection { log: self.log, state: Closed }
    }
}

impl Any {
    fn step(self, byte: u8) -> Any {
        match self {
            Any::Closed(c) if byte & 1 == 1 => Any::Opening(c.open(u32::from(byte) << 4)),
            Any::Opening(c) => {
                let number = c.state.sequence + u32::from(byte & 3 != 0);
                match c.acknowledged(number, u16::from(byte) * 4) {
                    Ok(open) => Any::Open(open),
                    Err(closed) => Any::Closed(closed),
                }
            }
            Any::Open(mut c) => match byte % 8 {
                7 => Any::Closed(c.close()),
                _ if c.data(u16::from(byte)) => Any::Open(c),
                _ => Any::Closed(c.close()),
            },
            other => other,
        }
    }
}

fn connection(bytes: &[u8]) -> u64 {
    let start = Any::Closed(Connection { log: Vec::new(), state: Closed });
    let end = bytes.iter().fold(start, |state, byte| state.step(*byte));
    let (log, extra) = match end {
        Any::Closed(c) => (c.log, 0),
        Any::Opening(c) => (c.log, u64::from(c.state.sequence)),
        Any::Open(c) => (c.log, u64::from(c.state.next) << 16 | u64::from(c.state.window)),
    };
    log.join(">").bytes().fold(extra, |all, b| mix(all, u64::from(b)))
}

/// A cache with a list of places in a vector.
struct Cache<K, V, const N: usize> {
    entries: Vec<(K, V, usize, usize)>,
    newest: usize,
    oldest: usize,
}

impl<K: Copy + PartialEq, V, const N: usize> Cache<K, V, N> {
    const NONE: usize = usize::MAX;

    fn new() -> Self {
        Cache { entries: Vec::with_capacity(N), newest: Self::NONE, oldest: Self::NONE }
    }

    fn unlink(&mut self, at: usize) {
        let (_, _, newer, older) = self.entries[at];
        match self.entries.get_mut(newer) {
            Some(entry) => entry.3 = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older) {
            Some(entry) => entry.2 = newer,
            None => self.oldest = newer,
        }
    }

    fn link_first(&mut self, at: usize) {
        let second = self.newest;
        self.entries[at].2 = Self::NONE;
        self.entries[at].3 = second;
        match self.entries.get_mut(second) {
            Some(entry) => entry.2 = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn get(&mut self, key: K) -> Option<&mut V> {
        let at = self.entries.iter().position(|e| e.0 == key)?;
        self.unlink(at);
        self.link_first(at);
        Some(&mut self.entries[at].1)
    }

    fn put(&mut self, key: K, value: V) -> Option<(K, V)> {
        if self.entries.len() < N {
            self.entries.push((key, value, Self::NONE, Self::NONE));
            self.link_first(self.entries.len() - 1);
            return None;
        }
        let at = self.oldest;
        self.unlink(at);
        let entry = &mut self.entries[at];
        let old = (core::mem::replace(&mut entry.0, key), core::mem::replace(&mut entry.1, value));
        self.link_first(at);
        Some(old)
    }
}

/// Prefixes with what they lead to, the longest first.
fn routed(bytes: &[u8]) -> u64 {
    let mut routes: Vec<(IpAddr, u8, u16)> = bytes
        .chunks_exact(6)
        .take(10)
        .enumerate()
        .map(|(i, c)| match c[0] % 2 {
            0 => (IpAddr::V4(Ipv4Addr::new(10, c[1], c[2], c[3])), c[4] % 33, i as u16),
            _ => {
                let high = u128::from(u32::from_be_bytes([0x20, 1, c[1], c[2]]));
                (IpAddr::V6(Ipv6Addr::from_bits(high << 96 | u128::from(c[3]) << 60)), c[4] % 129, i as u16)
            }
        })
        .collect();
    routes.sort_by_key(|r| (r.0.is_ipv6(), Reverse(r.1), r.0));
    let bits = |a: &IpAddr| match a {
        IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
        IpAddr::V6(a) => a.to_bits(),
    };
    let holds = |route: &(IpAddr, u8, u16), a: &IpAddr| {
        route.0.is_ipv4() == a.is_ipv4() && (bits(&route.0) ^ bits(a)).checked_shr(128 - u32::from(route.1)).unwrap_or(0) == 0
    };
    let asked = ["10.1.2.3", "2001:db8::1", "10.255.0.1", "2001:4:5::ffff:1.2.3.4", "10.0.0.300", "::"];
    asked.iter().fold(0, |all, text| match text.parse::<IpAddr>() {
        Ok(a) => {
            let to = routes.iter().find(|r| holds(r, &a)).map_or(999, |r| u64::from(r.2));
            a.to_string().bytes().fold(mix(all, to), |all, b| mix(all, u64::from(b)))
        }
        Err(_) => mix(all, 1),
    })
}

/// Whole numbers of any size.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Big(Vec<u32>);

impl Big {
    fn times(&self, other: &Big) -> Big {
        let mut out = alloc::vec![0u32; self.0.len() + other.0.len()];
        for (i, a) in self.0.iter().enumerate() {
            let mut carry = 0u64;
            for (j, b) in other.0.iter().enumerate() {
                let sum = u64::from(*a) * u64::from(*b) + u64::from(out[i + j]) + carry;
                out[i + j] = sum as u32;
                carry = sum >> 32;
            }
            out[i + other.0.len()] = carry as u32;
        }
        while out.last() == Some(&0) {
            out.pop();
        }
        Big(out)
    }

    fn divided(&self, by: u32) -> (Big, u32) {
        let mut rest = 0u64;
        let mut out: Vec<u32> = self
            .0
            .iter()
            .rev()
            .map(|digit| {
                let value = rest << 32 | u64::from(*digit);
                rest = value % u64::from(by);
                (value / u64::from(by)) as u32
            })
            .collect();
        out.reverse();
        while out.last() == Some(&0) {
            out.pop();
        }
        (Big(out), rest as u32)
    }
}

impl fmt::Display for Big {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut groups = Vec::new();
        let mut value = self.clone();
        while !value.0.is_empty() {
            let (quotient, rest) = value.divided(1_000_000_000);
            groups.push(rest);
            value = quotient;
        }
        match groups.split_last() {
            None => f.write_str("0"),
            Some((first, rest)) => {
                write!(f, "{first}")?;
                rest.iter().rev().try_for_each(|group| write!(f, "{group:09}"))
            }
        }
    }
}

/// Powers and inverses modulo numbers of 64 bits.
fn modular(bytes: &[u8]) -> u64 {
    fn power(mut base: u64, mut exponent: u64, modulus: u64) -> u64 {
        let mut result = 1u64;
        base %= modulus;
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = (u128::from(result) * u128::from(base) % u128::from(modulus)) as u64;
            }
            base = (u128::from(base) * u128::from(base) % u128::from(modulus)) as u64;
            exponent >>= 1;
        }
        result
    }
    fn is_prime(n: u64) -> bool {
        if n < 4 {
            return n > 1;
        }
        let shift = (n - 1).trailing_zeros();
        n % 2 == 1
            && [2u64, 3, 5, 7].iter().filter(|a| *a % n != 0).all(|a| {
                let mut x = power(*a, (n - 1) >> shift, n);
                if x == 1 || x == n - 1 {
                    return true;
                }
                (1..shift).any(|_| {
                    x = (u128::from(x) * u128::from(x) % u128::from(n)) as u64;
                    x == n - 1
                })
            })
    }
    bytes.chunks_exact(8).take(3).fold(0, |all, c| {
        let n = u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6] & 15, 0]) | 1;
        mix(all, power(n, 65537, 0xffff_ffff_ffff_ffc5) ^ u64::from(is_prime(n)))
    })
}

programs! {
    fn flow_table(bytes) {
        let mut flows = Flows { flows: BTreeMap::new(), by_age: BTreeSet::new(), most: 8, evicted: 0 };
        for (i, c) in bytes.chunks_exact(4).enumerate() {
            let key = Key { from: [c[0] % 3, 1], to: [c[1] % 3, 2], port: u16::from(c[2] % 4) };
            flows.seen(key, c[3], i as u64);
        }
        let rest = flows.flows.iter().fold(flows.evicted, |all, (key, stats)| {
            let recent = stats.recent.iter().fold(0, |a, b| a << 8 | u64::from(*b));
            mix(all, recent ^ u64::from(key.port) ^ stats.bytes << 20)
        });
        mix(rest, flows.by_age.len() as u64)
    }

    fn event_queue(bytes) { simulated(bytes) }

    fn dijkstra(bytes) { shortest(bytes) }

    fn counted_references(bytes) {
        let root = Node::new(1);
        let mut all: Vec<Rc<Node>> = alloc::vec![Rc::clone(&root)];
        for b in bytes.iter().take(40) {
            let child = Node::new(u32::from(*b));
            all[usize::from(*b) % all.len()].adopt(&child);
            all.push(child);
        }
        let deepest = all.iter().max_by_key(|n| n.depth()).map_or(0, |n| u64::from(n.value.get()));
        let strong: usize = all.iter().map(Rc::strong_count).sum();
        let weak: usize = all.iter().map(Rc::weak_count).sum();
        all.truncate(all.len() / 2);
        root.value.set(7);
        mix(deepest, u64::from(root.sum())) ^ (strong as u64) << 40 ^ (weak as u64) << 52
    }

    fn filter_chain(bytes) { filtered(bytes) }

    fn typed_states(bytes) { connection(bytes) }

    fn cache_list(bytes) {
        let mut cache: Cache<u8, u64, 6> = Cache::new();
        bytes.iter().enumerate().fold(0, |all, (i, b)| match cache.get(b % 13) {
            Some(value) => {
                *value += i as u64;
                mix(all, *value)
            }
            None => match cache.put(b % 13, u64::from(*b)) {
                Some((key, value)) => mix(all, value << 8 | u64::from(key)),
                None => mix(all, 1),
            },
        })
    }

    fn address_routes(bytes) { routed(bytes) }

    fn big_numbers(bytes) {
        let numbers = bytes.chunks_exact(8).take(6).map(|c| Big(alloc::vec![u32::from_le_bytes([c[0], c[1], c[2], c[3]]) | 1, u32::from_le_bytes([c[4], c[5], c[6], c[7]]) | 1]));
        let product = numbers.fold(Big(alloc::vec![1]), |all, n| all.times(&n));
        product.to_string().bytes().fold(0, |all, b| mix(all, u64::from(b)))
    }

    fn modular_powers(bytes) { modular(bytes) }
}
