//! The explanation for people that Linux 7.3 and later print:
//!
//! ```text
//! Verification failed: Register Type Safety: Unreadable register
//!
//! Reason:
//!   R0 has never been initialized ...
//!
//! At:
//!   insn 0
//!   ...
//!
//! Causal path:
//!   ...
//!
//! Suggestion:
//!   ...
//! ```

/// Why a program failed, in the kernel's words for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Explanation {
    /// Category and name of the problem.
    pub title: String,
    /// What is wrong.
    pub reason: String,
    /// The instruction it happens at, as a slot number.
    pub insn: Option<usize>,
    /// How it came to that; one event per line.
    pub causal_path: String,
    /// What to do.
    pub suggestion: String,
}

const TITLE: &str = "Verification failed: ";

impl Explanation {
    /// Takes the explanation out of a log; the rest is as older kernels print it.
    pub(super) fn split(log: &str) -> (String, Option<Explanation>) {
        let Some(start) = log.find(TITLE).filter(|at| *at == 0 || log[..*at].ends_with('\n')) else {
            return (log.to_string(), None);
        };
        let mut rest = log[..start].to_string();
        let mut out = Explanation::default();
        let mut section = "";
        for line in log[start..].lines() {
            if let Some(title) = line.strip_prefix(TITLE) {
                out.title = title.trim().to_string();
            } else if line.starts_with(|c: char| c.is_ascii_uppercase()) && line.ends_with(':') {
                section = line;
            } else if line.is_empty() || line.starts_with(' ') {
                out.add(section, line.trim());
            } else {
                rest.push_str(line);
                rest.push('\n');
            }
        }
        (rest, Some(out))
    }

    fn add(&mut self, section: &str, line: &str) {
        if section == "At:" && self.insn.is_none() {
            self.insn = line.strip_prefix("insn ").and_then(|n| n.parse().ok());
        }
        let place = match section {
            "Reason:" => &mut self.reason,
            "Causal path:" => &mut self.causal_path,
            "Suggestion:" => &mut self.suggestion,
            _ => return,
        };
        if !line.is_empty() {
            if !place.is_empty() {
                place.push('\n');
            }
            place.push_str(line);
        }
    }
}
