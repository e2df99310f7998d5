//! Hooks of control groups that are about sockets and not about single packets: who is connected to, what options
//! are asked for, what becomes of connections.

use crate::hook::CgroupVerdict;
use crate::host;
use crate::running;
use core::marker::PhantomData;

/// A process of the control group connects an IPv4 socket, or names the receiver of an IPv4 datagram by it. `Drop`
/// refuses: the process gets an error.
pub struct Connect4 {
    not_send: PhantomData<*mut ()>,
}

/// The same with an IPv6 socket.
pub struct Connect6 {
    not_send: PhantomData<*mut ()>,
}

/// Words of an IPv6 address. Addresses come first, then the port and the protocol.
const WORDS: usize = 4;

/// A port in the order of the network, as the kernel has it.
fn port(word: usize) -> u16 {
    u16::from_be(host::argument(word) as u16)
}

fn set_port(word: usize, port: u16) {
    host::set_argument(word, u64::from(port.to_be()));
}

impl Connect4 {
    /// Where to.
    pub fn address(&self) -> [u8; 4] {
        (host::argument(0) as u32).to_ne_bytes()
    }

    /// Where to.
    pub fn port(&self) -> u16 {
        port(1)
    }

    /// The protocol's number: 6 for TCP, 17 for UDP.
    pub fn protocol(&self) -> u8 {
        host::argument(2) as u8
    }

    /// Number of the process.
    pub fn process(&self) -> u32 {
        running::process()
    }

    /// Connects it to somewhere else, if the verdict is to let it pass.
    pub fn redirect(&mut self, address: [u8; 4], port: u16) {
        host::set_argument(0, u64::from(u32::from_ne_bytes(address)));
        set_port(1, port);
    }
}

impl Connect6 {
    /// Where to.
    pub fn address(&self) -> [u8; 16] {
        let mut address = [0; 16];
        for (n, bytes) in address.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&(host::argument(n) as u32).to_ne_bytes());
        }
        address
    }

    /// Where to.
    pub fn port(&self) -> u16 {
        port(WORDS)
    }

    /// The protocol's number: 6 for TCP, 17 for UDP.
    pub fn protocol(&self) -> u8 {
        host::argument(WORDS + 1) as u8
    }

    /// Number of the process.
    pub fn process(&self) -> u32 {
        running::process()
    }

    /// Connects it to somewhere else, if the verdict is to let it pass.
    pub fn redirect(&mut self, address: [u8; 16], port: u16) {
        let words = address.as_chunks::<4>().0;
        for (n, bytes) in words.iter().enumerate() {
            host::set_argument(n, u64::from(u32::from_ne_bytes(*bytes)));
        }
        set_port(WORDS, port);
    }
}

/// A process of the control group asks for an option of a socket, or sets one. `Drop` refuses: the process gets an
/// error.
pub struct SocketOption {
    not_send: PhantomData<*mut ()>,
}

impl SocketOption {
    /// The protocol whose option it is, such as 1 for sockets themselves (`SOL_SOCKET`).
    pub fn level(&self) -> i32 {
        host::argument(0) as i32
    }

    /// Which option.
    pub fn name(&self) -> i32 {
        host::argument(1) as i32
    }

    /// Bytes of its value.
    pub fn length(&self) -> i32 {
        host::argument(2) as i32
    }

    /// Number of the process.
    pub fn process(&self) -> u32 {
        running::process()
    }
}

/// What happened to a TCP connection of the control group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpEvent {
    /// It is about to connect.
    Connecting,
    /// A connection was made from here.
    Connected,
    /// A connection was made to here.
    Accepted,
    /// Something else, by the kernel's number.
    Other(u32),
}

/// A TCP connection of the control group, to which something happened. The program looks on.
pub struct Connection {
    not_send: PhantomData<*mut ()>,
}

impl Connection {
    /// What happened.
    pub fn event(&self) -> TcpEvent {
        match host::argument(0) as u32 {
            3 => TcpEvent::Connecting,
            4 => TcpEvent::Connected,
            5 => TcpEvent::Accepted,
            other => TcpEvent::Other(other),
        }
    }

    /// Whether its addresses are those of IPv4.
    pub fn is_ipv4(&self) -> bool {
        host::argument(1) as u32 == 2
    }

    /// The other side's IPv4 address.
    pub fn remote_address(&self) -> [u8; 4] {
        (host::argument(2) as u32).to_ne_bytes()
    }

    /// This side's IPv4 address.
    pub fn local_address(&self) -> [u8; 4] {
        (host::argument(3) as u32).to_ne_bytes()
    }

    /// The other side's port.
    pub fn remote_port(&self) -> u16 {
        u32::from_be(host::argument(4) as u32) as u16
    }

    /// This side's port.
    pub fn local_port(&self) -> u16 {
        host::argument(5) as u16
    }
}

macro_rules! runners {
    ($($name:ident($token:ident) -> $verdict:ty;)*) => { $(
        /// Runs a program of that hook. What its attribute makes calls it.
        #[doc(hidden)]
        #[inline(always)]
        pub fn $name(program: fn(&mut $token) -> $verdict) -> i32 {
            Verdict::number(program(&mut $token { not_send: PhantomData }))
        }
    )* };
}

/// What programs return.
trait Verdict {
    fn number(self) -> i32;
}

impl Verdict for CgroupVerdict {
    fn number(self) -> i32 {
        self as i32
    }
}

impl Verdict for () {
    /// The only one that the kernel does not take for a refusal.
    fn number(self) -> i32 {
        1
    }
}

runners! {
    run_connect4(Connect4) -> CgroupVerdict;
    run_connect6(Connect6) -> CgroupVerdict;
    run_socket_option(SocketOption) -> CgroupVerdict;
    run_connection(Connection) -> ();
}

/// Looks at where a socket is connected to after a program has run on this thread.
#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
pub(crate) fn look4(look: impl FnOnce(&Connect4)) {
    look(&Connect4 { not_send: PhantomData });
}

/// The same for IPv6.
#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
pub(crate) fn look6(look: impl FnOnce(&Connect6)) {
    look(&Connect6 { not_send: PhantomData });
}
