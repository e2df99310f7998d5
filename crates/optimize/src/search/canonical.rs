//! Windows that were searched before, up to the names of their registers and where they lie, so that
//! the same stretch of code is searched once.

use super::vocabulary::Isa;
use super::window::Window;
use crate::registers;
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::{Facts, Root, StackBytes};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// What searches of one run came to.
#[derive(Clone, Debug, Default)]
pub struct Searched(HashMap<u64, Option<Vec<Insn>>>);

/// A renaming of registers, and of the branch's target to 0.
#[derive(Clone, Debug)]
struct Names {
    to: [Option<Reg>; Reg::COUNT],
    from: [Option<Reg>; Reg::COUNT],
    target: Option<InsnId>,
}

impl Searched {
    /// What came of a window like this one: `Some(None)` when nothing did.
    pub fn get(&self, key: &Key) -> Option<Option<Vec<Insn>>> {
        let found = self.0.get(&key.digest)?;
        let Some(insns) = found else { return Some(None) };
        let back = |insn: &Insn| key.names.original(insn);
        insns.iter().map(back).collect::<Option<Vec<Insn>>>().map(Some)
    }

    /// Remembers what came of a window.
    pub fn insert(&mut self, key: &Key, found: Option<&[Insn]>) {
        let canonical = match found {
            None => Some(None),
            Some(insns) => insns.iter().map(|i| key.names.canonical(i)).collect::<Option<Vec<Insn>>>().map(Some),
        };
        if let Some(canonical) = canonical {
            self.0.insert(key.digest, canonical);
        }
    }
}

/// A window without the names of its registers.
#[derive(Clone, Debug)]
pub struct Key {
    names: Names,
    digest: u64,
}

impl Key {
    /// The key of a window that is searched that hard.
    pub fn of(window: &Window, facts: &Facts, isa: Isa, effort: &impl Hash) -> Key {
        let names = Names::of(window);
        let mut h = DefaultHasher::new();
        effort.hash(&mut h);
        (isa.jmp32, isa.v4).hash(&mut h);
        for insn in &window.insns {
            names.canonical(insn).hash(&mut h);
        }
        window.leads.hash(&mut h);
        let mut roots: Vec<Root> = Vec::new();
        for (number, reg) in names.from.iter().enumerate() {
            let Some(reg) = *reg else { continue };
            number.hash(&mut h);
            (window.live_in.contains(reg), window.next.live.contains(reg)).hash(&mut h);
            window.branch.map(|(_, exit)| exit.live.contains(reg)).hash(&mut h);
            if !window.live_in.contains(reg) {
                continue;
            }
            let fact = &window.state.regs[reg.index()];
            (fact.kind, fact.delta).hash(&mut h);
            let r = &fact.range;
            (r.zeros, r.ones, r.min, r.max, r.smin, r.smax).hash(&mut h);
            let root = fact.root.map(|root| match roots.iter().position(|r| *r == root) {
                Some(known) => known,
                None => {
                    roots.push(root);
                    roots.len() - 1
                }
            });
            root.hash(&mut h);
            roots.iter().map(|r| *r == Root::PacketEnd).collect::<Vec<bool>>().hash(&mut h);
        }
        for ((offset, size), fact) in window.state.stack.iter() {
            // A spilled pointer may also be in a register; that there is one is enough to tell apart.
            (offset, size, fact.value(), fact.root.and_then(|r| roots.iter().position(|k| *k == r))).hash(&mut h);
        }
        if window.insns.iter().any(|i| effects::of(i).reads_memory || effects::of(i).writes_memory) {
            let stack = |bytes: &StackBytes, h: &mut DefaultHasher| {
                (-512..0).filter(|o| bytes.contains(*o)).for_each(|o| o.hash(h));
            };
            stack(&facts.live_stack[window.range.start], &mut h);
            stack(&window.next.live_stack, &mut h);
            if let Some((_, exit)) = &window.branch {
                stack(&exit.live_stack, &mut h);
            }
            for (position, insn) in window.positions.iter().zip(&window.insns) {
                if let (Insn::Load { base, .. } | Insn::Store { base, .. }, Some(state)) =
                    (insn, &facts.before[*position])
                {
                    let fact = &state.regs[base.index()];
                    (fact.region(), fact.stack_offset()).hash(&mut h);
                }
            }
        }
        Key { names, digest: h.finish() }
    }
}

impl Names {
    /// Registers in the order in which they occur, the frame pointer as itself.
    fn of(window: &Window) -> Names {
        let mut names = Names {
            to: [None; Reg::COUNT],
            from: [None; Reg::COUNT],
            target: window.branch.and_then(|(insn, _)| insn.target().copied()),
        };
        (names.to[Reg::FP.index()], names.from[Reg::FP.index()]) = (Some(Reg::FP), Some(Reg::FP));
        let mut next = 0;
        for insn in &window.insns {
            let e = effects::of(insn);
            for r in e.reads.iter().chain(e.writes.iter()) {
                if names.to[r.index()].is_none() {
                    let name = Reg::new(next).expect("at most eleven");
                    next += 1;
                    (names.to[r.index()], names.from[name.index()]) = (Some(name), Some(r));
                }
            }
        }
        names
    }

    fn canonical(&self, insn: &Insn) -> Option<Insn> {
        rename(insn, &self.to, |_| Some(InsnId(0)))
    }

    fn original(&self, insn: &Insn) -> Option<Insn> {
        rename(insn, &self.from, |_| self.target)
    }
}

/// The instruction with other registers; `None` when one has no other name.
fn rename(insn: &Insn, names: &[Option<Reg>; Reg::COUNT], target: impl Fn(InsnId) -> Option<InsnId>) -> Option<Insn> {
    let renamed = registers::rename_known(insn, |r| names[r.index()])?;
    renamed.try_map(|to| target(to).ok_or(()), Ok).ok()
}
