//! Where stamped frames come from.

use super::live::LiveGenerator;
use super::load::{Load, Sent};
use super::packets;
use crate::error::LabError;
use crate::testbed::Testbed;
use crate::trial::Workshop;
use serde::Deserialize;

/// A way to make them, as experiments name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// In the kernel, by a program on live frames; they reach XDP as frames.
    #[default]
    Live,
    /// In user space, through an AF_XDP socket in copy mode; they reach XDP as packets of the kernel's.
    AfXdp,
}

/// A generator that is ready.
pub enum Generator {
    /// Of live frames.
    Live(Box<LiveGenerator>),
    /// On an AF_XDP socket, which is opened for each load.
    AfXdp,
}

impl Generator {
    /// Makes it ready.
    pub fn load(source: Source, workshop: &Workshop) -> Result<Generator, LabError> {
        Ok(match source {
            Source::Live => Generator::Live(Box::new(LiveGenerator::load(workshop)?)),
            Source::AfXdp => Generator::AfXdp,
        })
    }

    /// Sends from the testbed's generator side, and returns when all is sent.
    pub fn send(&self, bed: &Testbed, load: &Load) -> Result<Sent, LabError> {
        match self {
            Generator::Live(live) => live.send(bed, load),
            Generator::AfXdp => packets::send(bed, load),
        }
    }
}
