//! Are two programs the same? Aligns them function by function and asks the prover to accept each
//! difference as a rewrite of the first program into the second.

use crate::apply::{Proven, Prover};
use crate::certificate::digest;
use crate::check::{self, Witness};
use crate::facts::Facts;
use crate::refusal::Refusal;
use crate::rewrite::{Edit, Rewrite};
use karakoram_bpf::insn::{FuncId, Insn, InsnId};
use karakoram_bpf::program::{Function, Node, Program};
use std::collections::HashMap;
use std::ops::Range;

/// The answer to whether two programs do the same.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// They do, by these rewrites of the first.
    Equal(Box<Proven>),
    /// It could not be shown; the function, and what stood in the way. They may still do the same.
    NotShown {
        /// Name of the function.
        function: String,
        /// What the prover said of the last attempt.
        refusal: Refusal,
    },
    /// They do not have the same functions or maps.
    OtherShape(&'static str),
}

/// Compares two programs.
pub fn compare(a: &Program, b: &Program, prover: &Prover) -> Comparison {
    if a.functions.len() != b.functions.len() {
        return Comparison::OtherShape("they have different numbers of functions");
    }
    if a.maps.len() != b.maps.len()
        || a.maps
            .iter()
            .zip(&b.maps)
            .any(|(x, y)| (x.kind, x.key_size, x.value_size) != (y.kind, y.key_size, y.value_size))
    {
        return Comparison::OtherShape("they use different maps");
    }
    let mut proven = Proven::input(a.clone());
    for i in 0..a.functions.len() {
        let function = FuncId(i as u32);
        if let Err(refusal) = transform(&mut proven, function, &b.functions[i], prover) {
            return Comparison::NotShown { function: b.functions[i].name.clone(), refusal };
        }
    }
    if digest(proven.program()) == digest(b) {
        Comparison::Equal(Box::new(proven))
    } else {
        let refusal = Refusal::Malformed("the differences could not be aligned");
        Comparison::NotShown { function: String::new(), refusal }
    }
}

/// Inputs on which the two may differ, one for each function that the prover has a model for.
pub fn suspects(a: &Program, b: &Program, prover: &Prover) -> Vec<(FuncId, Witness)> {
    let functions = (0..a.functions.len().min(b.functions.len())).map(|i| FuncId(i as u32));
    functions
        .filter_map(|function| {
            let edits = differences(a.function(function), b.function(function));
            if edits.is_empty() {
                return None;
            }
            let facts = prover.facts(a, function);
            let rewrite = Rewrite { function, entry: 0, window: Vec::new(), edits, rule: "compare".to_string() };
            let witness = check::witness(a, &facts, &rewrite, &|f| prover.signature(f), &prover.backend)?;
            Some((function, witness))
        })
        .collect()
}

/// Rewrites a function of `proven` into `goal`, difference by difference, joining those that cannot
/// be shown alone with the ones that follow.
fn transform(proven: &mut Proven, function: FuncId, goal: &Function, prover: &Prover) -> Result<(), Refusal> {
    let hunks = differences(proven.program().function(function), goal);
    if hunks.is_empty() {
        return Ok(());
    }
    let facts = prover.facts(proven.program(), function);
    let mut accepted: Vec<Rewrite> = Vec::new();
    let mut at = 0;
    while at < hunks.len() {
        let floor = accepted.last().map_or(0, |r| r.window[0].end);
        let found = (at + 1..=hunks.len()).find_map(|end| {
            let rewrite = attempt(proven.program(), &facts, function, &hunks[at..end], floor, prover).ok()?;
            Some((end, rewrite))
        });
        match found {
            Some((end, rewrite)) => {
                accepted.push(rewrite);
                at = end;
            }
            None => {
                // What was taken so far may be needed together with the rest.
                accepted = vec![attempt(proven.program(), &facts, function, &hunks, 0, prover)?];
                at = hunks.len();
            }
        }
    }
    for verdict in prover.apply(proven, function, &facts, accepted, &mut || true) {
        match verdict {
            Some(Ok(_)) => {}
            Some(Err(refusal)) => return Err(refusal),
            None => return Err(Refusal::Malformed("two differences overlap")),
        }
    }
    Ok(())
}

/// Tries windows around a group of edits, from the tightest to the whole function.
fn attempt(
    program: &Program,
    facts: &Facts,
    function: FuncId,
    group: &[Edit],
    floor: usize,
    prover: &Prover,
) -> Result<Rewrite, Refusal> {
    let n = program.function(function).nodes.len();
    let (first, last) = (group[0].at.start, group[group.len() - 1].at.end);
    let block = |p: usize| facts.flow.blocks[facts.flow.block_of[p]].clone();
    let starts = [first, block(first).start, first.saturating_sub(16), first.saturating_sub(48), 0];
    let ends = [last, block(last - 1).end, (last + 16).min(n), n, n];
    let mut refusal = Refusal::Malformed("no window");
    let mut tried: Vec<Range<usize>> = Vec::new();
    for (start, end) in starts.into_iter().zip(ends) {
        let window = start.max(floor)..end;
        if window.start > first || tried.contains(&window) {
            continue;
        }
        tried.push(window.clone());
        let rewrite = Rewrite {
            function,
            entry: window.start,
            window: vec![window],
            edits: group.to_vec(),
            rule: "compare".to_string(),
        };
        match prover.judge(program, facts, &rewrite) {
            Ok(_) => return Ok(rewrite),
            Err(e) => refusal = e,
        }
    }
    Err(refusal)
}

/// The edits that turn one function into the other, with identities of instructions that both have.
fn differences(a: &Function, b: &Function) -> Vec<Edit> {
    let pairs = align(a, b);
    let fresh = a.fresh_id().0;
    // Identities of b's instructions in terms of a.
    let mut ids: HashMap<InsnId, InsnId> =
        b.nodes.iter().enumerate().map(|(j, n)| (n.id, InsnId(fresh + j as u32))).collect();
    for (i, j) in &pairs {
        ids.insert(b.nodes[*j].id, a.nodes[*i].id);
    }
    let renamed: Vec<Node> = b
        .nodes
        .iter()
        .map(|n| Node { id: ids[&n.id], insn: n.insn.map(|t| ids.get(&t).copied().unwrap_or(t), |f| f), ..n.clone() })
        .collect();
    let same = pairs.into_iter().filter(|(i, j)| a.nodes[*i] == renamed[*j]);
    let mut edits: Vec<Edit> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (next_i, next_j) in same.chain([(a.nodes.len(), b.nodes.len())]) {
        if next_i > i || next_j > j {
            let mut edit = Edit { at: i..next_i, nodes: renamed[j..next_j].to_vec() };
            if edit.at.is_empty() {
                // An insertion takes the place of a neighbour, which it repeats.
                match i.checked_sub(1) {
                    Some(before) => {
                        edit.at.start = before;
                        edit.nodes.insert(0, renamed[j - 1].clone());
                    }
                    None => {
                        edit.at.end = next_i + 1;
                        edit.nodes.push(renamed[next_j].clone());
                    }
                }
            }
            edits.push(edit);
        }
        (i, j) = (next_i + 1, next_j + 1);
    }
    edits
}

/// A longest common subsequence of instructions, targets aside, as pairs of positions.
fn align(a: &Function, b: &Function) -> Vec<(usize, usize)> {
    let shape = |n: &Node| -> Insn<(), FuncId> { n.insn.map(|_| (), |f| f) };
    let (x, y): (Vec<_>, Vec<_>) = (a.nodes.iter().map(shape).collect(), b.nodes.iter().map(shape).collect());
    let prefix = x.iter().zip(&y).take_while(|(p, q)| p == q).count();
    let suffix = x[prefix..].iter().rev().zip(y[prefix..].iter().rev()).take_while(|(p, q)| p == q).count();
    let (xs, ys) = (&x[prefix..x.len() - suffix], &y[prefix..y.len() - suffix]);
    let mut pairs: Vec<(usize, usize)> = (0..prefix).map(|i| (i, i)).collect();
    // Quadratic; beyond this size the middle is taken as one difference.
    if xs.len().saturating_mul(ys.len()) <= 16_000_000 {
        let width = ys.len() + 1;
        let mut best = vec![0u32; (xs.len() + 1) * width];
        for i in (0..xs.len()).rev() {
            for j in (0..ys.len()).rev() {
                best[i * width + j] = if xs[i] == ys[j] {
                    best[(i + 1) * width + j + 1] + 1
                } else {
                    best[(i + 1) * width + j].max(best[i * width + j + 1])
                };
            }
        }
        let (mut i, mut j) = (0, 0);
        while i < xs.len() && j < ys.len() {
            if xs[i] == ys[j] {
                pairs.push((prefix + i, prefix + j));
                (i, j) = (i + 1, j + 1);
            } else if best[(i + 1) * width + j] >= best[i * width + j + 1] {
                i += 1;
            } else {
                j += 1;
            }
        }
    }
    pairs.extend((0..suffix).map(|k| (x.len() - suffix + k, y.len() - suffix + k)));
    pairs
}
