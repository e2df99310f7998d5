//! From one window to a rule: numbers become constants one after the other, as free as a proof allows.

use super::Sample;
use super::draft::Draft;
use crate::rules::expression::{self, Concrete};
use crate::rules::prove::{self, Verdict};
use crate::rules::{Rule, parse};

/// Most ways of writing the numbers of the right-hand side that are tried at one step.
const MOST_WAYS: usize = 24;

/// The most general rule found that holds and covers the sample.
pub fn rule(sample: &Sample) -> Option<Rule> {
    let mut draft = with_what_is_known(sample, Draft::of(sample)?)?;
    for i in 0..draft.lhs.len() {
        if let Some(better) = generalized(&draft, i) {
            draft = better;
        }
    }
    draft.for_any_width().and_then(|wider| proven(&wider)).or_else(|| proven(&draft))
}

/// The rule that a draft says, when it holds for all registers.
fn proven(draft: &Draft) -> Option<Rule> {
    let rule = parse::rules(&draft.text()).ok()?.pop()?;
    matches!(prove::rule(&rule), Verdict::Holds { .. }).then_some(rule)
}

fn holds(draft: &Draft) -> bool {
    let rule = parse::rules(&draft.text()).ok().and_then(|mut rules| rules.pop());
    rule.is_some_and(|rule| prove::quickly(&rule))
}

/// The sample as a rule for exactly its numbers, knowing no more of registers than it takes.
fn with_what_is_known(sample: &Sample, mut draft: Draft) -> Option<Draft> {
    if holds(&draft) {
        return Some(draft);
    }
    let given = |(reg, min, max): &(_, u64, u64)| {
        let name = Draft::letter(sample, *reg)?;
        match (min == max, max.checked_add(1)) {
            (true, _) => Some(format!("{name} == {max:#x}")),
            (false, Some(next)) => Some(format!("{name} <= {{{:#x}}}", next.checked_next_power_of_two()? - 1)),
            _ => None,
        }
    };
    draft.givens = sample.known.iter().filter_map(given).collect();
    if draft.givens.is_empty() || !holds(&draft) {
        return None;
    }
    for i in (0..draft.givens.len()).rev() {
        let mut fewer = draft.clone();
        fewer.givens.remove(i);
        if holds(&fewer) {
            draft = fewer;
        }
    }
    Some(draft)
}

/// The draft with its number `i` as a constant: free, tied to another, or under a condition.
fn generalized(draft: &Draft, i: usize) -> Option<Draft> {
    let value = draft.lhs[i].value;
    let name = format!("C{}", draft.constants.len() + 1);
    let mut free = draft.clone();
    free.lhs[i].text = Some(name.clone());
    free.constants.push((name.clone(), value));
    let proven = |draft: &Draft| ways(draft).into_iter().find(holds);
    if let Some(found) = proven(&free) {
        return Some(found);
    }
    for (other, known) in &draft.constants {
        let distance = value.wrapping_sub(*known) as i64;
        let text = match distance {
            0 => other.clone(),
            1..=8 => format!("{{{other} + {distance}}}"),
            -8..=-1 => format!("{{{other} - {}}}", -distance),
            _ => continue,
        };
        let mut tied = draft.clone();
        tied.lhs[i].text = Some(text);
        if let Some(found) = proven(&tied) {
            return Some(found);
        }
    }
    let limited = |free: &Draft, conditions: Vec<String>| {
        let conditions = conditions.into_iter().filter(|c| is_true(c, &free.constants));
        conditions.into_iter().find_map(|condition| {
            let mut limited = free.clone();
            limited.conditions.push(condition);
            proven(&limited)
        })
    };
    let alone = limited(&free, [alone(&name), together(&name, &draft.constants)].concat());
    // Two that only hold together, because each decides what the other may be.
    let open = (i + 1..draft.lhs.len()).filter(|j| draft.lhs[*j].text.is_none());
    alone.or_else(|| {
        open.into_iter().find_map(|j| {
            let mut both = free.clone();
            let other = format!("C{}", both.constants.len() + 1);
            both.lhs[j].text = Some(other.clone());
            both.constants.push((other.clone(), both.lhs[j].value));
            let conditions =
                [together(&name, &[(other.clone(), both.lhs[j].value)]), together(&other, &[(name.clone(), value)])];
            proven(&both).or_else(|| limited(&both, conditions.concat()))
        })
    })
}

/// Conditions to try on a constant, the weakest first where that can be said.
fn alone(name: &str) -> Vec<String> {
    let all = [
        "C != 0",
        "C s>= 0",
        "C <= 0x7fffffff",
        "C <= 0xffff",
        "C <= 0xff",
        "C < 32",
        "C >= 32",
        "C > 32",
        "(C & (C + 1)) == 0",
        "C != 0 && (C & (C - 1)) == 0",
        "C s< 0",
    ];
    all.iter().map(|c| c.replace('C', name)).collect()
}

/// Conditions to try on a constant and each of others.
fn together(name: &str, others: &[(String, u64)]) -> Vec<String> {
    let all = [
        "C != D",
        "C <= D",
        "C >= D",
        "C < D",
        "C > D",
        "C + D < 64",
        "C + D >= 64",
        "C + D <= 32",
        "(C | ((1 << D) - 1)) == ~0",
        "(~C << D) == 0",
        "zext32(~C << D) == 0",
        "(C & ((1 << D) - 1)) == (1 << D) - 1",
        "(C & D) == 0",
        "(C & ~D) == 0",
        "(C | D) == ~0",
        "C == 64 - D",
        "C == 32 - D",
        "C == (1 << D) - 1",
        "(C >> D) == 0",
        "((C << D) >> D) == C",
    ];
    let on = |other: &str| all.map(|c| c.replace('D', "\u{1}").replace('C', name).replace('\u{1}', other));
    others.iter().flat_map(|(other, _)| on(other)).collect()
}

fn value(text: &str, constants: &[(String, u64)]) -> Option<u64> {
    let mut names: Vec<String> = constants.iter().map(|(n, _)| n.clone()).collect();
    let mut name = |n: &str| {
        names.iter().position(|k| k == n).unwrap_or_else(|| {
            names.push(n.to_string());
            names.len() - 1
        })
    };
    let e = expression::parse(text, &mut name).ok()?;
    let values: Vec<Option<u64>> = constants.iter().map(|(_, v)| Some(*v)).collect();
    e.evaluate(&mut Concrete, &values)
}

fn is_true(condition: &str, constants: &[(String, u64)]) -> bool {
    value(condition, constants).is_some_and(|v| v != 0)
}

/// The draft with each of its open numbers on the right as an expression that has its value, in all
/// combinations, those with expressions first.
fn ways(draft: &Draft) -> Vec<Draft> {
    let mut all = vec![draft.clone()];
    for i in 0..draft.rhs.len() {
        if draft.rhs[i].text.is_some() {
            continue;
        }
        let texts = expressions(draft.rhs[i].value, &draft.constants);
        let mut next = Vec::new();
        for d in &all {
            for text in texts.iter().map(Some).chain([None]) {
                let mut way = d.clone();
                way.rhs[i].text = text.cloned();
                next.push(way);
            }
        }
        next.truncate(MOST_WAYS);
        all = next;
    }
    all
}

/// Expressions over the constants that have that value, the simplest first.
fn expressions(wanted: u64, constants: &[(String, u64)]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (c, _) in constants {
        all.push(c.clone());
    }
    for (c, _) in constants {
        let forms =
            ["-C", "~C", "1 << C", "(1 << C) - 1", "~0 << C", "0xffffffff >> C", "~0 >> C", "log2(C)", "64 - C"];
        all.extend(forms.iter().chain(&["32 - C", "swap16(C)", "swap32(C)"]).map(|f| f.replace('C', c)));
        for by in [1, 2, 4, 6, 8, 16, 24, 32] {
            all.extend([format!("{c} + {by}"), format!("{c} - {by}")]);
        }
    }
    for (c, _) in constants {
        for (d, _) in constants.iter().filter(|(d, _)| d != c) {
            let forms = ["+", "-", "&", "|", "^", "<<", ">>"];
            all.extend(forms.iter().map(|op| format!("{c} {op} {d}")));
            all.push(format!("{c} | ({d} << 32)"));
        }
    }
    let fits = |text: &&String| {
        let found = value(text, constants);
        found == Some(wanted) || found.is_some_and(|v| v as i32 as i64 as u64 == wanted && v <= u32::MAX as u64)
    };
    let braced = |t: &String| if constants.iter().any(|(c, _)| c == t) { t.clone() } else { format!("{{{t}}}") };
    all.iter().filter(fits).map(braced).take(6).collect()
}
