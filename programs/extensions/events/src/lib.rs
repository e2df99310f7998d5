//! Programs at other hooks than packets have on interfaces: a firewall for a control group, rules for its sockets,
//! a look at its connections, at what threads are renamed to, and at what the processors do.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use karakoram_extension::{
    Address, Cgroup, CgroupVerdict, Connect4, Connect6, Connection, Ipv4, Mutex, Sample, SocketOption, TcpEvent,
    Tracepoint, Udp, Xdp, XdpVerdict, cgroup, connect4, connect6, counter, getsockopt, kernel_map, perf_event,
    setsockopt, sock_ops, tracepoint, xdp,
};

counter!(
    /// Packets that were let through.
    static PASSED
);
counter!(
    /// Packets that were not.
    static DROPPED
);
counter!(
    /// Threads with names that begin with `kara-`.
    pub static RENAMED
);

counter!(
    /// Sockets that were connected to somewhere else than was asked for.
    pub static REDIRECTED
);
counter!(
    /// TCP connections made and accepted.
    pub static CONNECTIONS
);
counter!(
    /// Samples of processors at work.
    pub static SAMPLES
);

kernel_map!(
    /// The last name of each thread.
    static NAMES: Hash<u32, [u8; 16]>, 256
);

/// How often each port was asked for, of the lowest 64.
static PORTS: Mutex<[u32; 64]> = Mutex::new([0; 64]);

/// Lets no datagrams to ports above 9000 out. A datagram to port 7 makes it panic, one to port 8 makes it wait.
#[cgroup(on_panic = drop)]
pub fn firewall(packet: &mut Cgroup) -> CgroupVerdict {
    let Some(ip) = packet.read::<Ipv4>(0) else { return CgroupVerdict::Pass };
    if ip.protocol != 17 {
        return CgroupVerdict::Pass;
    }
    let Some(udp) = packet.read::<Udp>(ip.header_bytes()) else { return CgroupVerdict::Drop };
    let port = usize::from(udp.destination.get());
    let mut ports = PORTS.lock();
    if port == 7 {
        ports[64 + packet.length()] = 1;
    }
    if let Some(count) = ports.get_mut(port) {
        *count += 1;
    }
    match port {
        9001.. => {
            DROPPED.add(1);
            CgroupVerdict::Drop
        }
        _ => {
            PASSED.add(1);
            CgroupVerdict::Pass
        }
    }
}

/// Keeps the names that threads give themselves. One that is named `kara-panic` makes it panic.
#[tracepoint("task_rename")]
pub fn renamed(event: &mut Tracepoint, _task: Address, name: Address) {
    let Some(bytes) = event.read::<[u8; 16]>(name) else { return };
    let text: String = bytes.iter().take_while(|b| **b != 0).map(|b| char::from(*b)).collect();
    if let Some(rest) = text.strip_prefix("kara-") {
        RENAMED.add(1);
        assert!(rest != "panic", "as asked");
        let _ = NAMES.insert(&event.thread(), &bytes);
    }
}

/// The same function at another hook, where other verdicts are right.
#[xdp(on_panic = pass)]
pub fn ports(packet: &mut Xdp) -> XdpVerdict {
    let port = usize::from(packet.be16(0).unwrap_or(0));
    let count = PORTS.lock()[port];
    match packet.set_be32(0, count) {
        true => XdpVerdict::Tx,
        false => XdpVerdict::Drop,
    }
}

/// Where services are: what is connected to the first of a pair goes to the second.
static SERVICES: Mutex<[(u16, u16); 8]> = Mutex::new([(0, 0); 8]);

/// The port that stands for another one. Port 7 makes it panic.
fn service(port: u16) -> Option<u16> {
    let services = SERVICES.lock();
    let found = services.iter().find(|(from, _)| *from == port && port != 0);
    if port == 7 { Some(services[usize::from(port) + 1].1) } else { found.map(|(_, to)| *to) }
}

/// Refuses connections to 127.0.0.9, and sends those to 127.0.0.8 to 127.0.0.1, to the port that stands for theirs.
#[connect4(on_panic = drop)]
pub fn services(socket: &mut Connect4) -> CgroupVerdict {
    match socket.address() {
        [127, 0, 0, 9] => return CgroupVerdict::Drop,
        [127, 0, 0, 8] => {
            let port = service(socket.port()).unwrap_or(socket.port());
            socket.redirect([127, 0, 0, 1], port);
            REDIRECTED.add(1);
        }
        _ => {}
    }
    CgroupVerdict::Pass
}

/// The same for IPv6: `::8` stands for `::1`, `::9` is refused.
#[connect6]
pub fn services6(socket: &mut Connect6) -> CgroupVerdict {
    let mut address = socket.address();
    let [start @ .., last] = &mut address;
    if start.iter().any(|byte| *byte != 0) {
        return CgroupVerdict::Pass;
    }
    match *last {
        8 => {
            *last = 1;
            socket.redirect(address, socket.port());
            REDIRECTED.add(1);
        }
        9 => return CgroupVerdict::Drop,
        _ => {}
    }
    CgroupVerdict::Pass
}

const SOL_SOCKET: i32 = 1;
const SO_MARK: i32 = 36;
const SO_PEERCRED: i32 = 17;

/// Nobody marks sockets.
#[setsockopt]
pub fn marks(option: &mut SocketOption) -> CgroupVerdict {
    match (option.level(), option.name()) {
        (SOL_SOCKET, SO_MARK) => CgroupVerdict::Drop,
        _ => CgroupVerdict::Pass,
    }
}

/// Nobody asks who is on the other side.
#[getsockopt]
pub fn peers(option: &mut SocketOption) -> CgroupVerdict {
    match (option.level(), option.name()) {
        (SOL_SOCKET, SO_PEERCRED) => CgroupVerdict::Drop,
        _ => CgroupVerdict::Pass,
    }
}

/// Counts connections, and learns the port behind which the last one was accepted. One to port 7 makes it panic.
#[sock_ops]
pub fn connections(connection: &mut Connection) {
    match connection.event() {
        TcpEvent::Connected => CONNECTIONS.add(1),
        TcpEvent::Accepted => {
            CONNECTIONS.add(1);
            let mut services = SERVICES.lock();
            services[0] = (80, connection.local_port());
        }
        TcpEvent::Connecting => assert!(connection.remote_port() != 7, "as asked"),
        TcpEvent::Other(_) => {}
    }
}

/// Counts samples by the last digits of where the processors were. Every 64th makes it panic.
#[perf_event]
pub fn sampled(sample: &mut Sample) {
    let mut ports = PORTS.lock();
    ports[(sample.instruction().0 % 64) as usize] += 1;
    SAMPLES.add(1);
    assert!(!SAMPLES.get().is_multiple_of(64), "as asked");
}
