//! memcached at the far host, asked one thing after the other.

use super::rig::{FAR, Rig};
use karakoram_lab::error::LabError;
use karakoram_lab::memcached::PORT;
use karakoram_lab::testbed::Child;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

const VALUE: [u8; 100] = [b'v'; 100];
const PATIENCE: Duration = Duration::from_secs(10);

/// How long each took, milliseconds, ascending.
pub(super) fn ask(rig: &Rig, requests: u64) -> Result<Vec<f64>, LabError> {
    let mut command = Command::new("memcached");
    command.args(["-u", "root", "-t", "1", "-U", "0", "-l", &FAR.to_string(), "-p", &PORT.to_string()]);
    let _server = Child::start(&mut command, rig.far(), &[])?;
    let asked = rig.near().run(|| connect().and_then(|stream| ask_all(stream, requests)))?;
    asked.map_err(|e| LabError::Machine(format!("memcached did not answer: {e}"), "is it installed?".into()))
}

fn connect() -> io::Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(SocketAddrV4::new(FAR, PORT)) {
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
}

fn ask_all(mut stream: TcpStream, requests: u64) -> io::Result<Vec<f64>> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let stored = [&b"set key 0 0 100\r\n"[..], &VALUE, b"\r\n"].concat();
    expect(&mut stream, &stored, b"STORED\r\n")?;
    let answer = [&b"VALUE key 0 100\r\n"[..], &VALUE, b"\r\nEND\r\n"].concat();
    let mut times = Vec::new();
    for _ in 0..requests {
        let start = Instant::now();
        expect(&mut stream, b"get key\r\n", &answer)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn expect(stream: &mut TcpStream, request: &[u8], answer: &[u8]) -> io::Result<()> {
    stream.write_all(request)?;
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got)?;
    if got == answer { Ok(()) } else { Err(io::Error::other("it answered something else")) }
}
