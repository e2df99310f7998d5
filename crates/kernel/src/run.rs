//! Running a loaded program on an input of our own (`BPF_PROG_TEST_RUN`, kernel `net/bpf/test_run.c`).

mod shape;

pub use crate::sys::os::{Pinned, pin_to_current_cpu};
pub use shape::{Shape, default_context, shape};

use crate::errno::Errno;
use crate::error::KernelError;
use crate::load::LoadedProgram;
use crate::sys::{self, os};
use std::os::fd::AsFd;

/// Room for what a program may add to a packet, in bytes.
const DATA_ROOM: usize = 64 << 10;
/// Room for the context afterwards; the largest is `struct __sk_buff`, 192 bytes in 6.18.
const CONTEXT_ROOM: usize = 1024;

/// What a program is run on. Parts that its type does not take must be empty (see [`Shape`]). XDP
/// programs with the attach type of a devmap or cpumap are never run; load them with 0 for that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunInput {
    /// Packet. XDP and skb programs want at least 14 bytes.
    pub data: Vec<u8>,
    /// Context as user space sees it (`struct xdp_md`, `struct __sk_buff`, ...; [`default_context`]
    /// gives one), raw tracepoint arguments, or the memory of a syscall program. May be empty for
    /// packets; then none comes back either.
    pub ctx: Vec<u8>,
    /// Times to run; 0 is once. Packets that the program changes stay changed for the next time.
    pub repeat: u32,
    /// `BPF_F_TEST_*`.
    pub flags: u32,
}

impl RunInput {
    /// A packet, with the plainest context of that program type.
    pub fn packet(program: &LoadedProgram, data: Vec<u8>) -> RunInput {
        let ctx = default_context(program.prog_type, data.len());
        RunInput { data, ctx, ..Default::default() }
    }
}

/// What a run gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunOutput {
    /// Value returned; 0 for programs that return nothing.
    pub retval: u32,
    /// Packet afterwards (of XDP with the metadata before it; of flow dissectors the flow keys).
    pub data: Vec<u8>,
    /// Context afterwards, when one was given and the kernel hands it back.
    pub ctx: Vec<u8>,
    /// Mean time of one run in nanoseconds, by the kernel's clock.
    pub duration_ns: u32,
    /// The packet had more bytes than there was room for.
    pub truncated: bool,
}

/// Runs programs with buffers that are used again.
#[derive(Default)]
pub struct Runner {
    data: Vec<u8>,
    ctx_in: Vec<u8>,
    ctx_out: Vec<u8>,
}

impl Runner {
    /// Runs a program; the output replaces what is in `output`.
    pub fn run(
        &mut self,
        program: &LoadedProgram,
        input: &RunInput,
        output: &mut RunOutput,
    ) -> Result<(), KernelError> {
        let shape = shape(program.prog_type).ok_or_else(|| not_runnable(program))?;
        self.check(program, input, shape)?;
        self.data.resize(if shape.data { input.data.len() + DATA_ROOM } else { 0 }, 0);
        self.ctx_in.clear();
        self.ctx_in.extend(&input.ctx);
        self.ctx_out.resize(if shape.ctx_out && !input.ctx.is_empty() { CONTEXT_ROOM } else { 0 }, 0);
        let mut run = sys::TestRun {
            data_in: &input.data,
            data_out: &mut self.data,
            ctx_in: &mut self.ctx_in,
            ctx_out: &mut self.ctx_out,
            repeat: input.repeat,
            flags: input.flags,
            ..Default::default()
        };
        let result = sys::test_run(program.as_fd(), &mut run).map_err(|e| explain(program, input, shape, e))?;
        output.retval = result.retval;
        output.duration_ns = result.duration_ns;
        output.truncated = result.truncated;
        replace(&mut output.data, &self.data, result.data_size_out);
        // A syscall program's memory comes back in place.
        let (ctx, length) =
            if shape.ctx_in_place { (&self.ctx_in, input.ctx.len()) } else { (&self.ctx_out, result.ctx_size_out) };
        replace(&mut output.ctx, ctx, length);
        Ok(())
    }

    /// As [`Runner::run`]; returns the processor time that this thread spent in it, in nanoseconds: all
    /// `repeat` runs, and entering and leaving the system call once.
    pub fn run_timed(
        &mut self,
        program: &LoadedProgram,
        input: &RunInput,
        output: &mut RunOutput,
    ) -> Result<u64, KernelError> {
        let start = os::thread_cpu_ns();
        self.run(program, input, output)?;
        Ok(os::thread_cpu_ns() - start)
    }

    fn check(&self, program: &LoadedProgram, input: &RunInput, shape: Shape) -> Result<(), KernelError> {
        let wrong = |why: &str| Err(KernelError::invalid(doing(program), why));
        if !shape.data && !input.data.is_empty() {
            return wrong("this type of program takes no packet");
        }
        if !shape.repeat && input.repeat > 1 {
            return wrong("this type of program can only be run once");
        }
        Ok(())
    }
}

fn replace(to: &mut Vec<u8>, from: &[u8], length: usize) {
    to.clear();
    to.extend(&from[..length.min(from.len())]);
}

fn doing(program: &LoadedProgram) -> String {
    format!("run program {} ({})", program.name, program.prog_type.name())
}

fn not_runnable(program: &LoadedProgram) -> KernelError {
    let what = format!("{}: there is no test run for this type of program", doing(program));
    KernelError::NoKernelSupport { doing: what, errno: Errno::ENOTSUPP }
}

fn explain(program: &LoadedProgram, input: &RunInput, shape: Shape, errno: Errno) -> KernelError {
    if errno != Errno::EINVAL {
        return KernelError::new(doing(program), errno);
    }
    let why = if shape.data && input.data.len() < 14 {
        format!("a packet of {} bytes is shorter than an Ethernet header", input.data.len())
    } else {
        format!(
            "the kernel refuses this input ({} bytes of packet, {} of context, flags {:#x})",
            input.data.len(),
            input.ctx.len(),
            input.flags
        )
    };
    KernelError::invalid(doing(program), why)
}

/// Runs a program once with fresh buffers. For many runs use a [`Runner`].
pub fn test_run(program: &LoadedProgram, input: &RunInput) -> Result<RunOutput, KernelError> {
    let mut output = RunOutput::default();
    Runner::default().run(program, input, &mut output)?;
    Ok(output)
}
