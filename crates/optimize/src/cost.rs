//! What makes a program better, by goal. For size: fewer slots; then fewer instructions; then fewer
//! memory accesses; then less weight, which counts what a machine has to wait for. For latency: less
//! time, as a model of the machine code tells it; then as for size.
//!
//! Every applied proposal makes the cost of its function smaller, so rounds end.

mod class;
mod frequency;
mod latency;

pub use class::Class;
pub use latency::{Latencies, ModelError, Parameter, Provenance};

use frequency::Frequencies;
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Function, Node, Program};
use karakoram_proof::rewrite::{Edit, Rewrite, splice};
use std::collections::BTreeSet;

/// What is to become smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Goal {
    /// Slots of eight bytes.
    #[default]
    Size,
    /// Slots of eight bytes at any price: also locked additions in place of plain ones, as K2 does.
    Slots,
    /// The time a run takes, estimated with [`Latencies`].
    Latency,
}

/// The cost of some instructions, compared field by field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cost {
    /// Expected time of a run in femtoseconds; 0 where the goal does not ask for it.
    pub time_fs: u64,
    /// Slots of eight bytes.
    pub slots: usize,
    /// Instructions.
    pub instructions: usize,
    /// Loads, stores, atomics.
    pub memory: usize,
    /// Jumps count most, then registers that are read, then arithmetic, then moves.
    pub weight: usize,
}

impl Cost {
    /// The cost of a piece of code, but for its time.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Cost {
        nodes.into_iter().fold(Cost::default(), |cost, node| cost.plus(&node.insn))
    }

    fn plus(self, insn: &Insn) -> Cost {
        let effects = effects::of(insn);
        let is_access = (effects.reads_memory || effects.writes_memory) && !matches!(insn, Insn::Call(_));
        Cost {
            slots: self.slots + insn.slots(),
            instructions: self.instructions + 1,
            memory: self.memory + is_access as usize,
            weight: self.weight + weight(insn),
            ..self
        }
    }
}

/// The prices that a goal puts on the instructions of one function.
pub struct Prices<'a> {
    timed: Option<Timed<'a>>,
}

struct Timed<'a> {
    program: &'a Program,
    function: &'a Function,
    latencies: &'a Latencies,
    frequencies: Frequencies,
}

impl<'a> Prices<'a> {
    /// The prices for a function of a program.
    pub fn new(goal: Goal, latencies: &'a Latencies, program: &'a Program, function: FuncId) -> Prices<'a> {
        let function = program.function(function);
        let timed = || Timed { program, function, latencies, frequencies: Frequencies::of(function) };
        Prices { timed: (goal == Goal::Latency).then(timed) }
    }

    /// The cost of a whole function.
    pub fn of_function(&self, function: &Function) -> Cost {
        let time_fs = self.timed.as_ref().map_or(0, |t| t.of_function(function, &Frequencies::of(function)));
        Cost { time_fs, ..Cost::of(&function.nodes) }
    }

    /// What edits of `function`, the one the prices are for, replace costs, and what they put there.
    pub fn of_edits(&self, function: &Function, edits: &[Edit]) -> (Cost, Cost) {
        let old = Cost::of(edits.iter().flat_map(|e| &function.nodes[e.at.clone()]));
        let new = Cost::of(edits.iter().flat_map(|e| &e.nodes));
        let (old_fs, new_fs) = self.timed.as_ref().map_or((0, 0), |t| t.of_edits(edits));
        (Cost { time_fs: old_fs, ..old }, Cost { time_fs: new_fs, ..new })
    }
}

impl Timed<'_> {
    fn of_edits(&self, edits: &[Edit]) -> (u64, u64) {
        if self.redirects(edits) {
            let edited = edited(self.function, edits);
            let old = self.of_function(self.function, &self.frequencies);
            return (old, self.of_function(&edited, &Frequencies::of(&edited)));
        }
        let positions = edits.iter().flat_map(|e| e.at.clone());
        let old = positions.map(|p| self.at(self.function, p, &self.frequencies)).sum();
        let new = edits.iter().map(|e| {
            let at = e.at.start.min(self.function.nodes.len() - 1);
            let runs = self.frequencies.runs[at];
            let times =
                e.nodes.iter().map(|n| scaled(self.latencies.insn_ns(&n.insn, self.frequencies.taken[at]), runs));
            times.sum::<u64>()
        });
        (old, new.sum())
    }

    /// Whether edits send control where it did not go before, so that other code runs more often.
    fn redirects(&self, edits: &[Edit]) -> bool {
        let targets = |nodes: &[Node]| nodes.iter().filter_map(|n| n.insn.target().copied()).collect::<BTreeSet<_>>();
        edits.iter().any(|e| !targets(&e.nodes).is_subset(&targets(&self.function.nodes[e.at.clone()])))
    }

    fn of_function(&self, function: &Function, frequencies: &Frequencies) -> u64 {
        (0..function.nodes.len()).map(|p| self.at(function, p, frequencies)).sum()
    }

    fn at(&self, function: &Function, position: usize, frequencies: &Frequencies) -> u64 {
        let ns = match function.nodes[position].insn {
            Insn::Call(Callee::Helper(id)) => {
                self.latencies.helper_ns(id, class::map_of_call(self.program, function, position))
            }
            insn => self.latencies.insn_ns(&insn, frequencies.taken[position]),
        };
        scaled(ns, frequencies.runs[position])
    }
}

/// Time in femtoseconds of so many runs.
fn scaled(ns: f64, runs: f64) -> u64 {
    (ns * runs * 1e6) as u64
}

/// The function with edits made.
fn edited(function: &Function, edits: &[Edit]) -> Function {
    let (edits, rule) = (edits.to_vec(), String::new());
    let rewrite = Rewrite { function: FuncId(0), entry: 0, window: Vec::new(), edits, rule };
    splice(function, &[&rewrite])
}

fn weight(insn: &Insn) -> usize {
    match insn {
        Insn::Jump { .. } => 16,
        Insn::Branch { src, .. } => 20 + operand(src),
        Insn::Mov { width: Width::W64, src, .. } => 2 + operand(src),
        Insn::Mov { src, .. } => 3 + operand(src),
        Insn::Alu { op: AluOp::Mul | AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod, src, .. } => {
            24 + operand(src)
        }
        Insn::Alu { src, .. } => 6 + operand(src),
        Insn::Store { src, .. } => 8 + operand(src),
        _ => 8,
    }
}

/// A register has to be computed first, a constant is there.
fn operand(src: &Operand) -> usize {
    matches!(src, Operand::Reg(_)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_to_what_is_removed_go_on_behind_it() {
        let code = "r0 = 1\nif r1 == 0 goto out\nr0 = 2\ngoto far\nout:\nr0 = 3\nfar:\nexit";
        let program = karakoram_bpf::text::asm::parse(&format!(".func main\n.hook xdp\n{code}\n")).unwrap();
        let function = &program.functions[0];
        let prices = Prices::new(Goal::Latency, Latencies::builtin(), &program, FuncId(0));
        let back = Insn::Jump { target: function.nodes[2].id, long: false };
        let edits = [
            Edit { at: 3..4, nodes: vec![Node { insn: back, ..function.nodes[3].clone() }] },
            Edit { at: 4..5, nodes: Vec::new() },
        ];
        let (old, new) = prices.of_edits(function, &edits);
        assert!(new.time_fs > old.time_fs, "a loop for ever takes longer");
    }
}
