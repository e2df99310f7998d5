//! The host functions: what the extension crate imports from module `kara`.

use crate::module::{Signature, Ty};
use crate::runtime::Operation;

/// A host function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// `panic(file, length, line) -> !`
    Panic,
    /// `now() -> i64`: nanoseconds since boot.
    Now,
    /// `random() -> i32`
    Random,
    /// `cpu() -> i32`
    Cpu,
    /// `control() -> i32`: address of the control page.
    Control,
    /// `heap() -> i32`: the same address, for whoever takes memory from the run's heap.
    Heap,
    /// `packet_length() -> i32`
    PacketLength,
    /// `packet_load(offset) -> i64`: bytes as a little-endian number, 0 when they are not all there.
    PacketLoad(u32),
    /// `packet_store(offset, value) -> i32`: 0 when they are not all there.
    PacketStore(u32),
    /// `packet_read(offset, to, length) -> i32`: copies out; 0 when they are not all there.
    PacketRead,
    /// `packet_write(offset, from, length) -> i32`: copies in; 0 when they are not all there.
    PacketWrite,
    /// `adjust_head(delta) -> i32`: 0 done, XDP only.
    AdjustHead,
    /// `adjust_tail(delta) -> i32`: 0 done.
    AdjustTail,
    /// `interface() -> i32`: number of the interface the packet came in on.
    Interface,
    /// `redirect(interface, flags) -> i32`: the verdict.
    Redirect,
    /// `process() -> i64`: number of the process, and below it of the thread.
    Process,
    /// `kernel_read(from, to, length) -> i32`: copies the kernel's memory; 0 when that is not there.
    KernelRead,
    /// `map_get(map, key, to) -> i32`, `map_set(map, key, value) -> i32`, `map_remove(map, key) -> i32`.
    Map(Operation),
}

const ALL: &[(&str, Host, &[Ty], Option<Ty>)] = &[
    ("panic", Host::Panic, &[Ty::I32, Ty::I32, Ty::I32], None),
    ("now", Host::Now, &[], Some(Ty::I64)),
    ("random", Host::Random, &[], Some(Ty::I32)),
    ("cpu", Host::Cpu, &[], Some(Ty::I32)),
    ("control", Host::Control, &[], Some(Ty::I32)),
    ("heap", Host::Heap, &[], Some(Ty::I32)),
    ("packet_length", Host::PacketLength, &[], Some(Ty::I32)),
    ("packet_load8", Host::PacketLoad(1), &[Ty::I32], Some(Ty::I64)),
    ("packet_load16", Host::PacketLoad(2), &[Ty::I32], Some(Ty::I64)),
    ("packet_load32", Host::PacketLoad(4), &[Ty::I32], Some(Ty::I64)),
    ("packet_load64", Host::PacketLoad(8), &[Ty::I32], Some(Ty::I64)),
    ("packet_store8", Host::PacketStore(1), &[Ty::I32, Ty::I64], Some(Ty::I32)),
    ("packet_store16", Host::PacketStore(2), &[Ty::I32, Ty::I64], Some(Ty::I32)),
    ("packet_store32", Host::PacketStore(4), &[Ty::I32, Ty::I64], Some(Ty::I32)),
    ("packet_store64", Host::PacketStore(8), &[Ty::I32, Ty::I64], Some(Ty::I32)),
    ("packet_read", Host::PacketRead, &[Ty::I32, Ty::I32, Ty::I32], Some(Ty::I32)),
    ("packet_write", Host::PacketWrite, &[Ty::I32, Ty::I32, Ty::I32], Some(Ty::I32)),
    ("adjust_head", Host::AdjustHead, &[Ty::I32], Some(Ty::I32)),
    ("adjust_tail", Host::AdjustTail, &[Ty::I32], Some(Ty::I32)),
    ("interface", Host::Interface, &[], Some(Ty::I32)),
    ("redirect", Host::Redirect, &[Ty::I32, Ty::I32], Some(Ty::I32)),
    ("process", Host::Process, &[], Some(Ty::I64)),
    ("kernel_read", Host::KernelRead, &[Ty::I64, Ty::I32, Ty::I32], Some(Ty::I32)),
    ("map_get", Host::Map(Operation::Get), &[Ty::I32, Ty::I32, Ty::I32], Some(Ty::I32)),
    ("map_set", Host::Map(Operation::Set), &[Ty::I32, Ty::I32, Ty::I32], Some(Ty::I32)),
    ("map_remove", Host::Map(Operation::Remove), &[Ty::I32, Ty::I32], Some(Ty::I32)),
];

impl Host {
    /// The host function of that name.
    pub fn from_name(name: &str) -> Option<Host> {
        ALL.iter().find(|(n, ..)| *n == name).map(|(_, host, ..)| *host)
    }

    /// Its parameters and result.
    pub fn signature(self) -> Signature {
        let (.., params, result) = ALL.iter().find(|(_, h, ..)| *h == self).expect("it is in the table");
        Signature { params: params.to_vec(), result: *result }
    }

    /// Whether what it gets addresses of is only accessed while it runs, and its translation can do so where the
    /// function keeps its part of the stack as values.
    pub fn takes_places(self) -> bool {
        matches!(self, Host::PacketRead | Host::PacketWrite | Host::Map(_))
    }

    /// Whether it works on the packet.
    pub fn needs_context(self) -> bool {
        use Host::{Control, Cpu, Heap, KernelRead, Map, Now, Panic, Process, Random, Redirect};
        !matches!(self, Panic | Now | Random | Cpu | Control | Heap | Redirect | Map(_) | Process | KernelRead)
    }
}
