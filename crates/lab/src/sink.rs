//! What receives on the generator's side (`programs/lab/sink.c`): counts, and keeps how long frames were
//! under way.

use crate::error::LabError;
use crate::hook;
use crate::object::{self, Loaded};
use crate::programs::{self, Build};
use crate::testbed::Testbed;
use crate::trial::{Workshop, histogram};
use hdrhistogram::Histogram;
use karakoram_kernel::attach::Attachment;
use karakoram_kernel::sys::Mapping;

/// Times that the program has room for.
const ROOM: u64 = 1 << 20;
/// Places of the numbers in `struct counters`.
const RECEIVED: usize = 0;
const SAMPLED: usize = 3;
const NUMBERS: usize = 6;

/// The program, loaded.
pub struct Sink {
    loaded: Loaded,
}

impl Sink {
    /// Compiles and loads it.
    pub fn load(workshop: &Workshop) -> Result<Sink, LabError> {
        let object = programs::build(workshop, "lab/sink", Build::Original)?;
        Ok(Sink { loaded: object::load(&object, &["sink", "accept"])? })
    }

    /// Takes every frame that comes to the generator's device.
    pub fn attach(&self, bed: &Testbed) -> Result<Attachment, LabError> {
        hook::attach_near(bed, self.loaded.program("sink"))
    }

    /// Lets every frame pass to the sockets; for veth, which wants a program there.
    pub fn attach_open(&self, bed: &Testbed) -> Result<Attachment, LabError> {
        hook::attach_near(bed, self.loaded.program("accept"))
    }

    /// Counts from 0 again, and keeps the time of one frame in `every` (a power of two) of those that
    /// have sequence numbers from `first` on.
    pub fn reset(&self, every: u64, first: u64) -> Result<(), LabError> {
        let numbers = [0, 0, 0, 0, every - 1, first];
        let bytes: Vec<u8> = numbers.iter().flat_map(|n: &u64| n.to_ne_bytes()).collect();
        self.mapping("counters")?.write(0, &bytes).map_err(|e| unreadable(&e))
    }

    /// Frames received.
    pub fn received(&self) -> Result<u64, LabError> {
        Ok(self.numbers()?[RECEIVED])
    }

    /// The times kept, in ns.
    pub fn times(&self) -> Result<Histogram<u64>, LabError> {
        let kept = self.numbers()?[SAMPLED].min(ROOM) as usize;
        let mut bytes = vec![0; kept * 8];
        self.mapping("samples")?.read(0, &mut bytes).map_err(|e| unreadable(&e))?;
        let mut times = histogram();
        for sample in bytes.chunks_exact(8) {
            let ns = u32::from_ne_bytes(sample[..4].try_into().expect("four bytes"));
            times.record(u64::from(ns)).expect("the histogram grows");
        }
        Ok(times)
    }

    fn numbers(&self) -> Result<Vec<u64>, LabError> {
        let mut bytes = [0; NUMBERS * 8];
        self.mapping("counters")?.read(0, &mut bytes).map_err(|e| unreadable(&e))?;
        Ok(bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect())
    }

    fn mapping(&self, map: &str) -> Result<&Mapping, LabError> {
        self.loaded.mapping(map)
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> LabError {
    LabError::Machine(format!("could not use the sink's counters: {error}"), String::new())
}
