//! What candidates for a window are made of: its registers, constants, and memory operands.

use super::case::Case;
use super::window::Window;
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Function;
use karakoram_proof::facts::{Facts, Root};
use karakoram_proof::region::Region;
use std::collections::{BTreeMap, BTreeSet};

/// Instructions beyond the base set that the function uses already, so that the kernel that it is
/// for must know them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Isa {
    /// 32-bit branches (v3).
    pub jmp32: bool,
    /// Sign-extending moves and loads, signed division, unconditional byte swaps, long jumps (v4).
    pub v4: bool,
}

impl Isa {
    /// What a function uses.
    pub fn of(function: &Function) -> Isa {
        let mut isa = Isa::default();
        for node in &function.nodes {
            match node.insn {
                Insn::Branch { width: Width::W32, .. } => isa.jmp32 = true,
                Insn::MovSx { .. }
                | Insn::Load { signed: true, .. }
                | Insn::Alu { op: AluOp::SDiv | AluOp::SMod, .. }
                | Insn::Endian { order: Endian::Swap, .. }
                | Insn::Jump { long: true, .. } => isa.v4 = true,
                _ => {}
            }
        }
        isa
    }
}

/// A memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Register with the address.
    pub base: Reg,
    /// Distance from it.
    pub off: i16,
    /// Bytes.
    pub size: Size,
}

/// Parts of candidates.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    /// Registers that may be written.
    pub targets: Vec<Reg>,
    /// Registers that may be read, those that the window itself uses first.
    pub sources: Vec<Reg>,
    /// How many of the sources the window uses.
    pub used: usize,
    /// Constants.
    pub constants: Vec<i32>,
    /// Operators.
    pub operators: Vec<AluOp>,
    /// Where loads may be from.
    pub loads: Vec<Place>,
    /// Where stores may be to.
    pub stores: Vec<Place>,
    /// Two-slot constants of the window.
    pub wide: Vec<Imm64<FuncId>>,
    /// Whether byte-order conversions are worth trying.
    pub swaps: bool,
    /// Widths of branches.
    pub branch_widths: Vec<Width>,
    /// What the function may use.
    pub isa: Isa,
}

const MOST_LOADS: usize = 32;
const MOST_STORES: usize = 24;
const MOST_CONSTANTS: usize = 16;

impl Vocabulary {
    /// The vocabulary of a window; `cases` show which results are always the same.
    pub fn of(facts: &Facts, window: &Window, isa: Isa, cases: &[Case]) -> Vocabulary {
        let targets: Vec<Reg> = window.writes().iter().filter(|r| *r != Reg::FP).collect();
        let direct = |r: Reg| {
            window.insns.iter().any(|i| match i {
                Insn::Load { .. } => false,
                Insn::Store { src, .. } => *src == Operand::Reg(r),
                other => effects::of(other).reads.contains(r),
            })
        };
        let mut sources: Vec<Reg> =
            Reg::all().filter(|r| targets.contains(r) || window.reads().contains(*r) && direct(*r)).collect();
        let used = sources.len();
        sources.extend(window.live_in.iter().filter(|r| !targets.contains(r) && !direct(*r)));
        let mut operators: Vec<AluOp> = window
            .insns
            .iter()
            .filter_map(|i| match i {
                Insn::Alu { op, .. } => Some(*op),
                Insn::Neg { .. } => Some(AluOp::Sub),
                _ => None,
            })
            .collect();
        if !operators.is_empty() || window.branch.is_some() {
            operators.extend([AluOp::And, AluOp::Add, AluOp::Rsh, AluOp::Lsh, AluOp::Or]);
        }
        let mut seen = BTreeSet::new();
        operators.retain(|op| seen.insert(*op));
        let (loads, stores) = places(facts, window);
        let wide = window.insns.iter().filter_map(|i| match i {
            Insn::LoadImm { value, .. } => Some(*value),
            _ => None,
        });
        let shifts = |i: &Insn| {
            matches!(i, Insn::Endian { .. } | Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh | AluOp::And, .. })
        };
        let mut branch_widths = vec![Width::W64];
        if isa.jmp32 {
            branch_widths.push(Width::W32);
        }
        Vocabulary {
            targets,
            sources,
            used,
            constants: constants(window, &outcomes(window, cases)),
            operators,
            loads,
            stores,
            wide: wide.collect(),
            swaps: window.insns.iter().any(shifts),
            branch_widths,
            isa,
        }
    }

    /// Instructions that may come anywhere in a candidate, the window's own first.
    pub fn instructions(&self, window: &Window) -> Vec<Insn> {
        let mut all: Vec<Insn> = window.insns.iter().filter(|i| i.target().is_none()).copied().collect();
        let near = &self.sources[..self.used];
        for &dst in &self.targets {
            for size in &self.loads {
                all.push(Insn::Load { size: size.size, signed: false, dst, base: size.base, off: size.off });
            }
            all.extend(self.constants.iter().map(|c| Insn::Mov { width: Width::W64, dst, src: Operand::Imm(*c) }));
            for &src in &self.sources {
                all.push(Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) });
            }
            for &src in near.iter().filter(|r| **r != Reg::FP) {
                all.push(Insn::Mov { width: Width::W32, dst, src: Operand::Reg(src) });
            }
            for &op in &self.operators {
                for width in [Width::W64, Width::W32] {
                    let constants = self.constants.iter().filter(|c| is_useful(op, width, **c));
                    all.extend(constants.map(|c| Insn::Alu { width, op, dst, src: Operand::Imm(*c) }));
                    all.extend(near.iter().map(|r| Insn::Alu { width, op, dst, src: Operand::Reg(*r) }));
                }
            }
            if self.swaps {
                let swap = |bits| Insn::Endian { order: Endian::Big, bits, dst };
                all.extend([swap(16), swap(32), swap(64)]);
            }
            all.extend(self.wide.iter().map(|value| Insn::LoadImm { dst, value: *value }));
        }
        for place in &self.stores {
            let Place { base, off, size } = *place;
            all.extend(near.iter().map(|r| Insn::Store { size, base, off, src: Operand::Reg(*r) }));
            all.extend(self.constants.iter().map(|c| Insn::Store { size, base, off, src: Operand::Imm(*c) }));
        }
        let mut seen = std::collections::HashSet::new();
        all.retain(|i| seen.insert(*i) && effects::of(i).writes != effects::RegSet::EMPTY.with(Reg::FP));
        all
    }
}

/// Whether that constant is a legal and not an idle operand.
pub fn is_useful(op: AluOp, width: Width, constant: i32) -> bool {
    match op {
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => (1..width.bits() as i32).contains(&constant),
        AluOp::Div | AluOp::Mod | AluOp::SDiv | AluOp::SMod => constant != 0,
        AluOp::And => constant != 0 && (constant != -1 || width == Width::W32),
        _ => constant != 0,
    }
}

/// Results that are the same in all cases.
fn outcomes(window: &Window, cases: &[Case]) -> Vec<i64> {
    let value = |case: &Case, r: Reg| case.expected.registers.values[r.index()] as i64;
    let live = window.writes().iter().filter(|r| window.live_out().contains(*r));
    live.filter_map(|r| {
        let first = value(cases.first()?, r);
        cases.iter().all(|c| value(c, r) == first).then_some(first)
    })
    .collect()
}

/// Constants of the window, its constant results, and what can be made of them.
fn constants(window: &Window, outcomes: &[i64]) -> Vec<i32> {
    let mut own: Vec<i64> = Vec::new();
    let mut shifts: Vec<i64> = Vec::new();
    for insn in &window.insns {
        match *insn {
            Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, src: Operand::Imm(i), .. } => shifts.push(i as i64),
            Insn::Alu { src: Operand::Imm(i), .. }
            | Insn::Mov { src: Operand::Imm(i), .. }
            | Insn::Store { src: Operand::Imm(i), .. }
            | Insn::Branch { src: Operand::Imm(i), .. } => own.push(i as i64),
            Insn::LoadImm { value: Imm64::Value(v), .. } => own.push(v as i64),
            _ => {}
        }
    }
    let mut all = own.clone();
    all.extend(outcomes);
    all.extend(&shifts);
    for (i, a) in shifts.iter().enumerate() {
        all.push((1i64 << (a & 63)).wrapping_sub(1));
        all.extend(shifts[i + 1..].iter().flat_map(|b| [a + b, a - b, b - a]).filter(|n| *n > 0));
    }
    for (i, a) in own.iter().enumerate() {
        for b in &own[i + 1..] {
            all.extend([a.wrapping_add(*b), a.wrapping_sub(*b), a & b, a | b]);
        }
        all.extend(shifts.iter().flat_map(|s| [a.wrapping_shl(*s as u32), a >> (s & 63)]));
    }
    all.extend([0, 1]);
    let mut seen = BTreeSet::new();
    all.into_iter()
        .filter_map(|c| i32::try_from(c).ok().or_else(|| u32::try_from(c).ok().map(|c| c as i32)))
        .filter(|c| seen.insert(*c))
        .take(MOST_CONSTANTS)
        .collect()
}

/// An object that a window accesses: registers that point into it, and bytes relative to its root.
#[derive(Default)]
struct Object {
    names: BTreeSet<(Reg, i64)>,
    loaded: BTreeSet<i64>,
    stored: BTreeSet<i64>,
    starts: BTreeSet<i64>,
    /// Accesses that must stay as they are.
    exact: bool,
    frame: bool,
}

/// Memory operands for loads and stores: those of the window, merged with their neighbours, and
/// parts of them, through every register that is known to point there.
fn places(facts: &Facts, window: &Window) -> (Vec<Place>, Vec<Place>) {
    let mut objects: BTreeMap<(Option<Root>, u8, usize), Object> = BTreeMap::new();
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for (i, insn) in window.insns.iter().enumerate() {
        let (base, off, size, store) = match *insn {
            Insn::Load { base, off, size, .. } => (base, off, size, false),
            Insn::Store { base, off, size, .. } => (base, off, size, true),
            _ => continue,
        };
        if store {
            stores.push(Place { base, off, size })
        } else {
            loads.push(Place { base, off, size })
        };
        let Some(state) = &facts.before[window.positions[i]] else { continue };
        let fact = &state.regs[base.index()];
        let key = match fact.root {
            Some(root) => (Some(root), 0, 0),
            None => (None, base.index() as u8, i),
        };
        let object = objects.entry(key).or_default();
        let delta = if fact.root.is_some() { fact.delta as i64 } else { 0 };
        object.names.insert((base, delta));
        object.exact |= fact.region() == Region::Context;
        object.frame |= fact.root == Some(Root::Frame);
        let start = delta.wrapping_add(off as i64);
        object.starts.insert(start);
        let bytes = start..start.wrapping_add(size.bytes() as i64);
        if store {
            object.stored.extend(bytes)
        } else {
            object.loaded.extend(bytes)
        };
    }
    for ((root, ..), object) in &mut objects {
        let (Some(root), state) = (root, &window.state) else { continue };
        for r in window.live_in.iter().filter(|r| state.regs[r.index()].root == Some(*root)) {
            object.names.insert((r, state.regs[r.index()].delta as i64));
        }
    }
    for object in objects.values().filter(|o| !o.exact) {
        for (base, delta) in &object.names {
            for size in [Size::D, Size::W, Size::H, Size::B] {
                let n = size.bytes() as i64;
                let place = |start: i64| {
                    let off = i16::try_from(start.wrapping_sub(*delta)).ok()?;
                    Some(Place { base: *base, off, size })
                };
                let aligned = |s: &i64| !object.frame || s.rem_euclid(n) == 0;
                let whole = |bytes: &BTreeSet<i64>, s: i64| (s..s + n).all(|b| bytes.contains(&b));
                let starts = object.loaded.iter().copied().filter(aligned).filter(|s| whole(&object.loaded, *s));
                loads.extend(starts.filter_map(place));
                let begins: BTreeSet<i64> = match object.frame {
                    // A frame store may also cover bytes beside that do not matter.
                    true => object.starts.iter().map(|s| s - s.rem_euclid(n)).collect(),
                    false => object.starts.iter().copied().filter(|s| whole(&object.stored, *s)).collect(),
                };
                stores.extend(begins.into_iter().filter(|_| !object.stored.is_empty()).filter_map(place));
            }
        }
    }
    let distinct = |places: Vec<Place>, most: usize| {
        let mut seen = BTreeSet::new();
        places.into_iter().filter(|p| seen.insert(*p)).take(most).collect()
    };
    (distinct(loads, MOST_LOADS), distinct(stores, MOST_STORES))
}
