//! A data centre's optical links over a year: they start to corrupt frames, are taken out of service
//! for repair where capacity allows (CorrOpt, SIGCOMM 2017), and may be protected meanwhile.
//!
//! Three tiers: a pod has top-of-rack switches that reach all its aggregation switches, and these
//! have uplinks to the spine. A rack's paths are the pairs of a link up to an aggregation switch and
//! an uplink of that switch, all in service. Pods do not share links, so all decisions are per pod.

mod optimize;
mod pod;
mod run;
mod trace;

pub use pod::{LinkId, Shape};
pub use run::{Policy, Protection, Row, Summary, Tested, run};
pub use trace::{Failure, failures};
