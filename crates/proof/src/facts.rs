//! Facts: what holds at every point of a function in every execution, derived by running the one
//! semantics on abstract values to a fixpoint.
//!
//! A state says, for registers and spilled stack bytes, what kind of value is there, which numbers
//! it may be, and how values relate: a [`Fact`] is `root + delta`, where roots name unknown
//! quantities. A state means: *there are* values for the roots such that every location holds its
//! root's value plus its delta. Roots therefore only relate locations within one state.

pub use crate::bytes::{PacketBytes, StackBytes};
use crate::call::{CallModel, CallResult, Effect, Known, Mode, Signature};
use crate::flow::Flow;
pub use crate::interface::Arguments;
use crate::range::Range;
use crate::region::Region;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::hook::{ContextField, Hook};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Entry, Program};
use karakoram_bpf::semantics::{self, Machine};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::rc::Rc;

/// Where a value can sit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Location {
    /// A register.
    Reg(Reg),
    /// That many stack bytes at that offset from the frame pointer.
    Stack(i16, u8),
}

/// The name of an unknown quantity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Root {
    /// The frame pointer.
    Frame,
    /// The context pointer.
    Context,
    /// The current first packet byte.
    PacketStart,
    /// The current end of the packet.
    PacketEnd,
    /// The current start of packet metadata.
    MetaStart,
    /// The address of a map.
    Map(usize),
    /// The address of the first element of an array map (global data).
    MapData(usize),
    /// An argument at entry.
    Argument(Reg),
    /// What the instruction at that position computed last.
    Computed(usize),
    /// What the location held when control last came to that join.
    Joined(usize, Location),
}

/// What sort of value it is, as far as memory is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Not initialised on some path.
    Uninit,
    /// A number, or a pointer to anything but this function's stack frame.
    Scalar,
    /// A pointer into that region; null only when `nullable`.
    Pointer {
        /// What it points into.
        region: Region,
        /// Whether it may also be 0.
        nullable: bool,
    },
    /// The address of a map, which cannot be followed.
    Map(usize),
    /// Anything, also a pointer into this function's stack frame.
    Unknown,
}

/// What is known of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Its sort.
    pub kind: Kind,
    /// The quantity it is relative to; `None`: nothing is known of its relation to others.
    pub root: Option<Root>,
    /// Distance from the root.
    pub delta: u64,
    /// Numbers it may be.
    pub range: Range,
}

impl Fact {
    const UNINIT: Fact = Fact { kind: Kind::Uninit, root: None, delta: 0, range: Range::FULL };

    fn exactly(v: u64) -> Fact {
        Fact { kind: Kind::Scalar, root: None, delta: 0, range: Range::exactly(v) }
    }

    fn scalar(range: Range) -> Fact {
        Fact { kind: Kind::Scalar, root: None, delta: 0, range }
    }

    fn unknown(range: Range) -> Fact {
        Fact { kind: Kind::Unknown, root: None, delta: 0, range }
    }

    fn rooted(kind: Kind, root: Root) -> Fact {
        Fact { kind, root: Some(root), delta: 0, range: Range::FULL }
    }

    fn pointer(region: Region, root: Root) -> Fact {
        Fact::rooted(Kind::Pointer { region, nullable: false }, root)
    }

    /// The number it is, when it is just one.
    pub fn value(&self) -> Option<u64> {
        match self.kind {
            Kind::Scalar | Kind::Unknown => self.range.value(),
            _ => None,
        }
    }

    /// Whether it may be a pointer into this function's frame, or derived from one.
    pub fn may_be_stack(&self) -> bool {
        matches!(self.kind, Kind::Unknown | Kind::Pointer { region: Region::Stack | Region::Any, .. })
    }

    /// The region an access through it touches.
    pub fn region(&self) -> Region {
        match self.kind {
            Kind::Pointer { region, .. } => region,
            Kind::Scalar | Kind::Map(_) => Region::Foreign,
            Kind::Unknown | Kind::Uninit => Region::Any,
        }
    }

    /// Offset from the frame pointer, when it points to a known place on the stack.
    pub fn stack_offset(&self) -> Option<i64> {
        (self.root == Some(Root::Frame)).then_some(self.delta as i64)
    }

    /// Whether both are certainly the same value.
    pub fn is_same(&self, other: &Fact) -> bool {
        match (self.value(), other.value()) {
            (Some(a), Some(b)) => a == b,
            _ => self.root.is_some() && self.root == other.root && self.delta == other.delta,
        }
    }
}

/// All locations at one point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Registers `r0` to `r10`.
    pub regs: [Fact; Reg::COUNT],
    /// Stack bytes by offset and size; entries do not overlap.
    pub stack: Rc<BTreeMap<(i16, u8), Fact>>,
    /// Bytes from the current packet start on that a comparison with the packet end has shown to exist.
    pub readable: u16,
}

impl State {
    /// What is known of a location; stack bytes only when stored exactly so.
    pub fn get(&self, location: Location) -> Option<&Fact> {
        match location {
            Location::Reg(r) => Some(&self.regs[r.index()]),
            Location::Stack(off, size) => self.stack.get(&(off, size)),
        }
    }

    /// All locations with their facts.
    pub fn locations(&self) -> impl Iterator<Item = (Location, &Fact)> {
        let regs = Reg::all().map(|r| (Location::Reg(r), &self.regs[r.index()]));
        regs.chain(self.stack.iter().map(|((o, s), f)| (Location::Stack(*o, *s), f)))
    }

    fn edit(&mut self, mut edit: impl FnMut(&mut Fact)) {
        self.regs.iter_mut().for_each(&mut edit);
        if self.stack.values().any(|f| {
            let mut copy = *f;
            edit(&mut copy);
            copy != *f
        }) {
            Rc::make_mut(&mut self.stack).values_mut().for_each(&mut edit);
        }
    }

    /// Gives up what is said about a root, because it is about to name something new.
    fn forget(&mut self, root: Root) {
        self.edit(|f| {
            if f.root == Some(root) {
                (f.root, f.delta) = (None, 0);
            }
        });
    }

    /// The slot of the frame that contains the byte at `offset`, and what is known of its value.
    pub fn slot_at(&self, offset: i64) -> Option<((i16, u8), &Fact)> {
        let contains = |(at, size): &(i16, u8)| (*at as i64..*at as i64 + *size as i64).contains(&offset);
        self.stack.iter().find(|(slot, _)| contains(slot)).map(|(slot, fact)| (*slot, fact))
    }

    fn kill_stack(&mut self, range: Option<(i64, i64)>) {
        match range {
            None if !self.stack.is_empty() => self.stack = Rc::default(),
            None => {}
            Some((from, to)) => {
                let overlaps = |o: i16, s: u8| (o as i64) < to && o as i64 + s as i64 > from;
                if self.stack.keys().any(|(o, s)| overlaps(*o, *s)) {
                    Rc::make_mut(&mut self.stack).retain(|(o, s), _| !overlaps(*o, *s));
                }
            }
        }
    }
}

/// Facts of one function.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The control flow they were derived on.
    pub flow: Flow,
    /// The state before each position; `None` where no execution comes.
    pub before: Vec<Option<State>>,
    /// Registers that matter before each position.
    pub live: Vec<RegSet>,
    /// Stack bytes that matter before each position.
    pub live_stack: Vec<StackBytes>,
    /// Packet bytes that matter before each position, by offset from the packet start there.
    pub live_packet: Vec<PacketBytes>,
    /// Whether a pointer into the frame was stored where others can follow it.
    pub stack_escapes: bool,
    /// Whether the frame itself may hold pointers into the frame.
    pub frame_holds_pointers: bool,
    /// Hook of the function, for the meaning of context fields.
    pub hook: Option<Hook>,
    /// Whether nothing looks at the high half of what the function returns.
    pub returns_32_bits: bool,
    /// What the function is called with.
    pub arguments: Arguments,
    /// Context fields that some execution loads, offset and size in bytes, and that may be loaded anywhere in the
    /// function: which fields there are does not depend on where in a program one is. The verifier does not look
    /// at what tests of the loader's constants leave out, though. So where there are such, only fields that all
    /// kernels have are meant.
    pub(crate) context_loads: BTreeSet<(u64, u32)>,
    /// What it calls other functions of the program with.
    pub(crate) calls: Vec<(FuncId, Arguments)>,
}

impl Facts {
    /// Derives the facts of a function. `signature` tells what is known of other
    /// functions of the program, `given` what this one is called with; see [`crate::interface`].
    pub fn derive(
        program: &Program,
        function: FuncId,
        signature: &dyn Fn(FuncId) -> Signature,
        given: &Arguments,
    ) -> Facts {
        let flow = Flow::of(program.function(function));
        let hook = match program.function(function).entry {
            Entry::Hook(hook) => Some(hook),
            Entry::Subprogram { .. } => None,
        };
        let mut analysis = Analysis {
            program,
            function,
            signature,
            flow: &flow,
            hook,
            escapes: false,
            spills: false,
            here: 0,
            given,
            state: entry_state(hook, given),
            touched: Vec::new(),
            calls: Vec::new(),
            context_loads: BTreeSet::new(),
            is_decided_at_load: program.is_decided_at_load(),
        };
        let mut entries = analysis.fixpoint();
        // What escaped or was spilled anywhere may be met anywhere: again under that assumption,
        // which may in turn show another escape.
        let mut assumed = (false, false);
        while assumed != (analysis.escapes, analysis.spills) {
            assumed = (analysis.escapes, analysis.spills);
            entries = analysis.fixpoint();
        }
        analysis.calls.clear();
        analysis.context_loads.clear();
        let n = flow.block_of.len();
        let mut before = vec![None; n];
        let mut touched = vec![Vec::new(); n];
        for (block, entry) in entries.into_iter().enumerate() {
            let Some(entry) = entry else { continue };
            analysis.state = entry;
            for position in flow.blocks[block].clone() {
                before[position] = Some(analysis.state.clone());
                analysis.touched.clear();
                analysis.advance(position);
                touched[position] = std::mem::take(&mut analysis.touched);
            }
        }
        let Analysis { escapes, spills, calls, context_loads, .. } = analysis;
        let live = crate::liveness::registers(program, function, &flow, signature);
        let live_stack = crate::liveness::stack(&flow, &touched);
        let live_packet = crate::liveness::packet(&flow, &touched);
        Facts {
            flow,
            before,
            live,
            live_stack,
            live_packet,
            stack_escapes: escapes,
            frame_holds_pointers: spills,
            hook,
            returns_32_bits: hook.is_some_and(|h| returns_32_bits(program, h)),
            arguments: given.clone(),
            context_loads,
            calls,
        }
    }

    /// Whether some execution may come to that position.
    pub fn is_reachable(&self, position: usize) -> bool {
        self.before[position].is_some()
    }

    /// Whether the branch at `position` is always (`Some(true)`) or never taken, as far as ranges tell.
    pub fn branch_outcome(&self, program: &Program, function: FuncId, position: usize) -> Option<bool> {
        let insn = &program.function(function).nodes[position].insn;
        let (Insn::Branch { .. }, Some(state)) = (insn, &self.before[position]) else { return None };
        let (taken, fallen) = (refined(state, insn, true), refined(state, insn, false));
        match (taken.is_some(), fallen.is_some()) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }
}

/// Whether nothing looks at the high half of what functions of that hook return: they are run by the
/// kernel, and no function that is run by the kernel is also called.
fn returns_32_bits(program: &Program, hook: Hook) -> bool {
    let is_hooked = |f: FuncId| matches!(program.function(f).entry, Entry::Hook(_));
    let is_called = |insn: &Insn| match insn {
        Insn::Call(Callee::Local(f)) => is_hooked(*f),
        Insn::LoadImm { value: Imm64::Function(f), .. } => is_hooked(*f),
        _ => false,
    };
    hook.returns_32_bits() && !program.functions.iter().flat_map(|f| &f.nodes).any(|n| is_called(&n.insn))
}

fn entry_state(hook: Option<Hook>, given: &Arguments) -> State {
    let mut regs = [Fact::UNINIT; Reg::COUNT];
    regs[10] = Fact::pointer(Region::Stack, Root::Frame);
    match hook {
        Some(Hook::Kernel(_)) => regs[1] = Fact::pointer(Region::Context, Root::Context),
        Some(Hook::Buffer(_)) => regs[1] = Fact::pointer(Region::Packet, Root::PacketStart),
        Some(Hook::Constant) => regs[1] = Fact::rooted(Kind::Scalar, Root::Argument(Reg::R1)),
        None => regs[1..=5].copy_from_slice(&given.facts),
    }
    State { regs, stack: Rc::default(), readable: 0 }
}

/// An access: bytes from an offset (`None`: somewhere, everywhere) of the frame or the packet, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) in_packet: bool,
    pub(crate) range: Option<(i64, i64)>,
    pub(crate) mode: Mode,
}

struct Analysis<'a> {
    program: &'a Program,
    function: FuncId,
    signature: &'a dyn Fn(FuncId) -> Signature,
    flow: &'a Flow,
    hook: Option<Hook>,
    escapes: bool,
    /// Whether a pointer into the frame was stored in the frame, or may have been.
    spills: bool,
    here: usize,
    given: &'a Arguments,
    state: State,
    touched: Vec<Touched>,
    calls: Vec<(FuncId, Arguments)>,
    context_loads: BTreeSet<(u64, u32)>,
    /// Whether tests in the program may be those of the loader.
    is_decided_at_load: bool,
}

/// Visits of one block after which its bounds are widened, and after which relations are dropped.
const WIDEN_AFTER: usize = 3;
const DROP_RELATIONS_AFTER: usize = 12;

impl Analysis<'_> {
    fn fixpoint(&mut self) -> Vec<Option<State>> {
        let order = self.flow.reverse_post_order();
        let mut rank = vec![usize::MAX; self.flow.blocks.len()];
        order.iter().enumerate().for_each(|(i, b)| rank[*b] = i);
        let mut entries: Vec<Option<State>> = vec![None; self.flow.blocks.len()];
        let mut visits = vec![0usize; self.flow.blocks.len()];
        let mut pending: BTreeSet<usize> = BTreeSet::new();
        if let Some(first) = order.first() {
            entries[*first] = Some(entry_state(self.hook, self.given));
            pending.insert(rank[*first]);
        }
        while let Some(next) = pending.pop_first() {
            let block = order[next];
            visits[block] += 1;
            self.state = entries[block].clone().expect("pending blocks have a state");
            let range = self.flow.blocks[block].clone();
            for position in range.start..range.end - 1 {
                self.touched.clear();
                self.advance(position);
            }
            self.touched.clear();
            let last = range.end - 1;
            self.advance(last);
            for (target, state) in self.edges(last) {
                let to = self.flow.block_of[target];
                let merged = match &entries[to] {
                    None => state,
                    Some(old) => join(old, &state, target, visits[to]),
                };
                if entries[to].as_ref() != Some(&merged) {
                    entries[to] = Some(merged);
                    pending.insert(rank[to]);
                }
            }
        }
        entries
    }

    /// Executes the instruction at `position` on `self.state`, as if it fell through.
    fn advance(&mut self, position: usize) {
        self.here = position;
        let insn = self.program.function(self.function).nodes[position].insn;
        let node = &self.program.function(self.function).nodes[position];
        if node.patch.is_some() && node.patched_constant().is_none() {
            return self.patched(&insn);
        }
        let Ok(flow) = semantics::step(self, &insn);
        if let semantics::Flow::Call(callee) = flow {
            self.call(callee);
        }
        if matches!(insn, Insn::LegacyLoad { .. }) {
            RegSet::ARGUMENTS.iter().for_each(|r| self.state.regs[r.index()] = Fact::UNINIT);
        }
    }

    /// The edges out of the instruction at `position`, which was just executed.
    fn edges(&self, position: usize) -> Vec<(usize, State)> {
        let node = &self.program.function(self.function).nodes[position];
        let next = &self.flow.successors[position];
        // A branch to the next instruction leaves no trace of its outcome.
        let is_decided = matches!(node.insn, Insn::Branch { .. }) && node.patch.is_none() && next.len() > 1;
        if !is_decided {
            return next.iter().map(|to| (*to, self.state.clone())).collect();
        }
        let target = node.insn.target().map(|t| self.flow.positions[t]);
        let outcome = |to: &usize| Some((*to, refined(&self.state, &node.insn, Some(*to) == target)?));
        next.iter().filter_map(outcome).collect()
    }

    /// An instruction whose constants the loader may change: what it writes is not known. It only reaches the
    /// frame through a pointer that may point there.
    fn patched(&mut self, insn: &Insn) {
        let effects = karakoram_bpf::effects::of(insn);
        let names_frame = effects.reads.iter().any(|r| self.state.regs[r.index()].may_be_stack());
        let reaches_frame = self.escapes || names_frame;
        let mode = if effects.writes_memory { Mode::ReadWrite } else { Mode::Read };
        if effects.writes_memory || effects.reads_memory {
            self.touch_packet(None, mode);
            if reaches_frame {
                self.touch(None, mode);
            }
        }
        if effects.writes_memory && reaches_frame {
            self.state.kill_stack(None);
        }
        if effects.writes_memory && names_frame {
            (self.escapes, self.spills) = (true, true);
        }
        let tainted = reaches_frame || effects.reads_memory && self.spills;
        for r in effects.writes.iter() {
            let fact = if tainted { Fact::unknown(Range::FULL) } else { Fact::scalar(Range::FULL) };
            let fact = self.named(fact);
            self.state.regs[r.index()] = fact;
        }
    }

    /// What a helper writes to the frame are numbers for the verifier, also where it read pointers.
    fn fill(&mut self, from: i64, bytes: u32) {
        if let (Ok(at @ -512..0), 1 | 2 | 4 | 8) = (i16::try_from(from), bytes) {
            let number = Fact::scalar(Range::of_bits(8 * bytes));
            Rc::make_mut(&mut self.state.stack).insert((at, bytes as u8), number);
        }
    }

    fn touch(&mut self, range: Option<(i64, i64)>, mode: Mode) {
        self.touched.push(Touched { in_packet: false, range, mode });
    }

    fn touch_packet(&mut self, range: Option<(i64, i64)>, mode: Mode) {
        self.touched.push(Touched { in_packet: true, range, mode });
    }

    /// Notes an access through `address`; returns the stack offset when it is known.
    fn access(&mut self, address: &Fact, bytes: u32, mode: Mode) -> Option<i64> {
        if address.region().may_alias(Region::Packet) {
            let from = address.delta as i64;
            let is_known = address.root == Some(Root::PacketStart) && (0..=u16::MAX as i64).contains(&from);
            self.touch_packet(is_known.then_some((from, from.saturating_add(bytes as i64))), mode);
        }
        if let Some(offset) = address.stack_offset() {
            self.touch(Some((offset, offset + bytes as i64)), mode);
            return Some(offset);
        }
        if self.reaches_stack(address) {
            self.touch(None, if mode == Mode::Read { Mode::Read } else { Mode::ReadWrite });
        }
        None
    }

    fn reaches_stack(&self, address: &Fact) -> bool {
        match address.region() {
            Region::Stack | Region::Any => true,
            Region::Foreign => self.escapes,
            _ => false,
        }
    }

    /// Gives a value that has no relation to others a name of its own.
    fn named(&mut self, mut fact: Fact) -> Fact {
        if fact.root.is_none() && fact.value().is_none() {
            self.state.forget(Root::Computed(self.here));
            fact.root = Some(Root::Computed(self.here));
            fact.delta = 0;
        }
        fact
    }

    fn write_memory(&mut self, address: &Fact, size: Size, value: Option<&Fact>) {
        if value.is_none_or(Fact::may_be_stack) && self.reaches_stack(address) {
            self.spills = true;
        }
        if let Some(offset) = self.access(address, size.bytes(), Mode::Write) {
            self.state.kill_stack(Some((offset, offset + size.bytes() as i64)));
            if let (Ok(at @ -512..0), Some(value)) = (i16::try_from(offset), value) {
                let stored = if size == Size::D { *value } else { self.extend(value, size.bits(), false) };
                Rc::make_mut(&mut self.state.stack).insert((at, size.bytes() as u8), stored);
            }
            return;
        }
        if self.reaches_stack(address) {
            self.state.kill_stack(None);
        }
        if address.region() != Region::Stack && value.is_none_or(Fact::may_be_stack) {
            self.escapes = true;
        }
    }

    fn loaded(&self, address: &Fact, size: Size) -> Fact {
        let range = Range::of_bits(size.bits());
        let tainted = self.escapes || self.spills && self.reaches_stack(address);
        if tainted { Fact::unknown(range) } else { Fact::scalar(range) }
    }

    fn call(&mut self, callee: Callee<FuncId>) {
        if let Callee::Local(f) = callee {
            self.calls.push((f, Arguments::passed(&self.state, self.given)));
        }
        let state = &self.state;
        let known = |r: Reg| {
            let fact = &state.regs[r.index()];
            // Of other kinds the range is not that of the register.
            let most = (fact.kind == Kind::Scalar).then_some(fact.range.max);
            Known { value: fact.value(), most, map: if let Kind::Map(m) = fact.kind { Some(m) } else { None } }
        };
        let model = CallModel::of(self.program, callee, &known, self.signature);
        if model.packet != Effect::None {
            self.touch_packet(None, Mode::ReadWrite);
        }
        for access in &model.accesses {
            let address = self.state.regs[access.reg.index()];
            if address.region().may_alias(Region::Packet) {
                self.touch_packet(None, access.mode);
            }
            // Where it is not known how many bytes are written, the mode says that others stay.
            match (address.stack_offset(), access.bytes.or(access.most)) {
                (Some(from), Some(bytes)) => {
                    let range = (from, from + bytes as i64);
                    self.touch(Some(range), access.mode);
                    if access.mode != Mode::Read {
                        self.state.kill_stack(Some(range));
                    }
                    if access.mode == Mode::Write && model.has_contract {
                        self.fill(from, bytes);
                    }
                }
                _ if self.reaches_stack(&address) => {
                    self.touch(None, if access.mode == Mode::Read { Mode::Read } else { Mode::ReadWrite });
                    if access.mode != Mode::Read {
                        self.state.kill_stack(None);
                    }
                }
                _ => {}
            }
        }
        if model.gathers && self.spills {
            self.touch(None, Mode::Read);
        }
        // A callee without contract that gets at the frame may leave pointers into it there.
        if !model.has_contract && self.touched.iter().any(|t| t.mode != Mode::Read) {
            self.spills = true;
        }
        if self.escapes && model.shared != Effect::None {
            match model.writes_through_memory() {
                true => {
                    self.touch(None, Mode::ReadWrite);
                    self.state.kill_stack(None);
                }
                false => self.touch(None, Mode::Read),
            }
        }
        RegSet::CALLER_SAVED.iter().for_each(|r| self.state.regs[r.index()] = Fact::UNINIT);
        if model.packet == Effect::Moves {
            [Root::PacketStart, Root::PacketEnd, Root::MetaStart].into_iter().for_each(|r| self.state.forget(r));
            self.state.readable = 0;
        }
        let result = match model.result {
            CallResult::Scalar(max) => Fact::scalar(Range::between(0, max)),
            CallResult::MapValueOrNull(map) => {
                let region = map.map_or(Region::SomeMapValue, Region::MapValue);
                Fact { kind: Kind::Pointer { region, nullable: true }, ..Fact::scalar(Range::FULL) }
            }
            CallResult::Other if self.escapes => Fact::unknown(Range::FULL),
            CallResult::Other => Fact::scalar(Range::FULL),
        };
        self.state.regs[0] = self.named(result);
    }
}

impl Machine for Analysis<'_> {
    type Value = Fact;
    type Cond = ();
    type Error = Infallible;

    fn constant(&mut self, value: u64) -> Fact {
        Fact::exactly(value)
    }

    fn immediate(&mut self, value: i32) -> Fact {
        match self.program.function(self.function).nodes[self.here].patch {
            Some(_) => Fact::scalar(Range::FULL),
            None => self.constant(value as i64 as u64),
        }
    }

    fn reg(&mut self, reg: Reg) -> Result<Fact, Infallible> {
        Ok(self.state.regs[reg.index()])
    }

    fn set_reg(&mut self, reg: Reg, value: Fact) -> Result<(), Infallible> {
        let value = self.named(value);
        self.state.regs[reg.index()] = value;
        Ok(())
    }

    fn alu(&mut self, width: Width, op: AluOp, a: &Fact, b: &Fact) -> Result<Fact, Infallible> {
        let range = Range::alu(width, op, &a.range, &b.range);
        let shifted = |base: &Fact, by: u64| Fact {
            root: base.root,
            delta: if base.root.is_some() { base.delta.wrapping_add(by) } else { 0 },
            range: if matches!(base.kind, Kind::Scalar | Kind::Unknown) { range } else { Range::FULL },
            kind: match base.kind {
                Kind::Pointer { region, nullable } => Kind::Pointer { region, nullable: nullable && by == 0 },
                Kind::Map(_) => Kind::Scalar,
                Kind::Uninit => Kind::Unknown,
                kind => kind,
            },
        };
        let pointer = |f: &Fact| matches!(f.kind, Kind::Pointer { .. });
        let number = |f: &Fact| f.kind == Kind::Scalar;
        // A nullable pointer plus something may be a small number: no longer a pointer to its region.
        if width == Width::W64 {
            match (op, a.value(), b.value()) {
                (AluOp::Add, _, Some(by)) if nullable(a) && by != 0 => return Ok(Fact::unknown(Range::FULL)),
                (AluOp::Add, _, Some(by)) => return Ok(shifted(a, by)),
                (AluOp::Add, Some(by), _) if !nullable(b) => return Ok(shifted(b, by)),
                (AluOp::Sub, _, Some(by)) if !nullable(a) => return Ok(shifted(a, by.wrapping_neg())),
                (AluOp::Add | AluOp::Sub, ..) if pointer(a) && number(b) && !nullable(a) => {
                    return Ok(Fact { root: None, delta: 0, ..*a });
                }
                (AluOp::Add, ..) if number(a) && pointer(b) && !nullable(b) => {
                    return Ok(Fact { root: None, delta: 0, ..*b });
                }
                _ => {}
            }
        }
        let tainted = a.may_be_stack() || b.may_be_stack();
        let known = |f: &Fact| matches!(f.kind, Kind::Scalar | Kind::Unknown);
        let range = if known(a) && known(b) { range } else { Range::of_bits(width.bits()) };
        Ok(if tainted { Fact::unknown(range) } else { Fact::scalar(range) })
    }

    fn extend(&mut self, value: &Fact, bits: u32, signed: bool) -> Fact {
        if bits == 64 {
            return *value;
        }
        let range = match value.kind {
            Kind::Scalar | Kind::Unknown => value.range.extend(bits, signed),
            _ => Range::FULL.extend(bits, signed),
        };
        if matches!(value.kind, Kind::Scalar | Kind::Unknown) && range == value.range && !signed {
            return *value;
        }
        if value.may_be_stack() { Fact::unknown(range) } else { Fact::scalar(range) }
    }

    fn swap_bytes(&mut self, value: &Fact, bits: u32) -> Fact {
        if let Some(v) = value.value() {
            return Fact::exactly(semantics::concrete_swap(v, bits));
        }
        let range = Range::of_bits(bits);
        if value.may_be_stack() { Fact::unknown(range) } else { Fact::scalar(range) }
    }

    fn compare(&mut self, _: Width, _: Condition, _: &Fact, _: &Fact) {}

    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<Fact, Infallible> {
        Ok(match value {
            Imm64::Value(v) => Fact::exactly(v),
            Imm64::Map(m) => match self.program.map_index(m) {
                Some(i) => Fact::rooted(Kind::Map(i), Root::Map(i)),
                None => Fact::scalar(Range::FULL),
            },
            Imm64::MapValue(m, off) => match self.program.map_index(m) {
                Some(i) => Fact { delta: off as u64, ..Fact::pointer(Region::MapValue(i), Root::MapData(i)) },
                None => Fact::scalar(Range::FULL),
            },
            Imm64::Btf { .. } | Imm64::Function(_) | Imm64::Extern(_) => Fact::scalar(Range::FULL),
        })
    }

    fn load(&mut self, address: &Fact, size: Size) -> Result<Fact, Infallible> {
        if let Some(offset) = self.access(address, size.bytes(), Mode::Read) {
            let stored = i16::try_from(offset).ok().and_then(|o| self.state.stack.get(&(o, size.bytes() as u8)));
            return Ok(stored.copied().unwrap_or_else(|| self.loaded(address, size)));
        }
        if let Some(Root::MapData(map)) = address.root
            && let Some(value) = self.program.constant(map, address.delta, size.bytes())
        {
            return Ok(Fact::exactly(value));
        }
        if address.root == Some(Root::Context) {
            if !self.is_decided_at_load || self.hook.is_some_and(|h| h.has_lasting_field(address.delta)) {
                self.context_loads.insert((address.delta, size.bytes()));
            }
            let field = self.hook.and_then(|h| h.context_field(address.delta as i64, size.bytes()));
            match field {
                Some(ContextField::PacketStart) => return Ok(Fact::pointer(Region::Packet, Root::PacketStart)),
                Some(ContextField::MetaStart) => return Ok(Fact::pointer(Region::Packet, Root::MetaStart)),
                Some(ContextField::PacketEnd) => return Ok(Fact::rooted(Kind::Scalar, Root::PacketEnd)),
                None => {}
            }
        }
        Ok(self.loaded(address, size))
    }

    fn store(&mut self, address: &Fact, size: Size, value: &Fact) -> Result<(), Infallible> {
        self.write_memory(address, size, Some(value));
        Ok(())
    }

    fn atomic(
        &mut self,
        _: AtomicOp,
        address: &Fact,
        size: Size,
        operand: &Fact,
        _: Option<&Fact>,
    ) -> Result<Fact, Infallible> {
        self.access(address, size.bytes(), Mode::ReadWrite);
        let old = self.loaded(address, size);
        match address.stack_offset() {
            Some(offset) => self.state.kill_stack(Some((offset, offset + size.bytes() as i64))),
            None if self.reaches_stack(address) => self.state.kill_stack(None),
            None => {}
        }
        if operand.may_be_stack() {
            self.escapes |= address.region() != Region::Stack;
            self.spills |= self.reaches_stack(address);
        }
        Ok(old)
    }

    fn load_acquire(&mut self, address: &Fact, size: Size) -> Result<Fact, Infallible> {
        self.load(address, size)
    }

    fn store_release(&mut self, address: &Fact, size: Size, value: &Fact) -> Result<(), Infallible> {
        self.store(address, size, value)
    }

    fn legacy_load(&mut self, _: &Fact, size: Size) -> Result<Option<Fact>, Infallible> {
        self.touch_packet(None, Mode::Read);
        Ok(Some(Fact::scalar(Range::of_bits(size.bits()))))
    }

    fn cast_address_space(&mut self, value: &Fact, _: u16, _: u16) -> Result<Fact, Infallible> {
        Ok(if value.may_be_stack() { Fact::unknown(Range::FULL) } else { Fact::scalar(Range::FULL) })
    }
}

fn nullable(f: &Fact) -> bool {
    matches!(f.kind, Kind::Pointer { nullable: true, .. })
}

/// The state on one edge of a branch; `None` when no execution takes it.
fn refined(state: &State, insn: &Insn, taken: bool) -> Option<State> {
    let Insn::Branch { width, cond, dst, src, .. } = *insn else { return Some(state.clone()) };
    let a = state.regs[dst.index()];
    let b = match src {
        Operand::Reg(r) => state.regs[r.index()],
        Operand::Imm(i) => Fact::exactly(i as i64 as u64),
    };
    let mut state = state.clone();
    if let Some((distance, order)) = packet_test(&a, &b, width, cond, taken) {
        if !order.is_possible(distance, state.readable) {
            return None;
        }
        state.readable = state.readable.max(order.shown(distance));
    }
    let zero_test = b.value() == Some(0) && width == Width::W64;
    if nullable(&a) && zero_test {
        let null = match (cond, taken) {
            (Condition::Eq, t) => Some(t),
            (Condition::Ne, t) => Some(!t),
            _ => None,
        };
        match null {
            Some(true) => substitute(&mut state, dst, &a, |f| *f = Fact::exactly(0)),
            Some(false) => substitute(&mut state, dst, &a, |f| {
                if let Kind::Pointer { region, .. } = f.kind {
                    f.kind = Kind::Pointer { region, nullable: false };
                }
            }),
            None => {}
        }
        return Some(state);
    }
    if let (Kind::Pointer { nullable: false, .. }, true) = (a.kind, zero_test) {
        // A pointer that is not null decides a null test.
        let never = matches!((cond, taken), (Condition::Eq, true) | (Condition::Ne, false));
        return (!never).then_some(state);
    }
    let number = |f: &Fact| matches!(f.kind, Kind::Scalar | Kind::Unknown);
    if !number(&a) || !number(&b) {
        return Some(state);
    }
    let (ra, rb) = match (cond, taken) {
        (Condition::Set, false) => match b.range.value() {
            Some(mask) => {
                let mask = if width == Width::W32 { mask as u32 as u64 } else { mask };
                (a.range.assume_clear(mask), b.range)
            }
            None => (a.range, b.range),
        },
        _ => {
            let cond = if taken { cond } else { cond.negated().expect("Set is handled above") };
            let constant = b.range.value().is_some() && width == Width::W32;
            // At 32 bits a negative constant means its low half.
            let rb = if constant { b.range.extend(32, false) } else { b.range };
            (a.range.assume(width, cond, &rb), rb.assume(width, cond.swapped(), &a.range))
        }
    };
    if ra.is_empty() || rb.is_empty() {
        return None;
    }
    substitute(&mut state, dst, &a, |f| f.range = f.range.meet(&ra));
    if let Operand::Reg(r) = src
        && b.value().is_none()
    {
        substitute(&mut state, r, &b, |f| f.range = f.range.meet(&rb));
    }
    Some(state)
}

/// How a place in the packet lies to the packet's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Before,
    NotBehind,
    NotBefore,
    Behind,
}

impl Order {
    /// Whether a place at that distance from the start can lie so when that many bytes exist.
    fn is_possible(self, distance: u16, readable: u16) -> bool {
        match self {
            Order::Behind => distance > readable,
            Order::NotBefore => distance >= readable,
            Order::Before | Order::NotBehind => true,
        }
    }

    /// Bytes that exist because it lies so.
    fn shown(self, distance: u16) -> u16 {
        match self {
            Order::NotBehind => distance,
            Order::Before => distance.saturating_add(1),
            Order::NotBefore | Order::Behind => 0,
        }
    }
}

/// What an outcome of a comparison tells of a place in the packet: its distance from the start, and how
/// it lies to the end.
fn packet_test(a: &Fact, b: &Fact, width: Width, cond: Condition, taken: bool) -> Option<(u16, Order)> {
    let is_end = |f: &Fact| f.root == Some(Root::PacketEnd) && f.delta == 0;
    let (place, cond) = match (is_end(a), is_end(b)) {
        (false, true) => (a, cond),
        (true, false) => (b, cond.swapped()),
        _ => return None,
    };
    let order = match if taken { cond } else { cond.negated()? } {
        Condition::Lt => Order::Before,
        Condition::Le | Condition::Eq => Order::NotBehind,
        Condition::Ge => Order::NotBefore,
        Condition::Gt => Order::Behind,
        _ => return None,
    };
    // Farther away the sum could have wrapped around.
    let distance = u16::try_from(place.delta).ok()?;
    (place.root == Some(Root::PacketStart) && width == Width::W64).then_some((distance, order))
}

/// Applies what was learned of a register to it and to every location that holds the same value.
fn substitute(state: &mut State, reg: Reg, was: &Fact, mut learn: impl FnMut(&mut Fact)) {
    let constant = was.value().is_some();
    learn(&mut state.regs[reg.index()]);
    if constant || was.root.is_none() {
        return;
    }
    let learned = state.regs[reg.index()];
    state.edit(|f| {
        if f.root == was.root && f.delta == was.delta && f.kind == was.kind && f.value().is_none() {
            f.kind = learned.kind;
            f.range = if matches!(learned.kind, Kind::Scalar | Kind::Unknown) { learned.range } else { f.range };
        }
    });
}

/// `Range::widen`, but of fixed bits too many are given up at a time, up to the next usual width: a
/// counter loses them one by one, and each takes another walk through its loop.
fn widened(old: &Range, new: &Range) -> Range {
    let wide = old.widen(new);
    let lost = (old.zeros & !wide.zeros) | (old.ones & !wide.ones);
    if lost == 0 {
        return wide;
    }
    let highest = 64 - lost.leading_zeros();
    let end = [8, 16, 32].into_iter().find(|width| highest <= *width).unwrap_or(64);
    let given_up = (u64::MAX >> (64 - end)) & (u64::MAX << lost.trailing_zeros());
    let weaker = Range {
        zeros: wide.zeros & !given_up,
        ones: wide.ones & !given_up,
        min: wide.min & !given_up,
        max: wide.max | given_up,
        smin: if new.smin < old.smin { i64::MIN } else { wide.smin },
        smax: if new.smax > old.smax { i64::MAX } else { wide.smax },
    };
    weaker.meet(&Range::FULL)
}

/// The state at a join: what both sides agree on. Locations that hold equal values on both sides
/// still do afterwards.
pub(crate) fn join(old: &State, new: &State, position: usize, visits: usize) -> State {
    let readable = old.readable.min(new.readable);
    let mut joined = State { regs: [Fact::UNINIT; Reg::COUNT], stack: Rc::default(), readable };
    // Roots on both sides and the distance of their deltas, to the new root and the delta it stands for.
    type Group = (Option<Root>, Option<Root>, u64);
    let mut groups: HashMap<Group, (Root, u64)> = HashMap::new();
    let mut locations: Vec<(Location, Fact, Fact)> =
        Reg::all().map(|r| (Location::Reg(r), old.regs[r.index()], new.regs[r.index()])).collect();
    for ((o, s), f) in old.stack.iter() {
        if let Some(g) = new.stack.get(&(*o, *s)) {
            locations.push((Location::Stack(*o, *s), *f, *g));
        }
    }
    let kept: std::collections::HashSet<Root> = locations
        .iter()
        .filter(|(_, a, b)| a.root == b.root && a.delta == b.delta)
        .filter_map(|(_, a, _)| a.root)
        .collect();
    let mut stack = BTreeMap::new();
    for (location, a, b) in locations {
        let kind = match (a.kind, b.kind) {
            (x, y) if x == y => x,
            (Kind::Uninit, _) | (_, Kind::Uninit) => Kind::Uninit,
            (Kind::Pointer { region: r, nullable: m }, Kind::Pointer { region: s, nullable: n })
                if r == s || r.is_map_value() && s.is_map_value() =>
            {
                Kind::Pointer { region: r.join(s), nullable: m || n }
            }
            // Null merged with a pointer is a pointer that may be null.
            (Kind::Pointer { region, .. }, Kind::Scalar) if b.value() == Some(0) => {
                Kind::Pointer { region, nullable: true }
            }
            (Kind::Scalar, Kind::Pointer { region, .. }) if a.value() == Some(0) => {
                Kind::Pointer { region, nullable: true }
            }
            _ if a.may_be_stack() || b.may_be_stack() => Kind::Unknown,
            _ => Kind::Scalar,
        };
        let numeric = |f: &Fact| matches!(f.kind, Kind::Scalar | Kind::Unknown);
        let range = match (numeric(&a) && numeric(&b), visits > WIDEN_AFTER) {
            (false, _) => Range::FULL,
            (true, false) => a.range.join(&b.range),
            (true, true) => widened(&a.range, &b.range),
        };
        let (root, delta) = if a.root == b.root && a.delta == b.delta {
            (a.root, a.delta)
        } else if visits > DROP_RELATIONS_AFTER || kind == Kind::Uninit || range.value().is_some() {
            (None, 0)
        } else {
            let distance = b.delta.wrapping_sub(a.delta);
            // A number that is known on one side has no root there; such values are related to nothing.
            match (a.root, b.root) {
                (Some(_), Some(_)) => {
                    let fresh = Root::Joined(position, location);
                    let (root, base) = *groups.entry((a.root, b.root, distance)).or_insert((fresh, a.delta));
                    if kept.contains(&root) { (None, 0) } else { (Some(root), a.delta.wrapping_sub(base)) }
                }
                _ => (None, 0),
            }
        };
        let fact = Fact { kind, root, delta, range };
        match location {
            Location::Reg(r) => joined.regs[r.index()] = fact,
            Location::Stack(o, s) => {
                stack.insert((o, s), fact);
            }
        }
    }
    joined.stack = Rc::new(stack);
    joined
}
