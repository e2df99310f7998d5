//! Which locals of a function are looked at again behind its calls.

use std::collections::BTreeMap;
use wasmparser::Operator as O;

/// The locals, by number, that are looked at again behind each call before they are set: by the call's offset.
pub(super) fn behind_calls(code: &[(u32, O)], locals: usize) -> BTreeMap<u32, Vec<usize>> {
    let next = successors(code);
    let words = locals.div_ceil(64);
    // Before each operator, and at the end.
    let mut live = vec![vec![0u64; words]; code.len() + 1];
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for at in (0..code.len()).rev() {
            let mut set = vec![0u64; words];
            for next in &next[at] {
                set.iter_mut().zip(&live[*next]).for_each(|(a, b)| *a |= b);
            }
            match code[at].1 {
                O::LocalGet { local_index } => set[local_index as usize / 64] |= 1 << (local_index % 64),
                O::LocalSet { local_index } | O::LocalTee { local_index } => {
                    set[local_index as usize / 64] &= !(1 << (local_index % 64));
                }
                _ => {}
            }
            if set != live[at] {
                live[at] = set;
                has_changed = true;
            }
        }
    }
    let calls = code.iter().enumerate().filter(|(_, (_, o))| matches!(o, O::Call { .. } | O::CallIndirect { .. }));
    let is_live = |at: usize, local: usize| live[at][local / 64] >> (local % 64) & 1 == 1;
    calls.map(|(at, (offset, _))| (*offset, (0..locals).filter(|l| is_live(at + 1, *l)).collect())).collect()
}

/// Where control goes from each operator; the number of operators is the end of the function.
fn successors(code: &[(u32, O)]) -> Vec<Vec<usize>> {
    let (ends, elses) = structure(code);
    let mut open: Vec<usize> = Vec::new();
    let mut all = Vec::with_capacity(code.len());
    for (at, (_, operator)) in code.iter().enumerate() {
        let target = |relative: u32| match open.len().checked_sub(1 + relative as usize) {
            Some(place) if matches!(code[open[place]].1, O::Loop { .. }) => open[place],
            Some(place) => ends[&open[place]],
            None => code.len(),
        };
        let next = match operator {
            O::Br { relative_depth } => vec![target(*relative_depth)],
            O::BrIf { relative_depth } => vec![target(*relative_depth), at + 1],
            O::BrTable { targets } => {
                let depths = targets.targets().filter_map(Result::ok).chain([targets.default()]);
                depths.map(target).collect()
            }
            O::Return | O::Unreachable => Vec::new(),
            O::If { .. } => vec![at + 1, elses.get(&at).map_or(ends[&at], |other| other + 1)],
            // The end of the first arm.
            O::Else => vec![open.last().map_or(code.len(), |start| ends[start])],
            _ => vec![at + 1],
        };
        all.push(next);
        match operator {
            O::Block { .. } | O::Loop { .. } | O::If { .. } => open.push(at),
            O::End => drop(open.pop()),
            _ => {}
        }
    }
    all
}

/// Where blocks end, and where their other arms begin, by where they begin.
fn structure(code: &[(u32, O)]) -> (BTreeMap<usize, usize>, BTreeMap<usize, usize>) {
    let (mut ends, mut elses, mut open) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (at, (_, operator)) in code.iter().enumerate() {
        match operator {
            O::Block { .. } | O::Loop { .. } | O::If { .. } => open.push(at),
            O::Else => drop(open.last().map(|start| elses.insert(*start, at))),
            O::End => drop(open.pop().map(|start| ends.insert(start, at))),
            _ => {}
        }
    }
    (ends, elses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmparser::BlockType::Empty;

    fn behind(code: &[O<'static>], locals: usize) -> Vec<Vec<usize>> {
        let code: Vec<(u32, O)> = code.iter().cloned().enumerate().map(|(at, o)| (at as u32, o)).collect();
        behind_calls(&code, locals).into_values().collect()
    }

    const CALL: O = O::Call { function_index: 0 };

    fn get(local_index: u32) -> O<'static> {
        O::LocalGet { local_index }
    }

    fn set(local_index: u32) -> O<'static> {
        O::LocalSet { local_index }
    }

    #[test]
    fn what_is_set_before_it_is_looked_at_is_not_live() {
        assert_eq!(behind(&[CALL, get(0), set(1), get(1), O::End], 2), [[0]]);
        assert_eq!(behind(&[CALL, get(70), O::End], 71), [[70]]);
        assert_eq!(behind(&[get(0), CALL, O::End], 1), [[0; 0]]);
    }

    #[test]
    fn both_arms_count() {
        let arms = [CALL, get(2), O::If { blockty: Empty }, set(0), get(0), O::Else, get(1), O::End, get(0), O::End];
        assert_eq!(behind(&arms, 3), [[0, 1, 2]]);
        let one = [CALL, get(1), O::If { blockty: Empty }, set(0), O::End, get(0), O::End];
        assert_eq!(behind(&one, 2), [[0, 1]]);
    }

    #[test]
    fn loops_lead_back_and_blocks_out() {
        // What the next round looks at.
        let around = [O::Loop { blockty: Empty }, get(0), CALL, get(1), O::BrIf { relative_depth: 0 }, O::End, O::End];
        assert_eq!(behind(&around, 2), [[0, 1]]);
        // A way out past what looks at it.
        let out = [O::Block { blockty: Empty }, CALL, O::Br { relative_depth: 0 }, get(0), O::End, get(1), O::End];
        assert_eq!(behind(&out, 2), [[1]]);
        assert_eq!(behind(&[CALL, O::Return, get(0), O::End], 1), [[0; 0]]);
        assert_eq!(behind(&[CALL, O::Unreachable, get(0), O::End], 1), [[0; 0]]);
        assert_eq!(behind(&[CALL, O::Br { relative_depth: 0 }, get(0), O::End], 1), [[0; 0]]);
    }
}
