//! Samples: a program that runs so and so often on each processor, and sees where that was.

use crate::host;
use crate::plain::Plain;
use crate::running;
use crate::tracepoint::Address;
use core::marker::PhantomData;

/// A sample of what the processor does.
pub struct Sample {
    not_send: PhantomData<*mut ()>,
}

impl Sample {
    /// Where the processor was, in the kernel or in a process. On x86-64; elsewhere it is another register.
    pub fn instruction(&self) -> Address {
        Address(host::argument(0))
    }

    /// How far samples lie apart, in what is counted: nanoseconds with `kara ext load`.
    pub fn period(&self) -> u64 {
        host::argument(1)
    }

    /// The address that the event is about, if it is about one.
    pub fn address(&self) -> Address {
        Address(host::argument(2))
    }

    /// Number of the process that is running.
    pub fn process(&self) -> u32 {
        running::process()
    }

    /// Number of the thread that is running.
    pub fn thread(&self) -> u32 {
        running::thread()
    }

    /// A copy of what is at an address of the kernel; `None` when nothing is.
    #[inline(always)]
    pub fn read<T: Plain>(&self, from: Address) -> Option<T> {
        from.read()
    }
}

/// Runs a program on a sample. What `#[perf_event]` makes calls it.
#[doc(hidden)]
#[inline(always)]
pub fn run_perf_event(program: fn(&mut Sample)) -> i32 {
    program(&mut Sample { not_send: PhantomData });
    0
}
