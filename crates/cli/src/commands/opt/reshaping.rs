//! What is done to a program as a whole, as far as the object and the kernel go along with it.

use super::{Goal, Work};
use crate::engine;
use crate::failure::Failure;
use crate::input::reachable;
use crate::judge::Kernel;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_optimize::Outcome;
use karakoram_optimize::whole::INLINE;
use karakoram_proof::apply::Proven;
use karakoram_proof::whole::Change;
use std::collections::BTreeSet;

impl Work<'_> {
    /// The program as a whole changed, before anything else is done, and notes about that. The kernel is
    /// asked at once: what it minds cannot be told from rewrites of the functions later.
    pub(super) fn reshaped(&self, kernel: Option<&Kernel>) -> Result<(Proven, Vec<String>), Failure> {
        let program = self.input.program();
        let mut kept: BTreeSet<FuncId> = BTreeSet::new();
        let mut notes = Vec::new();
        loop {
            let start = engine::reshaped(program, &self.settings, &|f| kept.contains(&f));
            if start.changes().is_empty() {
                return Ok((start, notes));
            }
            if let Some(Err(error)) = self.input.object().map(|o| o.write(&start)) {
                notes.push(format!("functions stay where they are: {error}"));
                return Ok((Proven::input(program.clone()), notes));
            }
            let object = self.rewritten(&start)?;
            let before = kept.len();
            for entry in self.entries.iter().filter(|e| is_changed(program, start.base(), **e)) {
                let judgement = self.judge(kernel, start.base(), object.as_ref(), *entry, None);
                if let Some(objection) = judgement.objection {
                    let name = &program.function(*entry).name;
                    notes.push(format!("what {name} calls stays where it is: {objection}"));
                    kept.extend(reachable(program, *entry));
                }
            }
            if kept.len() == before {
                notes.extend(describe(&start));
                return Ok((start, notes));
            }
        }
    }

    /// What comes of the program as it was changed, or, where code in place of calls made nothing
    /// smaller in the end, of the program without that.
    pub(super) fn better_of(&self, start: Proven, notes: &mut Vec<String>) -> Outcome {
        let outcome = engine::run(&start, &self.settings);
        let is_inlined = start.changes().iter().any(|c| matches!(c, Change::Inline { .. }));
        if !is_inlined || self.options.goal == Goal::Latency {
            return outcome;
        }
        let mut settings = self.settings.clone();
        settings.skip.insert(INLINE.to_string());
        let calling = engine::reshaped(self.input.program(), &settings, &|_| false);
        let functions = || (0..start.base().functions.len() as u32).map(FuncId);
        let is_touched = |f: &FuncId| start.base().function(*f) != calling.base().function(*f);
        let (touched, others): (Vec<FuncId>, Vec<FuncId>) = functions().partition(is_touched);
        let slots = |proven: &Proven| touched.iter().map(|f| proven.program().function(*f).slots()).sum::<usize>();
        // What is the same in both becomes the same in both.
        let mut other = engine::resume(&calling, &touched, &settings);
        if slots(&other.proven) >= slots(&outcome.proven) {
            return outcome;
        }
        let rest = engine::resume(&calling, &others, &settings);
        other.proven.absorb(rest.proven);
        other.functions.extend(rest.functions);
        other.is_partial |= rest.is_partial;
        *notes = vec!["calls stay calls: the code in place of them would not be smaller".to_string()];
        notes.extend(describe(&other.proven));
        other
    }
}

/// Whether any function that a program needs is another one.
fn is_changed(before: &Program, after: &Program, entry: FuncId) -> bool {
    reachable(before, entry).iter().any(|f| before.function(*f) != after.function(*f))
}

/// What was done, in words.
fn describe(start: &Proven) -> Vec<String> {
    let mut calls = 0;
    let mut removed = Vec::new();
    for change in start.changes() {
        match change {
            Change::Inline { .. } => calls += 1,
            Change::Remove { function } => removed.push(start.original().function(*function).name.as_str()),
        }
    }
    let mut notes = Vec::new();
    if calls > 0 {
        let calls = if calls == 1 { "a call".to_string() } else { format!("{calls} calls") };
        notes.push(format!("code of functions is in place of {calls} (--skip-rule inline: it is not)"));
    }
    if !removed.is_empty() {
        notes.push(format!("nobody calls these functions any more, and they are gone: {}", removed.join(", ")));
    }
    notes
}
