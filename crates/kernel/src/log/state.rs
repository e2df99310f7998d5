//! Registers and stack slots as the log prints them (kernel `print_verifier_state`).

/// Registers known at a point of the walk. Lines of their own print all of them; after an
/// instruction only those are printed that it changed.
#[derive(Default)]
pub(super) struct State {
    frame: String,
    /// Name (`R1`, `fp-8`) and the whole text (`R1_w=ctx()`), in the order they were first seen.
    items: Vec<(String, String)>,
}

impl State {
    /// A line with all registers.
    pub(super) fn replace(&mut self, text: &str) {
        *self = State::default();
        self.merge(text);
    }

    /// The registers printed after an instruction.
    pub(super) fn merge(&mut self, text: &str) {
        for item in items(text) {
            if item.starts_with("frame") && item.ends_with(':') {
                self.frame = item.to_string();
                continue;
            }
            let Some((left, _)) = item.split_once('=') else { continue };
            let name = left.split('_').next().unwrap_or(left);
            match self.items.iter_mut().find(|(n, _)| n == name) {
                Some((_, whole)) => *whole = item.to_string(),
                None => self.items.push((name.to_string(), item.to_string())),
            }
        }
    }

    /// A call leaves nothing in `R1` to `R5`, which the log does not say.
    pub(super) fn after_call(&mut self) {
        self.items.retain(|(name, _)| !matches!(name.as_str(), "R1" | "R2" | "R3" | "R4" | "R5"));
    }

    /// One line, registers by number, then the stack; None when nothing is known.
    pub(super) fn text(&self) -> Option<String> {
        let mut items: Vec<&(String, String)> = self.items.iter().collect();
        items.sort_by_key(|(name, _)| name.strip_prefix('R').map_or((true, 0), |n| (false, n.parse().unwrap_or(99))));
        let frame = (!self.frame.is_empty()).then_some(self.frame.as_str());
        let words: Vec<&str> = frame.into_iter().chain(items.into_iter().map(|(_, whole)| whole.as_str())).collect();
        (!self.items.is_empty()).then(|| words.join(" "))
    }
}

/// Splits at spaces outside of parentheses: `R5=scalar(umax=255,var_off=(0x0; 0xff)) R10=fp0`.
fn items(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut depth) = (0, 0i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth <= 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out.retain(|item| !item.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_merged() {
        let mut state = State::default();
        state.replace("frame1: R1=ctx() R5=scalar(umax=255,var_off=(0x0; 0xff)) R10=fp0");
        state.merge("R0_w=7 R5=3 fp-8=mmmm????");
        assert_eq!(state.text().unwrap(), "frame1: R0_w=7 R1=ctx() R5=3 R10=fp0 fp-8=mmmm????");
        state.after_call();
        assert_eq!(state.text().unwrap(), "frame1: R0_w=7 R10=fp0 fp-8=mmmm????");
    }
}
