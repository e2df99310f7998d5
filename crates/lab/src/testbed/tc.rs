//! tc programs by a clsact queueing discipline and a BPF filter, as `tc filter add ... bpf da` does it.

use super::device::Device;
use super::namespace::Namespace;
use super::netlink::{self, CREATE};
use crate::error::LabError;
use karakoram_kernel::attach::Direction;
use karakoram_kernel::load::LoadedProgram;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcBpfFlags, TcFilterBpfOption, TcHandle, TcMessage, TcOption};
use std::os::fd::{AsFd, AsRawFd};

/// First in the order of filters.
const PRIORITY: u32 = 1 << 16;
/// All protocols (`ETH_P_ALL`), in network order.
const PROTOCOL_ALL: u32 = 0x0003u16.to_be() as u32;

/// A filter in place; dropping it removes the queueing discipline with all filters on it.
pub struct Filter {
    namespace: Namespace,
    device: Device,
}

/// Attaches a tc program to a device that has no clsact discipline yet.
pub fn attach_clsact(
    program: &LoadedProgram,
    namespace: &Namespace,
    device: &Device,
    direction: Direction,
) -> Result<Filter, LabError> {
    let doing = format!("put a clsact discipline on {}", device.name);
    namespace
        .run(|| netlink::request(RouteNetlinkMessage::NewQueueDiscipline(discipline(device)), CREATE, &doing))??;
    let filter = Filter { namespace: namespace.clone(), device: device.clone() };
    let message = filter_message(program, device, direction);
    let doing = format!("attach program {} to {} by clsact", program.name, device.name);
    namespace.run(|| netlink::request(RouteNetlinkMessage::NewTrafficFilter(message), CREATE, &doing))??;
    Ok(filter)
}

fn discipline(device: &Device) -> TcMessage {
    let mut message = TcMessage::with_index(device.index as i32);
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle { major: TcHandle::CLSACT.major, minor: 0 };
    message.attributes = vec![TcAttribute::Kind("clsact".into())];
    message
}

fn filter_message(program: &LoadedProgram, device: &Device, direction: Direction) -> TcMessage {
    let minor = match direction {
        Direction::Ingress => TcHandle::MIN_INGRESS,
        Direction::Egress => TcHandle::MIN_EGRESS,
    };
    let mut message = TcMessage::with_index(device.index as i32);
    message.header.parent = TcHandle { major: TcHandle::CLSACT.major, minor };
    message.header.info = PRIORITY | PROTOCOL_ALL;
    message.attributes = vec![
        TcAttribute::Kind("bpf".into()),
        TcAttribute::Options(vec![
            TcOption::Bpf(TcFilterBpfOption::ProgFd(program.as_fd().as_raw_fd() as u32)),
            TcOption::Bpf(TcFilterBpfOption::ProgName(program.name.clone())),
            TcOption::Bpf(TcFilterBpfOption::Flags(TcBpfFlags::DirectAction)),
        ]),
    ];
    message
}

impl Drop for Filter {
    fn drop(&mut self) {
        let message = RouteNetlinkMessage::DelQueueDiscipline(discipline(&self.device));
        let doing = format!("remove the clsact discipline of {}", self.device.name);
        let _ = self.namespace.run(|| netlink::request(message, 0, &doing));
    }
}
