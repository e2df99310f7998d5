//! What a run leaves behind, apart from the maps.

use super::event::Event;
use super::machine::Machine;

/// The result of a run. Map contents are in [`super::Interpreter::state`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// `r0` at the end.
    pub value: u64,
    /// The packet.
    pub packet: Vec<u8>,
    /// The metadata before the packet.
    pub metadata: Vec<u8>,
    /// The context. Fields that are packet pointers hold what the input had there.
    pub context: Vec<u8>,
    /// Memory that was made for the program and that it still had at the end: flow keys, the value
    /// of a socket option, records that were never submitted.
    pub records: Vec<Vec<u8>>,
    /// Other effects, in order.
    pub events: Vec<Event>,
    /// Number of executed instructions.
    pub instructions: u64,
}

impl Outcome {
    pub(super) fn of(value: u64, machine: &mut Machine) -> Outcome {
        let memory = &mut machine.memory;
        Outcome {
            value,
            packet: memory.packet.bytes().to_vec(),
            metadata: memory.packet.metadata().to_vec(),
            context: std::mem::take(&mut memory.context),
            records: std::mem::take(&mut memory.records).into_iter().filter_map(|r| r.bytes).collect(),
            events: std::mem::take(&mut machine.events),
            instructions: machine.options.limits.instructions - machine.remaining,
        }
    }

    /// The first thing that two runs did differently, in words. How many instructions they took does
    /// not count.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        if self.value != other.value {
            return Some(format!("r0: {:#x} and {:#x}", self.value, other.value));
        }
        let bytes = [
            ("packet", &self.packet, &other.packet),
            ("metadata", &self.metadata, &other.metadata),
            ("context", &self.context, &other.context),
        ];
        for (name, a, b) in bytes {
            if a.len() != b.len() {
                return Some(format!("{name}: {} and {} bytes", a.len(), b.len()));
            }
            if let Some(i) = a.iter().zip(b).position(|(a, b)| a != b) {
                return Some(format!("{name} byte {i}: {:#04x} and {:#04x}", a[i], b[i]));
            }
        }
        if self.records != other.records {
            return Some(format!("memory left: {:02x?} and {:02x?}", self.records, other.records));
        }
        let at =
            (0..self.events.len().max(other.events.len())).find(|i| self.events.get(*i) != other.events.get(*i))?;
        let show = |event: Option<&Event>| event.map_or_else(|| "nothing".to_string(), Event::to_string);
        Some(format!("event {at}: {} and {}", show(self.events.get(at)), show(other.events.get(at))))
    }
}
