//! Where the cache runs: on the host, and in the kernel.

use super::packets::{Client, TEXT, from_server, handshake, reply, request, to_server, value};
use karakoram_extension::{TcVerdict, XdpVerdict, testing};
use karakoram_installer::{BuildOptions, Installed, build};
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_translator::launder::Launder;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

pub const PASS: u32 = XdpVerdict::Pass as u32;
pub const TX: u32 = XdpVerdict::Tx as u32;

/// Something that runs both programs on packets.
pub trait Machine {
    /// XDP: verdict and packet after it.
    fn answer(&mut self, packet: Vec<u8>) -> (u32, Vec<u8>);
    /// tc egress.
    fn learn(&mut self, packet: Vec<u8>);
    /// Lets time go by.
    fn wait(&mut self, nanoseconds: u64);

    /// A request; the text of the answer, if the cache has one.
    fn get(&mut self, client: Client, number: u16, keys: &str) -> Option<String> {
        let (verdict, packet) = self.answer(request(client, number, &format!("get {keys}\r\n")));
        match verdict {
            TX => Some(String::from_utf8(packet[TEXT..].to_vec()).expect("text")),
            PASS => None,
            other => panic!("verdict {other}"),
        }
    }

    /// memcached is asked for a key and says that. Earlier replies are not awaited any more.
    fn ask(&mut self, client: Client, number: u16, key: &str, says: &str) {
        self.wait(karakoram_bmc::cache::PATIENCE_NS + 1);
        assert_eq!(self.get(client, number, key), None);
        self.learn(reply(client, number, &format!("{}END\r\n", value(key, says))));
    }

    /// A client says something over TCP.
    fn say(&mut self, client: Client, sequence: u32, text: &[u8]) {
        assert_eq!(self.answer(to_server(client, sequence, text)).0, PASS);
    }

    /// memcached says something over TCP.
    fn hear(&mut self, client: Client, text: &str) {
        self.hear_at(client, 1, text);
    }

    /// It says that at a place of the connection.
    fn hear_at(&mut self, client: Client, sequence: u32, text: &str) {
        self.learn(from_server(client, sequence, text));
    }

    /// A client opens a connection.
    fn connect(&mut self, client: Client) {
        let [there, back] = handshake(client);
        assert_eq!(self.answer(there).0, PASS);
        self.learn(back);
    }
}

/// The host. Time is what it says.
pub struct Host {
    /// The cache is a static: one test at a time.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());
static TIME: AtomicU64 = AtomicU64::new(1 << 40);

impl Host {
    pub fn new() -> Host {
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut host = Host { _alone: alone };
        host.wait(10_000_000_000);
        karakoram_bmc::cache::flush();
        host
    }
}

impl Machine for Host {
    fn answer(&mut self, mut packet: Vec<u8>) -> (u32, Vec<u8>) {
        let verdict = testing::xdp(karakoram_bmc::answer::answer, &mut packet);
        (verdict as u32, packet)
    }

    fn learn(&mut self, mut packet: Vec<u8>) {
        let before = packet.clone();
        assert_eq!(testing::tc(karakoram_bmc::learn::learn, &mut packet), TcVerdict::Pass);
        assert_eq!(packet, before);
    }

    fn wait(&mut self, nanoseconds: u64) {
        let now = TIME.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds;
        testing::set_time(Some(now));
    }
}

/// The kernel.
pub struct Kernel {
    pub installed: Installed,
}

impl Kernel {
    /// Nothing where that is not permitted.
    pub fn new() -> Option<Kernel> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let options = BuildOptions {
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/bmc"),
            target_dir: folder.join("bmc"),
            extension: None,
            features: Vec::new(),
            launder: Launder::default(),
            translation: Default::default(),
        };
        let built = build(&options).unwrap_or_else(|e| panic!("{e}"));
        let path = folder.join("bmc.o");
        std::fs::write(&path, &built.object).expect("object");
        match Installed::load(&path, &[]) {
            Ok(installed) => Some(Kernel { installed }),
            Err(e) if e.to_string().contains("not permitted") => {
                eprintln!("SKIPPED: {e}");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn run(&self, program: &str, data: Vec<u8>) -> RunOutput {
        let (mut runner, mut output) = (Runner::default(), RunOutput::default());
        let input = RunInput { data, repeat: 1, ..Default::default() };
        runner.run(self.installed.program(program), &input, &mut output).expect("a run");
        for program in ["answer", "learn"] {
            let state = self.installed.state(program);
            assert_eq!((state.panics, state.leaked), (0, 0), "{program}: {:?}", self.installed.panics(program));
        }
        output
    }
}

impl Machine for Kernel {
    fn answer(&mut self, packet: Vec<u8>) -> (u32, Vec<u8>) {
        let output = self.run("answer", packet);
        (output.retval, output.data.clone())
    }

    fn learn(&mut self, packet: Vec<u8>) {
        assert_eq!(self.run("learn", packet).retval, 0);
    }

    fn wait(&mut self, nanoseconds: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(nanoseconds));
    }
}
