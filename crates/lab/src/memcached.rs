//! The real memcached in the testbed, and the UDP side of its protocol
//! (memcached's `doc/protocol.txt`): an eight-byte frame header, then the text protocol.

use crate::error::LabError;
use crate::generator::Dialogue;
use crate::random::Random;
use crate::testbed::{Child, Role, Side, Testbed};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Its port, for UDP and TCP.
pub const PORT: u16 = 11211;
/// Bytes of the frame header: request, sequence, datagrams, reserved, 16 bits each.
pub const HEADER_BYTES: usize = 8;
/// Longest value whose reply fits into one datagram with any key of 64 bytes.
pub const MOST_VALUE: usize = 1300;
/// Time it may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys with their values.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Key and value.
    pub entries: Vec<(String, Vec<u8>)>,
}

impl Contents {
    /// So many, of these sizes, always the same ones. Values are bytes of all kinds, line ends too.
    pub fn new(keys: usize, key_bytes: usize, value_bytes: usize) -> Contents {
        let mut random = Random::new(keys as u64);
        let entry = |i| (format!("{i:0>key_bytes$}"), random.bytes(value_bytes));
        Contents { entries: (0..keys).map(entry).collect() }
    }
}

/// A server with one thread, killed when dropped.
pub struct Memcached {
    _process: Child,
    control: BufReader<TcpStream>,
}

impl Memcached {
    /// Starts it on the testbed's tested side, on the server's CPU.
    pub fn start(bed: &Testbed) -> Result<Memcached, LabError> {
        let address = SocketAddrV4::new(bed.tested.host.ip, PORT);
        let (ip, port) = (address.ip().to_string(), PORT.to_string());
        let mut command = Command::new("memcached");
        command.args(["-u", "root", "-t", "1", "-m", "256", "-l", &ip, "-p", &port, "-U", &port]);
        let mut process = Child::start(&mut command, &bed.tested.namespace, &[bed.placement.cpu(Role::Server)])?;
        let start = Instant::now();
        loop {
            match connect(&bed.generator, address) {
                Ok(control) => return Ok(Memcached { _process: process, control: BufReader::new(control) }),
                Err(_) if process.is_over() => {
                    process.output()?;
                    return Err(LabError::Machine("memcached ended by itself".into(), String::new()));
                }
                Err(e) if start.elapsed() > PATIENCE => {
                    return Err(LabError::Machine(format!("memcached does not answer: {e}"), String::new()));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Stores everything, over TCP.
    pub fn store(&mut self, contents: &Contents) -> Result<(), LabError> {
        contents.entries.iter().try_for_each(|(key, value)| self.set(key, value))
    }

    /// Stores one value.
    pub fn set(&mut self, key: &str, value: &[u8]) -> Result<(), LabError> {
        let mut request = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
        request.extend(value);
        request.extend(b"\r\n");
        let mut said = String::new();
        let asked = self.control.get_mut().write_all(&request).and_then(|()| self.control.read_line(&mut said));
        match asked {
            Ok(_) if said == "STORED\r\n" => Ok(()),
            Ok(_) => Err(LabError::Machine(format!("memcached did not store {key}: {}", said.trim()), String::new())),
            Err(e) => Err(LabError::Machine(format!("memcached does not store: {e}"), String::new())),
        }
    }
}

fn connect(side: &Side, address: SocketAddrV4) -> Result<TcpStream, LabError> {
    let connected = side.namespace.run(|| TcpStream::connect(address))?;
    let stream =
        connected.map_err(|e| LabError::Machine(format!("could not connect to {address}: {e}"), String::new()))?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
    Ok(stream)
}

/// The request for a key.
pub fn get(number: u16, key: &str, request: &mut Vec<u8>) {
    request.extend(number.to_be_bytes());
    request.extend([0, 0, 0, 1, 0, 0]);
    request.extend(b"get ");
    request.extend(key.as_bytes());
    request.extend(b"\r\n");
}

/// What has to follow the number of the request in the reply.
pub fn expected(key: &str, value: &[u8]) -> Vec<u8> {
    let mut reply = vec![0, 0, 0, 1, 0, 0];
    reply.extend(format!("VALUE {key} 0 {}\r\n", value.len()).as_bytes());
    reply.extend(value);
    reply.extend(b"\r\nEND\r\n");
    reply
}

/// The requests for all keys, numbered from 0.
pub fn requests(contents: &Contents) -> Vec<Vec<u8>> {
    let numbered = contents.entries.iter().enumerate();
    let request = |(number, (key, _)): (usize, &(String, Vec<u8>))| {
        let mut request = Vec::new();
        get(number as u16, key, &mut request);
        request
    };
    numbered.map(request).collect()
}

/// The whole replies to these.
pub fn replies(contents: &Contents) -> Vec<Vec<u8>> {
    let numbered = contents.entries.iter().enumerate();
    let reply = |(number, (key, value)): (usize, &(String, Vec<u8>))| {
        [(number as u16).to_be_bytes().to_vec(), expected(key, value)].concat()
    };
    numbered.map(reply).collect()
}

/// GETs of keys one after the other; every reply must be right to the last byte.
pub struct Gets<'a> {
    keys: Vec<&'a str>,
    replies: Vec<Vec<u8>>,
}

impl<'a> Gets<'a> {
    /// Of these.
    pub fn new(contents: &'a Contents) -> Gets<'a> {
        Gets {
            keys: contents.entries.iter().map(|(key, _)| key.as_str()).collect(),
            replies: contents.entries.iter().map(|(key, value)| expected(key, value)).collect(),
        }
    }

    fn which(&self, number: u16) -> usize {
        usize::from(number) % self.keys.len()
    }
}

impl Dialogue for Gets<'_> {
    fn ask(&mut self, number: u16, request: &mut Vec<u8>) {
        get(number, self.keys[self.which(number)], request);
    }

    fn check(&mut self, reply: &[u8]) -> Result<u16, String> {
        let Some((number, rest)) = reply.split_first_chunk::<2>() else {
            return Err(format!("a reply of {} bytes", reply.len()));
        };
        let number = u16::from_be_bytes(*number);
        let right = &self.replies[self.which(number)];
        match rest == right {
            true => Ok(number),
            false => {
                Err(format!("a reply of {} bytes that is not the expected one of {}", reply.len(), right.len() + 2))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_or_altered_reply_is_noticed() {
        let contents = Contents { entries: vec![("k".into(), b"one\r\ntwo".to_vec())] };
        let mut gets = Gets::new(&contents);
        let mut request = Vec::new();
        gets.ask(258, &mut request);
        assert_eq!(request, b"\x01\x02\0\0\0\x01\0\0get k\r\n");
        let right = b"\x01\x02\0\0\0\x01\0\0VALUE k 0 8\r\none\r\ntwo\r\nEND\r\n";
        assert_eq!(gets.check(right), Ok(258));
        assert!(gets.check(b"\x01\x02\0\0\0\x01\0\0VALUE k 0 8\r\none\r\nEND\r\n").is_err());
        assert!(gets.check(b"\x01").is_err());
    }
}
