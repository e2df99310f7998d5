//! Webs: definitions and uses of a register that belong together, because some use may see any of
//! the definitions. A web can be moved to another register as a whole.

use crate::context::Context;
use karakoram_bpf::insn::{AtomicOp, Insn, Reg};
use std::collections::HashMap;
use std::ops::Range;

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
    defined: HashMap<(usize, Reg), WebId>,
    used: HashMap<(usize, Reg), WebId>,
    before: Vec<[WebId; Reg::COUNT]>,
    extents: HashMap<WebId, Range<usize>>,
}

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
        self.defined.get(&(position, reg)).copied()
    }

    /// The name of [`Webs::used`].
    pub fn id_used(&self, position: usize, reg: Reg) -> Option<WebId> {
        self.used.get(&(position, reg)).copied()
    }

    /// The name of the web that a register belongs to before a position, when it matters there.
    pub fn at(&self, position: usize, reg: Reg) -> WebId {
        self.before[position][reg.index()]
    }

    /// The positions between which a web lives.
    pub fn extent(&self, id: WebId) -> Range<usize> {
        self.extents.get(&id).cloned().unwrap_or(0..0)
    }

    /// Finds all webs, in one walk over blocks and edges.
    pub fn of(context: &Context) -> Webs {
        let flow = &context.facts.flow;
        let mut sets = Sets::default();
        // One element for each register at the entry of each block, then one for each definition.
        let entry = |block: usize, r: Reg| block * Reg::COUNT + r.index();
        sets.grow(flow.blocks.len() * Reg::COUNT);
        let (mut defined, mut used) = (HashMap::new(), HashMap::new());
        let mut edges = Vec::new();
        let mut fixed = Vec::new();
        let mut before = Vec::with_capacity(context.len());
        for (b, range) in flow.blocks.iter().enumerate() {
            let mut current: Vec<usize> = Reg::all().map(|r| entry(b, r)).collect();
            for p in range.clone() {
                let insn = context.insn(p);
                before.push(std::array::from_fn(|r| current[r]));
                let is_fixed = !is_renamable(insn) || context.is_patched(p);
                for r in context.reads[p].iter() {
                    used.insert((p, r), current[r.index()]);
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
                    defined.insert((p, r), element);
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
        for ((p, _), element) in &mut defined {
            *element = sets.find(*element);
            webs.entry(*element).or_default().definitions.push(*p);
        }
        for ((p, _), element) in &mut used {
            *element = sets.find(*element);
            webs.entry(*element).or_default().uses.push(*p);
        }
        for element in fixed {
            webs.entry(sets.find(element)).or_default().fixed = true;
        }
        for web in webs.values_mut() {
            web.definitions.sort_unstable();
            web.uses.sort_unstable();
        }
        let mut extents: HashMap<WebId, Range<usize>> = HashMap::new();
        for (p, held) in before.iter().enumerate() {
            for r in context.facts.live[p].iter() {
                extents.entry(held[r.index()]).or_insert(p..p).end = p + 1;
            }
        }
        Webs { webs, defined, used, before, extents }
    }
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
