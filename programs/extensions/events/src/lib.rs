//! Programs at other hooks than packets have on interfaces: a firewall for a control group, and a look at what
//! threads are renamed to.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use karakoram_extension::{
    Address, Cgroup, CgroupVerdict, Ipv4, Mutex, Tracepoint, Udp, Xdp, XdpVerdict, cgroup, counter, kernel_map,
    tracepoint, xdp,
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
