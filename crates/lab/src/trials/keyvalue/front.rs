//! What stands before memcached: a program where requests arrive, and one where replies leave.

use crate::error::LabError;
use crate::hook::{self, Hook, Place};
use crate::object::{self, Loaded};
use crate::testbed::Testbed;
use karakoram_kernel::attach::{self, Attachment, Direction};
use karakoram_kernel::error::KernelError;
use karakoram_kernel::load::LoadedProgram;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

/// Programs of one object.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Front {
    /// Program below `programs/`, or a path of an object.
    #[serde(default = "ours")]
    pub program: String,
    /// The one at XDP.
    receive: String,
    /// The one at tcx egress.
    send: Option<String>,
    /// Programs that are called: for each map of programs, which ones are in it.
    #[serde(default)]
    calls: BTreeMap<String, Vec<String>>,
    /// Where it counts the requests it answers; without this it is not expected to answer any.
    pub hits: Option<Hits>,
}

/// A number of 64 bits in the first element of an array (of each CPU, or of all).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Hits {
    map: String,
    /// Bytes before the number.
    #[serde(default)]
    at: usize,
}

fn ours() -> String {
    "lab/keyvalue".into()
}

/// Programs in place.
pub struct InPlace {
    loaded: Option<Loaded>,
    hits: Option<Hits>,
    _receive: hook::Attached,
    _send: Option<Attachment>,
}

impl InPlace {
    /// Nothing: memcached alone.
    pub fn nothing(bed: &Testbed) -> Result<InPlace, LabError> {
        let attached = hook::attach(bed, Hook::Socket, None, Place::default())?;
        bed.pin_receiver()?;
        Ok(InPlace { loaded: None, hits: None, _receive: attached, _send: None })
    }

    /// Requests the programs have answered so far; `None` when they are not expected to.
    pub fn hits(&self) -> Result<Option<u64>, LabError> {
        let (Some(loaded), Some(hits)) = (&self.loaded, &self.hits) else { return Ok(None) };
        let map = loaded.map(&hits.map)?;
        let values = map.lookup(&[0; 4]).map_err(failed)?.unwrap_or_default();
        let number = |value: &[u8]| value.get(hits.at..hits.at + 8).and_then(|b| b.try_into().ok());
        let numbers: Option<Vec<u64>> =
            values.chunks(map.stride()).map(|value| number(value).map(u64::from_ne_bytes)).collect();
        let numbers = numbers
            .ok_or_else(|| LabError::Request(format!("map {} has no number of 8 bytes at {}", hits.map, hits.at)))?;
        Ok(Some(numbers.iter().sum()))
    }
}

impl Front {
    /// Loads the programs from the object and puts them in place.
    pub fn attach(&self, object: &Path, bed: &Testbed) -> Result<InPlace, LabError> {
        let ends = [Some(&self.receive), self.send.as_ref()];
        let names: Vec<&str> =
            ends.into_iter().flatten().chain(self.calls.values().flatten()).map(String::as_str).collect();
        let loaded = object::load(object, &names)?;
        for (map, called) in &self.calls {
            for (place, name) in called.iter().enumerate() {
                let put = loaded.map(map)?.update_fd(&(place as u32).to_ne_bytes(), loaded.program(name).as_fd());
                put.map_err(failed)?;
            }
        }
        let receive = hook::attach(bed, Hook::Xdp, Some(loaded.program(&self.receive)), Place::default())?;
        let send = self.send.as_ref().map(|name| attach_egress(bed, loaded.program(name))).transpose()?;
        Ok(InPlace { loaded: Some(loaded), hits: self.hits.clone(), _receive: receive, _send: send })
    }
}

fn attach_egress(bed: &Testbed, program: &LoadedProgram) -> Result<Attachment, LabError> {
    let device = bed.tested.device.index;
    bed.tested
        .namespace
        .run(|| attach::tcx(program, device, Direction::Egress))?
        .map_err(|e| LabError::Machine(e.to_string(), "tcx needs Linux 6.6 or later".into()))
}

fn failed(error: KernelError) -> LabError {
    LabError::Machine(error.to_string(), String::new())
}
