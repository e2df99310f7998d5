//! Symbolic execution of a window: every path from its entry to an exit, with registers as terms,
//! memory as a log of writes over unknown initial contents, and calls as events in order.
//!
//! Original and replacement run over the same [`Symbols`], so that what is unknown to both is the
//! same unknown.

use crate::ProverOptions;
use crate::arithmetic;
use crate::call::{Access, CallModel, CallResult, Effect, Known, Mode, Signature};
use crate::facts::{Facts, Kind, Location, Root, State};
use crate::range::Range;
use crate::refusal::Refusal;
use crate::region::Region;
use crate::solver;
use crate::term::{Op, Term, Terms};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::hook::ContextField;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{self, Node, Patch, Program};
use karakoram_bpf::semantics::{self, Machine};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Memory that is overwritten with unknown contents at one event, and how often so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Epochs {
    stack: u32,
    context: u32,
    packet: u32,
    shared: u32,
}

/// Classes of memory, as a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Classes {
    /// The function's own frame.
    pub stack: bool,
    /// The context.
    pub context: bool,
    /// The packet.
    pub packet: bool,
    /// Everything else.
    pub shared: bool,
}

impl Classes {
    /// All of them.
    pub const ALL: Classes = Classes { stack: true, context: true, packet: true, shared: true };
    /// All but the frame.
    pub const OUTSIDE: Classes = Classes { stack: false, ..Classes::ALL };

    /// Whether memory of that region can belong to one of the classes.
    pub fn covers(self, region: Region) -> bool {
        match region {
            Region::Stack => self.stack,
            Region::Context => self.context,
            Region::Packet => self.packet,
            Region::MapValue(_) | Region::SomeMapValue | Region::CallerFrame => self.shared,
            Region::Foreign => self.shared || self.packet || self.context,
            Region::Any => self != Classes::default(),
        }
    }

    fn add(&mut self, region: Region) {
        match region {
            Region::Stack => self.stack = true,
            Region::Context => self.context = true,
            Region::Packet => self.packet = true,
            Region::MapValue(_) | Region::SomeMapValue | Region::CallerFrame => self.shared = true,
            Region::Foreign => *self = self.union(Classes::OUTSIDE),
            Region::Any => *self = Classes::ALL,
        }
    }

    /// Everything in either.
    pub fn union(self, o: Classes) -> Classes {
        Classes {
            stack: self.stack || o.stack,
            context: self.context || o.context,
            packet: self.packet || o.packet,
            shared: self.shared || o.shared,
        }
    }
}

/// One store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Kind of memory.
    pub region: Region,
    /// Address.
    pub address: Term,
    /// Bytes.
    pub bytes: u32,
    /// Value, `8 · bytes` bits.
    pub value: Term,
}

/// One access of a run, for the safety check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Kind of memory.
    pub region: Region,
    /// Address.
    pub address: Term,
    /// Bytes.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
    /// Whether a load or store instruction did it (else a helper).
    pub direct: bool,
    /// Whether the packet may have moved since the entry.
    pub packet_changed: bool,
}

/// What happened at an event, apart from its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A call.
    Call(Callee<FuncId>, CallModel),
    /// An atomic operation.
    Atomic(AtomicOp, Size),
    /// An ordered load or store.
    Ordered(Size, bool),
    /// A store to the context.
    ContextStore(Size),
    /// A legacy packet load.
    LegacyLoad(Size),
    /// A loop budget test.
    MayGoto,
    /// An instruction that the loader may change.
    Patched(Patch, Insn),
}

/// Something whose order and arguments must be preserved.
#[derive(Clone, Debug)]
pub struct Event {
    /// What.
    pub what: Happening,
    /// Instruction it came from.
    pub id: InsnId,
    /// Arguments.
    pub arguments: Vec<Term>,
    /// Frame bytes that it reads: address and count.
    pub reads: Vec<(Term, u32)>,
    /// Memory that must be the same in both programs when it happens.
    pub observed: Classes,
    /// Memory that it may change.
    pub changed: Classes,
    /// Memory when it happens.
    pub memory: Memory,
    /// Number of path conditions when it happens.
    pub conditions: usize,
}

/// Memory at one point of a run.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Stores since the classes they belong to were last overwritten.
    pub writes: Rc<Vec<Write>>,
    /// How often each class was overwritten.
    pub epochs: Epochs,
}

impl Memory {
    /// Whether an event may have changed or moved the packet.
    pub fn packet_changed(&self) -> bool {
        self.epochs.packet != 0
    }
}

/// How a run leaves the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// To an instruction outside, or back to the entry.
    To(InsnId),
    /// Out of the function.
    Return,
}

/// One path through a window.
#[derive(Clone, Debug)]
pub struct Run {
    /// Registers; `None`: undefined.
    pub regs: [Option<Term>; Reg::COUNT],
    /// Memory.
    pub memory: Memory,
    /// Conditions that hold on this path, width 1.
    pub conditions: Vec<Term>,
    /// Events in order.
    pub events: Vec<Event>,
    /// Memory accesses.
    pub touches: Vec<Touch>,
    /// What the loader put into instructions on this path.
    pub patches: BTreeSet<Patch>,
    /// How many loads that the loader patches found what an earlier one had found.
    pub repeated: usize,
    /// Where it leads.
    pub leave: Option<Leave>,
}

/// Key of a byte of initial memory.
type ByteKey = (Region, Epochs, Term, u64);

/// The unknowns that original and replacement share.
pub struct Symbols<'a> {
    /// All terms.
    pub terms: Terms,
    /// What holds of the unknowns, width 1.
    pub assumptions: Vec<Term>,
    /// The program.
    pub program: &'a Program,
    /// Facts of the function.
    pub facts: &'a Facts,
    /// Position of the window's entry.
    pub entry: usize,
    /// Its identity.
    pub entry_id: InsnId,
    /// Argument registers that each function reads.
    pub signature: &'a dyn Fn(FuncId) -> Signature,
    /// Which optimizations of the memory model are on.
    pub options: ProverOptions,
    entry_regs: Option<[Option<Term>; Reg::COUNT]>,
    /// Stores looked at so far.
    work: u64,
    regions: HashMap<u32, Region>,
    region_memo: HashMap<Term, Option<Region>>,
    roots: HashMap<Root, Term>,
    bytes: HashMap<ByteKey, Term>,
    fields: HashMap<(u32, u64, u32), Term>,
    packet: HashMap<(u32, ContextField), Term>,
    results: HashMap<(usize, u32), Term>,
    others: HashMap<(Imm64<FuncId>, u8), Term>,
    patches: HashMap<Patch, Term>,
}

impl<'a> Symbols<'a> {
    /// Unknowns for a window that starts at `entry`.
    pub fn new(
        program: &'a Program,
        facts: &'a Facts,
        (entry, entry_id): (usize, InsnId),
        signature: &'a dyn Fn(FuncId) -> Signature,
        options: ProverOptions,
    ) -> Symbols<'a> {
        Symbols {
            terms: Terms::default(),
            assumptions: Vec::new(),
            program,
            facts,
            entry,
            entry_id,
            signature,
            options,
            entry_regs: None,
            work: 0,
            regions: HashMap::new(),
            region_memo: HashMap::new(),
            roots: HashMap::new(),
            bytes: HashMap::new(),
            fields: HashMap::new(),
            packet: HashMap::new(),
            results: HashMap::new(),
            others: HashMap::new(),
            patches: HashMap::new(),
        }
    }

    fn variable(&mut self, width: u32, region: Option<Region>) -> Term {
        let t = self.terms.var(width);
        if let (Op::Var(n), Some(region)) = (self.terms.op(t), region) {
            self.regions.insert(*n, region);
        }
        t
    }

    /// The run that stands at the entry: live registers hold what the facts say, the rest nothing.
    pub fn start(&mut self) -> Run {
        let regs = match self.entry_regs {
            Some(regs) => regs,
            None => self.enter(),
        };
        Run {
            regs,
            memory: Memory::default(),
            conditions: Vec::new(),
            events: Vec::new(),
            touches: Vec::new(),
            patches: BTreeSet::new(),
            repeated: 0,
            leave: None,
        }
    }

    /// What registers hold at the entry: made once, so that both programs find the same unknowns
    /// also where the facts have no name for them.
    fn enter(&mut self) -> [Option<Term>; Reg::COUNT] {
        let facts = self.facts;
        let state = facts.before[self.entry].as_ref().expect("windows start at reachable points");
        let live = facts.live[self.entry].with(Reg::FP);
        for reg in live.iter() {
            self.introduce(state, &state.regs[reg.index()].root);
        }
        let mut regs = [None; Reg::COUNT];
        for reg in live.iter() {
            regs[reg.index()] = Some(self.entry_value(state, Location::Reg(reg)));
        }
        self.entry_regs = Some(regs);
        regs
    }

    /// Makes the unknown for a root, as narrow as the facts allow.
    fn introduce(&mut self, state: &State, root: &Option<Root>) {
        let Some(root) = *root else { return };
        if self.roots.contains_key(&root) {
            return;
        }
        let mut region = Some(Region::Any);
        let mut bits = 64;
        for (_, fact) in state.locations().filter(|(_, f)| f.root == Some(root)) {
            match fact.kind {
                Kind::Pointer { region: r, .. } => region = Some(r),
                Kind::Scalar | Kind::Map(_) if region == Some(Region::Any) => region = None,
                _ => {}
            }
            if fact.delta == 0 && matches!(fact.kind, Kind::Scalar | Kind::Unknown) {
                bits = bits.min(64 - fact.range.zeros.leading_ones()).max(1);
            }
        }
        let term = match root {
            Root::Map(m) => self.map_address(m),
            Root::MapData(m) => self.map_data(m),
            Root::PacketStart if self.facts.hook.is_some_and(|h| h.has_packet()) => {
                self.packet_field(0, ContextField::PacketStart)
            }
            Root::PacketEnd => self.packet_field(0, ContextField::PacketEnd),
            Root::MetaStart => self.packet_field(0, ContextField::MetaStart),
            _ => {
                let v = self.variable(bits, region);
                self.terms.zero_extend(64, v)
            }
        };
        self.roots.insert(root, term);
    }

    fn entry_value(&mut self, state: &State, location: Location) -> Term {
        let fact = *state.get(location).expect("only existing locations are asked for");
        if let Some(v) = fact.value() {
            return self.terms.constant(64, v);
        }
        self.introduce(state, &fact.root);
        let term = match fact.root.and_then(|r| self.roots.get(&r).copied()) {
            Some(root) => {
                let delta = self.terms.constant(64, fact.delta);
                self.terms.add(root, delta)
            }
            None => {
                let region = match fact.kind {
                    Kind::Pointer { region, .. } => Some(region),
                    Kind::Scalar | Kind::Map(_) => None,
                    Kind::Unknown | Kind::Uninit => Some(Region::Any),
                };
                let v = self.variable(64, region);
                self.terms.zero_extend(64, v)
            }
        };
        match fact.kind {
            Kind::Scalar | Kind::Unknown => self.assume_range(term, &fact.range),
            Kind::Pointer { nullable: false, .. } => {
                let zero = self.terms.constant(64, 0);
                let null = self.terms.eq(term, zero);
                let not_null = self.terms.not(null);
                self.assumptions.push(not_null);
            }
            _ => {}
        }
        term
    }

    fn assume_range(&mut self, term: Term, range: &Range) {
        let w = self.terms.width(term);
        let (zeros, ones) = self.terms.known(term);
        let assume = |symbols: &mut Symbols, c: Term| {
            if symbols.terms.as_const(c) != Some(1) {
                symbols.assumptions.push(c);
            }
        };
        let unknown_bits = (range.zeros & !zeros) | (range.ones & !ones);
        if unknown_bits != 0 {
            let m = self.terms.constant(w, range.zeros | range.ones);
            let (masked, expected) = (self.terms.and(term, m), self.terms.constant(w, range.ones));
            let c = self.terms.eq(masked, expected);
            assume(self, c);
        }
        if range.min > range.ones {
            let low = self.terms.constant(w, range.min);
            let below = self.terms.ult(term, low);
            let c = self.terms.not(below);
            assume(self, c);
        }
        if range.max < !range.zeros {
            let high = self.terms.constant(w, range.max);
            let above = self.terms.ult(high, term);
            let c = self.terms.not(above);
            assume(self, c);
        }
        if range.smin < 0 && range.smin > i64::MIN {
            let low = self.terms.constant(w, range.smin as u64);
            let below = self.terms.slt(term, low);
            let c = self.terms.not(below);
            assume(self, c);
        }
        if range.smin < 0 && range.smax < i64::MAX {
            let high = self.terms.constant(w, range.smax as u64);
            let above = self.terms.slt(high, term);
            let c = self.terms.not(above);
            assume(self, c);
        }
    }

    fn map_address(&mut self, map: usize) -> Term {
        self.named(Imm64::Map(MapRef::Index(map as i32)), None)
    }

    fn map_data(&mut self, map: usize) -> Term {
        self.named(Imm64::MapValue(MapRef::Index(map as i32), 0), Some(Region::MapValue(map)))
    }

    /// The unknown behind an address that the loader fills in.
    fn named(&mut self, value: Imm64<FuncId>, region: Option<Region>) -> Term {
        if let Some(t) = self.others.get(&(value, 0)) {
            return *t;
        }
        let t = self.variable(64, region);
        self.others.insert((value, 0), t);
        t
    }

    /// The map whose address a term is.
    fn map_of(&self, t: Term) -> Option<usize> {
        self.others.iter().find_map(|((value, _), known)| match value {
            Imm64::Map(MapRef::Index(i)) if *known == t => Some(*i as usize),
            _ => None,
        })
    }

    fn packet_field(&mut self, epoch: u32, field: ContextField) -> Term {
        if let Some(t) = self.packet.get(&(epoch, field)) {
            return *t;
        }
        let region = match field {
            ContextField::PacketStart | ContextField::MetaStart => Some(Region::Packet),
            ContextField::PacketEnd => None,
        };
        let t = self.variable(64, region);
        self.packet.insert((epoch, field), t);
        if epoch == 0 && field != ContextField::MetaStart {
            self.assume_readable();
        }
        t
    }

    /// What the facts say of the packet's length, once both its ends have names. No packet lies in the
    /// last pages of the address space, which the kernel keeps for error codes.
    fn assume_readable(&mut self) {
        let field = |f| self.packet.get(&(0, f)).copied();
        let ends = (field(ContextField::PacketStart), field(ContextField::PacketEnd));
        let readable = self.facts.before[self.entry].as_ref().map_or(0, |s| s.readable as u64);
        let (Some(start), Some(end), 1..) = (ends.0, ends.1, readable) else { return };
        let (highest, readable) = (self.terms.constant(64, u64::MAX - 0xffff), self.terms.constant(64, readable));
        let readable = self.terms.add(start, readable);
        for (low, high) in [(start, highest), (readable, end)] {
            let above = self.terms.ult(high, low);
            let c = self.terms.not(above);
            self.assumptions.push(c);
        }
    }

    /// The constant that the loader puts there, sign-extended.
    fn patch(&mut self, patch: Patch) -> Term {
        let terms = &mut self.terms;
        let t = *self.patches.entry(patch).or_insert_with(|| terms.var(32));
        self.terms.sign_extend(64, t)
    }

    fn result(&mut self, event: usize, part: u32, width: u32, region: Option<Region>) -> Term {
        if let Some(t) = self.results.get(&(event, part)) {
            return *t;
        }
        let t = self.variable(width, region);
        self.results.insert((event, part), t);
        t
    }

    /// The kind of memory that an address points into; numbers point into foreign memory.
    pub fn region(&mut self, t: Term) -> Region {
        self.pointer_region(t).unwrap_or(Region::Foreign)
    }

    /// `None` for a number that no stack pointer went into.
    fn pointer_region(&mut self, t: Term) -> Option<Region> {
        if let Some(r) = self.region_memo.get(&t) {
            return *r;
        }
        let merge = |a: Option<Region>, b: Option<Region>| match (a, b) {
            (a, b) if a == b => a,
            (Some(a), Some(b)) => Some(a.join(b)),
            // A number may be a pointer to anything foreign.
            (Some(r), None) | (None, Some(r)) => Some(r.join(Region::Foreign)),
            (None, None) => None,
        };
        let region = match self.terms.op(t).clone() {
            Op::Const(_) => None,
            Op::Var(n) => self.regions.get(&n).copied(),
            Op::Sum(_, parts) => {
                let pointers: Vec<(Option<Region>, u64)> =
                    parts.iter().map(|(p, c)| (self.pointer_region(*p), *c)).filter(|(r, _)| r.is_some()).collect();
                match pointers.as_slice() {
                    [] => None,
                    [(r, 1)] => *r,
                    many => many.iter().map(|(r, _)| *r).fold(Some(Region::Foreign), merge),
                }
            }
            Op::Ite(_, a, b) => {
                let (a, b) = (self.pointer_region(a), self.pointer_region(b));
                merge(a, b)
            }
            Op::Eq(..) | Op::Ult(..) | Op::Slt(..) => None,
            _ => {
                let parts = solver::operands(&self.terms, t);
                let tainted =
                    parts.into_iter().any(|p| matches!(self.pointer_region(p), Some(Region::Stack | Region::Any)));
                tainted.then_some(Region::Any)
            }
        };
        self.region_memo.insert(t, region);
        region
    }

    /// Whether stores to `a` must be looked at when reading `b`. Without the optimizations memory is
    /// one table, and that regions do not overlap is left to the solver.
    fn is_same_table(&self, a: Region, b: Region) -> bool {
        let maps = a.is_map_value() && b.is_map_value();
        a.may_alias(b) || !self.options.memory_regions || maps && !self.options.map_tables
    }

    /// A byte of the memory that the window found, or that an event left.
    fn initial_byte(&mut self, region: Region, epochs: Epochs, address: Term) -> Result<Term, Refusal> {
        let relevant = match region {
            Region::Stack => Epochs { stack: epochs.stack, ..Epochs::default() },
            Region::Context => Epochs { context: epochs.context, ..Epochs::default() },
            Region::Packet => Epochs { packet: epochs.packet, ..Epochs::default() },
            Region::MapValue(_) | Region::SomeMapValue | Region::CallerFrame => {
                Epochs { shared: epochs.shared, ..Epochs::default() }
            }
            Region::Foreign => Epochs { stack: 0, ..epochs },
            Region::Any => epochs,
        };
        let (base, offset) = self.terms.split_offset(address);
        let key = (region, relevant, base, offset);
        if let Some(t) = self.bytes.get(&key) {
            return Ok(*t);
        }
        if let Some(constant) = self.constant_byte(region, base, offset) {
            return Ok(constant);
        }
        let facts = self.facts;
        let mut is_number = false;
        if region == Region::Stack && relevant.stack == 0 {
            let live = &facts.live_stack[self.entry];
            let state = facts.before[self.entry].as_ref().expect("windows start at reachable points");
            self.introduce(state, &Some(Root::Frame));
            if self.roots.get(&Root::Frame) == Some(&base) {
                let offset = offset as i64;
                if !live.contains(offset) {
                    return Err(Refusal::ReadsDead(format!("stack byte {offset}")));
                }
                if let Some(byte) = self.spilled_byte(state, offset) {
                    self.bytes.insert(key, byte);
                    return Ok(byte);
                }
                is_number = state.slot_at(offset).is_some_and(|(_, fact)| fact.kind == Kind::Scalar);
            } else if *live != crate::facts::StackBytes::ALL {
                return Err(Refusal::ReadsDead("the stack at an unknown place".to_string()));
            }
        }
        let tag = match region {
            _ if is_number => None,
            Region::Stack | Region::Any if facts.frame_holds_pointers => Some(Region::Any),
            _ if facts.stack_escapes => Some(Region::Any),
            _ => None,
        };
        let t = self.variable(8, tag);
        self.bytes.insert(key, t);
        Ok(t)
    }

    /// A byte of global data that never changes.
    fn constant_byte(&mut self, region: Region, base: Term, offset: u64) -> Option<Term> {
        let Region::MapValue(map) = region else { return None };
        let byte = self.program.constant(map, offset, 1)?;
        (self.map_data(map) == base).then(|| self.terms.constant(8, byte))
    }

    /// The byte of a stack slot whose contents the facts know.
    fn spilled_byte(&mut self, state: &State, offset: i64) -> Option<Term> {
        let ((o, s), fact) = state.slot_at(offset)?;
        let live = &self.facts.live_stack[self.entry];
        // Bytes of a slot that is only partly live must not be related to the live rest.
        if !(o as i64..o as i64 + s as i64).all(|b| live.contains(b)) {
            return None;
        }
        // A slot whose value has no name would get a new unknown for each of its bytes.
        if fact.root.is_none() && fact.value().is_none() {
            return None;
        }
        let value = self.entry_value(state, Location::Stack(o, s));
        let at = (offset - o as i64) as u32;
        Some(self.terms.extract(8 * at + 7, 8 * at, value))
    }

    /// The unknown bytes of initial memory of that region that were asked for: base, offset, value.
    pub fn initial_bytes(&self, region: Region) -> impl Iterator<Item = (Term, u64, Term)> {
        self.bytes.iter().filter(move |((r, ..), _)| *r == region).map(|((_, _, base, offset), t)| (*base, *offset, *t))
    }

    /// The unknown bytes of initial memory of any kind, likewise.
    pub fn all_initial_bytes(&self) -> impl Iterator<Item = (Term, u64, Term)> {
        self.bytes.iter().map(|((_, _, base, offset), t)| (*base, *offset, *t))
    }

    /// The unknown behind a root, when something asked for it.
    pub fn root(&self, root: Root) -> Option<Term> {
        self.roots.get(&root).copied()
    }

    /// The context fields that were asked for before anything changed them: offset, size, value.
    pub fn initial_fields(&self) -> impl Iterator<Item = (u64, u32, Term)> {
        self.fields.iter().filter(|((epoch, ..), _)| *epoch == 0).map(|((_, offset, size), t)| (*offset, *size, *t))
    }

    /// The pointer to the first packet byte and to the end at the entry, as far as asked for.
    pub fn packet_bounds(&self) -> (Option<Term>, Option<Term>) {
        let field = |f| self.packet.get(&(0, f)).copied();
        let start = field(ContextField::PacketStart).or(self.roots.get(&Root::PacketStart).copied());
        (start, field(ContextField::PacketEnd))
    }

    /// The result of an event, when something asked for it.
    pub fn event_result(&self, event: usize) -> Option<Term> {
        self.results.get(&(event, 0)).copied()
    }

    /// Whether a term is the context pointer.
    pub fn is_context(&self, t: Term) -> bool {
        self.roots.get(&Root::Context) == Some(&t)
    }

    /// Whether a term is the frame pointer.
    pub fn is_frame(&self, base: Term) -> bool {
        self.roots.get(&Root::Frame) == Some(&base)
    }

    /// Bytes that an argument of the function is a multiple of should it be an address in a caller's frame.
    pub fn argument_alignment(&self, base: Term) -> Option<u32> {
        let is_base = |r: &Reg| self.roots.get(&Root::Argument(*r)) == Some(&base);
        RegSet::ARGUMENTS.iter().find(is_base).map(|r| self.facts.arguments.alignment[r.index() - 1])
    }

    /// Whether a term is the packet start that the facts at the entry speak of.
    pub fn is_packet_start(&self, base: Term) -> bool {
        let loaded = self.packet.get(&(0, ContextField::PacketStart));
        loaded == Some(&base) || self.roots.get(&Root::PacketStart) == Some(&base)
    }

    /// One byte as a run sees it: the latest store that covers it, or what was there before.
    pub fn read_byte(&mut self, memory: &Memory, region: Region, address: Term) -> Result<Term, Refusal> {
        self.read_through(&memory.writes, memory.epochs, region, address)
    }

    fn read_through(
        &mut self,
        writes: &[Write],
        epochs: Epochs,
        region: Region,
        address: Term,
    ) -> Result<Term, Refusal> {
        for (i, w) in writes.iter().enumerate().rev() {
            self.work += 1;
            if self.work > MAX_WORK {
                return Err(Refusal::TooLarge("memory accesses"));
            }
            if !self.is_same_table(w.region, region) {
                continue;
            }
            let mut distance = self.terms.sub(address, w.address);
            match self.terms.as_const(distance) {
                Some(_) if !self.options.offsets => {
                    // The distance is a number, but the solver has to find that out.
                    let symbolic = self.variable(64, None);
                    let known = self.terms.eq(symbolic, distance);
                    self.assumptions.push(known);
                    distance = symbolic;
                }
                Some(d) if d < w.bytes as u64 => {
                    return Ok(self.terms.extract(8 * d as u32 + 7, 8 * d as u32, w.value));
                }
                Some(_) => continue,
                None => {}
            }
            let mut byte = self.read_through(&writes[..i], epochs, region, address)?;
            for k in 0..w.bytes {
                let at = self.terms.constant(64, k as u64);
                let hit = self.terms.eq(distance, at);
                if !w.region.may_alias(region) {
                    let disjoint = self.terms.not(hit);
                    self.assumptions.push(disjoint);
                }
                let stored = self.terms.extract(8 * k + 7, 8 * k, w.value);
                byte = self.terms.ite(hit, stored, byte);
            }
            return Ok(byte);
        }
        self.initial_byte(region, epochs, address)
    }

    fn read(&mut self, memory: &Memory, region: Region, address: Term, bytes: u32) -> Result<Term, Refusal> {
        let mut pieces = Vec::with_capacity(bytes as usize);
        for i in (0..bytes as u64).rev() {
            let offset = self.terms.constant(64, i);
            let at = self.terms.add(address, offset);
            pieces.push(self.read_byte(memory, region, at)?);
        }
        Ok(self.terms.concat(&pieces))
    }
}

/// Code to be executed: the original, or the original with edits.
pub trait Code {
    /// A place in it.
    type At: Copy + PartialEq;
    /// The instruction there.
    fn node(&self, at: Self::At) -> &Node;
    /// The place after it in layout; `None` past the end.
    fn next(&self, at: Self::At) -> Option<Self::At>;
    /// The place of an identity.
    fn find(&self, id: InsnId) -> Option<Self::At>;
    /// Where that place lies outside the window (or is its entry), its identity.
    fn leaves(&self, at: Self::At) -> Option<InsnId>;
}

/// Limits of one check.
pub const MAX_PATHS: usize = 96;

/// Most stores that the loads of one check may look at; ordinary windows need some thousands.
const MAX_WORK: u64 = 50_000;

/// Instructions of one of the two programs that are no events, although their sort is.
pub struct Silent<'a> {
    /// Calls that the other program does not have and that may be dropped.
    pub calls: &'a dyn Fn(InsnId) -> bool,
    /// Atomic additions that stand for a load, an addition and a store of the other program: of all
    /// that plain accesses allow to happen, they do what happens when nobody comes in between.
    pub additions: &'a dyn Fn(InsnId) -> bool,
}

/// All runs from `from` to the exits of the window.
pub fn explore<C: Code>(
    symbols: &mut Symbols,
    code: &C,
    from: C::At,
    max_steps: usize,
    silent: &Silent,
) -> Result<Vec<Run>, Refusal> {
    let mut done = Vec::new();
    let start = symbols.start();
    let entry = symbols.entry_id;
    // The entry counts as outside when control comes back to it, not at the start; an empty
    // replacement leaves at once.
    let mut pending = vec![(start, from, 0usize, code.leaves(from) == Some(entry))];
    while let Some((mut run, mut at, mut steps, mut first)) = pending.pop() {
        loop {
            if let Some(id) = code.leaves(at).filter(|_| !first) {
                run.leave = Some(Leave::To(id));
                break;
            }
            first = false;
            steps += 1;
            if steps > max_steps {
                return Err(Refusal::Loop);
            }
            let node = code.node(at);
            let flow = Executor { symbols, run: &mut run, node, silent }.execute()?;
            if let Executed::Jump(id) = flow
                && id == entry
            {
                run.leave = Some(Leave::To(entry));
                break;
            }
            let jump = |id: InsnId| code.find(id).ok_or(Refusal::Malformed("jump to nowhere"));
            let next = || code.next(at).ok_or(Refusal::Malformed("control runs past the end"));
            at = match flow {
                Executed::Next => next()?,
                Executed::Jump(id) => jump(id)?,
                Executed::Return => {
                    run.leave = Some(Leave::Return);
                    break;
                }
                Executed::Fork(condition, id) => match symbols.terms.as_const(condition) {
                    Some(0) => next()?,
                    Some(_) if id == entry => {
                        run.leave = Some(Leave::To(entry));
                        break;
                    }
                    Some(_) => jump(id)?,
                    None => {
                        let negated = symbols.terms.not(condition);
                        if run.conditions.contains(&condition) {
                            if id == entry {
                                run.leave = Some(Leave::To(entry));
                                break;
                            }
                            jump(id)?
                        } else if run.conditions.contains(&negated) {
                            next()?
                        } else {
                            let mut other = run.clone();
                            other.conditions.push(condition);
                            if id == entry {
                                other.leave = Some(Leave::To(entry));
                                done.push(other);
                            } else {
                                pending.push((other, jump(id)?, steps, false));
                            }
                            run.conditions.push(negated);
                            next()?
                        }
                    }
                },
                Executed::MayFail(ok) => {
                    let mut failed = run.clone();
                    failed.conditions.push(symbols.terms.not(ok));
                    failed.regs[0] = Some(symbols.terms.constant(64, 0));
                    failed.leave = Some(Leave::Return);
                    done.push(failed);
                    run.conditions.push(ok);
                    next()?
                }
            };
            if pending.len() + done.len() > MAX_PATHS {
                return Err(Refusal::TooLarge("paths"));
            }
        }
        done.push(run);
    }
    Ok(done)
}

enum Executed {
    Next,
    Jump(InsnId),
    Fork(Term, InsnId),
    MayFail(Term),
    Return,
}

struct Executor<'r, 's, 'a> {
    symbols: &'s mut Symbols<'a>,
    run: &'r mut Run,
    node: &'r Node,
    silent: &'r Silent<'r>,
}

impl Executor<'_, '_, '_> {
    fn execute(&mut self) -> Result<Executed, Refusal> {
        if let Some(patch) = self.node.patch {
            self.run.patches.insert(patch);
            if self.node.patched_constant().is_none() {
                self.patched(patch)?;
                return Ok(Executed::Next);
            }
        }
        let flow = semantics::step(self, &self.node.insn)?;
        Ok(match flow {
            semantics::Flow::Next => match self.node.insn {
                Insn::LegacyLoad { .. } => {
                    RegSet::ARGUMENTS.iter().for_each(|r| self.run.regs[r.index()] = None);
                    let event = self.run.events.len() - 1;
                    Executed::MayFail(self.symbols.result(event, 1, 1, None))
                }
                _ => Executed::Next,
            },
            semantics::Flow::Jump(id) => Executed::Jump(id),
            semantics::Flow::Branch(condition, id) => Executed::Fork(condition, id),
            semantics::Flow::MayGoto(id) => {
                let event = self.event(Happening::MayGoto, vec![], Classes::default(), Classes::default(), vec![]);
                Executed::Fork(self.symbols.result(event, 0, 1, None), id)
            }
            semantics::Flow::Call(callee) => {
                self.call(callee)?;
                Executed::Next
            }
            semantics::Flow::Exit => Executed::Return,
        })
    }

    /// Records an event and lets it change memory; returns its number.
    fn event(
        &mut self,
        what: Happening,
        arguments: Vec<Term>,
        observed: Classes,
        mut changed: Classes,
        reads: Vec<(Term, u32)>,
    ) -> usize {
        // A store that may lie in changed memory is overwritten with it, so its whole class is.
        if changed != Classes::default() {
            loop {
                let before = changed;
                for w in self.run.memory.writes.iter() {
                    if before.covers(w.region) {
                        changed.add(w.region);
                    }
                }
                if changed == before {
                    break;
                }
            }
        }
        let number = self.run.events.len();
        self.run.events.push(Event {
            what,
            id: self.node.id,
            arguments,
            reads,
            observed: observed.union(changed),
            changed,
            memory: self.run.memory.clone(),
            conditions: self.run.conditions.len(),
        });
        if changed != Classes::default() {
            Rc::make_mut(&mut self.run.memory.writes).retain(|w| !changed.covers(w.region));
            let epochs = &mut self.run.memory.epochs;
            let bump = |count: &mut u32, on: bool| {
                if on {
                    *count = number as u32 + 1;
                }
            };
            bump(&mut epochs.stack, changed.stack);
            bump(&mut epochs.context, changed.context);
            bump(&mut epochs.packet, changed.packet);
            bump(&mut epochs.shared, changed.shared);
        }
        number
    }

    fn call(&mut self, callee: Callee<FuncId>) -> Result<(), Refusal> {
        let (symbols, run) = (&*self.symbols, &*self.run);
        let known = |r: Reg| {
            let term = run.regs[r.index()];
            Known {
                value: term.and_then(|t| symbols.terms.as_const(t)),
                most: None,
                map: term.and_then(|t| symbols.map_of(t)),
            }
        };
        let model = CallModel::of(symbols.program, callee, &known, symbols.signature);
        let droppable = model.droppable && (self.silent.calls)(self.node.id);
        let mut arguments = Vec::new();
        for r in model.reads.iter() {
            match self.run.regs[r.index()] {
                Some(t) if model.words.contains(r) => arguments.push(self.symbols.terms.extract(31, 0, t)),
                Some(t) => arguments.push(t),
                None if model.optional.contains(r) => arguments.push(self.symbols.terms.constant(64, 0xdead)),
                None => return Err(Refusal::ReadsDead(format!("{r} at a call"))),
            }
        }
        let result_region = |r: CallResult| match r {
            CallResult::MapValueOrNull(Some(m)) => Some(Region::MapValue(m)),
            CallResult::MapValueOrNull(None) => Some(Region::SomeMapValue),
            _ => None,
        };
        if droppable {
            // Its result is an unknown that nothing in the other program has.
            RegSet::CALLER_SAVED.iter().for_each(|r| self.run.regs[r.index()] = None);
            let v = self.symbols.variable(64, result_region(model.result));
            self.run.regs[0] = Some(v);
            return Ok(());
        }
        let (mut observed, mut changed) = (Classes::default(), Classes::default());
        for (effect, set) in [
            (model.packet, (|c: &mut Classes| c.packet = true) as fn(&mut Classes)),
            (model.shared, |c| c.shared = true),
            (model.context, |c| c.context = true),
        ] {
            if effect >= Effect::Reads {
                set(&mut observed);
            }
            if effect >= Effect::Writes {
                set(&mut changed);
            }
        }
        if model.gathers {
            let stack = self.symbols.facts.frame_holds_pointers;
            observed = observed.union(Classes { stack, ..Classes::OUTSIDE });
        }
        if self.symbols.facts.stack_escapes && model.shared != Effect::None {
            observed.stack = true;
            changed.stack |= model.writes_through_memory();
        }
        let (mut reads, mut filled) = (Vec::new(), Vec::new());
        for Access { reg, bytes, mode, .. } in model.accesses.iter().copied() {
            let Some(address) = self.run.regs[reg.index()] else { continue };
            let region = self.symbols.region(address);
            match (region, bytes) {
                (Region::Stack, Some(bytes)) if self.frame_offset(address).is_some() => {
                    if mode != Mode::Write {
                        reads.push((address, bytes));
                    }
                    if mode != Mode::Read {
                        filled.push((reg, address, bytes));
                    }
                }
                _ => {
                    observed.add(region);
                    if mode != Mode::Read {
                        changed.add(region);
                    }
                }
            }
            if let Some(bytes) = bytes {
                let write = mode != Mode::Read;
                let packet_changed = self.run.memory.packet_changed();
                self.run.touches.push(Touch { region, address, bytes, write, direct: false, packet_changed });
            }
        }
        // A helper that writes to one place of the frame, and sees nothing else of it, does the same
        // wherever that is.
        if let ([(reg, ..)], true, true) = (&filled[..], reads.is_empty(), model.has_contract)
            && !observed.union(changed).stack
            && let Some(n) = model.reads.iter().position(|r| r == *reg)
        {
            arguments[n] = self.symbols.terms.constant(64, 0);
        }
        let number = self.event(Happening::Call(callee, model.clone()), arguments, observed, changed, reads);
        RegSet::CALLER_SAVED.iter().for_each(|r| self.run.regs[r.index()] = None);
        let mut part = 2;
        for (_, address, bytes) in filled {
            for i in 0..bytes as u64 {
                let value = self.symbols.result(number, part, 8, None);
                part += 1;
                let offset = self.symbols.terms.constant(64, i);
                let address = self.symbols.terms.add(address, offset);
                self.push_write(Write { region: Region::Stack, address, bytes: 1, value });
            }
        }
        let region = match model.result {
            CallResult::Other if self.symbols.facts.stack_escapes => Some(Region::Any),
            other => result_region(other),
        };
        let bits = match model.result {
            CallResult::Scalar(max) => (64 - max.leading_zeros()).max(1),
            _ => 64,
        };
        let v = self.symbols.result(number, 0, bits, region);
        self.run.regs[0] = Some(self.symbols.terms.zero_extend(64, v));
        Ok(())
    }

    /// Offset from the frame pointer, when the address is a known place on the stack.
    fn frame_offset(&mut self, address: Term) -> Option<i64> {
        let (base, offset) = self.symbols.terms.split_offset(address);
        self.symbols.is_frame(base).then_some(offset as i64)
    }

    fn push_write(&mut self, write: Write) {
        Rc::make_mut(&mut self.run.memory.writes).push(write);
    }

    /// An instruction whose constants the loader may change: an event that reads its registers and
    /// whatever memory it may, and leaves unknowns.
    fn patched(&mut self, patch: Patch) -> Result<(), Refusal> {
        let effects = effects::of(&self.node.insn);
        if self.node.insn.target().is_some() || effects.is_barrier {
            return Err(Refusal::Barrier(self.node.id, "its meaning is only known when it is loaded"));
        }
        let (form, operands, result) = program::apart(&self.node.insn);
        let mut arguments = Vec::new();
        let mut tainted = self.symbols.facts.stack_escapes;
        for r in operands {
            let t = self.run.regs[r.index()].ok_or_else(|| Refusal::ReadsDead(r.to_string()))?;
            tainted |= matches!(self.symbols.region(t), Region::Stack | Region::Any);
            arguments.push(t);
        }
        let touched = match (effects.reads_memory || effects.writes_memory, tainted) {
            (false, _) => Classes::default(),
            (true, false) => Classes::OUTSIDE,
            (true, true) => Classes::ALL,
        };
        let changed = if effects.writes_memory { touched } else { Classes::default() };
        let what = Happening::Patched(patch, form);
        let earlier = match effects.reads_memory && !effects.writes_memory && !tainted {
            true => self.loaded_before(&what, &arguments, touched),
            false => None,
        };
        self.run.repeated += earlier.is_some() as usize;
        let number = match earlier {
            Some(number) => number,
            None => self.event(what, arguments, touched, changed, vec![]),
        };
        let region =
            (tainted || effects.reads_memory && self.symbols.facts.frame_holds_pointers).then_some(Region::Any);
        if let Some(r) = result {
            self.run.regs[r.index()] = Some(self.symbols.result(number, 0, 64, region));
        }
        Ok(())
    }

    /// The event at which a load that the loader patches was made before, by the same relocation and from
    /// the same address, when nothing may have written since to the memory that it may see.
    fn loaded_before(&self, what: &Happening, arguments: &[Term], seen: Classes) -> Option<usize> {
        let contents = |m: &Memory| {
            let writes = m.writes.iter().filter(|w| seen.covers(w.region)).copied();
            (Epochs { stack: 0, ..m.epochs }, writes.collect::<Vec<_>>())
        };
        let is_same = |e: &Event| e.what == *what && e.arguments == arguments;
        let number = self.run.events.iter().rposition(is_same)?;
        (contents(&self.run.events[number].memory) == contents(&self.run.memory)).then_some(number)
    }

    fn touch(&mut self, region: Region, address: Term, bytes: u32, write: bool) {
        let packet_changed = self.run.memory.packet_changed();
        self.run.touches.push(Touch { region, address, bytes, write, direct: true, packet_changed });
    }

    fn narrow(&mut self, value: Term, size: Size) -> Term {
        self.symbols.terms.extract(size.bits() - 1, 0, value)
    }
}

impl Machine for Executor<'_, '_, '_> {
    type Value = Term;
    type Cond = Term;
    type Error = Refusal;

    fn constant(&mut self, value: u64) -> Term {
        self.symbols.terms.constant(64, value)
    }

    fn immediate(&mut self, value: i32) -> Term {
        match self.node.patch {
            Some(patch) => self.symbols.patch(patch),
            None => self.constant(value as i64 as u64),
        }
    }

    fn reg(&mut self, reg: Reg) -> Result<Term, Refusal> {
        match self.run.regs[reg.index()] {
            Some(t) => Ok(t),
            // A function that returns nothing leaves r0 undefined.
            None => Err(Refusal::ReadsDead(reg.to_string())),
        }
    }

    fn set_reg(&mut self, reg: Reg, value: Term) -> Result<(), Refusal> {
        if reg == Reg::FP {
            return Err(Refusal::Malformed("r10 cannot be written"));
        }
        self.run.regs[reg.index()] = Some(value);
        Ok(())
    }

    fn alu(&mut self, width: Width, op: AluOp, a: &Term, b: &Term) -> Result<Term, Refusal> {
        Ok(arithmetic::alu(&mut self.symbols.terms, width, op, *a, *b))
    }

    fn extend(&mut self, value: &Term, bits: u32, signed: bool) -> Term {
        arithmetic::extend(&mut self.symbols.terms, *value, bits, signed)
    }

    fn swap_bytes(&mut self, value: &Term, bits: u32) -> Term {
        arithmetic::swap_bytes(&mut self.symbols.terms, *value, bits)
    }

    fn compare(&mut self, width: Width, cond: Condition, a: &Term, b: &Term) -> Term {
        arithmetic::compare(&mut self.symbols.terms, width, cond, *a, *b)
    }

    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<Term, Refusal> {
        let program = self.symbols.program;
        Ok(match value {
            Imm64::Value(v) => self.symbols.terms.constant(64, v),
            Imm64::Map(m) => match program.map_index(m) {
                Some(i) => self.symbols.map_address(i),
                None => self.symbols.named(value, None),
            },
            Imm64::MapValue(m, off) => match program.map_index(m) {
                Some(i) => {
                    let base = self.symbols.map_data(i);
                    let off = self.symbols.terms.constant(64, off as u64);
                    self.symbols.terms.add(base, off)
                }
                None => self.symbols.named(value, None),
            },
            _ => self.symbols.named(value, None),
        })
    }

    fn load(&mut self, address: &Term, size: Size) -> Result<Term, Refusal> {
        let region = self.symbols.region(*address);
        self.touch(region, *address, size.bytes(), false);
        if region == Region::Context {
            return self.load_context(*address, size);
        }
        let memory = self.run.memory.clone();
        let value = self.symbols.read(&memory, region, *address, size.bytes())?;
        Ok(self.symbols.terms.zero_extend(64, value))
    }

    fn store(&mut self, address: &Term, size: Size, value: &Term) -> Result<(), Refusal> {
        let region = self.symbols.region(*address);
        self.touch(region, *address, size.bytes(), true);
        let value = self.narrow(*value, size);
        if region == Region::Context {
            let value = self.symbols.terms.zero_extend(64, value);
            let changed = Classes { context: true, ..Classes::default() };
            self.event(Happening::ContextStore(size), vec![*address, value], changed, changed, vec![]);
            return Ok(());
        }
        self.push_write(Write { region, address: *address, bytes: size.bytes(), value });
        Ok(())
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        address: &Term,
        size: Size,
        operand: &Term,
        expected: Option<&Term>,
    ) -> Result<Term, Refusal> {
        let region = self.symbols.region(*address);
        if op == AtomicOp::Add && region.is_map_value() && (self.silent.additions)(self.node.id) {
            let old = self.load(address, size)?;
            let sum = self.symbols.terms.add(old, *operand);
            self.store(address, size, &sum)?;
            return Ok(old);
        }
        self.touch(region, *address, size.bytes(), true);
        let mut arguments = vec![*address, self.narrow(*operand, size)];
        if let Some(e) = expected {
            arguments.push(self.narrow(*e, size));
        }
        self.ordered(Happening::Atomic(op, size), arguments, region, size)
    }

    fn load_acquire(&mut self, address: &Term, size: Size) -> Result<Term, Refusal> {
        let region = self.symbols.region(*address);
        self.touch(region, *address, size.bytes(), false);
        self.ordered(Happening::Ordered(size, false), vec![*address], region, size)
    }

    fn store_release(&mut self, address: &Term, size: Size, value: &Term) -> Result<(), Refusal> {
        let region = self.symbols.region(*address);
        self.touch(region, *address, size.bytes(), true);
        let value = self.narrow(*value, size);
        self.ordered(Happening::Ordered(size, true), vec![*address, value], region, size)?;
        Ok(())
    }

    fn legacy_load(&mut self, offset: &Term, size: Size) -> Result<Option<Term>, Refusal> {
        let context = self.reg(Reg::R6)?;
        let index = self.narrow(*offset, Size::W);
        let observed = Classes { packet: true, ..Classes::default() };
        let number =
            self.event(Happening::LegacyLoad(size), vec![context, index], observed, Classes::default(), vec![]);
        let value = self.symbols.result(number, 0, size.bits(), None);
        Ok(Some(self.symbols.terms.zero_extend(64, value)))
    }

    fn cast_address_space(&mut self, _: &Term, _: u16, _: u16) -> Result<Term, Refusal> {
        Err(Refusal::Barrier(self.node.id, "address space casts are not modelled"))
    }
}

impl Executor<'_, '_, '_> {
    /// An access that others may order theirs by: all shared memory must agree, and may have changed.
    fn ordered(&mut self, what: Happening, arguments: Vec<Term>, region: Region, size: Size) -> Result<Term, Refusal> {
        let mut changed = Classes { shared: true, ..Classes::default() };
        changed.add(region);
        if self.symbols.facts.stack_escapes {
            changed.stack = true;
        }
        let number = self.event(what, arguments, changed, changed, vec![]);
        let facts = self.symbols.facts;
        let tag = (changed.stack && facts.frame_holds_pointers || facts.stack_escapes).then_some(Region::Any);
        let old = self.symbols.result(number, 0, size.bits(), tag);
        Ok(self.symbols.terms.zero_extend(64, old))
    }

    /// Context fields are converted by the kernel field by field: a load means the field of exactly
    /// that offset and size.
    fn load_context(&mut self, address: Term, size: Size) -> Result<Term, Refusal> {
        let (base, offset) = self.symbols.terms.split_offset(address);
        if !self.symbols.is_context(base) {
            return Err(Refusal::Barrier(self.node.id, "a context access at an unknown offset"));
        }
        let epochs = self.run.memory.epochs;
        if let Some(field) = self.symbols.facts.hook.and_then(|h| h.context_field(offset as i64, size.bytes())) {
            return Ok(self.symbols.packet_field(epochs.packet, field));
        }
        let key = (epochs.context, offset, size.bytes());
        let tag = self.symbols.facts.stack_escapes.then_some(Region::Any);
        let value = match self.symbols.fields.get(&key) {
            Some(t) => *t,
            None => {
                let t = self.symbols.variable(size.bits(), tag);
                self.symbols.fields.insert(key, t);
                t
            }
        };
        Ok(self.symbols.terms.zero_extend(64, value))
    }
}
