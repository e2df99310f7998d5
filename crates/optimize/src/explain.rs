//! Rewrites as text, for people who ask why one was refused.

use karakoram_bpf::program::{Node, Program};
use karakoram_bpf::text::asm;
use karakoram_proof::rewrite::Rewrite;

/// A rewrite on one line: its rule, its window, and each edit.
pub fn rewrite(program: &Program, rewrite: &Rewrite) -> String {
    let old = &program.function(rewrite.function).nodes;
    let text = |nodes: &[Node]| nodes.iter().map(|n| asm::print_insn(&n.insn, program)).collect::<Vec<_>>().join("; ");
    let edits = rewrite
        .edits
        .iter()
        .map(|e| format!(" | {}..{}: {} => {}", e.at.start, e.at.end, text(&old[e.at.clone()]), text(&e.nodes)));
    format!("{} in {:?}{}", rewrite.rule, rewrite.window, edits.collect::<String>())
}
