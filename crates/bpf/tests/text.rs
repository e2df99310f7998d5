//! Runs the text files in `tests/text`: under a line `test KIND NAME` stands an input, after `=>` what
//! comes out. `BLESS=1` writes what came out into the files.
//!
//! | kind | input | output |
//! |---|---|---|
//! | `fragment` | assembly, instructions only | the same in its normal form |
//! | `program` | assembly | the same in its normal form |
//! | `macros`, `k2` | that format | assembly |
//! | `to-macros`, `to-k2`, `to-rows` | assembly | that format |
//! | `desc`, `maps` | that format | what was understood, and the same again in its normal form |
//!
//! Where the input is refused, the output is `error: ` and the message.

use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm::{self, Targets};
use karakoram_bpf::text::{self, Format, TextError, desc, maps};
use std::fs;
use std::path::PathBuf;

fn outcome(kind: &str, input: &str) -> Result<String, TextError> {
    let to = |format| text::write(format, &asm::parse(input)?);
    match kind {
        "fragment" => Ok(asm::parse_insns(input)?.iter().map(|i| asm::print_raw(i) + "\n").collect()),
        "program" => Ok(asm::print(&asm::parse(input)?)),
        "macros" => Ok(listing(&text::read(Format::Macros, input, None, None)?)),
        "k2" => Ok(listing(&text::read(Format::K2, input, None, None)?)),
        "to-macros" => to(Format::Macros),
        "to-k2" => to(Format::K2),
        "to-rows" => to(Format::Rows),
        "desc" => desc::parse(input).and_then(|d| Ok(format!("{d:?}\n{}", desc::print(&d)?))),
        "maps" => maps::parse(input).and_then(|m| maps::print(&m)),
        _ => panic!("unknown kind of test: {kind}"),
    }
}

/// Instructions with distances, and the names of all functions but the first.
fn listing(program: &Program) -> String {
    let mut out = String::new();
    for (n, f) in program.functions.iter().enumerate() {
        if n > 0 {
            out += &format!("{}:\n", f.name);
        }
        let lines = asm::lines(program, karakoram_bpf::insn::FuncId(n as u32), Targets::Relative);
        out.extend(lines.into_iter().map(|l| l.text + "\n"));
    }
    out
}

#[test]
fn text_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/text");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("tests/text is there").map(|e| e.unwrap().path()).collect();
    files.sort();
    let (mut ran, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "txt")) {
        let source = fs::read_to_string(file).unwrap();
        let mut blessed = String::new();
        let mut parts = source.split("\ntest ");
        blessed += parts.next().unwrap_or_default();
        for part in parts {
            let (head, body) = part.split_once('\n').unwrap_or((part, ""));
            let kind = head.split(' ').next().unwrap_or_default();
            let (input, expected) = body.split_once("\n=>\n").unwrap_or((body.trim_end(), ""));
            let got = outcome(kind, input).unwrap_or_else(|e| format!("error: {e}\n"));
            ran += 1;
            if got.trim_end() != expected.trim_end() {
                wrong.push(format!("{}: test {head}\n--- expected\n{expected}\n--- got\n{got}", file.display()));
            }
            blessed += &format!("\ntest {head}\n{input}\n=>\n{}\n", got.trim_end());
        }
        if std::env::var_os("BLESS").is_some() {
            fs::write(file, blessed).unwrap();
        }
    }
    assert!(ran > 0, "no tests in {}", folder.display());
    if std::env::var_os("BLESS").is_none() {
        assert!(wrong.is_empty(), "{} of {ran} tests differ\n\n{}", wrong.len(), wrong.join("\n"));
    }
}
