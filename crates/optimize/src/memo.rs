//! Proposals that were refused, so that they are not judged again as long as nothing around them changes.

use crate::context::Context;
use karakoram_bpf::insn::{FuncId, Insn, InsnId};
use karakoram_proof::facts::{Fact, Kind};
use karakoram_proof::rewrite::Rewrite;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A set of digests.
#[derive(Default)]
pub struct Memo(HashSet<u64>);

impl Memo {
    /// Whether that was refused before.
    pub fn contains(&self, key: u64) -> bool {
        self.0.contains(&key)
    }

    /// Remembers a refusal.
    pub fn insert(&mut self, key: u64) {
        self.0.insert(key);
    }
}

/// A digest of everything a verdict depends on: code of the window and its replacement, what is
/// known at its entry, and what matters after it. Two keys that collide cost a chance, no more.
pub fn key(context: &Context, rewrite: &Rewrite) -> u64 {
    let mut h = DefaultHasher::new();
    context.id.0.hash(&mut h);
    let first_new = context.function.fresh_id().0;
    let base = rewrite.edits.iter().flat_map(|e| &e.nodes).map(|n| n.id.0).filter(|i| *i >= first_new).min();
    // New identities count from the first one of the proposal.
    let name = |id: InsnId| if id.0 >= first_new { u32::MAX - (id.0 - base.unwrap_or(0)) } else { id.0 };
    let insn = |i: &Insn, h: &mut DefaultHasher| i.map(|t| InsnId(name(t)), |f: FuncId| f).hash(h);
    for p in rewrite.window.iter().flat_map(|r| r.clone()) {
        let node = &context.function.nodes[p];
        node.id.hash(&mut h);
        insn(&node.insn, &mut h);
        for next in &context.facts.flow.successors[p] {
            if !rewrite.contains(*next) {
                context.facts.live[*next].hash(&mut h);
                context.facts.live_stack[*next].hash(&mut h);
            }
        }
    }
    for edit in &rewrite.edits {
        context.function.nodes[edit.at.start].id.hash(&mut h);
        edit.at.len().hash(&mut h);
        for node in &edit.nodes {
            name(node.id).hash(&mut h);
            insn(&node.insn, &mut h);
        }
    }
    if let Some(state) = context.state(rewrite.entry) {
        let live = context.facts.live[rewrite.entry];
        live.hash(&mut h);
        let facts: Vec<&Fact> = live.iter().map(|r| &state.regs[r.index()]).collect();
        for (i, fact) in facts.iter().enumerate() {
            fact_key(fact, &mut h);
            facts[..i].iter().position(|f| f.root == fact.root).hash(&mut h);
        }
        for ((offset, size), fact) in state.stack.iter() {
            (offset, size).hash(&mut h);
            fact_key(fact, &mut h);
            facts.iter().position(|f| f.root == fact.root).hash(&mut h);
        }
    }
    h.finish()
}

fn fact_key(fact: &Fact, h: &mut DefaultHasher) {
    fact.kind.hash(h);
    fact.delta.hash(h);
    if matches!(fact.kind, Kind::Scalar | Kind::Unknown) {
        let r = &fact.range;
        (r.zeros, r.ones, r.min, r.max, r.smin, r.smax).hash(h);
    }
}
