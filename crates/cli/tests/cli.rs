//! Every `tests/cli/NAME.cmd` is a test. Its first line is a shell command; further lines say what it
//! is about, and `needs PROGRAM` skips it, aloud, where that program is missing. What the command
//! prints and how it exits is in `NAME.stdout`, `NAME.stderr` and `NAME.exit`; a file that is not
//! there stands for nothing, or for 0. `BLESS=1` writes them.
//!
//! The command runs in an empty folder with `inputs` (those of all tests) and `cli` (those of these)
//! in it. Times, kernel releases and versions are replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").canonicalize().expect("tests folder")
}

struct Result {
    stdout: String,
    stderr: String,
    exit: String,
}

#[test]
fn commands() {
    let folder = root().join("cli");
    let mut tests: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("tests/cli")
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "cmd"))
        .collect();
    tests.sort();
    assert!(!tests.is_empty(), "no tests in {}", folder.display());
    let bless = std::env::var_os("BLESS").is_some();
    let failures: Vec<String> = tests.iter().filter_map(|t| check(t, bless)).collect();
    assert!(failures.is_empty(), "{}\n(BLESS=1 accepts what is printed now)", failures.join("\n"));
}

fn check(test: &Path, bless: bool) -> Option<String> {
    let text = fs::read_to_string(test).expect("test");
    let (command, rest) = text.split_once('\n').unwrap_or((&text, ""));
    for needed in rest.lines().filter_map(|l| l.strip_prefix("needs ")) {
        if Command::new(needed).arg("--version").output().is_err() {
            eprintln!("*** SKIPPED {}: {needed} is not installed ***", test.display());
            return None;
        }
    }
    let result = run(test, command);
    let mut differences = String::new();
    for (ending, now) in [("stdout", &result.stdout), ("stderr", &result.stderr), ("exit", &result.exit)] {
        let path = test.with_extension(ending);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected == *now {
            continue;
        }
        if bless {
            let written = if now.is_empty() { fs::remove_file(&path) } else { fs::write(&path, now) };
            written.expect("blessing");
        } else {
            differences += &format!("--- expected {ending}\n{expected}--- got {ending}\n{now}");
        }
    }
    (!differences.is_empty()).then(|| format!("== {}: {command}\n{differences}", test.display()))
}

fn run(test: &Path, command: &str) -> Result {
    let name = test.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = std::env::temp_dir().join(format!("kara-cli-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("folder");
    for (link, target) in [("inputs", root().join("inputs")), ("cli", root().join("cli/inputs"))] {
        std::os::unix::fs::symlink(target, folder.join(link)).expect("link");
    }
    let kara = Path::new(env!("CARGO_BIN_EXE_kara"));
    let path = format!("{}:{}", kara.parent().expect("folder").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(&folder)
        .env("PATH", path)
        .env("COLUMNS", "100")
        .env_remove("NO_COLOR")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("sh");
    let _ = fs::remove_dir_all(&folder);
    let exit = output.status.code().map_or("signal\n".to_string(), |c| format!("{c}\n"));
    Result {
        stdout: steady(&String::from_utf8_lossy(&output.stdout)),
        stderr: steady(&String::from_utf8_lossy(&output.stderr)),
        exit: if exit == "0\n" { String::new() } else { exit },
    }
}

/// The text without what is another each time.
fn steady(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let line = replace_number(line, "\"seconds\":", "", "0");
        let line = replace_number(&line, ", ", " s\n", "TIME");
        let line = replace_number(&line, ", ", " s)\n", "TIME");
        out += &line.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    }
    out
}

/// Replaces the number that stands between the two, where there is one.
fn replace_number(line: &str, before: &str, after: &str, with: &str) -> String {
    for (at, _) in line.match_indices(before) {
        let start = at + before.len();
        let digits = line[start..].find(|c: char| !c.is_ascii_digit() && !".e-".contains(c)).unwrap_or(0);
        if digits > 0 && line[start + digits..].starts_with(after) {
            return format!("{}{with}{}", &line[..start], &line[start + digits..]);
        }
    }
    line.to_string()
}
