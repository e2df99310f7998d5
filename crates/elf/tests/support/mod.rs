//! Objects to test with: compiled on the spot, and the corpus when it is there.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program of `tests/programs`; a missing compiler fails the test.
pub fn compile(name: &str, options: &[&str]) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".into());
    let output = Command::new(&clang)
        .args(["-O2", "-target", "bpf", "-Wno-everything", "-c", "-o", "-"])
        .args(options)
        .arg(&source)
        .output()
        .unwrap_or_else(|e| panic!("{clang} is needed for this test (set CLANG to use another one): {e}"));
    assert!(output.status.success(), "{clang} on {name}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The programs of `tests/programs`, at all levels of the instruction set, with types and without.
pub fn own_objects() -> Vec<(String, Vec<u8>)> {
    let mut objects = Vec::new();
    for name in ["everything.c", "legacy.c"] {
        for level in ["-mcpu=v1", "-mcpu=v2", "-mcpu=v3", "-mcpu=v4"] {
            objects.push((format!("{name} {level} -g"), compile(name, &[level, "-g"])));
        }
        objects.push((format!("{name} -mcpu=v3"), compile(name, &["-mcpu=v3"])));
    }
    objects
}

/// All objects of the corpus, if it was built (`KARAKORAM_CORPUS`, or `corpus` in the repository).
pub fn corpus() -> Option<Vec<PathBuf>> {
    let root = match std::env::var_os("KARAKORAM_CORPUS") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus"),
    };
    let mut objects = Vec::new();
    collect(&root, &mut objects);
    objects.sort();
    if objects.is_empty() {
        eprintln!("\n*** SKIPPED: no corpus at {}; build it with scripts/corpus ***\n", root.display());
        return None;
    }
    Some(objects)
}

fn collect(folder: &Path, objects: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, objects);
        } else if path.extension().is_some_and(|e| e == "o") {
            objects.push(path);
        }
    }
}
