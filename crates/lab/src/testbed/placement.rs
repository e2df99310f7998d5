//! Which CPU does what, and how urgently. Results are only comparable within one placement.

use crate::error::LabError;
use karakoram_kernel::sys::thread::{ThreadId, affinity, set_affinity, set_fifo};
use serde::Deserialize;
use std::sync::OnceLock;

/// Priority of what sends and receives.
pub const WORK_PRIORITY: i32 = 10;
/// Priority of what starts and stops that; it sleeps while there is something to measure.
pub const CONTROL_PRIORITY: i32 = 20;

/// Who does the receiving.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Whoever sends: all of the network stack up to the socket runs on the generator's CPU, the
    /// server on another.
    Inline,
    /// A thread of the kernel, on the server's CPU where there are only two, on one of its own where
    /// there are more. The generator has its CPU to itself.
    Threaded,
}

/// Something that needs a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Makes packets.
    Generator,
    /// The kernel's receiving thread.
    Receiver,
    /// The application.
    Server,
}

impl Placement {
    /// Whether a thread of the kernel receives.
    pub fn is_threaded(self) -> bool {
        self == Placement::Threaded
    }

    /// The CPU of a role, among those this process may use.
    pub fn cpu(self, role: Role) -> usize {
        let cpus = usable();
        match (role, cpus.len()) {
            (Role::Generator, _) => cpus[0],
            (Role::Receiver, _) => cpus[1],
            (Role::Server, 2) => cpus[1],
            (Role::Server, _) => cpus[2],
        }
    }

    pub(super) fn check(self) -> Result<(), LabError> {
        match usable().len() {
            0 | 1 => Err(LabError::Machine(
                "a testbed needs two CPUs, and this process may use one".into(),
                "give the machine another CPU, or lift the process's affinity".into(),
            )),
            _ => Ok(()),
        }
    }

    /// In words, for reports.
    pub fn describe(self) -> String {
        let cpu = |role| self.cpu(role);
        match self {
            Placement::Inline => {
                format!("generator and receiving on CPU {}, server on CPU {}", cpu(Role::Generator), cpu(Role::Server))
            }
            Placement::Threaded => format!(
                "generator on CPU {}, receiving on CPU {}, server on CPU {}",
                cpu(Role::Generator),
                cpu(Role::Receiver),
                cpu(Role::Server)
            ),
        }
    }
}

/// What this process could use when it first asked, in order; at least one. Threads that are put on one
/// CPU later do not change it.
fn usable() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let process = ThreadId(std::process::id() as i32);
        affinity(process).ok().filter(|c| !c.is_empty()).unwrap_or_else(|| vec![0])
    })
}

/// This thread on one CPU with a priority, until dropped.
pub struct Placed {
    before: Vec<usize>,
    not_send: std::marker::PhantomData<*const ()>,
}

impl Placed {
    /// Puts this thread there; priority 0 is an ordinary thread.
    pub fn on(cpu: usize, priority: i32) -> Result<Placed, LabError> {
        let me = ThreadId::current();
        let failed = |e| {
            let what = format!("could not run on CPU {cpu} with priority {priority}: {e}");
            LabError::Machine(what, "run as root (CAP_SYS_NICE)".into())
        };
        let before = affinity(me).map_err(failed)?;
        let placed = Placed { before, not_send: std::marker::PhantomData };
        set_affinity(me, &[cpu]).map_err(failed)?;
        set_fifo(me, priority).map_err(failed)?;
        Ok(placed)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let me = ThreadId::current();
        let _ = set_fifo(me, 0);
        let _ = set_affinity(me, &self.before);
    }
}
