//! Whether a testbed of network namespaces can be built, tried out inside a new one.

use super::{Check, Status};
use crate::errno::Errno;
use crate::sys::os;

const TESTBED: &str = "the testbed: throughput and latency between network namespaces (`kara lab`)";

/// Tries in a thread of its own, whose namespace ends with it.
pub(super) fn checks() -> Vec<Check> {
    let tried = std::thread::spawn(|| {
        let namespace = os::enter_new_network_namespace();
        let veth = namespace.map(|()| os::netlink_request(&create_veth()));
        (namespace, veth)
    });
    let (namespace, veth) = tried.join().unwrap_or((Err(Errno::EAGAIN), Err(Errno::EAGAIN)));
    let detail = |e: Option<Errno>| e.map_or(String::new(), |e| e.to_string());
    let mut out =
        vec![Check::new("network namespaces", Status::of_result(namespace), detail(namespace.err()), TESTBED)];
    out.push(match veth {
        Ok(made) => Check::new("veth pairs", Status::of_result(made), detail(made.err()), TESTBED),
        Err(_) => Check::new("veth pairs", Status::Unknown, "needs a network namespace", TESTBED),
    });
    out
}

/// `RTM_NEWLINK` of kind veth, both ends in this namespace (`include/uapi/linux/rtnetlink.h`,
/// `if_link.h`).
fn create_veth() -> Vec<u8> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_ACK_CREATE_EXCL: u16 = 0x1 | 0x4 | 0x400 | 0x200;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    let mut body = vec![0; 16]; // struct ifinfomsg
    body.extend(attribute(IFLA_IFNAME, b"kara0\0"));
    body.extend(attribute(IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, b"veth")));
    let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_ACK_CREATE_EXCL.to_ne_bytes());
    message.extend([0; 8]); // sequence number and port
    message.extend(body);
    message
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut out = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}
