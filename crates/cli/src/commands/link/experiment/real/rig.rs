//! Two hosts with an end of a link in each: network namespaces, a virtual cable, TAP devices.

use super::Variant;
use super::counters::Tcp;
use karakoram_lab::error::LabError;
use karakoram_lab::testbed::{Namespace, Placement, Testbed};
use karakoram_link::config::Protection;
use karakoram_link::monitor::MonitorConfig;
use karakoram_link::rate::Probability;
use karakoram_link::wire::Profile;
use karakoram_tunnel::{End, LossModel, Place, Settings, Status, TunnelError};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The far host's address on the link; the near one's is one below.
pub(super) const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const TAP: &str = "inside";
const PATIENCE: Duration = Duration::from_secs(10);

/// What the link and the path behind it are like.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Weather {
    #[serde(deserialize_with = "probability")]
    pub(super) loss: Probability,
    pub(super) line_mbps: u64,
    /// Of the path behind the link, each way.
    pub(super) delay_ms: f64,
    /// Of the link: what its time-outs follow.
    pub(super) round_trip_ms: f64,
    /// Largest TCP buffer, bytes.
    pub(super) window: u64,
    /// Bytes in the queue from which on congestion is marked.
    pub(super) mark: Option<u32>,
}

fn probability<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Probability, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// What the two ends have counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) frames: u64,
    pub(super) lost: u64,
    pub(super) recovered: u64,
    pub(super) given_up: u64,
    pub(super) marked: u64,
    /// Processor time of the near and the far end for a frame through it.
    pub(super) cpu_ns_per_frame: [u64; 2],
}

/// The two hosts.
pub(super) struct Rig<'a> {
    bed: Testbed,
    weather: &'a Weather,
    stop: AtomicBool,
}

impl<'a> Rig<'a> {
    pub(super) fn build(weather: &'a Weather) -> Result<Rig<'a>, LabError> {
        Ok(Rig { bed: Testbed::build(Placement::Inline)?, weather, stop: AtomicBool::new(false) })
    }

    pub(super) fn near(&self) -> &Namespace {
        &self.bed.generator.namespace
    }

    pub(super) fn far(&self) -> &Namespace {
        &self.bed.tested.namespace
    }

    /// Of both hosts.
    pub(super) fn tcp_counters(&self) -> Result<Tcp, LabError> {
        Ok(self.near().run(Tcp::read)??.plus(self.far().run(Tcp::read)??))
    }

    /// Runs the link around some work.
    pub(super) fn around(
        &self,
        variant: Variant,
        seed: u64,
        work: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<Figures, LabError> {
        std::thread::scope(|scope| {
            let ends = [true, false].map(|is_near| {
                let settings = self.settings(variant, is_near, seed);
                let namespace = if is_near { self.near() } else { self.far() };
                scope.spawn(move || namespace.run(|| self.run_end(settings)))
            });
            let done =
                self.configure(self.near(), 1).and_then(|()| self.configure(self.far(), 2)).and_then(|()| work());
            self.stop.store(true, Ordering::Relaxed);
            let status = ends.map(|end| end.join().map_err(|panic| std::panic::resume_unwind(panic)));
            done?;
            let [near, far] = status.map(|status| status.and_then(|s| s).and_then(|s| s));
            Ok(figures(&near?, &far?))
        })
    }

    fn settings(&self, variant: Variant, is_near: bool, seed: u64) -> Settings {
        let weather = self.weather;
        let side = if is_near { &self.bed.generator } else { &self.bed.tested };
        let is_lossy = is_near && variant.is_lossy();
        let ps = |ms: f64| (ms * 1e9) as u64;
        Settings {
            inside: Place::Tap(TAP.to_string()),
            line: Place::Interface(side.device.name.clone()),
            protection: variant.mode().map(|mode| Protection::against(weather.loss, mode)),
            on_demand: None,
            monitor: MonitorConfig::prototype(),
            profile: Profile::Native,
            rate_bits: Some(weather.line_mbps * 1_000_000),
            round_trip_ps: ps(weather.round_trip_ms),
            loss: if is_lossy { LossModel::Random { rate: weather.loss, seed } } else { LossModel::None },
            delay_ps: ps(weather.delay_ms),
            epoch: 1,
            queue_cells: 7000,
            window_frames: 8192,
            mark_cells: weather.mark.map(|bytes| bytes.div_ceil(80)),
        }
    }

    fn run_end(&self, settings: Settings) -> Result<Status, LabError> {
        let wrong = |e: TunnelError| LabError::Machine(e.to_string(), "run as root".into());
        End::open(settings).map_err(wrong)?.run(&self.stop).map_err(wrong)
    }

    /// Waits for the TAP device and gives it an address.
    fn configure(&self, namespace: &Namespace, number: u8) -> Result<(), LabError> {
        let buffers = format!("4096 131072 {}", self.weather.window);
        namespace.run(|| {
            for name in ["tcp_rmem", "tcp_wmem"] {
                let path = Path::new("/proc/sys/net/ipv4").join(name);
                std::fs::write(&path, &buffers).map_err(|e| LabError::file("write", &path, &e))?;
            }
            let start = Instant::now();
            loop {
                let words = ["addr", "add", &format!("10.9.0.{number}/24"), "dev", TAP];
                let said = Command::new("ip").args(words).output().map_err(|e| LabError::tool("ip", &e))?;
                if said.status.success() {
                    return Ok(());
                }
                if start.elapsed() > PATIENCE {
                    let why = String::from_utf8_lossy(&said.stderr).trim().to_string();
                    return Err(LabError::Machine(format!("the link did not come up: {why}"), String::new()));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        })?
    }
}

fn figures(near: &Status, far: &Status) -> Figures {
    let of = |status: &Status, name: &str| status.get(name).unwrap_or(0);
    Figures {
        frames: of(near, "link.to_line"),
        lost: of(near, "link.lost_on_purpose"),
        recovered: of(far, "receiver.recovered_frames"),
        given_up: of(far, "receiver.skipped_frames"),
        marked: of(near, "link.marked") + of(far, "link.marked"),
        cpu_ns_per_frame: [near, far].map(|status| of(status, "link.cpu_ns_per_frame")),
    }
}
