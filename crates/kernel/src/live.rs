//! Packets from the kernel itself: an XDP program is run on frames that then really go where it sends
//! them (`BPF_F_TEST_XDP_LIVE_FRAMES`, since Linux 5.18; kernel `net/bpf/test_run.c`). No socket and no
//! `sk_buff` is involved, so this is the fastest generator there is without a network card.

use crate::errno::Errno;
use crate::error::KernelError;
use crate::load::LoadedProgram;
use crate::sys::{self, TestRun};
use std::os::fd::AsFd;

const LIVE_FRAMES: u32 = 1 << 1;
/// Room before the frame that the kernel keeps for itself, and so the most a frame may have is a page
/// without it.
const CONTEXT_BYTES: usize = 24;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// The frame that every run starts from. A page is used again after its frame has been sent or
    /// dropped, with whatever was written to it in between.
    pub frame: &'a [u8],
    /// The device, of this thread's namespace, that frames seem to have come in by, and that `XDP_TX`
    /// sends them out of.
    pub device: u32,
    /// Runs.
    pub repeat: u32,
    /// Runs at a time, after which what they sent goes out; at most 256.
    pub batch: u32,
}

/// Runs the program on frames. True when all runs were done, false when [`sys::thread::interrupt`]
/// ended them early.
pub fn run(program: &LoadedProgram, frames: Frames) -> Result<bool, KernelError> {
    // `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
    let mut context = [0u8; CONTEXT_BYTES];
    context[4..8].copy_from_slice(&(frames.frame.len() as u32).to_ne_bytes());
    context[12..16].copy_from_slice(&frames.device.to_ne_bytes());
    let mut run = TestRun {
        data_in: frames.frame,
        ctx_in: &mut context,
        repeat: frames.repeat,
        flags: LIVE_FRAMES,
        batch_size: frames.batch,
        ..Default::default()
    };
    match sys::test_run(program.as_fd(), &mut run) {
        Ok(_) => Ok(true),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(KernelError::new(format!("send frames with program {}", program.name), e)),
    }
}
