//! Two network namespaces and a virtual cable between them, in which packets are made and measured.
//!
//! ```text
//!  namespace "generator"                        namespace "tested"
//!  device: sends, and gets answers  <======>  device: the hook under test -> IP -> UDP, TCP -> server
//! ```
//!
//! The namespaces have no names: nothing but descriptors of this process (and of processes that the
//! kernel kills together with it) refers to them. However the process ends, also by `kill -9`, the
//! kernel takes them back with all devices, addresses, queueing disciplines and attached programs in
//! them. So there is nothing to sweep up, and no interface of the machine itself is ever touched.

mod address;
mod child;
mod device;
mod namespace;
mod napi;
mod netlink;
mod placement;
mod socket;
mod tc;

pub use address::{GENERATOR, Host, TESTED};
pub use child::Child;
pub use device::{Counters, Device};
pub use namespace::Namespace;
pub use napi::ReceiveThread;
pub use placement::{CONTROL_PRIORITY, Placed, Placement, Role, WORK_PRIORITY};
pub use socket::{connected_udp, tcp_listener, udp};
pub use tc::{Filter, attach_clsact};

pub use karakoram_kernel::sys::device::Offload;

use crate::error::LabError;

/// The two namespaces, with one device each.
pub struct Testbed {
    /// Where packets are made.
    pub generator: Side,
    /// Where they are received.
    pub tested: Side,
    /// Which CPU does what.
    pub placement: Placement,
}

/// One end of the cable.
pub struct Side {
    /// The namespace.
    pub namespace: Namespace,
    /// The device in it.
    pub device: Device,
    /// Its addresses.
    pub host: Host,
}

impl Testbed {
    /// Builds it: addresses, permanent neighbour entries, no IPv6, no offloads (but for what
    /// [`Testbed::poll_without_xdp`] needs, when a thread of the kernel shall receive).
    pub fn build(placement: Placement) -> Result<Testbed, LabError> {
        placement.check()?;
        let (generator, tested) = (Namespace::new()?, Namespace::new()?);
        let (near, far) = device::create_pair(&generator, &tested, GENERATOR, TESTED)?;
        let bed = Testbed {
            generator: Side { namespace: generator, device: near, host: GENERATOR },
            tested: Side { namespace: tested, device: far, host: TESTED },
            placement,
        };
        bed.generator.configure(TESTED)?;
        bed.tested.configure(GENERATOR)?;
        if placement.is_threaded() {
            bed.poll_without_xdp(true)?;
            bed.tested.device.set_threaded(&bed.tested.namespace, true)?;
        }
        Ok(bed)
    }

    /// Whether the tested device is polled (NAPI) also while it has no XDP program. veth polls when
    /// merging of segments is on; otherwise packets go to the backlog of the sender's CPU, and frames
    /// that come from XDP on the other end are not taken at all.
    pub fn poll_without_xdp(&self, on: bool) -> Result<(), LabError> {
        self.tested.namespace.run(|| self.tested.device.set_offload(Offload::Gro, on))?
    }

    /// Puts the thread that receives for the device under test where the placement wants it. Attaching
    /// or detaching XDP makes a new thread, so this comes after every change of that kind; `None`
    /// where packets are received by whoever sends them.
    pub fn pin_receiver(&self) -> Result<Option<ReceiveThread>, LabError> {
        if !self.placement.is_threaded() {
            return Ok(None);
        }
        let thread = ReceiveThread::find(&self.tested.device)?;
        thread.place(self.placement.cpu(Role::Receiver), WORK_PRIORITY)?;
        Ok(Some(thread))
    }
}

impl Side {
    /// What the device has counted.
    pub fn counters(&self) -> Result<Counters, LabError> {
        self.namespace.run(|| self.device.counters())?
    }

    fn configure(&self, peer: Host) -> Result<(), LabError> {
        self.namespace.run(|| {
            quieten(&self.device.name)?;
            device::set_up_loopback()?;
            self.device.add_address(self.host)?;
            self.device.set_up()?;
            self.device.add_neighbour(peer)?;
            Offload::ALL.iter().try_for_each(|o| self.device.set_offload(*o, false))
        })?
    }
}

/// Settings of the namespace that keep unasked-for packets and effects away.
fn quieten(device: &str) -> Result<(), LabError> {
    let settings = [
        ("net/ipv6/conf/all/disable_ipv6".to_string(), "1"),
        ("net/ipv6/conf/default/disable_ipv6".to_string(), "1"),
        (format!("net/ipv4/conf/{device}/rp_filter"), "0"),
        ("net/ipv4/conf/all/rp_filter".to_string(), "0"),
        ("net/ipv4/ip_forward".to_string(), "1"),
        ("net/ipv4/tcp_no_metrics_save".to_string(), "1"),
    ];
    for (name, value) in settings {
        namespace::set(&name, value)?;
    }
    Ok(())
}
