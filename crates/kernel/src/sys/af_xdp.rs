//! AF_XDP sockets, in copy mode: frames that an XDP program redirects go to an application, past the network
//! stack, and back out of the device.

use crate::errno::Errno;
use crate::error::KernelError;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use xdp::Umem;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{PollTimeout, SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::UmemCfgBuilder;
use xdp::{RingConfigBuilder, WakableRings};

/// Frames there is memory for, and entries of each ring.
const FRAMES: u32 = 4096;
const ENTRIES: u32 = 2048;
/// Frames taken at once.
const BATCH: usize = 64;
/// Frames sent at once: the kernel makes no more of them packets in one system call (`TX_BATCH_SIZE`).
pub const MOST_SENT: usize = 32;
/// What is no failure of sending: the kernel has the frames, and goes on when it is asked again.
const BUSY: [io::ErrorKind; 2] = [io::ErrorKind::WouldBlock, io::ErrorKind::ResourceBusy];

/// A socket on one queue of a device. The program that redirects to it finds it in an XSKMAP.
pub struct PacketSocket {
    // Dropped in this order: the kernel uses the memory until the socket is closed.
    socket: XdpSocket,
    rings: WakableRings,
    taken: HeapSlab,
    going: HeapSlab,
    memory: Umem,
}

// SAFETY: its pointers are into mappings that it owns and that move with it; nothing in it belongs to a thread.
unsafe impl Send for PacketSocket {}

impl PacketSocket {
    /// Binds one to a queue of a device of this thread's network namespace.
    pub fn bind(device: u32, queue: u32) -> Result<PacketSocket, KernelError> {
        let configuration = UmemCfgBuilder { frame_count: FRAMES, ..Default::default() }.build();
        let mut memory = Umem::map(configuration.expect("the numbers are powers of two")).map_err(|e| failed(&e))?;
        let rings =
            RingConfigBuilder { rx_count: ENTRIES, tx_count: ENTRIES, fill_count: ENTRIES, completion_count: ENTRIES };
        let rings = rings.build().expect("the numbers are powers of two");
        let mut builder = XdpSocketBuilder::new().map_err(refused)?;
        let (mut rings, mut flags) = builder.build_wakable_rings(&memory, rings).map_err(refused)?;
        flags.force_copy();
        let socket = builder.bind(NicIndex::new(device), queue, flags).map_err(refused)?;
        // SAFETY: the memory lives in the same structure as the socket, and is dropped after it.
        unsafe { rings.fill_ring.enqueue(&mut memory, ENTRIES as usize, true) }.map_err(|e| failed(&e))?;
        let slab = || HeapSlab::with_capacity(BATCH);
        Ok(PacketSocket { socket, rings, taken: slab(), going: slab(), memory })
    }

    /// Waits for frames, so long at most, and lets `turn` work on each; those for which it says so are sent.
    /// Returns how many came.
    pub fn serve(&mut self, patience: Duration, turn: &mut dyn FnMut(&mut [u8]) -> bool) -> io::Result<usize> {
        if !self.socket.poll_read(PollTimeout::new(Some(patience)))? {
            return Ok(0);
        }
        let Some(receive) = &mut self.rings.rx_ring else { return Ok(0) };
        // SAFETY: no packet leaves this structure, which holds their memory.
        let count = unsafe { receive.recv(&self.memory, &mut self.taken) };
        while let Some(mut packet) = self.taken.pop_back() {
            match turn(&mut packet) {
                true => drop(self.going.push_front(packet)),
                false => self.memory.free_packet(packet),
            }
        }
        self.send()?;
        self.rings.completion_ring.dequeue(&mut self.memory, BATCH);
        // SAFETY: as in `bind`.
        unsafe { self.rings.fill_ring.enqueue(&mut self.memory, count, true) }?;
        Ok(count)
    }

    /// Sends as many frames of so many bytes as there is room for, `most` and [`MOST_SENT`] at most; `write` is
    /// given each with whatever was in it before. Returns how many.
    pub fn send_new(&mut self, most: usize, bytes: usize, write: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        self.rings.completion_ring.dequeue(&mut self.memory, BATCH);
        for _ in 0..most.min(MOST_SENT) {
            // SAFETY: no packet leaves this structure, which holds their memory.
            let Some(mut packet) = (unsafe { self.memory.alloc() }) else { break };
            packet.adjust_tail(bytes as i32).map_err(io::Error::other)?;
            write(&mut packet);
            self.going.push_front(packet);
        }
        self.send()
    }

    /// Returns how many were taken. What the ring has no room for is dropped, as a device would.
    fn send(&mut self) -> io::Result<usize> {
        let all = self.going.len();
        let asked = match self.rings.tx_ring.as_mut().filter(|_| all > 0) {
            // SAFETY: as in `bind`.
            Some(ring) => unsafe { ring.send(&mut self.going, true) }.map(drop),
            None => Ok(()),
        };
        let taken = all - self.going.len();
        while let Some(packet) = self.going.pop_back() {
            self.memory.free_packet(packet);
        }
        match asked {
            Err(e) if !BUSY.contains(&e.kind()) => Err(e),
            _ => Ok(taken),
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the socket's, which is borrowed as long.
        unsafe { BorrowedFd::borrow_raw(self.socket.raw_fd()) }
    }
}

fn refused(error: SocketError) -> KernelError {
    use SocketError::{Bind, GetSockOpt, RingMap, SetSockOpt, SocketCreation};
    match error {
        SocketCreation(inner) | Bind(inner) => failed(&inner),
        SetSockOpt { inner, .. } | GetSockOpt { inner, .. } | RingMap { inner, .. } => failed(&inner),
    }
}

fn failed(error: &io::Error) -> KernelError {
    KernelError::new("open an AF_XDP socket".to_string(), Errno(error.raw_os_error().unwrap_or(0)))
}
