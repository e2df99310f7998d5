//! Latency at the rate that was found and at others.

use super::Way;
use super::run::Run;
use crate::error::LabError;
use crate::generator::Load;
use crate::trial::{Curve, Outcome, Request, Samples};
use std::time::Duration;

/// How long it is measured at one rate.
const LATENCY: Duration = Duration::from_millis(200);
/// Frames whose time is kept, at least.
const SAMPLES: f64 = 200_000.0;
/// Part of the measurement that is warm-up.
const WARM_UP: f64 = 0.1;

impl Run {
    /// At the rate that was found (`latency.free`) and at the loads that all variants meet
    /// (`latency.50` and so on). Frames that are dropped have none.
    pub(super) fn add_latencies(&self, outcome: &mut Outcome, own: f64, request: &Request) -> Result<(), LabError> {
        let plan = &self.parts.plan;
        if plan.way == Way::Drop || plan.loads.is_empty() {
            return Ok(());
        }
        let reference = self.reference(own)?;
        let shares = plan.loads.iter().map(|share| (format!("latency.{:.0}", share * 100.0), share * reference));
        let mut middles = Vec::new();
        for (name, rate) in shares.chain([("latency.free".to_string(), own)]) {
            let load = Load { duration: LATENCY, ..self.load(rate) };
            let frames = rate * load.duration.as_secs_f64();
            let every = (frames / SAMPLES).max(1.0) as u64;
            self.parts.sink.reset(every.next_power_of_two(), (frames * WARM_UP) as u64)?;
            let (sent, _) = self.send(&load, request)?;
            let times = self.parts.sink.times()?;
            if !sent.is_punctual() {
                outcome.notes.insert(format!("{name} is left out"), format!("late: {}", sent.lateness));
                continue;
            }
            middles.push((sent.rate(), times.value_at_quantile(0.5) as f64));
            outcome.samples.push(Samples::many(name, "ns", times));
        }
        outcome.curves.push(Curve {
            name: "latency over offered".into(),
            x: "offered (packets/s)".into(),
            y: "latency, median (ns)".into(),
            points: middles,
        });
        Ok(())
    }

    /// The first rate that any trial of this experiment found.
    fn reference(&self, own: f64) -> Result<f64, LabError> {
        let path = &self.parts.reference;
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(text.parse().unwrap_or(own)),
            Err(_) => {
                std::fs::write(path, own.to_string()).map_err(|e| LabError::file("write", path, &e))?;
                Ok(own)
            }
        }
    }
}
