//! Packets made in user space and sent by an AF_XDP socket, in copy mode: the kernel makes an `sk_buff` of each, as
//! of what applications send, without a way through its network stack.

use super::clock::now_ns;
use super::load::{Load, Sent};
use super::schedule::Schedule;
use crate::error::LabError;
use crate::packet;
use crate::testbed::{Placed, Role, Testbed, WORK_PRIORITY};
use karakoram_kernel::sys::af_xdp::{MOST_SENT, PacketSocket};

/// Sends the load from the testbed's generator side, and returns when all is sent.
pub(super) fn send(bed: &Testbed, load: &Load) -> Result<Sent, LabError> {
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            bed.generator.namespace.enter()?;
            let _placed = Placed::on(bed.placement.cpu(Role::Generator), WORK_PRIORITY)?;
            let socket = PacketSocket::bind(bed.generator.device.index, 0);
            let mut socket =
                socket.map_err(|e| LabError::Machine(e.to_string(), "AF_XDP needs CONFIG_XDP_SOCKETS".into()))?;
            run(&mut socket, load, packet::frame(bed.generator.host, bed.tested.host, load.frame_bytes))
        });
        sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run(socket: &mut PacketSocket, load: &Load, frame: Vec<u8>) -> Result<Sent, LabError> {
    let mut schedule = Schedule::begin(load, now_ns());
    let mut due = Vec::with_capacity(MOST_SENT);
    loop {
        let now = now_ns();
        if schedule.is_over(now) {
            return Ok(schedule.finish());
        }
        let first = schedule.sent();
        due.clear();
        while due.len() < MOST_SENT {
            let Some(intended_ns) = schedule.next_due(now) else { break };
            due.push(intended_ns);
        }
        let write = |place: usize, bytes: &mut [u8]| {
            let number = first + place as u64;
            bytes.copy_from_slice(&frame);
            packet::set_flow(bytes, load.flows[number as usize % load.flows.len()]);
            packet::set_stamp(bytes, due[place], number as u32, load.work);
        };
        let mut done = 0;
        // What the kernel does not take at once is offered again: that makes later frames late, which is seen.
        while done < due.len() && !schedule.is_over(now_ns()) {
            let mut place = done..due.len();
            let mut next = |bytes: &mut [u8]| write(place.next().expect("no more than asked for"), bytes);
            done += socket.send_new(due.len() - done, frame.len(), &mut next).map_err(failed)?;
        }
        schedule.give_back((due.len() - done) as u64);
    }
}

fn failed(error: std::io::Error) -> LabError {
    LabError::Machine(format!("the AF_XDP generator failed: {error}"), String::new())
}
