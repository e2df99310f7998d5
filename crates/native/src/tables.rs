//! What the glue must know of an extension: its programs, its counters, and the lines of its code.

use crate::lines::Line;
use karakoram_translator::manifest::Program;
use std::fmt::Write;

/// Programs and counters of an extension.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Programs; the function of the one at place N is `kara_program_N`.
    pub programs: Vec<Program>,
    /// Names of counters; each is a variable `kara_static_counter_NAME`.
    pub counters: Vec<String>,
}

/// How the name of a counter's variable begins.
pub const COUNTER: &str = "kara_static_counter_";
/// How the name of a program's function begins.
pub const PROGRAM: &str = "kara_program_";

/// The tables as C.
pub fn source(contents: &Contents, lines: &[Line]) -> String {
    let mut out = String::from("// Made by kara.\n#include \"run.h\"\n\n");
    for n in 0..contents.programs.len() {
        let _ = writeln!(out, "u32 {PROGRAM}{n}(void);");
    }
    for name in &contents.counters {
        let _ = writeln!(out, "extern const u64 {COUNTER}{name};");
    }
    let programs =
        contents.programs.iter().enumerate().map(|(n, p)| {
            format!("{{ \"{}\", KARA_{}, {}, {PROGRAM}{n} }}", p.name, p.hook.to_uppercase(), p.on_panic)
        });
    let counters = contents.counters.iter().map(|name| format!("{{ \"{name}\", &{COUNTER}{name} }}"));
    table(&mut out, "struct kara_program kara_programs", "kara_program_count", programs);
    table(&mut out, "struct kara_counter kara_counters", "kara_counter_count", counters);
    let _ = writeln!(out, "struct kara_state kara_states[{}];", contents.programs.len().max(1));
    source_lines(&mut out, lines);
    out
}

fn source_lines(out: &mut String, lines: &[Line]) {
    let mut files: Vec<&str> = lines.iter().map(|l| l.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    let number = |file: &str| files.binary_search(&file).expect("it is among them");
    let entries = lines.iter().map(|l| format!("{{ {}, {}, {} }}", l.offset, number(&l.file), l.line));
    table(out, "struct kara_line kara_lines", "kara_line_count", entries);
    table(out, "char *const kara_files", "kara_file_count", files.iter().map(|f| format!("{f:?}")));
}

/// A table and the number of its entries; C wants one at least.
fn table(out: &mut String, what: &str, count: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    let _ = writeln!(out, "const {what}[{}] = {{", entries.len().max(1));
    entries.iter().for_each(|entry| {
        let _ = writeln!(out, "\t{entry},");
    });
    let _ = write!(out, "}};\nconst unsigned int {count} = {};\n\n", entries.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_c() {
        let program =
            Program { name: "count".into(), hook: "xdp".into(), target: None, on_panic: 2, needs: Default::default() };
        let contents = Contents { programs: vec![program], counters: vec!["HITS".into()] };
        let lines = [
            Line { offset: 16, file: "src/b.rs".into(), line: 3 },
            Line { offset: 20, file: "src/a.rs".into(), line: 9 },
        ];
        let text = source(&contents, &lines);
        for wanted in [
            "{ \"count\", KARA_XDP, 2, kara_program_0 },",
            "{ \"HITS\", &kara_static_counter_HITS },",
            "{ 16, 1, 3 },\n\t{ 20, 0, 9 },",
            "kara_files[2] = {\n\t\"src/a.rs\",\n\t\"src/b.rs\",",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }
}
