//! `kara ext load`: a program to an interface.

use super::loaded::{self, Loaded};
use super::running::{self, Snapshot};
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::{interrupt, output};
use karakoram_installer::{Panic, State};
use karakoram_kernel::attach::{self, Attachment, Direction, SocketHook, XdpMode};
use karakoram_kernel::errno::Errno;
use karakoram_kernel::error::KernelError;
use serde_json::json;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often the process looks.
const STEP: Duration = Duration::from_millis(100);
/// How long a background process may take to attach.
const START: Duration = Duration::from_secs(20);

/// Options of `kara ext load`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Object or module that `kara ext build` made
    #[arg(value_name = "OBJECT")]
    object: PathBuf,
    /// Interface of the current network namespace, for xdp and tc programs
    #[arg(short, long, value_name = "NAME")]
    interface: Option<String>,
    /// Folder of a control group (cgroup v2), for programs of control groups
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,
    /// Only this program; may be repeated
    #[arg(long, value_name = "NAME")]
    prog: Vec<String>,
    /// Which way, for tc and cgroup programs
    #[arg(long, value_enum, default_value_t = Way::Ingress)]
    direction: Way,
    /// Samples a second on each processor, for perf_event programs
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u64).range(1..))]
    frequency: u64,
    /// Run XDP in the stack instead of the driver
    #[arg(long)]
    generic: bool,
    /// Go on in the background, until `kara ext unload`
    #[arg(long)]
    background: bool,
    /// Its name in the background; otherwise that of the object
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Detach after more than so many panics in a second
    #[arg(long, value_name = "N")]
    detach_after: Option<u64>,
    /// Set in the process that stays
    #[arg(long, hide = true)]
    holder: bool,
}

/// What programs of control groups see besides packets, by the hook's name.
fn socket_hook(hook: &str) -> Option<SocketHook> {
    Some(match hook {
        "connect4" => SocketHook::Connect4,
        "connect6" => SocketHook::Connect6,
        "getsockopt" => SocketHook::Getsockopt,
        "setsockopt" => SocketHook::Setsockopt,
        "sock_ops" => SocketHook::SockOps,
        _ => return None,
    })
}

fn is_of_group(hook: &str) -> bool {
    hook == "cgroup" || socket_hook(hook).is_some()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Way {
    /// Coming in
    Ingress,
    /// Going out
    Egress,
}

impl Options {
    /// Loads and attaches.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        interrupt::is_the_end();
        let name = self.name();
        if self.background {
            return self.start_holder(&name, common);
        }
        let started = Instant::now();
        let (loaded, programs) = self.load()?;
        let load_ms = started.elapsed().as_millis() as u64;
        if let Some(fallback) = loaded.fallback().filter(|_| !self.holder) {
            eprintln!("loaded {fallback}");
        }
        let attached = programs.iter().map(|p| self.attach(&loaded, p)).collect::<Result<Vec<_>, _>>()?;
        let shown = programs.join(", ");
        if !self.holder && !common.quiet {
            let places = self.places(&loaded, &programs);
            eprintln!("{shown}: attached to {places}, loaded in {load_ms} ms; Ctrl-C takes it away");
        }
        self.watch(&loaded, &programs, &name, load_ms)?;
        if self.holder {
            // Whoever waits for the folder to go finds nothing of it in the kernel.
            drop((attached, loaded));
            let _ = std::fs::remove_dir_all(running::folder(&name));
        } else {
            report(&loaded, &programs, load_ms, common)?;
        }
        Ok(Answer::Yes)
    }

    fn name(&self) -> String {
        let stem = self.object.file_stem().map(|s| s.to_string_lossy().into_owned());
        self.name.clone().or(stem).unwrap_or_default()
    }

    fn load(&self) -> Result<(Loaded, Vec<String>), Failure> {
        let shown = self.object.display().to_string();
        let names = loaded::names(&self.object)?;
        let unknown = |names: &[(String, String)]| self.prog.iter().find(|p| !names.iter().any(|(n, _)| n == *p));
        if let Some(names) = &names
            && let Some(unknown) = unknown(names)
        {
            let there: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
            let there = there.join(", ");
            return Err(Failure::usage(format!("there is no program {unknown}; there are {there}")).of_file(&shown));
        }
        let is_wanted = |name: &String| self.prog.is_empty() || self.prog.contains(name);
        for (name, hook) in names.iter().flatten().filter(|(name, _)| is_wanted(name)) {
            self.has_place(name, hook)?;
        }
        let loaded = Loaded::load(&self.object, &self.prog).map_err(|e| super::failure(e).of_file(&shown))?;
        let all = || loaded.programs().into_iter().map(|(name, _)| name).collect();
        let wanted = if self.prog.is_empty() { all() } else { self.prog.clone() };
        Ok((loaded, wanted))
    }

    /// Whether it was said where a program at that hook belongs.
    fn has_place(&self, program: &str, hook: &str) -> Result<(), Failure> {
        let missing = |what: &str, option: &str| {
            Err(Failure::usage(format!("{program} is a program for {what}: say which")).help(option.to_string()))
        };
        match hook {
            "xdp" | "tc" if self.interface.is_none() => missing("an interface", "--interface NAME"),
            hook if is_of_group(hook) && self.cgroup.is_none() => {
                missing("a control group", "--cgroup FOLDER, of cgroup v2 (`findmnt -t cgroup2` shows where that is)")
            }
            _ => Ok(()),
        }
    }

    /// In one place, or on every processor.
    fn attach(&self, loaded: &Loaded, program: &str) -> Result<Vec<Attachment>, Failure> {
        let direction = match self.direction {
            Way::Ingress => Direction::Ingress,
            Way::Egress => Direction::Egress,
        };
        let hook = loaded.hook(program);
        self.has_place(program, &hook)?;
        let loaded = loaded.program(program);
        let one = |attached: Result<Attachment, KernelError>| attached.map(|attached| vec![attached]);
        let (attached, help) = match hook.as_str() {
            "perf_event" => (
                attach::clocks(loaded, self.frequency),
                "at most as often as /proc/sys/kernel/perf_event_max_sample_rate says; `kara doctor` says what this \
                 kernel permits",
            ),
            "xdp" => {
                let mode = if self.generic { XdpMode::Generic } else { XdpMode::Native };
                (
                    one(attach::xdp(loaded, self.interface_number()?, mode)),
                    "an interface whose driver has no XDP takes --generic",
                )
            }
            "tc" => (one(attach::tcx(loaded, self.interface_number()?, direction)), "Linux 6.6 and later have tcx"),
            hook if is_of_group(hook) => {
                let path = self.cgroup.as_deref().unwrap_or(Path::new(""));
                let group = File::open(path).map_err(|e| Failure::file(&path.display().to_string(), "open", &e))?;
                let attached = match socket_hook(hook) {
                    Some(hook) => attach::cgroup_sockets(loaded, group.as_fd(), hook),
                    None => attach::cgroup(loaded, group.as_fd(), direction),
                };
                (one(attached), "it must be a folder of cgroup v2, which `findmnt -t cgroup2` shows")
            }
            _ => (one(attach::tracepoint(loaded)), "`kara doctor` says what this kernel permits"),
        };
        attached.map_err(|e| {
            let is_taken = matches!(e, KernelError::Other { errno: Errno::EBUSY | Errno::EEXIST, .. });
            let taken =
                "another program is there already: `kara ext status` shows ours, `ip link` and `bpftool net` all";
            Failure::machine(e.to_string()).help(if is_taken { taken } else { help })
        })
    }

    fn interface_number(&self) -> Result<u32, Failure> {
        let name = self.interface.as_deref().unwrap_or("");
        let path = format!("/sys/class/net/{name}/ifindex");
        let number = std::fs::read_to_string(&path).ok().and_then(|t| t.trim().parse::<u32>().ok());
        number
            .or_else(|| interface_index(name))
            .ok_or_else(|| Failure::usage(format!("there is no interface {name} here")))
    }

    /// Where these programs are attached, in words.
    fn places(&self, loaded: &Loaded, programs: &[String]) -> String {
        let place = |program: &String| match (loaded.hook(program).as_str(), loaded.target(program)) {
            ("xdp" | "tc", _) => self.interface.clone().unwrap_or_default(),
            ("perf_event", _) => format!("every processor, {} times a second", self.frequency),
            (hook, _) if is_of_group(hook) => {
                self.cgroup.as_ref().map_or(String::new(), |c| format!("control group {}", c.display()))
            }
            (_, target) => format!("tracepoint {}", target.unwrap_or_default()),
        };
        let mut places: Vec<String> = Vec::new();
        for place in programs.iter().map(place) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.join(", ")
    }

    /// Until someone asks to stop, or there are too many panics.
    fn watch(&self, loaded: &Loaded, programs: &[String], name: &str, load_ms: u64) -> Result<(), Failure> {
        let mut seen = vec![0; programs.len()];
        let mut second = (Instant::now(), 0);
        loop {
            for (program, seen) in programs.iter().zip(&mut seen) {
                let panics = loaded.state(program)?.panics;
                for panic in fresh(loaded, program, panics - *seen)? {
                    eprintln!("{}", to_line(program, &panic));
                }
                *seen = panics;
            }
            let all: u64 = seen.iter().sum();
            if second.0.elapsed() >= Duration::from_secs(1) {
                second = (Instant::now(), all);
            }
            if self.detach_after.is_some_and(|most| all - second.1 > most) {
                eprintln!("{}: {} panics within a second; detached", programs.join(", "), all - second.1);
                return Ok(());
            }
            if self.holder {
                let snapshot = self.snapshot(loaded, programs, name, load_ms)?;
                running::publish(&snapshot).map_err(|e| Failure::file("status", "write", &e))?;
            }
            if interrupt::is_asked() || (self.holder && running::stop_file(name).exists()) {
                return Ok(());
            }
            std::thread::sleep(STEP);
        }
    }

    fn snapshot(&self, loaded: &Loaded, programs: &[String], name: &str, load_ms: u64) -> Result<Snapshot, Failure> {
        let state = state(loaded, programs)?;
        Ok(Snapshot {
            name: name.to_string(),
            pid: std::process::id(),
            program: programs.join(", "),
            interface: self.places(loaded, programs),
            panics: state.panics,
            nested: state.nested,
            leaked: state.leaked,
            load_ms,
            fallback: loaded.fallback().map(|f| f.to_string()),
            counters: loaded.counters()?,
            maps: loaded.maps(),
        })
    }

    fn start_holder(&self, name: &str, common: &Common) -> Result<Answer, Failure> {
        if running::read(name).is_some() {
            return Err(Failure::usage(format!("an extension {name} is loaded already"))
                .help("--name gives this one another name"));
        }
        let folder = running::folder(name);
        std::fs::create_dir_all(&folder).map_err(|e| Failure::file(&folder.display().to_string(), "create", &e))?;
        let log = running::log_file(name);
        let open = || std::fs::File::create(&log).map_err(|e| Failure::file(&log.display().to_string(), "write", &e));
        let itself = std::env::current_exe().map_err(|e| Failure::machine(e.to_string()))?;
        let mut command = Command::new(itself);
        command.args(["ext", "load", "--holder", "--name", name]);
        command.args(self.interface.iter().flat_map(|name| ["--interface", name.as_str()]));
        command.args(self.cgroup.iter().flat_map(|folder| ["--cgroup".as_ref(), folder.as_os_str()]));
        command.arg("--frequency").arg(self.frequency.to_string());
        command.arg(&self.object).args(self.prog.iter().flat_map(|p| ["--prog", p.as_str()]));
        command.args(["--direction", if self.direction == Way::Egress { "egress" } else { "ingress" }]);
        command.args(self.generic.then_some("--generic"));
        command.args(self.detach_after.iter().flat_map(|n| ["--detach-after".to_string(), n.to_string()]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(open()?);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|e| Failure::machine(format!("could not start a process: {e}")))?;
        let started = Instant::now();
        while running::read(name).is_none() {
            let ended = child.try_wait().ok().flatten().is_some();
            if ended || started.elapsed() > START {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let _ = child.kill();
                let _ = std::fs::remove_dir_all(&folder);
                return Err(Failure::machine(format!("it was not attached\n{}", said.trim())));
            }
            std::thread::sleep(STEP / 4);
        }
        match common.json {
            true => output::print_json(&json!({
                "schema": "kara/ext-load/1", "ok": true, "exit_code": 0, "name": name, "pid": child.id(),
                "load_ms": running::read(name).map(|s| s.load_ms),
            })),
            false if !common.quiet => {
                let snapshot = running::read(name);
                if let Some(fallback) = snapshot.as_ref().and_then(|s| s.fallback.as_ref()) {
                    eprintln!("{name}: loaded {fallback}");
                }
                let places = snapshot.map_or(String::new(), |s| s.interface);
                eprintln!("{name} is attached to {places}; kara ext unload {name} takes it away")
            }
            false => {}
        }
        Ok(Answer::Yes)
    }
}

/// The number of an interface where /sys shows another network namespace.
fn interface_index(name: &str) -> Option<u32> {
    let output = Command::new("ip").args(["-o", "link", "show", "dev", name]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).split(':').next()?.trim().parse().ok()
}

/// The panics that nobody has seen yet, as far as the log still has them.
fn fresh(loaded: &Loaded, program: &str, count: u64) -> Result<Vec<Panic>, Failure> {
    let all = loaded.panics(program)?;
    let skip = all.len().saturating_sub(count as usize);
    Ok(all.into_iter().skip(skip).collect())
}

/// A panic in a line.
fn to_line(program: &str, panic: &Panic) -> String {
    let place = panic.file.as_ref().map_or("unknown place".to_string(), |f| format!("{f}:{}", panic.line));
    let (seconds, micros) = (panic.time_ns / 1_000_000_000, panic.time_ns / 1000 % 1_000_000);
    format!("[{seconds}.{micros:06}] {program}: {} at {place} (CPU {})", panic.what, panic.cpu)
}

/// What has happened to several programs so far.
fn state(loaded: &Loaded, programs: &[String]) -> Result<State, Failure> {
    programs.iter().try_fold(State::default(), |all, program| {
        let one = loaded.state(program)?;
        Ok(State { panics: all.panics + one.panics, nested: all.nested + one.nested, leaked: all.leaked + one.leaked })
    })
}

fn report(loaded: &Loaded, programs: &[String], load_ms: u64, common: &Common) -> Result<(), Failure> {
    let (state, counters) = (state(loaded, programs)?, loaded.counters()?);
    if common.json {
        output::print_json(&json!({
            "schema": "kara/ext-load/1", "ok": true, "exit_code": 0, "program": programs.join(", "), "load_ms": load_ms,
            "panics": state.panics, "nested": state.nested, "leaked": state.leaked,
            "counters": counters.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        }));
    } else {
        counters.iter().for_each(|(name, value)| output::print_text(&format!("{name} {value}\n")));
    }
    Ok(())
}
