//! The check of one rewrite: original and replacement do the same on every path from the window's
//! entry, for every state that the facts allow, as far as anything after the window can tell.

use crate::ProverOptions;
use crate::bytes::{PacketBytes, StackBytes};
use crate::call::{CallResult, Signature};
use crate::facts::Facts;
use crate::refusal::Refusal;
use crate::region::Region;
use crate::rewrite::{Edited, Original, Rewrite};
use crate::solver::{Answer, Backend, Decide};
use crate::structure::is_same_flow;
use crate::symbolic::{Classes, Event, Happening, Leave, Memory, Run, Silent, Symbols, Touch, explore};
use crate::term::Term;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::{FuncId, Insn, InsnId, Reg};
use karakoram_bpf::program::Program;
use std::collections::{BTreeSet, HashMap, HashSet};

/// What a check cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effort {
    /// Paths of the original times paths of the replacement.
    pub pairs: usize,
    /// Terms made.
    pub terms: usize,
    /// Queries that reached the solver.
    pub queries: u64,
}

/// Checks one rewrite against the facts of its function.
pub fn check(
    program: &Program,
    facts: &Facts,
    rewrite: &Rewrite,
    signature: &dyn Fn(FuncId) -> Signature,
    options: ProverOptions,
    backend: &Backend,
) -> Result<Effort, Refusal> {
    let whole;
    let rewrite = match options.windows {
        true => rewrite,
        false => {
            whole = of_whole_function(program, rewrite);
            &whole
        }
    };
    let function = program.function(rewrite.function);
    rewrite.validate(function, &facts.flow)?;
    if is_same_flow(function, facts, rewrite) {
        return Ok(Effort::default());
    }
    rewrite.validate_entry(function, &facts.flow)?;
    if rewrite.edits.iter().all(|e| e.at.clone().all(|p| !facts.is_reachable(p)))
        && rewrite.edits.iter().all(|e| e.nodes.is_empty())
    {
        // Nothing ever comes here, so nothing is lost; the layout before it must not fall into it.
        return check_unreachable(function, facts, rewrite);
    }
    let (mut checker, old, new) = prepare(program, facts, rewrite, signature, options, backend)?;
    for a in &old {
        for b in &new {
            checker.pair(a, b)?;
        }
    }
    checker.confirm_lemmas()?;
    Ok(Effort { pairs: old.len() * new.len(), terms: checker.symbols.terms.len(), queries: checker.queries })
}

/// The same edits with the whole function as window.
fn of_whole_function(program: &Program, rewrite: &Rewrite) -> Rewrite {
    let n = program.function(rewrite.function).nodes.len();
    Rewrite { entry: 0, window: std::iter::once(0..n).collect(), ..rewrite.clone() }
}

/// Runs both sides of a rewrite.
pub(crate) fn prepare<'a>(
    program: &'a Program,
    facts: &'a Facts,
    rewrite: &Rewrite,
    signature: &'a dyn Fn(FuncId) -> Signature,
    options: ProverOptions,
    backend: &'a Backend,
) -> Result<(Checker<'a>, Vec<Run>, Vec<Run>), Refusal> {
    let function = program.function(rewrite.function);
    if !facts.is_reachable(rewrite.entry) {
        return Err(Refusal::Malformed("the window is never reached, and not just removed"));
    }
    let entry = (rewrite.entry, function.nodes[rewrite.entry].id);
    let mut symbols = Symbols::new(program, facts, entry, signature, options);
    if backend.checks_lemmas() {
        symbols.terms.keep_journal();
    }
    let new_ids: HashSet<InsnId> = rewrite.edits.iter().flat_map(|e| &e.nodes).map(|n| n.id).collect();
    let edited: HashSet<InsnId> =
        rewrite.edits.iter().flat_map(|e| e.at.clone()).map(|p| function.nodes[p].id).collect();
    let dropped = |id: InsnId| edited.contains(&id) && !new_ids.contains(&id);
    let steps = rewrite.size() + 2;
    let original = Original { function, flow: &facts.flow, rewrite };
    let silent = Silent { calls: &dropped, additions: &|_| false };
    let old = explore(&mut symbols, &original, rewrite.entry, steps, &silent)?;
    let code = Edited::new(function, &facts.flow, rewrite);
    let start = code.place(rewrite.entry).ok_or(Refusal::Malformed("the entry lies inside an edit"))?;
    let was_atomic = |id| {
        let position = facts.flow.positions.get(&id);
        position.is_some_and(|p| matches!(function.nodes[*p].insn, Insn::Atomic { .. }))
    };
    let silent = Silent { calls: &|_| false, additions: &|id| !was_atomic(id) };
    let new = explore(&mut symbols, &code, start, steps, &silent)?;
    Ok((Checker { symbols, solver: None, backend, queries: 0, witness: None, wants_witness: false }, old, new))
}

/// An input on which two versions of a function differ, as far as the prover's model determines it.
/// It is a suggestion: only running both tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Witness {
    /// Packet (or buffer) bytes.
    pub packet: Vec<u8>,
    /// Context fields: offset, size in bytes, value.
    pub context: Vec<(u64, u32, u64)>,
    /// Map elements that lookups find: map, key, value.
    pub maps: Vec<(usize, Vec<u8>, Vec<u8>)>,
    /// What differs.
    pub what: String,
}

/// Looks for an input on which the edited function differs from the original, over all paths of the
/// whole function.
pub fn witness(
    program: &Program,
    facts: &Facts,
    rewrite: &Rewrite,
    signature: &dyn Fn(FuncId) -> Signature,
    backend: &Backend,
) -> Option<Witness> {
    let rewrite = of_whole_function(program, rewrite);
    let function = program.function(rewrite.function);
    rewrite.validate(function, &facts.flow).ok()?;
    rewrite.validate_entry(function, &facts.flow).ok()?;
    let (mut checker, old, new) =
        prepare(program, facts, &rewrite, signature, ProverOptions::default(), backend).ok()?;
    let (run, model, what) = first_difference(&mut checker, &old, &new)?;
    Some(checker.describe_model(run, &model, what))
}

/// The first pair of paths that differ: that of the original, values of the unknowns, and what differs.
pub(crate) fn first_difference<'r>(
    checker: &mut Checker,
    old: &'r [Run],
    new: &[Run],
) -> Option<(&'r Run, HashMap<u32, u64>, String)> {
    checker.wants_witness = true;
    for a in old {
        for b in new {
            if let Err(Refusal::Different(what)) = checker.pair(a, b)
                && let Some(model) = checker.witness.take()
            {
                return Some((a, model, what));
            }
        }
    }
    None
}

/// Removing code that no execution reaches: only positions matter, nothing may start to fall through.
fn check_unreachable(
    function: &karakoram_bpf::program::Function,
    facts: &Facts,
    rewrite: &Rewrite,
) -> Result<Effort, Refusal> {
    for edit in &rewrite.edits {
        let before = edit.at.start.checked_sub(1);
        let falls_in = before.is_some_and(|p| facts.is_reachable(p) && !function.nodes[p].insn.ends_block());
        let jumped_to = edit.at.clone().any(|p| {
            let outside = |q: &usize| !rewrite.edits.iter().any(|e| e.at.contains(q));
            facts.flow.predecessors[p].iter().any(outside)
        });
        if edit.at.start == 0 || falls_in || jumped_to {
            return Err(Refusal::Malformed("unreachable code that other code still leads to"));
        }
    }
    Ok(Effort::default())
}

/// Bytes that somebody may still read.
struct LiveBytes {
    stack: StackBytes,
    packet: PacketBytes,
}

impl LiveBytes {
    const ALL: LiveBytes = LiveBytes { stack: StackBytes::ALL, packet: PacketBytes::ALL };
}

/// Compares runs.
pub(crate) struct Checker<'a> {
    pub(crate) symbols: Symbols<'a>,
    /// Started for the first question that the terms do not answer by themselves.
    solver: Option<Box<dyn Decide>>,
    backend: &'a Backend,
    queries: u64,
    /// A state in which the two differ, from the solver's last model.
    witness: Option<HashMap<u32, u64>>,
    wants_witness: bool,
}

impl Checker<'_> {
    /// Shows that no execution takes both paths, or that they agree.
    fn pair(&mut self, old: &Run, new: &Run) -> Result<(), Refusal> {
        for k in 0..old.events.len().max(new.events.len()) {
            let prefix = |run: &Run| run.events.get(k).map_or(run.conditions.len(), |e| e.conditions);
            let conditions = [&old.conditions[..prefix(old)], &new.conditions[..prefix(new)]].concat();
            if self.contradict(&conditions) {
                return Ok(());
            }
            match (old.events.get(k), new.events.get(k)) {
                (Some(a), Some(b)) if a.what == b.what && a.changed == b.changed => {
                    let goal = self.event_goal(a, b)?;
                    self.prove(&conditions, goal, &format!("what {} sees", describe(a)))?;
                }
                (a, b) => {
                    let event = a.or(b).expect("k counts events of one of them");
                    let impossible = self.symbols.terms.bool(false);
                    self.prove(&conditions, impossible, &format!("the order of effects ({})", describe(event)))?;
                    return Ok(());
                }
            }
        }
        let conditions = [&old.conditions[..], &new.conditions[..]].concat();
        if self.contradict(&conditions) {
            return Ok(());
        }
        let (Some(to), Some(new_to)) = (old.leave, new.leave) else {
            return Err(Refusal::Malformed("a path that leads nowhere"));
        };
        if to != new_to {
            let impossible = self.symbols.terms.bool(false);
            return self.prove(&conditions, impossible, "where control goes");
        }
        let facts = self.symbols.facts;
        let (regs, live) = match to {
            Leave::Return => {
                (RegSet::EMPTY.with(Reg::R0), LiveBytes { stack: StackBytes::NONE, packet: PacketBytes::ALL })
            }
            Leave::To(id) => {
                let p = facts.flow.positions[&id];
                (facts.live[p], LiveBytes { stack: facts.live_stack[p], packet: facts.live_packet[p] })
            }
        };
        for r in regs.iter() {
            match (old.regs[r.index()], new.regs[r.index()]) {
                (Some(a), Some(b)) => {
                    let (a, b) = match to == Leave::Return && facts.returns_32_bits {
                        true => (self.symbols.terms.extract(31, 0, a), self.symbols.terms.extract(31, 0, b)),
                        false => (a, b),
                    };
                    let goal = self.symbols.terms.eq(a, b);
                    self.prove(&conditions, goal, &r.to_string())?;
                }
                // What the original leaves undefined, nothing that it allows can depend on.
                (None, _) => {}
                (Some(_), None) => {
                    let impossible = self.symbols.terms.bool(false);
                    self.prove(&conditions, impossible, &r.to_string())?;
                }
            }
        }
        let goal = self.memory_goal(&old.memory, &new.memory, Classes::ALL, &live)?;
        self.prove(&conditions, goal, "memory")?;
        // What the loader finds no value for, it makes something that must not be reached.
        if !new.patches.is_subset(&old.patches) {
            return Err(Refusal::Unsafe("an instruction that the loader changes, on a path without it".to_string()));
        }
        self.safety(old, new, &conditions)
    }

    /// Has the simplifications that the verdict rests on confirmed by the solver.
    fn confirm_lemmas(&mut self) -> Result<(), Refusal> {
        if !self.backend.checks_lemmas() {
            return Ok(());
        }
        self.queries += 1;
        let solver = self.solver.get_or_insert_with(|| self.backend.start());
        match solver.check_lemmas(&self.symbols.terms) {
            Answer::Never => Ok(()),
            Answer::Sometimes => Err(Refusal::Different("a term and its simplified form".to_string())),
            Answer::Unknown => Err(Refusal::Undecided("a term and its simplified form".to_string())),
        }
    }

    /// The input that a model of the unknowns stands for.
    fn describe_model(&mut self, run: &Run, model: &HashMap<u32, u64>, what: String) -> Witness {
        let lookup = |n: u32| model.get(&n).copied().unwrap_or(0);
        let mut memo = HashMap::new();
        let mut value = |symbols: &Symbols, t: Term| symbols.terms.eval(t, &lookup, &mut memo);
        let mut witness = Witness { what, ..Witness::default() };
        let (start, end) = self.symbols.packet_bounds();
        if let Some(start) = start {
            let address = value(&self.symbols, start);
            let length = end.map(|e| value(&self.symbols, e).wrapping_sub(address)).filter(|l| *l <= 1 << 16);
            let bytes: Vec<(u64, Term)> = self
                .symbols
                .initial_bytes(Region::Packet)
                .filter(|(base, offset, _)| *base == start && *offset < 1 << 16)
                .map(|(_, offset, t)| (offset, t))
                .collect();
            let needed = bytes.iter().map(|(o, _)| o + 1).max().unwrap_or(0);
            witness.packet = vec![0; length.unwrap_or(needed).max(if end.is_none() { needed } else { 0 }) as usize];
            for (offset, t) in bytes {
                if let Some(byte) = witness.packet.get_mut(offset as usize) {
                    *byte = value(&self.symbols, t) as u8;
                }
            }
        }
        let fields: Vec<_> = self.symbols.initial_fields().collect();
        witness.context = fields.into_iter().map(|(o, s, t)| (o, s, value(&self.symbols, t))).collect();
        witness.context.sort_unstable();
        for (number, event) in run.events.iter().enumerate() {
            let Happening::Call(_, call) = &event.what else { continue };
            let (CallResult::MapValueOrNull(Some(map)), Some(result)) =
                (call.result, self.symbols.event_result(number))
            else {
                continue;
            };
            if value(&self.symbols, result) == 0 {
                continue;
            }
            let Some((address, length)) = event.reads.first().copied() else { continue };
            let mut key = Vec::with_capacity(length as usize);
            for i in 0..length as u64 {
                let offset = self.symbols.terms.constant(64, i);
                let at = self.symbols.terms.add(address, offset);
                let byte = self.symbols.read_byte(&event.memory, Region::Stack, at);
                key.push(byte.map_or(0, |t| value(&self.symbols, t) as u8));
            }
            let mut contents = vec![0u8; self.symbols.program.maps[map].value_size as usize];
            for (base, offset, t) in self.symbols.initial_bytes(Region::MapValue(map)) {
                if base == result
                    && let Some(byte) = contents.get_mut(offset as usize)
                {
                    *byte = value(&self.symbols, t) as u8;
                }
            }
            witness.maps.push((map, key, contents));
        }
        witness
    }

    fn contradict(&mut self, conditions: &[Term]) -> bool {
        conditions.iter().any(|c| {
            let negated = self.symbols.terms.not(*c);
            conditions.contains(&negated)
        })
    }

    fn prove(&mut self, conditions: &[Term], goal: Term, what: &str) -> Result<(), Refusal> {
        if self.symbols.terms.as_const(goal) == Some(1) || conditions.contains(&goal) {
            return Ok(());
        }
        let mut query = self.symbols.assumptions.clone();
        query.extend_from_slice(conditions);
        query.push(self.symbols.terms.not(goal));
        if query.iter().any(|c| self.symbols.terms.as_const(*c) == Some(0)) {
            return Ok(());
        }
        self.queries += 1;
        let solver = self.solver.get_or_insert_with(|| self.backend.start());
        match solver.check(&self.symbols.terms, &query) {
            Answer::Never => Ok(()),
            Answer::Sometimes => {
                if self.wants_witness {
                    self.witness = Some(solver.model(&self.symbols.terms));
                }
                Err(Refusal::Different(what.to_string()))
            }
            Answer::Unknown => Err(Refusal::Undecided(what.to_string())),
        }
    }

    fn all(&mut self, goals: Vec<Term>) -> Term {
        let mut all = self.symbols.terms.bool(true);
        for g in goals {
            all = self.symbols.terms.and(all, g);
        }
        all
    }

    fn event_goal(&mut self, a: &Event, b: &Event) -> Result<Term, Refusal> {
        if a.arguments.len() != b.arguments.len() || a.reads.len() != b.reads.len() {
            return Ok(self.symbols.terms.bool(false));
        }
        let mut goals = Vec::new();
        for (x, y) in a.arguments.iter().zip(&b.arguments) {
            goals.push(self.symbols.terms.eq(*x, *y));
        }
        for ((at_a, bytes), (at_b, bytes_b)) in a.reads.iter().zip(&b.reads) {
            if bytes != bytes_b {
                return Ok(self.symbols.terms.bool(false));
            }
            for i in 0..*bytes as u64 {
                let offset = self.symbols.terms.constant(64, i);
                let (x, y) = (self.symbols.terms.add(*at_a, offset), self.symbols.terms.add(*at_b, offset));
                let x = self.symbols.read_byte(&a.memory, Region::Stack, x);
                let y = self.symbols.read_byte(&b.memory, Region::Stack, y);
                match (x, y) {
                    (Ok(x), Ok(y)) => goals.push(self.symbols.terms.eq(x, y)),
                    // Neither wrote it: it is what it was.
                    (Err(_), Err(_)) => {}
                    (Err(e), _) | (_, Err(e)) => return Err(e),
                }
            }
        }
        let observed = a.observed.union(b.observed);
        goals.push(self.memory_goal(&a.memory, &b.memory, observed, &LiveBytes::ALL)?);
        Ok(self.all(goals))
    }

    /// That two memories agree on the given classes; of the frame and the packet only on the given bytes.
    fn memory_goal(&mut self, a: &Memory, b: &Memory, classes: Classes, live: &LiveBytes) -> Result<Term, Refusal> {
        // The same stores in the same order leave the same memory.
        if a.epochs == b.epochs && a.writes == b.writes {
            return Ok(self.symbols.terms.bool(true));
        }
        let mut places = BTreeSet::new();
        for w in a.writes.iter().chain(b.writes.iter()) {
            if classes.covers(w.region) {
                let (base, offset) = self.symbols.terms.split_offset(w.address);
                places.extend((0..w.bytes as u64).map(|i| (w.region, base, offset.wrapping_add(i))));
            }
        }
        let mut goals = Vec::new();
        for (region, base, offset) in places {
            let is_dead = match region {
                Region::Stack => self.symbols.is_frame(base) && !live.stack.contains(offset as i64),
                // Offsets count from where the packet starts in the end: it must not have moved.
                Region::Packet => {
                    let is_start = self.symbols.is_packet_start(base) && !a.packet_changed() && !b.packet_changed();
                    is_start && !live.packet.contains(offset as i64)
                }
                _ => false,
            };
            if is_dead {
                continue;
            }
            let offset = self.symbols.terms.constant(64, offset);
            let address = self.symbols.terms.add(base, offset);
            let x = self.symbols.read_byte(a, region, address)?;
            let y = self.symbols.read_byte(b, region, address)?;
            goals.push(self.symbols.terms.eq(x, y));
        }
        Ok(self.all(goals))
    }

    /// Whether the function loads the same context field somewhere, be it on another path.
    fn is_loaded_elsewhere(&self, touch: &Touch, base: Term, offset: i64) -> bool {
        !touch.write
            && self.symbols.is_context(base)
            && self.symbols.facts.context_loads.contains(&(offset as u64, touch.bytes))
    }

    /// Every access of the replacement lies within accesses of the original on the same path, or
    /// inside the frame; shared memory is not touched more often or in smaller pieces.
    fn safety(&mut self, old: &Run, new: &Run, conditions: &[Term]) -> Result<(), Refusal> {
        let old_touches: Vec<(Touch, Term, i64)> = self.located(&old.touches);
        let new_touches: Vec<(Touch, Term, i64)> = self.located(&new.touches);
        let mut problem = None;
        for (t, base, offset) in &new_touches {
            let end = offset.wrapping_add(t.bytes as i64);
            if t.region == Region::Stack && self.symbols.is_frame(*base) {
                let is_aligned = !t.direct || offset.rem_euclid(t.bytes as i64) == 0;
                if *offset < -512 || end > 0 || !is_aligned {
                    problem = Some(format!("stack access of {} bytes at {offset}", t.bytes));
                }
                continue;
            }
            if !t.direct {
                continue;
            }
            let is_new = !old_touches.iter().any(|(o, b, at)| b == base && at == offset && o.bytes == t.bytes);
            if is_new && !self.is_aligned_for_frames(t, *base, *offset) {
                problem = Some(format!("{} bytes of a caller's frame that may not be aligned", t.bytes));
            }
            // What a helper may read is no promise that it can be read: only loads and stores count.
            let same = |o: &&(Touch, Term, i64)| o.0.direct && o.1 == *base && (o.0.write || !t.write);
            if t.region == Region::Context {
                let is_made = |o: &Touch| o.bytes == t.bytes && o.write == t.write;
                if !old_touches.iter().any(|(o, b, at)| b == base && at == offset && is_made(o))
                    && !self.is_loaded_elsewhere(t, *base, *offset)
                {
                    problem = Some("a context access that the original does not make".to_string());
                }
                continue;
            }
            if self.is_known_readable(t, *base, *offset) {
                continue;
            }
            let mut covered = *offset;
            while covered < end {
                let further = old_touches
                    .iter()
                    .filter(same)
                    .filter(|(_, _, at)| *at <= covered)
                    .map(|(o, _, at)| at.wrapping_add(o.bytes as i64))
                    .max();
                match further {
                    Some(f) if f > covered => covered = f,
                    _ => break,
                }
            }
            if covered < end {
                problem = Some(format!("{} bytes that the original does not access here", t.bytes));
            }
            if t.region.is_shared() && t.write {
                let torn = old_touches.iter().filter(same).any(|(o, _, at)| {
                    let old_end = at.wrapping_add(o.bytes as i64);
                    o.write && *at < end && old_end > *offset && !(*offset <= *at && old_end <= end)
                });
                if torn {
                    problem = Some("a store to shared memory would be torn".to_string());
                }
            }
        }
        let shared_loads = |ts: &[(Touch, Term, i64)]| {
            ts.iter().filter(|(t, ..)| t.direct && !t.write && t.region.is_shared()).count()
        };
        if shared_loads(&new_touches) > shared_loads(&old_touches) || new.repeated > old.repeated {
            problem = Some("more loads of shared memory than before".to_string());
        }
        match problem {
            None => Ok(()),
            // Harmless when no execution takes these two paths.
            Some(what) => {
                let impossible = self.symbols.terms.bool(false);
                self.prove(conditions, impossible, "").map_err(|_| Refusal::Unsafe(what))
            }
        }
    }

    /// Whether an access, should it be to a caller's frame, is one that the kernel takes there: aligned.
    fn is_aligned_for_frames(&self, t: &Touch, base: Term, offset: i64) -> bool {
        let alignment = self.symbols.argument_alignment(base);
        let is_multiple = offset.rem_euclid(t.bytes as i64) == 0;
        match t.region {
            Region::CallerFrame => alignment.is_some_and(|a| t.bytes <= a) && is_multiple,
            // An address of nothing in particular, which some caller passes.
            _ => alignment.is_none_or(|a| a == 8 || t.bytes <= a && is_multiple),
        }
    }

    /// Whether it loads packet bytes that the facts say exist.
    fn is_known_readable(&self, t: &Touch, base: Term, offset: i64) -> bool {
        let readable = self.symbols.facts.before[self.symbols.entry].as_ref().map_or(0, |s| s.readable as i64);
        let is_within = offset >= 0 && offset.saturating_add(t.bytes as i64) <= readable;
        t.region == Region::Packet && !t.write && !t.packet_changed && self.symbols.is_packet_start(base) && is_within
    }

    fn located(&mut self, touches: &[Touch]) -> Vec<(Touch, Term, i64)> {
        touches
            .iter()
            .map(|t| {
                let (base, offset) = self.symbols.terms.split_offset(t.address);
                (*t, base, offset as i64)
            })
            .collect()
    }
}

fn describe(event: &Event) -> String {
    use karakoram_bpf::helper;
    use karakoram_bpf::insn::Callee;
    match &event.what {
        Happening::Call(Callee::Helper(id), _) => match helper::name(*id) {
            Some(name) => format!("the call of {name}"),
            None => format!("the call of helper {id}"),
        },
        Happening::Call(..) => "a call".to_string(),
        Happening::Atomic(..) => "an atomic operation".to_string(),
        Happening::Ordered(..) => "an ordered access".to_string(),
        Happening::ContextStore(_) => "a context store".to_string(),
        Happening::LegacyLoad(_) => "a legacy packet load".to_string(),
        Happening::MayGoto => "a loop budget test".to_string(),
        Happening::Patched(..) => "an instruction that the loader changes".to_string(),
    }
}
