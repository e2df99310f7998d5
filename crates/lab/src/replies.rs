//! What takes replies to requests that were made in the kernel (`programs/lab/replies.c`): it counts the
//! right ones and the wrong ones. Of every reply the length is looked at, of a share of them every byte.

use crate::error::LabError;
use crate::hook;
use crate::object::{self, Loaded};
use crate::programs::{self, Build};
use crate::testbed::Testbed;
use crate::trial::Workshop;
use karakoram_kernel::attach::Attachment;

/// Longest reply that the program can compare.
const MOST_REPLY: usize = 1408;
/// Replies it can tell apart.
const REPLIES: usize = 4096;
/// One reply in so many is compared byte for byte; a power of two.
const COMPARE_ONE_IN: u64 = 64;

/// The program, loaded.
pub struct Replies {
    loaded: Loaded,
}

/// What it counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Replies of the right length and, if compared, with the right bytes.
    pub right: u64,
    /// Others.
    pub wrong: u64,
    /// Replies that were compared byte for byte.
    pub compared: u64,
}

impl Counted {
    /// Adds another count.
    pub fn add(&mut self, other: Counted) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.compared += other.compared;
    }
}

impl Replies {
    /// Compiles and loads it; these are the right replies to requests 0, 1 and so on.
    pub fn load(workshop: &Workshop, right: &[Vec<u8>]) -> Result<Replies, LabError> {
        if right.len() > REPLIES || right.iter().any(|r| r.len() > MOST_REPLY) {
            let what = format!("at most {REPLIES} replies of at most {MOST_REPLY} bytes can be told apart");
            return Err(LabError::Request(what));
        }
        let object = programs::build(workshop, "lab/replies", Build::Original)?;
        let replies = Replies { loaded: object::load(&object, &["take"])? };
        for (place, reply) in right.iter().enumerate() {
            let mut entry = (reply.len() as u64).to_le_bytes().to_vec();
            entry.extend(reply);
            replies.write("expected", place * (8 + MOST_REPLY), &entry)?;
        }
        Ok(replies)
    }

    /// Puts it on the generator's device, where it lets everything pass to the sockets at first.
    pub fn attach(&self, bed: &Testbed) -> Result<Attachment, LabError> {
        self.pass()?;
        hook::attach_near(bed, self.loaded.program("take"))
    }

    /// Takes replies from now on, and counts from 0.
    pub fn take(&self) -> Result<(), LabError> {
        self.write_counters([1, COMPARE_ONE_IN - 1, 0, 0, 0])
    }

    /// Lets everything pass.
    pub fn pass(&self) -> Result<(), LabError> {
        self.write_counters([0; 5])
    }

    /// What has come since [`Replies::take`].
    pub fn counted(&self) -> Result<Counted, LabError> {
        let mut bytes = [0; 5 * 8];
        let read = self.loaded.mapping("counters")?.read(0, &mut bytes);
        read.map_err(|e| LabError::Machine(format!("could not read the counters of replies: {e}"), String::new()))?;
        let number = |at: usize| u64::from_ne_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes"));
        Ok(Counted { right: number(2), wrong: number(3), compared: number(4) })
    }

    fn write_counters(&self, numbers: [u64; 5]) -> Result<(), LabError> {
        self.write("counters", 0, &numbers.map(u64::to_ne_bytes).concat())
    }

    fn write(&self, map: &str, offset: usize, bytes: &[u8]) -> Result<(), LabError> {
        let written = self.loaded.mapping(map)?.write(offset, bytes);
        written.map_err(|e| LabError::Machine(format!("could not fill map {map}: {e}"), String::new()))
    }
}
