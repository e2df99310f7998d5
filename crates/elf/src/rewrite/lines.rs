//! Source lines of an edited function.

use crate::btf::ext::Record;
use crate::code::SLOT_BYTES;
use karakoram_bpf::insn::InsnId;
use karakoram_bpf::program::Function;

/// What the input says about the lines of a function.
struct Lines<'a> {
    /// By instruction of the input: the record at it.
    own: Vec<Option<&'a Record>>,
    /// By instruction of the input: the last record at or before it.
    holds: Vec<Option<&'a Record>>,
}

impl<'a> Lines<'a> {
    fn new(before: &Function, old_start: u64, records: &[&'a Record]) -> Lines<'a> {
        let offsets = before.slot_offsets();
        let mut own = vec![None; before.nodes.len()];
        for record in records {
            let slot = (record.offset() as u64 - old_start) / SLOT_BYTES;
            let n = offsets.partition_point(|o| *o as u64 <= slot);
            if let Some(entry) = n.checked_sub(1).and_then(|n| own.get_mut(n)) {
                *entry = Some(*record);
            }
        }
        let mut last = None;
        let hold = |own: &Option<&'a Record>| {
            last = own.or(last);
            last
        };
        Lines { holds: own.iter().map(hold).collect(), own }
    }

    fn own(&self, id: InsnId) -> Option<&'a Record> {
        self.own.get(id.0 as usize).copied().flatten()
    }

    fn holds(&self, id: InsnId) -> Option<&'a Record> {
        self.holds.get(id.0 as usize).copied().flatten()
    }
}

/// The line records of an edited function, from those of the input inside it. Every instruction of the
/// input keeps its line, wherever it went; new instructions belong to the line before them; the first
/// instruction always has a record, as the kernel demands one.
pub(super) fn moved(
    before: &Function,
    old_start: u64,
    records: &[&Record],
    after: &Function,
    new_start: u64,
) -> Vec<Record> {
    let at = |slot: usize| (new_start + slot as u64 * SLOT_BYTES) as u32;
    if before == after {
        let shift = |r: &&Record| r.with_offset((r.offset() as u64 - old_start + new_start) as u32);
        return records.iter().map(shift).collect();
    }
    let lines = Lines::new(before, old_start, records);
    let mut current: Option<&Record> = None;
    let mut out = Vec::new();
    for (n, (node, slot)) in after.nodes.iter().zip(after.slot_offsets()).enumerate() {
        let changed = |r: &&Record| current.map(|c| c.place) != Some(r.place);
        let record = lines.own(node.id).or_else(|| lines.holds(node.id).filter(changed));
        let record = if n == 0 { record.or(records.first().copied()) } else { record };
        if let Some(record) = record {
            out.push(record.with_offset(at(slot)));
            current = Some(record);
        }
    }
    out
}
