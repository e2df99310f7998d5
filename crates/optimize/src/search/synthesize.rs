//! Synthesis with counterexamples (Solar-Lezama 2006; Gulwani et al., PLDI 2011): the shape of what may
//! stand in a window's place is enumerated with its constants left open, a solver finds constants that
//! are right on some states, and where they are wrong on another one, that is asked for as well.
//!
//! Enumeration finds whatever has its first constants among those that the window shows. What comes
//! here is what needs two constants that can only be found together.

use super::case::{Case, Snapshot};
use super::finish::Wrong;
use super::sketch::{Filling, Sketch};
use super::vocabulary::Vocabulary;
use super::window::Window;
use karakoram_bpf::insn::*;

/// Constants that are tried for one sketch before it is given up.
const MOST_ROUNDS: usize = 12;

/// What came of asking about a candidate that is right on all cases.
pub enum Verdict {
    /// It is right.
    Right,
    /// It is wrong, as this case shows.
    Wrong(Box<Case>),
    /// It is not to be had, and nobody knows why.
    Refused,
    /// Ask no more.
    Stop,
}

/// Looks for a replacement of at most that many slots, with at most that many questions to the solver.
/// Returns how many were asked.
pub fn synthesize(
    window: &Window,
    cases: &mut Vec<Case>,
    vocabulary: &Vocabulary,
    (slots, questions): (usize, u64),
    judge: &mut dyn FnMut(&[Insn]) -> Verdict,
) -> u64 {
    let mut synthesis = Synthesis { window, cases, vocabulary, left: questions, judge };
    let target = window.branch.and_then(|(insn, _)| insn.target().copied());
    for before in prefixes(vocabulary, window) {
        let room = slots.saturating_sub(before.iter().map(Insn::slots).sum());
        if room < 2 {
            continue;
        }
        let Some(at) = synthesis.states(&before) else { continue };
        let sketches = synthesis.sketches(&at, target, room);
        for sketch in sketches {
            if synthesis.left == 0 || synthesis.fill(&before, &sketch).is_none() {
                return questions - synthesis.left;
            }
        }
    }
    questions - synthesis.left
}

/// What may come before the part that is solved for: nothing, or one instruction without a constant.
fn prefixes(vocabulary: &Vocabulary, window: &Window) -> Vec<Vec<Insn>> {
    let has_none = |i: &Insn| {
        matches!(
            i,
            Insn::Mov { src: Operand::Reg(_), .. } | Insn::Load { .. } | Insn::Endian { .. } | Insn::MovSx { .. }
        )
    };
    let single = vocabulary.instructions(window).into_iter().filter(has_none).map(|i| vec![i]);
    std::iter::once(Vec::new()).chain(single).collect()
}

struct Synthesis<'a> {
    window: &'a Window,
    cases: &'a mut Vec<Case>,
    vocabulary: &'a Vocabulary,
    left: u64,
    judge: &'a mut dyn FnMut(&[Insn]) -> Verdict,
}

impl Synthesis<'_> {
    fn states(&self, before: &[Insn]) -> Option<Vec<Snapshot>> {
        self.cases.iter().map(|case| state(case, before)).collect()
    }

    /// Sketches for what is wrong in those states.
    fn sketches(&self, at: &[Snapshot], target: Option<InsnId>, room: usize) -> Vec<Sketch> {
        let wrong = Wrong::of(self.cases, at);
        let register = Reg::new(wrong.registers.trailing_zeros() as u8);
        let is_defined = |r: &Reg| at.iter().all(|s| s.registers.defined.contains(*r));
        match (target, wrong.distance(), register) {
            _ if wrong.memory => Vec::new(),
            (None, 1, Some(r)) if self.vocabulary.targets.contains(&r) && is_defined(&r) => self.pairs(r, at),
            (Some(target), 0, _) if room >= 2 => {
                let free = self.free().into_iter().filter(is_defined);
                free.flat_map(|r| self.tests(r, target)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Registers that the window reads and nobody afterwards, or that it writes.
    fn free(&self) -> Vec<Reg> {
        let used = &self.vocabulary.sources[..self.vocabulary.used];
        let live = self.window.live_out();
        let is_free = |r: &Reg| *r != Reg::FP && (!live.contains(*r) || self.vocabulary.targets.contains(r));
        used.iter().copied().filter(is_free).collect()
    }

    /// Two operations on a register, both with a constant.
    fn pairs(&self, dst: Reg, at: &[Snapshot]) -> Vec<Sketch> {
        let change = Change::of(self.cases, at, dst);
        let all = operations().into_iter().flat_map(|a| operations().into_iter().map(move |b| (a, b)));
        let is_one = |a: &Operation, b: &Operation| a == b && a.1 != AluOp::Arsh;
        let fits = |(a, b): &(Operation, Operation)| {
            !is_one(a, b) && is_worth_it(self.vocabulary, &[a.1, b.1]) && change.may_be(*a, *b)
        };
        all.filter(fits).map(|(a, b)| Sketch(vec![operation(a, dst), operation(b, dst)])).collect()
    }

    /// An operation on a register and a comparison of it, both with a constant, that no comparison
    /// alone can say.
    fn tests(&self, dst: Reg, target: InsnId) -> Vec<Sketch> {
        use Condition::*;
        let mut found = Vec::new();
        for first in operations() {
            let conditions: &[Condition] = match first.1 {
                AluOp::Add => &[Gt, Le],
                AluOp::And | AluOp::Lsh => &[Eq, Ne, Gt, Le],
                AluOp::Rsh => &[Eq, Ne],
                _ => &[],
            };
            for width in self.vocabulary.branch_widths.iter().copied() {
                let branch = |cond: &Condition| Insn::Branch { width, cond: *cond, dst, src: OPEN, target };
                found.extend(conditions.iter().map(|c| Sketch(vec![operation(first, dst), branch(c)])));
            }
        }
        found
    }

    /// Finds constants for a sketch and asks about them; `None` when nothing more is to be done.
    fn fill(&mut self, before: &[Insn], sketch: &Sketch) -> Option<()> {
        let mut filling = Filling::new(sketch);
        let mut asked = Vec::new();
        for number in first_tests(self.cases) {
            let Some(at) = state(&self.cases[number], before) else { return Some(()) };
            if filling.add(&self.cases[number], &at).is_none() {
                return Some(());
            }
        }
        for _ in 0..MOST_ROUNDS {
            if self.left == 0 {
                return None;
            }
            self.left -= 1;
            let Some(end) = filling.solve() else { return Some(()) };
            let candidate = [before, &end].concat();
            let wrong = (0..self.cases.len()).find(|i| !self.cases[*i].agrees(&candidate));
            let number = match wrong {
                Some(number) => number,
                None => match (self.judge)(&candidate) {
                    Verdict::Right | Verdict::Stop => return None,
                    Verdict::Refused => return Some(()),
                    Verdict::Wrong(case) => {
                        self.cases.push(*case);
                        self.cases.len() - 1
                    }
                },
            };
            let at = state(&self.cases[number], before);
            if asked.contains(&number) || at.is_none_or(|at| filling.add(&self.cases[number], &at).is_none()) {
                return Some(());
            }
            asked.push(number);
        }
        Some(())
    }
}

/// Where the code before a sketch leads from a case.
fn state(case: &Case, before: &[Insn]) -> Option<Snapshot> {
    let mut at = case.start;
    case.run(&mut at, before).ok().map(|_| at)
}

/// The first case, one of each other path, and as many more as make a few.
fn first_tests(cases: &[Case]) -> Vec<usize> {
    const FEW: usize = 4;
    let is_new = |i: &usize| cases[..*i].iter().all(|c| c.path != cases[*i].path);
    let mut tests: Vec<usize> = (0..cases.len()).filter(is_new).take(FEW).collect();
    tests.extend((0..cases.len()).filter(|i| !is_new(i)).take(FEW - tests.len()));
    tests
}

/// A constant that is to be found.
const OPEN: Operand = Operand::Imm(0);

/// What is done to a register, and at which width.
type Operation = (Width, AluOp);

/// Operations with a constant, at each width.
fn operations() -> Vec<Operation> {
    use AluOp::*;
    let all = [Add, And, Rsh, Lsh, Xor, Or, Arsh];
    all.into_iter().flat_map(|op| [(Width::W64, op), (Width::W32, op)]).collect()
}

fn operation((width, op): Operation, dst: Reg) -> Insn {
    Insn::Alu { width, op, dst, src: OPEN }
}

/// What is to become of a register, as far as it rules out sorts of operations without a solver.
struct Change {
    /// Whether low bits may come from low bits alone.
    goes_up: bool,
    /// Whether high bits may come from high bits alone, of 64 and of the low 32.
    goes_down: [bool; 2],
    /// Whether the upper half ends up clear.
    is_narrow: bool,
}

impl Change {
    fn of(cases: &[Case], at: &[Snapshot], dst: Reg) -> Change {
        let relevant = cases.iter().zip(at).filter(|(case, _)| case.exit.live.contains(dst));
        let value = |s: &Snapshot| s.registers.values[dst.index()];
        let pairs: Vec<(u64, u64)> = relevant.map(|(case, s)| (value(s), value(&case.expected))).collect();
        let every = |holds: &dyn Fn(u64, u64) -> bool| {
            pairs.iter().all(|(x, y)| pairs.iter().all(|(v, w)| holds(x ^ v, y ^ w)))
        };
        Change {
            goes_up: every(&|x, y| y.trailing_zeros() >= x.trailing_zeros()),
            goes_down: [
                every(&|x, y| y.leading_zeros() >= x.leading_zeros()),
                every(&|x, y| (y as u32).leading_zeros() >= (x as u32).leading_zeros()),
            ],
            is_narrow: pairs.iter().all(|(_, y)| *y <= u32::MAX as u64),
        }
    }

    /// Whether two operations one after the other may do it.
    fn may_be(&self, first: Operation, second: Operation) -> bool {
        let up = |(_, op): Operation| !matches!(op, AluOp::Rsh | AluOp::Arsh);
        let down = |(_, op): Operation| !matches!(op, AluOp::Add | AluOp::Lsh);
        let of_low_half = first.0 == Width::W32;
        (self.is_narrow || second.0 == Width::W64)
            && (self.goes_up || !up(first) || !up(second))
            && (!down(first) || !down(second) || self.goes_down[of_low_half as usize])
    }
}

/// Whether the window has to do with operations of that kind: bits, or sums.
fn is_worth_it(vocabulary: &Vocabulary, operations: &[AluOp]) -> bool {
    operations.iter().all(|op| match op {
        AluOp::Arsh => vocabulary.operators.contains(&AluOp::Arsh),
        AluOp::Xor | AluOp::Sub => vocabulary.operators.iter().any(|o| matches!(o, AluOp::Xor | AluOp::Sub)),
        _ => true,
    })
}
