//! The places where a packet program can be, and putting one there.

use crate::error::LabError;
use crate::object::{self, Loaded};
use crate::testbed::{Filter, Testbed, attach_clsact};
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_kernel::attach::{self, Attachment, Direction, XdpMode};
use karakoram_kernel::error::KernelError;
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::map::{Map, MapOptions};
use serde::Deserialize;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// A place on the way of a packet, in the order in which it gets there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// The driver, before there is an `sk_buff`.
    Xdp,
    /// An application that the driver hands frames to, past the network stack (AF_XDP, in copy mode).
    AfXdp,
    /// XDP on an `sk_buff`.
    XdpGeneric,
    /// A filter on a clsact queueing discipline.
    Tc,
    /// The same place since Linux 6.6, without one.
    Tcx,
    /// A filter on a socket.
    SocketFilter,
    /// The verdict on what a socket receives.
    SkSkb,
    /// No program: the application.
    Socket,
}

impl Hook {
    /// The ending that programs for it have in our sources.
    pub fn ending(self) -> Option<&'static str> {
        match self {
            Hook::Xdp | Hook::XdpGeneric => Some("xdp"),
            Hook::AfXdp => Some("af_xdp"),
            Hook::Tc | Hook::Tcx => Some("tc"),
            Hook::SocketFilter => Some("filter"),
            Hook::SkSkb => Some("sk_skb"),
            Hook::Socket => None,
        }
    }
}

/// The program of an object for one hook, in the kernel.
pub struct AtHook {
    /// The object's maps and programs.
    pub loaded: Loaded,
    name: String,
}

impl AtHook {
    /// Loads the program that is named so, with the hook's ending; none for the socket, which has none.
    pub fn load(object: &Path, name: &str, hook: Hook) -> Result<Option<AtHook>, LabError> {
        let Some(ending) = hook.ending() else { return Ok(None) };
        let name = format!("{name}_{ending}");
        Ok(Some(AtHook { loaded: object::load(object, &[&name])?, name }))
    }

    /// The program.
    pub fn program(&self) -> &LoadedProgram {
        self.loaded.program(&self.name)
    }
}

/// What a program needs besides itself to be attached.
#[derive(Clone, Copy, Default)]
pub struct Place<'a> {
    /// The socket, for a socket filter and the verdict.
    pub socket: Option<BorrowedFd<'a>>,
    /// The map of sockets that the verdict is about, if the program uses it; otherwise one is made.
    pub sockets: Option<&'a Map>,
}

/// A program in place, until dropped.
#[must_use = "it is taken away when this is dropped"]
pub enum Attached {
    /// On a device.
    Device(Attachment),
    /// On a queueing discipline.
    Discipline(Filter),
    /// On a socket, for as long as that lives.
    Socket,
    /// On the socket in this map.
    Sockets(Map),
    /// No program.
    Nothing,
}

/// Puts a program at a hook of the testbed's tested side; of the socket nothing is needed. Afterwards the
/// receiving thread is where it belongs.
pub fn attach(bed: &Testbed, hook: Hook, program: Option<&LoadedProgram>, place: Place) -> Result<Attached, LabError> {
    let Some(program) = program else { return Ok(Attached::Nothing) };
    let device = bed.tested.device.index;
    let on_device = |attach: &(dyn Fn() -> Result<Attachment, KernelError> + Sync)| {
        bed.tested.namespace.run(attach)?.map(Attached::Device).map_err(failed)
    };
    let attached = match hook {
        Hook::Xdp | Hook::AfXdp => on_device(&|| attach::xdp(program, device, XdpMode::Native))?,
        Hook::XdpGeneric => on_device(&|| attach::xdp(program, device, XdpMode::Generic))?,
        Hook::Tcx => on_device(&|| attach::tcx(program, device, Direction::Ingress))?,
        Hook::Tc => {
            let (namespace, device) = (&bed.tested.namespace, &bed.tested.device);
            Attached::Discipline(attach_clsact(program, namespace, device, Direction::Ingress)?)
        }
        Hook::SocketFilter => {
            attach::socket_filter(program, place.socket.ok_or_else(no_socket)?).map_err(failed)?;
            Attached::Socket
        }
        Hook::SkSkb => {
            let made = place.sockets.is_none().then(|| sockets(1)).transpose()?;
            let sockets = place.sockets.or(made.as_ref()).ok_or_else(no_socket)?;
            attach::verdict(program, sockets).map_err(failed)?;
            attach::insert_socket(sockets, 0, place.socket.ok_or_else(no_socket)?).map_err(failed)?;
            made.map_or(Attached::Socket, Attached::Sockets)
        }
        Hook::Socket => Attached::Nothing,
    };
    bed.pin_receiver()?;
    Ok(attached)
}

/// A map of so many sockets.
pub fn sockets(most: u32) -> Result<Map, LabError> {
    let def = MapDef {
        name: "sockets".into(),
        kind: MapType::SOCKMAP,
        key_size: 4,
        value_size: 8,
        max_entries: most,
        flags: 0,
        fd: None,
        initial: None,
        frozen: false,
        inner: None,
    };
    Map::create(&def, MapOptions::default()).map_err(failed)
}

/// Puts a native XDP program on the generator's side.
pub fn attach_near(bed: &Testbed, program: &LoadedProgram) -> Result<Attachment, LabError> {
    let device = bed.generator.device.index;
    bed.generator.namespace.run(|| attach::xdp(program, device, XdpMode::Native))?.map_err(failed)
}

fn no_socket() -> LabError {
    LabError::Request("this hook is on a socket, and there is none".into())
}

fn failed(error: KernelError) -> LabError {
    LabError::Machine(error.to_string(), "`kara doctor` says what this machine permits".into())
}
