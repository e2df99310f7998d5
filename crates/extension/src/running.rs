//! What was running when a program was reached.

use crate::host;

/// Number of the process.
#[inline(always)]
pub(crate) fn process() -> u32 {
    (host::process() >> 32) as u32
}

/// Number of the thread.
#[inline(always)]
pub(crate) fn thread() -> u32 {
    host::process() as u32
}
