//! Rewrites that are right and that another judge minds all the same: the verifier loses what it knew,
//! or comes by a branch in another order. They are not proposed again, and what can be done without
//! them is.

use karakoram_bpf::insn::{FuncId, Insn, InsnId};
use karakoram_bpf::program::Function;
use karakoram_proof::rewrite::Rewrite;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Rewrites to keep away from, each in one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Avoided(HashSet<(FuncId, u64)>);

impl Avoided {
    /// Keeps away from a rewrite by its [`likeness`].
    pub fn insert(&mut self, function: FuncId, likeness: u64) {
        self.0.insert((function, likeness));
    }

    /// Keeps away from those of another set too.
    pub fn extend(&mut self, others: &Avoided) {
        self.0.extend(&others.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a rewrite of `function` is one to keep away from.
    pub fn contains(&self, function: &Function, rewrite: &Rewrite) -> bool {
        !self.is_empty() && self.0.contains(&(rewrite.function, likeness(function, rewrite)))
    }
}

/// What rewrites that come to the same have in common: the new code, or where there is none the rule and
/// the code that goes. The same store can replace two others or what these became, by this rule or that.
pub fn likeness(function: &Function, rewrite: &Rewrite) -> u64 {
    let mut h = DefaultHasher::new();
    let new: Vec<&Insn> = rewrite.edits.iter().flat_map(|e| &e.nodes).map(|n| &n.insn).collect();
    let old = rewrite.edits.iter().flat_map(|e| &function.nodes[e.at.clone()]).map(|n| &n.insn);
    let code = if new.is_empty() { old.collect() } else { new };
    if rewrite.edits.iter().all(|e| e.nodes.is_empty()) {
        rewrite.rule.hash(&mut h);
    }
    for insn in code {
        // Where jumps go is left out: identities of new instructions differ from run to run.
        insn.map(|_| InsnId(0), |f| f).hash(&mut h);
    }
    h.finish()
}
