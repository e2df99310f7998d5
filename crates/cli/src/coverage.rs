//! Which instructions were executed, and which ways conditional jumps went.

use crate::input::reachable;
use karakoram_bpf::insn::{FuncId, Insn};
use karakoram_bpf::interpreter::Step;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm::{self, Targets};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// An instruction: function and position.
type Place = (FuncId, usize);

/// Counts what runs of one program execute.
pub struct Coverage {
    /// Of each conditional jump whether it fell through and whether it jumped.
    ways: BTreeMap<Place, [bool; 2]>,
    executed: BTreeSet<Place>,
    instructions: usize,
    /// The conditional jump that was just executed, and how deep in calls.
    last: Option<(Place, usize)>,
}

/// How much was covered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Covered {
    /// Ways of conditional jumps that were gone, and how many there are: two for each.
    pub branches_covered: usize,
    /// See `branches_covered`.
    pub branches: usize,
    /// Instructions that were executed.
    pub instructions_covered: usize,
    /// All of the program and of the functions it calls.
    pub instructions: usize,
    /// The ways that were never gone.
    pub missing: Vec<String>,
}

impl Coverage {
    /// Of a program and the functions it calls. Jumps to the next instruction have one way only and
    /// are left out.
    pub fn new(program: &Program, entry: FuncId) -> Coverage {
        let functions = reachable(program, entry);
        let mut ways = BTreeMap::new();
        for &f in &functions {
            let nodes = &program.function(f).nodes;
            for (position, node) in nodes.iter().enumerate() {
                let follower = nodes.get(position + 1).map(|n| n.id);
                if matches!(node.insn, Insn::Branch { target, .. } if Some(target) != follower) {
                    ways.insert((f, position), [false; 2]);
                }
            }
        }
        let instructions = functions.iter().map(|f| program.function(*f).nodes.len()).sum();
        Coverage { ways, executed: BTreeSet::new(), instructions, last: None }
    }

    /// To be called after each run.
    pub fn end_run(&mut self) {
        self.last = None;
    }

    /// To be called before each instruction.
    pub fn step(&mut self, step: &Step) {
        let place = (step.function, step.position);
        if let Some((from, depth)) = self.last.take()
            && from.0 == place.0
            && depth == step.depth
            && let Some(ways) = self.ways.get_mut(&from)
        {
            ways[(place.1 != from.1 + 1) as usize] = true;
        }
        self.executed.insert(place);
        self.last = self.ways.contains_key(&place).then_some((place, step.depth));
    }

    /// What came of it.
    pub fn covered(&self, program: &Program) -> Covered {
        let gone = |w: &[bool; 2]| w.iter().filter(|w| **w).count();
        let mut missing = Vec::new();
        for (&(f, position), ways) in &self.ways {
            let executed = self.executed.contains(&(f, position));
            let why = match ways {
                _ if !executed => "is never reached",
                [true, false] => "never jumps",
                [false, true] => "always jumps",
                _ => continue,
            };
            let function = &program.function(f).name;
            let text = &asm::lines(program, f, Targets::Relative)[position].text;
            missing.push(format!("{function} {position}: {text}: {why}"));
        }
        Covered {
            branches_covered: self.ways.values().map(gone).sum(),
            branches: self.ways.len() * 2,
            instructions_covered: self.executed.len(),
            instructions: self.instructions,
            missing,
        }
    }
}

impl Covered {
    /// In words; with what is missing if that is wanted.
    pub fn to_text(&self, with_missing: bool) -> String {
        let mut out = format!(
            "coverage: {} of {} ways of conditional jumps, {} of {} instructions\n",
            self.branches_covered, self.branches, self.instructions_covered, self.instructions
        );
        if with_missing {
            self.missing.iter().for_each(|m| out += &format!("  {m}\n"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_bpf::interpreter::{Input, Interpreter, Options};

    #[test]
    fn a_jump_has_two_ways() {
        let program = asm::parse(
            ".hook xdp
             r0 = 0
             r2 = *(u32 *)(r1 + 0)
             r3 = *(u32 *)(r1 + 4)
             r2 += 2
             if r2 > r3 goto +1
             r0 = 1
             exit",
        )
        .unwrap();
        let mut coverage = Coverage::new(&program, FuncId(0));
        let mut interpreter = Interpreter::new(&program, Options::default());
        let mut run = |packet: Vec<u8>| {
            coverage.end_run();
            let input = Input { packet, ..Input::default() };
            interpreter
                .run_observed(FuncId(0), input, &mut |step: &Step| {
                    coverage.step(step);
                    true
                })
                .unwrap();
            coverage.covered(&program)
        };
        let first = run(vec![0]);
        assert_eq!((first.branches_covered, first.branches, first.instructions_covered), (1, 2, 6));
        assert_eq!(first.missing.len(), 1);
        assert!(first.missing[0].ends_with("always jumps"), "{}", first.missing[0]);
        assert_eq!(run(vec![0; 4]).branches_covered, 2);
    }
}
