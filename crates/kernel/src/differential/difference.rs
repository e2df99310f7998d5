//! What can differ between two runs.

use crate::map::ElementDifference;
use crate::run::{RunInput, RunOutput};
use std::fmt;

/// One thing that is not the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// The value returned.
    Retval {
        /// By the first program.
        a: u32,
        /// By the second.
        b: u32,
    },
    /// The packet afterwards.
    Data {
        /// Of the first program.
        a: Vec<u8>,
        /// Of the second.
        b: Vec<u8>,
    },
    /// The context afterwards.
    Context {
        /// Of the first program.
        a: Vec<u8>,
        /// Of the second.
        b: Vec<u8>,
    },
    /// An element of a map.
    Element {
        /// Name of the map.
        map: String,
        /// Key and values.
        element: ElementDifference,
    },
    /// A record in a ring buffer. None when one program wrote fewer.
    Event {
        /// Name of the map.
        map: String,
        /// Which record of the run, from 0.
        index: usize,
        /// Of the first program.
        a: Option<Vec<u8>>,
        /// Of the second.
        b: Option<Vec<u8>>,
    },
}

/// A run that went differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Divergence {
    /// Number of the run since the beginning, from 1; None when the maps differed but the runs in
    /// question went the same when repeated.
    pub run: Option<u64>,
    /// Its input; the last of those in question when `run` is None.
    pub input: RunInput,
    /// What differs.
    pub differences: Vec<Difference>,
}

pub(super) fn of_outputs(a: &RunOutput, b: &RunOutput, into: &mut Vec<Difference>) {
    if a.retval != b.retval {
        into.push(Difference::Retval { a: a.retval, b: b.retval });
    }
    if a.data != b.data {
        into.push(Difference::Data { a: a.data.clone(), b: b.data.clone() });
    }
    if a.ctx != b.ctx {
        into.push(Difference::Context { a: a.ctx.clone(), b: b.ctx.clone() });
    }
}

pub(super) fn of_elements(map: &str, elements: Vec<ElementDifference>) -> impl Iterator<Item = Difference> {
    elements.into_iter().map(move |element| Difference::Element { map: map.to_string(), element })
}

/// The first record that differs.
pub(super) fn of_events(map: &str, a: &[Vec<u8>], b: &[Vec<u8>]) -> Option<Difference> {
    let index = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))?;
    Some(Difference::Event { map: map.to_string(), index, a: a.get(index).cloned(), b: b.get(index).cloned() })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Difference::Retval { a, b } => write!(f, "returned {a} and {b}"),
            Difference::Data { a, b } => bytes(f, "packet", a, b),
            Difference::Context { a, b } => bytes(f, "context", a, b),
            Difference::Element { map, element } => {
                write!(f, "map {map}, key {}: ", Hex(&element.key))?;
                pair(f, element.a.as_deref(), element.b.as_deref())
            }
            Difference::Event { map, index, a, b } => {
                write!(f, "ring buffer {map}, record {index}: ")?;
                pair(f, a.as_deref(), b.as_deref())
            }
        }
    }
}

/// The place of the first difference, and eight bytes from there.
fn bytes(f: &mut fmt::Formatter, what: &str, a: &[u8], b: &[u8]) -> fmt::Result {
    if a.len() != b.len() {
        write!(f, "{what} of {} and {} bytes; ", a.len(), b.len())?;
    }
    let at = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len()));
    let part = |bytes: &[u8]| Hex(&bytes[at..bytes.len().min(at + 8)]).to_string();
    write!(f, "{what} from byte {at}: {} and {}", part(a), part(b))
}

fn pair(f: &mut fmt::Formatter, a: Option<&[u8]>, b: Option<&[u8]>) -> fmt::Result {
    let side = |v: Option<&[u8]>| v.map_or("nothing".to_string(), |v| Hex(v).to_string());
    write!(f, "{} and {}", side(a), side(b))
}

/// Bytes in hexadecimal, long ones cut.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const MOST: usize = 64;
        for byte in self.0.iter().take(MOST) {
            write!(f, "{byte:02x}")?;
        }
        if self.0.len() > MOST {
            write!(f, "...")?;
        }
        Ok(())
    }
}
