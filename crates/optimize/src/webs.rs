//! Webs: definitions and uses of a register that belong together, because some use may see any of
//! the definitions. A web can be moved to another register as a whole.

use crate::context::Context;
use karakoram_bpf::insn::{AtomicOp, Insn, Reg};
use std::collections::{BTreeSet, HashMap};

/// One web.
#[derive(Clone, Debug, Default)]
pub struct Web {
    /// Positions that write the register; an instruction that also reads it is in `uses` too.
    pub definitions: Vec<usize>,
    /// Positions that read it.
    pub uses: Vec<usize>,
    /// Whether a call, an exit, or the entry of the function says which register it is.
    pub fixed: bool,
}

/// Names a web of a function.
pub type WebId = usize;

/// The webs of a function.
#[derive(Clone, Debug)]
pub struct Webs {
    webs: HashMap<WebId, Web>,
    defined: Vec<[WebId; Reg::COUNT]>,
    used: Vec<[WebId; Reg::COUNT]>,
    before: Vec<[WebId; Reg::COUNT]>,
    beside: HashMap<WebId, BTreeSet<(Reg, WebId)>>,
}

/// In [`Webs::defined`] and [`Webs::used`]: the register is not written or read there.
const NONE: WebId = WebId::MAX;

impl Webs {
    /// A web by its name.
    pub fn get(&self, id: WebId) -> Option<&Web> {
        self.webs.get(&id)
    }

    /// The web of the value that the instruction at a position writes to a register.
    pub fn defined(&self, position: usize, reg: Reg) -> Option<&Web> {
        self.id_defined(position, reg).and_then(|w| self.get(w))
    }

    /// The web of the value that the instruction at a position reads from a register.
    pub fn used(&self, position: usize, reg: Reg) -> Option<&Web> {
        self.id_used(position, reg).and_then(|w| self.get(w))
    }

    /// The name of [`Webs::defined`].
    pub fn id_defined(&self, position: usize, reg: Reg) -> Option<WebId> {
        Some(self.defined[position][reg.index()]).filter(|id| *id != NONE)
    }

    /// The name of [`Webs::used`].
    pub fn id_used(&self, position: usize, reg: Reg) -> Option<WebId> {
        Some(self.used[position][reg.index()]).filter(|id| *id != NONE)
    }

    /// The name of the web that a register belongs to before a position, when it matters there.
    pub fn at(&self, position: usize, reg: Reg) -> WebId {
        self.before[position][reg.index()]
    }

    /// Other webs that live in `reg`, or begin there, while a web lives.
    pub fn beside(&self, id: WebId, reg: Reg) -> impl Iterator<Item = WebId> {
        let all = self.beside.get(&id).into_iter().flat_map(move |b| b.range((reg, 0)..=(reg, WebId::MAX)));
        all.map(|(_, web)| *web)
    }

    /// Whether a web, of `reg`, is one of those beside another.
    pub fn is_beside(&self, id: WebId, web: WebId, reg: Reg) -> bool {
        self.beside.get(&id).is_some_and(|b| b.contains(&(reg, web)))
    }

    /// Finds all webs, in one walk over blocks and edges.
    pub fn of(context: &Context) -> Webs {
        let flow = &context.facts.flow;
        let mut sets = Sets::default();
        // One element for each register at the entry of each block, then one for each definition.
        let entry = |block: usize, r: Reg| block * Reg::COUNT + r.index();
        sets.grow(flow.blocks.len() * Reg::COUNT);
        let mut defined = vec![[NONE; Reg::COUNT]; context.len()];
        let mut used = defined.clone();
        let mut edges = Vec::new();
        let mut fixed = Vec::new();
        let mut before = Vec::with_capacity(context.len());
        for (b, range) in flow.blocks.iter().enumerate() {
            let mut current: Vec<usize> = Reg::all().map(|r| entry(b, r)).collect();
            for p in range.clone() {
                let insn = context.insn(p);
                before.push(std::array::from_fn(|r| current[r]));
                let is_fixed = !is_renamable(insn);
                for r in context.reads[p].iter() {
                    used[p][r.index()] = current[r.index()];
                    if is_fixed {
                        fixed.push(current[r.index()]);
                    }
                }
                for r in context.writes[p].iter() {
                    let element = sets.fresh();
                    if context.reads[p].contains(r) && !is_fixed && !writes_elsewhere(insn, r) {
                        // Reads and writes the same operand.
                        sets.union(current[r.index()], element);
                    }
                    if is_fixed {
                        fixed.push(element);
                    }
                    current[r.index()] = element;
                    defined[p][r.index()] = element;
                }
            }
            for next in &flow.successors[range.end - 1] {
                for r in context.facts.live[*next].iter() {
                    edges.push((current[r.index()], entry(flow.block_of[*next], r)));
                }
            }
        }
        fixed.extend(Reg::all().map(|r| entry(0, r)));
        edges.into_iter().for_each(|(a, b)| sets.union(a, b));
        before.iter_mut().flat_map(|held: &mut [usize; Reg::COUNT]| held).for_each(|e| *e = sets.find(*e));
        let mut webs: HashMap<usize, Web> = HashMap::new();
        for (p, element) in elements(&mut defined) {
            *element = sets.find(*element);
            webs.entry(*element).or_default().definitions.push(p);
        }
        for (p, element) in elements(&mut used) {
            *element = sets.find(*element);
            webs.entry(*element).or_default().uses.push(p);
        }
        for element in fixed {
            webs.entry(sets.find(element)).or_default().fixed = true;
        }
        let mut found = Webs { webs, defined, used, before, beside: HashMap::new() };
        found.beside = found.neighbours(context);
        found
    }

    fn neighbours(&self, context: &Context) -> HashMap<WebId, BTreeSet<(Reg, WebId)>> {
        let facts = context.facts;
        let mut beside: HashMap<WebId, BTreeSet<(Reg, WebId)>> = HashMap::new();
        for p in 0..context.len() {
            // What lives side by side changes where a block begins and where something is written.
            let is_news = p == 0 || facts.flow.block_of[p] != facts.flow.block_of[p - 1];
            let news = if is_news { facts.live[p] } else { context.writes[p - 1] };
            let here = |r: Reg| (r, self.at(p, r));
            for r in facts.live[p].iter() {
                let mine = beside.entry(self.at(p, r)).or_default();
                let others =
                    if news.contains(r) { facts.live[p] } else { facts.live[p].minus(facts.live[p].minus(news)) };
                mine.extend(others.iter().filter(|o| *o != r).map(here));
                let goes_on = |s: &usize| facts.live[*s].contains(r) && self.at(*s, r) == self.at(p, r);
                if facts.flow.successors[p].iter().any(goes_on) {
                    let written = context.writes[p].iter().filter(|o| *o != r);
                    mine.extend(written.filter_map(|o| Some((o, self.id_defined(p, o)?))));
                }
            }
        }
        beside
    }
}

/// Webs by position, where there are any.
fn elements(webs: &mut [[WebId; Reg::COUNT]]) -> impl Iterator<Item = (usize, &mut WebId)> {
    let all = webs.iter_mut().enumerate().flat_map(|(p, at)| at.iter_mut().map(move |web| (p, web)));
    all.filter(|(_, web)| **web != NONE)
}

/// Whether the registers of an instruction are operands that can be chosen.
fn is_renamable(insn: &Insn) -> bool {
    !matches!(
        insn,
        Insn::Call(_)
            | Insn::Exit
            | Insn::LegacyLoad { .. }
            | Insn::AddrCast { .. }
            | Insn::Atomic { op: AtomicOp::Cmpxchg, .. }
    )
}

/// Whether `r` is written by an operand other than the one that reads it: `r1 = r1 + ..` of a load.
fn writes_elsewhere(insn: &Insn, r: Reg) -> bool {
    match insn {
        Insn::Load { dst, base, .. } | Insn::LoadAcquire { dst, base, .. } => *dst == r && *base == r,
        Insn::Mov { .. } | Insn::MovSx { .. } => true,
        _ => false,
    }
}

/// Union-find.
#[derive(Default)]
struct Sets(Vec<usize>);

impl Sets {
    fn grow(&mut self, n: usize) {
        self.0.extend(self.0.len()..n);
    }

    fn fresh(&mut self) -> usize {
        self.0.push(self.0.len());
        self.0.len() - 1
    }

    fn find(&mut self, mut a: usize) -> usize {
        while self.0[a] != a {
            self.0[a] = self.0[self.0[a]];
            a = self.0[a];
        }
        a
    }

    fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}
