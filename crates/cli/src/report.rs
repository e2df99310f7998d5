//! What `kara opt` did, for people and for programs.

use crate::figures::Figures;
use crate::table;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the kernel said of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It loaded.
    Accepted,
    /// It did not, and neither did the input.
    Rejected,
    /// It was not asked.
    Unchecked,
}

/// One program.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    /// Function name.
    pub name: String,
    /// Section.
    pub section: String,
    /// Program type, or what `r1` is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The input.
    pub before: Figures,
    /// The output.
    pub after: Figures,
    /// Rewrites in the output.
    pub rewrites: usize,
    /// How many of them are proven; all.
    pub proven: usize,
    /// What the kernel said.
    pub kernel: Verdict,
    /// What is only known in outline, and how often it occurs; nothing is changed or moved across
    /// it that it could notice.
    pub barriers: BTreeMap<String, usize>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Names this form of report.
    pub schema: &'static str,
    /// Whether it was done.
    pub ok: bool,
    /// Exit status.
    pub exit_code: u8,
    /// How long it took.
    pub seconds: f64,
    /// Name of the kernel that was asked, if one was.
    pub kernel: Option<String>,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// The programs.
    pub programs: Vec<ProgramReport>,
    /// What concerns none of them alone.
    pub notes: Vec<String>,
}

impl Report {
    /// What a person pastes into a pull request.
    pub fn to_text(&self, output: &str) -> String {
        let known = |f: &dyn Fn(&Figures) -> bool| self.programs.iter().any(|p| f(&p.before) || f(&p.after));
        let (stack, verified, jited) = (
            known(&|f| f.stack_bytes.is_some_and(|s| s > 0)),
            known(&|f| f.verified_insns.is_some()),
            known(&|f| f.jited_bytes.is_some()),
        );
        let mut header = vec!["program", "slots", "insns"];
        header.extend(stack.then_some("stack bytes"));
        header.extend(verified.then_some("verifier insns"));
        header.extend(jited.then_some("JITed bytes"));
        header.extend(["rewrites proven", "kernel"]);
        let row = |p: &ProgramReport| {
            let (a, b) = (&p.before, &p.after);
            let number = |n: usize| Some(n as u64);
            let mut row = vec![p.name.clone(), table::change(number(a.slots), number(b.slots))];
            row.push(table::change(number(a.insns), number(b.insns)));
            if stack {
                row.push(table::change(a.stack_bytes.map(u64::from), b.stack_bytes.map(u64::from)));
            }
            if verified {
                row.push(table::change(a.verified_insns, b.verified_insns));
            }
            if jited {
                row.push(table::change(a.jited_bytes.map(u64::from), b.jited_bytes.map(u64::from)));
            }
            row.push(p.proven.to_string());
            row.push(match p.kernel {
                Verdict::Accepted => "accepted".into(),
                Verdict::Rejected => "rejects input and output".into(),
                Verdict::Unchecked => "not asked".into(),
            });
            row
        };
        let rows: Vec<Vec<String>> = self.programs.iter().map(row).collect();
        let mut out = table::markdown(&header, &rows);
        let kernel = match &self.kernel {
            Some(kernel) => format!("checked by {kernel}"),
            None => "not checked by a kernel".to_string(),
        };
        let proven: usize = self.programs.iter().map(|p| p.proven).sum();
        let place = if output == "-" { "stdout" } else { output };
        let rewrites = if proven == 1 { "rewrite" } else { "rewrites" };
        out += &format!("{place}: {proven} {rewrites} proven, {kernel}, {:.2} s\n", self.seconds);
        for program in self.programs.iter().filter(|p| !p.barriers.is_empty()) {
            out += &format!("barriers: {}: {}\n", program.name, list(&program.barriers));
        }
        for program in &self.programs {
            for note in &program.notes {
                out += &format!("note: {}: {note}\n", program.name);
            }
        }
        for note in &self.notes {
            out += &format!("note: {note}\n");
        }
        out
    }
}

/// Names with how often each occurs, the most frequent first.
fn list(counts: &BTreeMap<String, usize>) -> String {
    let mut counts: Vec<(&String, &usize)> = counts.iter().collect();
    counts.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let times = |(name, times): (&String, &usize)| match times {
        1 => name.clone(),
        _ => format!("{name} x{times}"),
    };
    counts.into_iter().map(times).collect::<Vec<_>>().join(", ")
}
