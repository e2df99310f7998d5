//! A transfer over kernel TCP, every byte of which is looked at.

use super::rig::{FAR, Rig};
use karakoram_lab::error::LabError;
use karakoram_lab::random::Random;
use karakoram_lab::testbed::tcp_listener;
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

const PORT: u16 = 7777;
const BLOCK: usize = 1 << 18;

/// What arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) bytes: u64,
    /// Whether these were the bytes that were sent, all of them and no more.
    pub(super) is_identical: bool,
    /// From the first byte that arrived to the last.
    pub(super) seconds: f64,
}

impl Transfer {
    pub(super) fn goodput_mbps(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds / 1e6
    }
}

/// What is sent: no two blocks are alike, so that one in the wrong place shows.
struct Content {
    block: Vec<u8>,
    number: u64,
}

impl Content {
    fn new() -> Content {
        Content { block: Random::new(1).bytes(BLOCK), number: 0 }
    }

    fn next(&mut self) -> &[u8] {
        self.block[..8].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        &self.block
    }
}

/// So many bytes from near to far.
pub(super) fn transfer(rig: &Rig, bytes: u64, congestion: &str) -> Result<Transfer, LabError> {
    let address = SocketAddrV4::new(FAR, PORT);
    let listener = tcp_listener(rig.far(), address)?;
    let failed = |e: io::Error| LabError::Machine(format!("the transfer failed: {e}"), String::new());
    choose(&listener, congestion).map_err(failed)?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(&listener, bytes));
        rig.near().run(|| send(address, bytes, congestion))?.map_err(failed)?;
        receiver.join().map_err(|panic| std::panic::resume_unwind(panic)).and_then(|done| done.map_err(failed))
    })
}

/// Both ends, because the receiver of some controls acknowledges in its own way.
fn choose(socket: &impl AsFd, congestion: &str) -> io::Result<()> {
    setsockopt(socket, TcpCongestion, &OsString::from(congestion)).map_err(io::Error::from)
}

fn send(address: SocketAddrV4, bytes: u64, congestion: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    choose(&stream, congestion)?;
    let (mut content, mut left) = (Content::new(), bytes);
    while left > 0 {
        let block = content.next();
        let length = left.min(block.len() as u64) as usize;
        stream.write_all(&block[..length])?;
        left -= length as u64;
    }
    Ok(())
}

fn receive(listener: &TcpListener, expected: u64) -> io::Result<Transfer> {
    let (mut stream, _) = listener.accept()?;
    let (mut content, mut block) = (Content::new(), vec![0; BLOCK]);
    let (mut bytes, mut is_identical, mut start) = (0, true, None);
    loop {
        let filled = fill(&mut stream, &mut block, &mut start)?;
        is_identical &= block[..filled] == content.next()[..filled];
        bytes += filled as u64;
        if filled < BLOCK {
            let seconds = start.map_or(0.0, |s: Instant| s.elapsed().as_secs_f64());
            return Ok(Transfer { bytes, is_identical: is_identical && bytes == expected, seconds });
        }
    }
}

/// Reads a whole block, or what there is before the end.
fn fill(stream: &mut TcpStream, block: &mut [u8], start: &mut Option<Instant>) -> io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        let count = stream.read(&mut block[filled..])?;
        if count == 0 {
            break;
        }
        start.get_or_insert_with(Instant::now);
        filled += count;
    }
    Ok(filled)
}
