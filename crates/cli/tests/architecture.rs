//! The table of crates in ARCHITECTURE.md, enforced.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const ALLOWED: &[(&str, &[&str])] = &[
    ("bpf", &[]),
    ("proof", &["bpf"]),
    ("elf", &["bpf", "proof"]),
    ("optimize", &["bpf", "proof"]),
    ("kernel", &["bpf"]),
    ("lab", &["bpf", "elf", "kernel"]),
    ("link", &[]),
    ("tunnel", &["link", "kernel"]),
    ("simulator", &["link"]),
    ("translator", &[]),
    ("extension-macros", &[]),
    ("extension", &["extension-macros"]),
    ("installer", &["bpf", "elf", "kernel", "lab", "translator"]),
    ("native", &["bpf", "extension", "kernel", "lab", "installer", "translator"]),
    ("extension-lab", &["kernel", "lab", "installer", "native", "translator"]),
    (
        "cli",
        &[
            "bpf",
            "proof",
            "elf",
            "optimize",
            "kernel",
            "lab",
            "link",
            "tunnel",
            "simulator",
            "translator",
            "installer",
            "native",
            "extension-lab",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names in the `[dependencies]` table of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let table = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    table
        .lines()
        .take_while(|l| !l.starts_with('['))
        .filter_map(|l| l.split(['=', '.']).next())
        .map(|name| name.trim().to_string())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn crate_sources() -> BTreeMap<String, Vec<PathBuf>> {
    let mut all = BTreeMap::new();
    for (name, _) in ALLOWED {
        let mut found = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut found);
        all.insert(name.to_string(), found);
    }
    all
}

#[test]
fn crates_depend_one_way() {
    for entry in fs::read_dir(root().join("crates")).expect("crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (_, allowed) =
            ALLOWED.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("crate {name} is not in the table"));
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("manifest");
        for dependency in dependencies(&manifest) {
            match dependency.strip_prefix("karakoram-") {
                Some(ours) => assert!(allowed.contains(&ours), "{name} must not depend on {ours}"),
                None => assert!(!["bpf", "link"].contains(&&*name), "{name} has no dependencies, {dependency} neither"),
            }
        }
    }
}

#[test]
fn unsafe_code_is_where_the_table_says() {
    // System calls; and what gives users of extensions a safe interface to memory that others share.
    const MAY: [&str; 3] = ["kernel", "extension", "extension-macros"];
    for (name, files) in crate_sources() {
        for file in files {
            let text = fs::read_to_string(&file).expect("source");
            let has = text.lines().any(|l| {
                let code = l.split("//").next().unwrap_or_default();
                ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|form| code.contains(form))
            });
            assert!(!has || MAY.contains(&name.as_str()), "unsafe code in {}", file.display());
        }
    }
}

#[test]
fn only_the_door_makes_proven_programs() {
    for file in crate_sources().into_values().flatten() {
        let text = fs::read_to_string(&file).expect("source");
        if !file.ends_with("proof/src/apply.rs") {
            let made = text.lines().any(|l| l.contains("Proven {") && !l.contains("->"));
            assert!(!made, "a Proven is made in {}", file.display());
        }
    }
}
