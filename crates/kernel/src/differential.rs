//! Running two programs side by side: same inputs, same map contents, and whatever differs.
//!
//! Each side has maps of its own, which start out equal and are left to evolve from run to run, so
//! that also what a program remembers is compared. Outputs and events are compared after every run.
//! Map contents are compared after every run when they are small, else every so many runs
//! ([`Differential::interval`]); when they differ then, the runs since the last comparison are
//! repeated from there to find the first that makes a difference.
//!
//! Two programs that share one set of maps work too: the contents are put back between the two
//! runs. That is slower.
//!
//! Not seen: where a redirect would have gone, perf events, sockets, and what [`crate::effects`]
//! lists. Bytes that a program leaves uninitialised on its stack and writes out may differ without
//! either being wrong.

mod difference;

pub use difference::{Difference, Divergence};

use crate::error::KernelError;
use crate::load::LoadedProgram;
use crate::map::{Contents, EventReader, Map, MapSet};
use crate::run::{RunInput, RunOutput, Runner};
use crate::sys::os::{self, Pinned};
use karakoram_bpf::map::MapType;

/// Nanoseconds that comparing maps may take a run, on average, by [`comparison_cost_ns`].
const COMPARISON_BUDGET_NS: usize = 1000;
/// Most runs between two comparisons.
const MOST_INTERVAL: usize = 1024;
/// Most bytes of inputs kept for repeating.
const MOST_KEPT_BYTES: usize = 16 << 20;
/// Most differences reported of one map.
const MOST_ELEMENTS: usize = 8;

/// A program with the maps it was loaded with.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The program.
    pub program: &'a LoadedProgram,
    /// Its maps.
    pub maps: &'a MapSet,
}

/// Two programs under comparison. Keeps the thread on one CPU while it exists.
pub struct Differential<'a> {
    sides: [Side<'a>; 2],
    shared: bool,
    readers: Vec<[Option<EventReader>; 2]>,
    runner: Runner,
    outputs: [RunOutput; 2],
    /// Maps that are compared.
    compared: Vec<usize>,
    scratch: [Contents; 2],
    /// Contents, the same on both sides, before the first input of `kept`.
    checkpoint: Vec<Contents>,
    kept: Vec<RunInput>,
    kept_bytes: usize,
    interval: usize,
    runs: u64,
    _pinned: Option<Pinned>,
}

/// About how long comparing the contents of a map and its twin takes.
fn comparison_cost_ns(map: &Map) -> usize {
    let entries = map.def().max_entries as usize;
    match map.def().kind {
        MapType::ARRAY if map.mapping().is_some() => map.flat_bytes() / 8,
        MapType::ARRAY | MapType::PERCPU_ARRAY => 300 + 100 * entries + map.flat_bytes() / 8,
        // All buckets are looked at, used or not.
        _ => 600 + 8 * entries,
    }
}

fn no_contents() -> Contents {
    Contents::elements(0, 0, Vec::new(), Vec::new())
}

impl<'a> Differential<'a> {
    /// Prepares the comparison; the contents of the second side's maps are made those of the first.
    /// An error when the programs or their maps are not of the same kinds.
    pub fn new(a: Side<'a>, b: Side<'a>) -> Result<Differential<'a>, KernelError> {
        check_alike(a, b)?;
        let (maps_a, maps_b) = (a.maps.maps(), b.maps.maps());
        let shared = std::ptr::eq(maps_a, maps_b) && !maps_a.is_empty();
        let mut readers = Vec::new();
        for (map_a, map_b) in maps_a.iter().zip(maps_b) {
            let second = if shared { None } else { EventReader::open(map_b)? };
            readers.push([EventReader::open(map_a)?, second]);
        }
        let mut out = Differential {
            sides: [a, b],
            shared,
            readers,
            runner: Runner::default(),
            outputs: Default::default(),
            compared: Vec::new(),
            scratch: [no_contents(), no_contents()],
            checkpoint: Vec::new(),
            kept: Vec::new(),
            kept_bytes: 0,
            interval: 1,
            runs: 0,
            _pinned: os::pin_to_current_cpu().ok(),
        };
        let start = a.maps.dump()?;
        // Frozen maps cannot change, and were filled from the same definition.
        let worth = |i: &usize| !maps_a[*i].def().frozen && !matches!(start[*i], Contents::NotComparable(_));
        out.compared = (0..maps_a.len()).filter(worth).collect();
        let cost: usize = out.compared.iter().map(|i| comparison_cost_ns(&maps_a[*i])).sum();
        out.interval = if shared { 1 } else { cost.div_ceil(COMPARISON_BUDGET_NS).clamp(1, MOST_INTERVAL) };
        out.set_contents(&start)?;
        Ok(out)
    }

    /// Runs between two comparisons of map contents.
    pub fn interval(&self) -> usize {
        self.interval
    }

    /// Compares map contents every `runs` runs from now on, at least 1.
    pub fn set_interval(&mut self, runs: usize) {
        self.interval = if self.shared { 1 } else { runs.max(1) };
    }

    /// Runs so far.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Maps whose contents are not compared, with the reason. Ring buffers are not among them:
    /// their records are compared.
    pub fn not_compared(&self) -> Vec<(&str, &'static str)> {
        let maps = self.sides[0].maps.maps();
        let reason = |(i, map): (usize, &'a Map)| match &self.checkpoint[i] {
            Contents::NotComparable(why) if self.readers[i][0].is_none() => Some((map.def().name.as_str(), why.0)),
            _ => None,
        };
        maps.iter().enumerate().filter_map(reason).collect()
    }

    /// Makes the map contents of both sides those, one for each map in order, and forgets all
    /// events and past runs. The state to begin with may be taken from [`MapSet::dump`].
    pub fn set_contents(&mut self, contents: &[Contents]) -> Result<(), KernelError> {
        for side in &self.sides {
            side.maps.restore(contents)?;
        }
        for map in 0..self.readers.len() {
            for side in 0..2 {
                self.drain(map, side)?;
            }
        }
        self.checkpoint = contents.to_vec();
        self.forget_inputs();
        Ok(())
    }

    /// Runs both on an input. What comes back differs in this run or, for maps that are not
    /// compared every time, in one since the last comparison.
    pub fn run(&mut self, input: &RunInput) -> Result<Option<Divergence>, KernelError> {
        self.runs += 1;
        let mut differences = self.run_both(input)?;
        if self.interval == 1 {
            if !self.shared {
                differences.extend(self.map_differences()?);
            }
        } else {
            self.keep(input);
            if self.kept.len() >= self.interval || self.kept_bytes > MOST_KEPT_BYTES {
                return self.compare_maps_or(differences);
            }
        }
        Ok(self.divergence(input, differences))
    }

    /// Compares the maps if that was not done since the last run. To be called after the last input.
    pub fn finish(&mut self) -> Result<Option<Divergence>, KernelError> {
        if self.kept.is_empty() { Ok(None) } else { self.compare_maps_or(Vec::new()) }
    }

    /// Runs both on all inputs, stopping at the first difference.
    pub fn run_all<'i>(
        &mut self,
        inputs: impl IntoIterator<Item = &'i RunInput>,
    ) -> Result<Option<Divergence>, KernelError> {
        for input in inputs {
            if let Some(found) = self.run(input)? {
                return Ok(Some(found));
            }
        }
        self.finish()
    }

    fn divergence(&self, input: &RunInput, differences: Vec<Difference>) -> Option<Divergence> {
        if differences.is_empty() {
            return None;
        }
        Some(Divergence { run: Some(self.runs), input: input.clone(), differences })
    }

    fn keep(&mut self, input: &RunInput) {
        self.kept_bytes += input.data.len() + input.ctx.len();
        self.kept.push(input.clone());
    }

    fn forget_inputs(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
    }

    /// Runs both; returns differences of outputs and events, and of maps when they are shared.
    fn run_both(&mut self, input: &RunInput) -> Result<Vec<Difference>, KernelError> {
        let mut differences = Vec::new();
        self.run_side(0, input)?;
        let mut after_a = Vec::new();
        let mut events_a = Vec::new();
        if self.shared {
            events_a = self.drain_all(0)?;
            after_a = self.sides[0].maps.dump()?;
            for i in &self.compared {
                self.sides[0].maps.maps()[*i].restore(&self.checkpoint[*i], Some(&after_a[*i]))?;
            }
        }
        self.run_side(1, input)?;
        difference::of_outputs(&self.outputs[0], &self.outputs[1], &mut differences);
        if self.shared {
            let events_b = self.drain_all(0)?;
            for (map, (a, b)) in events_a.iter().zip(&events_b).enumerate() {
                differences.extend(difference::of_events(&self.map(map).def().name, a, b));
            }
            self.checkpoint = self.sides[1].maps.dump()?;
            for &i in &self.compared {
                let found = after_a[i].differences(&self.checkpoint[i], MOST_ELEMENTS);
                differences.extend(difference::of_elements(&self.map(i).def().name, found));
            }
        } else {
            for map in 0..self.readers.len() {
                if self.readers[map][0].is_some() {
                    let (a, b) = (self.drain(map, 0)?, self.drain(map, 1)?);
                    differences.extend(difference::of_events(&self.map(map).def().name, &a, &b));
                }
            }
        }
        Ok(differences)
    }

    fn map(&self, index: usize) -> &'a Map {
        &self.sides[0].maps.maps()[index]
    }

    fn run_side(&mut self, side: usize, input: &RunInput) -> Result<(), KernelError> {
        self.runner.run(self.sides[side].program, input, &mut self.outputs[side])
    }

    fn drain(&self, map: usize, side: usize) -> Result<Vec<Vec<u8>>, KernelError> {
        match &self.readers[map][side] {
            Some(reader) => reader.drain().map_err(|e| self.map(map).error("read", e)),
            None => Ok(Vec::new()),
        }
    }

    fn drain_all(&self, side: usize) -> Result<Vec<Vec<Vec<u8>>>, KernelError> {
        (0..self.readers.len()).map(|map| self.drain(map, side)).collect()
    }

    /// Differences between the maps of the two sides now.
    fn map_differences(&mut self) -> Result<Vec<Difference>, KernelError> {
        let mut differences = Vec::new();
        for at in 0..self.compared.len() {
            let index = self.compared[at];
            let (a, b) = (self.map(index), &self.sides[1].maps.maps()[index]);
            if let (Some(x), Some(y)) = (a.mapping(), b.mapping())
                && x.equals_mapping(y, a.flat_bytes())
            {
                continue;
            }
            a.dump_into(&mut self.scratch[0])?;
            b.dump_into(&mut self.scratch[1])?;
            if self.scratch[0] != self.scratch[1] {
                let found = self.scratch[0].differences(&self.scratch[1], MOST_ELEMENTS);
                differences.extend(difference::of_elements(&a.def().name, found));
            }
        }
        Ok(differences)
    }

    /// Compares the maps; equal ones become the new checkpoint, for others the run is looked for.
    fn compare_maps_or(&mut self, mut differences: Vec<Difference>) -> Result<Option<Divergence>, KernelError> {
        let found = self.map_differences()?;
        let last = self.kept.last().cloned().unwrap_or_default();
        if found.is_empty() {
            for &i in &self.compared {
                self.sides[0].maps.maps()[i].dump_into(&mut self.checkpoint[i])?;
            }
            self.forget_inputs();
            return Ok(self.divergence(&last, differences));
        }
        if !differences.is_empty() {
            differences.extend(found);
            self.forget_inputs();
            return Ok(self.divergence(&last, differences));
        }
        self.find_first(found).map(Some)
    }

    /// Repeats the runs since the checkpoint, comparing after each.
    fn find_first(&mut self, found: Vec<Difference>) -> Result<Divergence, KernelError> {
        let inputs = std::mem::take(&mut self.kept);
        let first_run = self.runs + 1 - inputs.len() as u64;
        let checkpoint = std::mem::take(&mut self.checkpoint);
        self.set_contents(&checkpoint)?;
        for (i, input) in inputs.iter().enumerate() {
            let mut differences = self.run_both(input)?;
            differences.extend(self.map_differences()?);
            if !differences.is_empty() {
                return Ok(Divergence { run: Some(first_run + i as u64), input: input.clone(), differences });
            }
        }
        // It does not come again: the programs depend on something besides input and maps.
        Ok(Divergence { run: None, input: inputs.last().cloned().unwrap_or_default(), differences: found })
    }
}

fn check_alike(a: Side, b: Side) -> Result<(), KernelError> {
    let doing = || format!("compare programs {} and {}", a.program.name, b.program.name);
    if a.program.prog_type != b.program.prog_type {
        let why = format!("one is {}, the other {}", a.program.prog_type.name(), b.program.prog_type.name());
        return Err(KernelError::invalid(doing(), why));
    }
    if a.maps.maps().len() != b.maps.maps().len() {
        let why = format!("one has {} maps, the other {}", a.maps.maps().len(), b.maps.maps().len());
        return Err(KernelError::invalid(doing(), why));
    }
    for (x, y) in a.maps.maps().iter().zip(b.maps.maps()) {
        let shape = |m: &Map| {
            let i = m.fd().info();
            (i.map_type, i.key_size, i.value_size, i.max_entries)
        };
        if shape(x) != shape(y) {
            return Err(KernelError::invalid(doing(), format!("their maps {} are not alike", x.def().name)));
        }
    }
    Ok(())
}
