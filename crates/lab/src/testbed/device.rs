//! Virtual Ethernet devices.

use super::address::{Host, PREFIX_BITS};
use super::namespace::Namespace;
use super::netlink::{self, CREATE};
use crate::error::LabError;
use karakoram_kernel::sys::device::{Offload, offload, set_offload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::{AddressFamily, route::RouteType};
use nix::net::if_::if_nametoindex;
use std::fs;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Names of devices start with it, and so do those of the kernel's threads that receive for them.
pub(super) const NAME_PREFIX: &str = "kr";

/// A device in a namespace. It has no life of its own: it goes with the namespace.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name, unique among all testbeds on this machine.
    pub name: String,
    /// Number in its namespace.
    pub index: u32,
}

/// What a device has counted since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames received and, with XDP, looked at by the program.
    pub received: u64,
    /// Frames that did not fit into the receive ring.
    pub ring_full: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that could not be sent.
    pub send_failed: u64,
}

/// Makes a cable between two namespaces.
pub(super) fn create_pair(
    near: &Namespace,
    far: &Namespace,
    near_host: Host,
    far_host: Host,
) -> Result<(Device, Device), LabError> {
    let (near_name, far_name) = (unique_name(), unique_name());
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(far_name.clone()),
        LinkAttribute::Address(far_host.mac.to_vec()),
        LinkAttribute::NetNsFd(far.fd().as_raw_fd()),
    ];
    let mut link = LinkMessage::default();
    link.attributes = vec![
        LinkAttribute::IfName(near_name.clone()),
        LinkAttribute::Address(near_host.mac.to_vec()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    near.run(|| netlink::request(RouteNetlinkMessage::NewLink(link), CREATE, "make a pair of veth devices"))??;
    Ok((named(near, near_name)?, named(far, far_name)?))
}

/// No two processes, and no two testbeds of one process, may make the same.
fn unique_name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed) % 0x1000;
    format!("{NAME_PREFIX}{:06x}{number:03x}", std::process::id() & 0xff_ffff)
}

fn named(namespace: &Namespace, name: String) -> Result<Device, LabError> {
    let index = namespace.run(|| if_nametoindex(name.as_str()))?;
    match index {
        Ok(index) => Ok(Device { name, index }),
        Err(e) => Err(LabError::Machine(format!("the device {name} that was made is not there: {e}"), String::new())),
    }
}

fn up(index: u32, doing: &str) -> Result<(), LabError> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    netlink::request(RouteNetlinkMessage::SetLink(link), 0, doing)
}

/// In the namespace of this thread.
pub(super) fn set_up_loopback() -> Result<(), LabError> {
    const LOOPBACK: u32 = 1;
    up(LOOPBACK, "switch the loopback device on")
}

// All of these act in the namespace of the calling thread, which must be the device's.
impl Device {
    pub(super) fn set_up(&self) -> Result<(), LabError> {
        up(self.index, &format!("switch {} on", self.name))
    }

    pub(super) fn add_address(&self, host: Host) -> Result<(), LabError> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = PREFIX_BITS;
        message.header.index = self.index;
        message.attributes =
            vec![AddressAttribute::Local(IpAddr::V4(host.ip)), AddressAttribute::Address(IpAddr::V4(host.ip))];
        let doing = format!("give {} the address {}", self.name, host.ip);
        netlink::request(RouteNetlinkMessage::NewAddress(message), CREATE, &doing)
    }

    /// A permanent entry, so that nobody asks who has the address in the middle of a measurement.
    pub(super) fn add_neighbour(&self, peer: Host) -> Result<(), LabError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = self.index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(peer.ip)),
            NeighbourAttribute::LinkLayerAddress(peer.mac.to_vec()),
        ];
        let doing = format!("tell {} where {} is", self.name, peer.ip);
        netlink::request(RouteNetlinkMessage::NewNeighbour(message), CREATE, &doing)
    }

    /// Switches an offload.
    pub fn set_offload(&self, offload: Offload, on: bool) -> Result<(), LabError> {
        set_offload(&self.name, offload, on).map_err(|e| {
            LabError::Machine(format!("could not switch {offload:?} of {}: {e}", self.name), String::new())
        })
    }

    /// Whether an offload is on.
    pub fn offload(&self, which: Offload) -> Option<bool> {
        offload(&self.name, which).ok()
    }

    /// What it has counted.
    pub fn counters(&self) -> Result<Counters, LabError> {
        let mut link = LinkMessage::default();
        link.header.index = self.index;
        let doing = format!("ask {} what it counted", self.name);
        let RouteNetlinkMessage::NewLink(answer) = netlink::ask(RouteNetlinkMessage::GetLink(link), &doing)? else {
            return Err(LabError::Machine(
                format!("could not {doing}: the answer is about something else"),
                String::new(),
            ));
        };
        let counted = answer.attributes.iter().find_map(|a| match a {
            LinkAttribute::Stats64(s) => Some(Counters {
                received: s.rx_packets,
                ring_full: s.rx_dropped,
                sent: s.tx_packets,
                send_failed: s.tx_dropped,
            }),
            _ => None,
        });
        counted.ok_or_else(|| LabError::Machine(format!("could not {doing}: no counters"), String::new()))
    }
}

impl Device {
    /// Whether a thread of the kernel receives for it, instead of whoever sends.
    pub fn set_threaded(&self, namespace: &Namespace, on: bool) -> Result<(), LabError> {
        let path = PathBuf::from(format!("/sys/class/net/{}/threaded", self.name));
        let written = namespace.run_with_sysfs(|| fs::write(&path, if on { "1" } else { "0" }))?;
        written.map_err(|e| LabError::file("write", &path, &e))
    }
}

impl Counters {
    /// What was counted since `before`.
    pub fn since(self, before: Counters) -> Counters {
        Counters {
            received: self.received - before.received,
            ring_full: self.ring_full - before.ring_full,
            sent: self.sent - before.sent,
            send_failed: self.send_failed - before.send_failed,
        }
    }
}
