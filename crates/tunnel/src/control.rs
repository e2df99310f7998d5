//! Asking a running link: a socket in the file system. A client sends one word; `status` is answered
//! with a line for each figure, `trace` with records until the client goes.
//!
//! A record is its kind, the time in picoseconds (8 bytes), its length (4 bytes), all little-endian,
//! and its bytes.

use crate::TunnelError;
use crate::status::Status;
use std::fs;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const LINE_RECORD: u8 = b'L';
pub(crate) const FRAME_RECORD: u8 = b'F';
const RECORD_HEADER: usize = 13;

/// What waits for a slow reader, at most; more is left out.
const MOST_WAITING: usize = 4 << 20;
/// A client that says nothing for so long is forgotten.
const PATIENCE: Duration = Duration::from_millis(100);
const LONGEST_REQUEST: u64 = 16;

/// Someone who reads the trace.
#[derive(Debug)]
pub(crate) struct Subscriber {
    stream: UnixStream,
    waiting: Vec<u8>,
    written: usize,
    left_out: u64,
}

impl Subscriber {
    fn new(stream: UnixStream) -> io::Result<Subscriber> {
        stream.set_nonblocking(true)?;
        Ok(Subscriber { stream, waiting: Vec::new(), written: 0, left_out: 0 })
    }

    pub(crate) fn put(&mut self, kind: u8, now_ps: u64, bytes: &[u8]) {
        if self.waiting.len() + bytes.len() > MOST_WAITING {
            self.left_out += 1;
            return;
        }
        if self.left_out > 0 {
            let note = format!("{} records were left out: the reader is too slow\n", self.left_out);
            self.left_out = 0;
            self.append(LINE_RECORD, now_ps, note.as_bytes());
        }
        self.append(kind, now_ps, bytes);
    }

    fn append(&mut self, kind: u8, now_ps: u64, bytes: &[u8]) {
        self.waiting.push(kind);
        self.waiting.extend_from_slice(&now_ps.to_le_bytes());
        self.waiting.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.waiting.extend_from_slice(bytes);
    }

    /// Whether the reader is still there.
    pub(crate) fn flush(&mut self) -> bool {
        while self.written < self.waiting.len() {
            match self.stream.write(&self.waiting[self.written..]) {
                Ok(0) => return false,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        self.waiting.clear();
        self.written = 0;
        true
    }
}

/// The listening end. The file goes with it.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
}

/// What a client wants.
pub(crate) enum Request {
    Status(UnixStream),
    Trace(Subscriber),
}

impl Server {
    pub(crate) fn open(path: &Path) -> Result<Server, TunnelError> {
        let doing = || format!("listen at {}", path.display());
        if UnixStream::connect(path).is_ok() {
            return Err(TunnelError::new(doing(), "another link answers there"));
        }
        // What a link that was killed has left.
        let is_socket = |m: fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&m.file_type());
        if fs::symlink_metadata(path).is_ok_and(is_socket) {
            let _ = fs::remove_file(path);
        }
        let listener = UnixListener::bind(path).map_err(|e| TunnelError::new(doing(), e))?;
        listener.set_nonblocking(true).map_err(|e| TunnelError::new(doing(), e))?;
        Ok(Server { listener, path: path.to_path_buf() })
    }

    pub(crate) fn accept(&self) -> Option<Request> {
        let (mut stream, _) = self.listener.accept().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut word = String::new();
        (&mut stream).take(LONGEST_REQUEST).read_to_string(&mut word).ok()?;
        match word.trim() {
            "status" => Some(Request::Status(stream)),
            "trace" => Subscriber::new(stream).ok().map(Request::Trace),
            _ => None,
        }
    }

    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn ask(path: &Path, word: &str) -> Result<UnixStream, TunnelError> {
    let doing = || format!("ask the link at {}", path.display());
    let mut stream = UnixStream::connect(path).map_err(|e| TunnelError::new(doing(), e))?;
    stream.write_all(word.as_bytes()).map_err(|e| TunnelError::new(doing(), e))?;
    stream.shutdown(std::net::Shutdown::Write).map_err(|e| TunnelError::new(doing(), e))?;
    Ok(stream)
}

/// The figures of a running link.
pub fn read_status(path: &Path) -> Result<Status, TunnelError> {
    let mut text = String::new();
    ask(path, "status")?.read_to_string(&mut text).map_err(|e| TunnelError::new("read the status of the link", e))?;
    Ok(Status::parse(&text))
}

/// A piece of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A line of text, with its end.
    Line(String),
    /// A frame on the line, and when.
    Frame {
        /// Since the link started.
        at_ps: u64,
        /// From the destination address on.
        bytes: Vec<u8>,
    },
    /// A while has passed without anything.
    Nothing,
}

/// How often a reader of a trace is given the chance to stop.
const QUIET: Duration = Duration::from_millis(100);

/// What happens on a running link, from now until it ends.
pub fn subscribe(path: &Path) -> Result<impl Iterator<Item = Record>, TunnelError> {
    let stream = ask(path, "trace")?;
    stream.set_read_timeout(Some(QUIET)).map_err(|e| TunnelError::new("wait for the trace", e))?;
    let mut stream = io::BufReader::new(stream);
    Ok(std::iter::from_fn(move || match stream.fill_buf() {
        Ok([]) => None,
        Ok(_) => read_record(&mut stream).ok(),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Some(Record::Nothing),
        Err(_) => None,
    }))
}

fn read_record(stream: &mut impl Read) -> io::Result<Record> {
    let mut header = [0; RECORD_HEADER];
    stream.read_exact(&mut header)?;
    let [kind, at @ .., l0, l1, l2, l3] = header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MOST_WAITING {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(match kind {
        LINE_RECORD => Record::Line(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Record::Frame { at_ps: u64::from_le_bytes(at), bytes },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut subscriber = Subscriber::new(ours).unwrap();
        subscriber.put(LINE_RECORD, 5, b"0.000 sent 1\n");
        subscriber.put(FRAME_RECORD, 7, &[1, 2, 3]);
        assert!(subscriber.flush());
        assert_eq!(read_record(&mut theirs).unwrap(), Record::Line("0.000 sent 1\n".into()));
        assert_eq!(read_record(&mut theirs).unwrap(), Record::Frame { at_ps: 7, bytes: vec![1, 2, 3] });
        drop(theirs);
        subscriber.put(LINE_RECORD, 5, b"x");
        assert!(!subscriber.flush());
    }

    #[test]
    fn a_slow_reader_costs_no_memory() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut subscriber = Subscriber::new(ours).unwrap();
        for _ in 0..10_000 {
            subscriber.put(FRAME_RECORD, 0, &[0; 1500]);
        }
        assert!(subscriber.waiting.len() < 2 * MOST_WAITING && subscriber.left_out > 0);
    }
}
