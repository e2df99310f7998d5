//! Everything that a search of one window looks at, in 128 bits.
//!
//! What only names positions of the function counts by order, so that code which moved as a whole is
//! found again; everything else counts as it is.

use crate::search::SearchOptions;
use crate::search::vocabulary::Isa;
use crate::search::window::Window;
use karakoram_bpf::insn::{Insn, InsnId};
use karakoram_bpf::program::Program;
use karakoram_proof::apply::Prover;
use karakoram_proof::facts::{Fact, Facts, Root, State};
use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The key of a window that is searched with those options.
    pub fn of(
        program: &Program,
        facts: &Facts,
        window: &Window,
        isa: Isa,
        prover: &Prover,
        options: &SearchOptions,
    ) -> Digest {
        let half = |part: u8| {
            let mut h = DefaultHasher::new();
            part.hash(&mut h);
            Hashing { names: names(facts, window), h: &mut h }.everything(program, facts, window);
            format!("{isa:?} {:?} {:?}", prover.options, prover.backend).hash(&mut h);
            (options.seed, options.cases, options.effort(), env!("CARGO_PKG_VERSION")).hash(&mut h);
            h.finish().to_le_bytes()
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half(0));
        bytes[8..].copy_from_slice(&half(1));
        Digest(bytes)
    }
}

/// The names of all unknown quantities, in their order.
fn names(facts: &Facts, window: &Window) -> Vec<Root> {
    let states = facts.before[window.range.clone()].iter().flatten().chain([&window.state]);
    let roots = states.flat_map(|s| s.regs.iter().chain(s.stack.values())).filter_map(|f| f.root);
    roots.collect::<BTreeSet<Root>>().into_iter().collect()
}

struct Hashing<'h> {
    names: Vec<Root>,
    h: &'h mut DefaultHasher,
}

impl Hashing<'_> {
    fn everything(&mut self, program: &Program, facts: &Facts, window: &Window) {
        let function = program.function(window.function);
        let first = window.range.start;
        for p in window.range.clone() {
            let node = &function.nodes[p];
            node.insn.map(|_| InsnId(0), |f| f).hash(self.h);
            node.patch.hash(self.h);
            facts.before[p].is_some().hash(self.h);
            facts.before[p].iter().for_each(|s| self.state(s));
        }
        for positions in [&window.positions, &window.ahead, &window.behind] {
            positions.iter().map(|p| p - first).collect::<Vec<usize>>().hash(self.h);
        }
        window.leads.hash(self.h);
        self.state(&window.state);
        let target =
            window.branch.and_then(|(insn, _)| insn.target().and_then(|t| facts.flow.positions.get(t).copied()));
        for p in [Some(first), Some(window.range.end), target] {
            let live = p.map(|p| (facts.live[p], facts.live_stack[p]));
            live.hash(self.h);
            format!("{:?}", p.map(|p| &facts.live_packet[p])).hash(self.h);
        }
        // An exit at the window's own entry is another thing than one to elsewhere.
        target.map(|t| (t == first, t == window.range.end)).hash(self.h);
        format!("{:?} {:?} {:?}", window.live_in, window.next, window.branch.map(|(i, e)| (shape(&i), e))).hash(self.h);
        format!("{:?} {:?} {:?}", facts.hook, facts.stack_escapes, facts.frame_holds_pointers).hash(self.h);
        format!("{:?}", program.maps).hash(self.h);
    }

    fn state(&mut self, state: &State) {
        state.readable.hash(self.h);
        state.regs.iter().for_each(|f| self.fact(f));
        for (place, fact) in state.stack.iter() {
            place.hash(self.h);
            self.fact(fact);
        }
    }

    fn fact(&mut self, fact: &Fact) {
        (fact.kind, fact.delta).hash(self.h);
        let r = &fact.range;
        (r.zeros, r.ones, r.min, r.max, r.smin, r.smax).hash(self.h);
        let rank = |root: &Root| self.names.binary_search(root).ok();
        match fact.root {
            Some(root @ Root::Computed(_)) => (1, rank(&root)).hash(self.h),
            Some(root @ Root::Joined(_, location)) => (2, rank(&root), location).hash(self.h),
            root => (3, root).hash(self.h),
        }
    }
}

/// A branch without where it goes.
fn shape(insn: &Insn) -> Insn {
    insn.map(|_| InsnId(0), |f| f)
}
