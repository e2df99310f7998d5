//! Rules as text: `left-hand side => right-hand side`, with side conditions. They propose like any pass
//! does, and like any proposal theirs are judged where they apply; that each also holds in general is
//! shown by [`prove`].

pub mod expression;
pub mod flow;
pub(crate) mod general;
mod index;
pub mod limits;
mod matching;
pub mod parse;
pub mod pass;
pub mod prove;
pub mod template;

pub use index::Index;
pub use parse::ParseError;

use expression::Expression;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::{Insn, Reg, Width};
use std::sync::OnceLock;
use template::{Role, Template};

/// A rule, for all its widths and parameters.
#[derive(Clone, Debug)]
pub struct Rule {
    /// `family/what`.
    pub name: String,
    /// The remarks above it.
    pub remarks: Vec<String>,
    /// As it is written.
    pub text: String,
    /// One for each choice of parameters and width.
    pub variants: Vec<Variant>,
}

/// A rule with all parameters filled in. Registers of its instructions are variables.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Which one: `OP=<<= BITS=64`; empty when there is only one.
    pub label: String,
    /// The letters of the register variables: `r0` of the templates is the first.
    pub registers: Vec<char>,
    /// Names of the constants.
    pub constants: Vec<String>,
    /// What is replaced.
    pub lhs: Vec<Template>,
    /// What comes in its place.
    pub rhs: Vec<Template>,
    /// What must be true of the constants.
    pub conditions: Vec<Expression>,
    /// What must be known of registers before the left-hand side.
    pub givens: Vec<Given>,
    /// Registers that must not matter afterwards, though the right-hand side leaves something else there.
    pub dead: RegSet,
    /// The left-hand side without its last instruction, in the order in which reads lead to it.
    links: Vec<Link>,
}

/// Something known of a register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// The register.
    pub reg: Reg,
    /// What is known.
    pub known: Known,
}

/// What can be known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// It is that number.
    Is(Expression),
    /// It is at most that number, unsigned.
    AtMost(Expression),
    /// It has none of those bits.
    Clear(Expression),
}

/// How an instruction of a left-hand side is found: it wrote what one found earlier reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Link {
    /// The reader, counted in the order in which instructions are found (0 is the last one).
    reader: usize,
    /// The operand that reads.
    role: Role,
    /// The instruction that is found, by position in the left-hand side.
    step: usize,
}

/// The files that come with the program, one family each.
const SHIPPED: &[(&str, &str)] = &[
    ("arithmetic", include_str!("../rules/arithmetic.rule")),
    ("compare", include_str!("../rules/compare.rule")),
    ("constant", include_str!("../rules/constant.rule")),
    ("extends", include_str!("../rules/extends.rule")),
    ("learned", include_str!("../rules/learned.rule")),
    ("load_store", include_str!("../rules/load_store.rule")),
    ("masks", include_str!("../rules/masks.rule")),
    ("moves", include_str!("../rules/moves.rule")),
    ("shifts", include_str!("../rules/shifts.rule")),
];

/// Rules and the index over them.
#[derive(Debug)]
pub struct RuleSet {
    /// The rules, in order of their files.
    pub rules: Vec<Rule>,
    /// Finds those that may apply.
    pub index: Index,
}

impl RuleSet {
    /// A set of those rules.
    pub fn new(rules: Vec<Rule>) -> RuleSet {
        let index = Index::of(&rules);
        RuleSet { rules, index }
    }

    /// The rules that come with the program.
    ///
    /// # Panics
    /// When one of them does not parse, which a test rules out.
    pub fn shipped() -> &'static RuleSet {
        static SET: OnceLock<RuleSet> = OnceLock::new();
        SET.get_or_init(|| {
            let read = |(family, text): &(&str, &str)| match parse::rules(text) {
                Ok(rules) => rules,
                Err(e) => panic!("{family}.rule: {e}"),
            };
            RuleSet::new(SHIPPED.iter().flat_map(read).collect())
        })
    }
}

impl Variant {
    /// Whether what it writes has comparisons of low halves where what it replaces has none.
    fn brings_narrow_branch(&self) -> bool {
        let narrow = |side: &[Template]| side.iter().any(|t| matches!(t.insn, Insn::Branch { width: Width::W32, .. }));
        narrow(&self.rhs) && !narrow(&self.lhs)
    }

    /// Whether what it writes has instructions of version 4 where what it replaces has none.
    fn brings_version_4(&self) -> bool {
        let new = |side: &[Template]| side.iter().any(|t| crate::context::is_version_4(&t.insn));
        new(&self.rhs) && !new(&self.lhs)
    }

    /// Registers that the right-hand side leaves as the left-hand side does: those that it writes.
    /// Where it is empty and nothing but registers is concerned, it leaves all as they were.
    fn outputs(&self) -> RegSet {
        let written = |side: &[Template]| side.iter().fold(RegSet::EMPTY, |all, t| all.union(t.writes()));
        match self.rhs.is_empty() && !self.lhs.iter().any(Template::has_effect) {
            true => written(&self.lhs).minus(self.dead),
            false => written(&self.rhs).minus(self.dead),
        }
    }
}
