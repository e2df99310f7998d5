//! What the loader puts into instructions: CO-RE relocations, by number.

use crate::btf::ext::{Record, Table};
use crate::lift::Input;
use karakoram_bpf::program::{Patch, Program};
use std::collections::BTreeMap;

/// What makes two instructions of one section get the same: the name of the section, and the records but
/// for the place that they are about.
type Content = (String, Vec<Vec<u8>>);

/// The CO-RE relocations of an object. Those that are alike in a section have one number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patches {
    records: BTreeMap<Patch, Vec<Record>>,
    numbers: BTreeMap<Content, Patch>,
}

impl Patches {
    /// Takes up the relocations of a section; by offset in it, in bytes.
    pub fn add_section(&mut self, input: &Input, section: usize) -> BTreeMap<u64, Patch> {
        let mut places: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
        let name = &input.container.sections[section].name;
        if let (Some(btf), Some(ext)) = (input.btf, input.ext) {
            for record in ext.records(Table::Relocations, btf, name) {
                places.entry(record.offset() as u64).or_default().push(record.clone());
            }
        }
        places.into_iter().map(|(place, records)| (place, self.number(name, records))).collect()
    }

    fn number(&mut self, section: &str, records: Vec<Record>) -> Patch {
        let content = (section.to_string(), records.iter().map(|r| r.with_offset(0).bytes).collect());
        let next = Patch(self.records.len() as u32);
        let number = *self.numbers.entry(content).or_insert(next);
        if number == next {
            self.records.insert(number, records);
        }
        number
    }

    /// The records of a patch; their offsets mean nothing.
    pub fn records(&self, patch: Patch) -> &[Record] {
        self.records.get(&patch).map_or(&[], Vec::as_slice)
    }

    /// Gives the relocations of a program the numbers that they have in another object; those that are
    /// not there get numbers that nothing there has.
    pub fn number_as(&mut self, other: &Patches, program: &mut Program) {
        let foreign = |p: Patch| Patch(other.records.len() as u32 + p.0);
        let mut changed = BTreeMap::new();
        for (content, number) in &mut self.numbers {
            let new = other.numbers.get(content).copied().unwrap_or(foreign(*number));
            changed.insert(std::mem::replace(number, new), new);
        }
        self.records = std::mem::take(&mut self.records).into_iter().map(|(p, r)| (changed[&p], r)).collect();
        for node in program.functions.iter_mut().flat_map(|f| &mut f.nodes) {
            node.patch = node.patch.map(|p| changed[&p]);
        }
    }
}
