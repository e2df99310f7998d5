//! An object of aya's linker (`programs/aya_filter`), read by aya's own reader after `kara opt`.

use aya_obj::Object;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Names of the programs, instructions of each function by where it was, names of the maps.
type Outline = (Vec<String>, Vec<(String, usize)>, Vec<String>);

fn outline(object: &Object) -> Outline {
    let mut programs: Vec<String> = object.programs.keys().cloned().collect();
    let mut functions: Vec<_> = object.functions.values().map(|f| (f.name.clone(), f.instructions.len())).collect();
    let mut maps: Vec<String> = object.maps.keys().cloned().collect();
    programs.sort();
    functions.sort();
    maps.sort();
    (programs, functions, maps)
}

#[test]
fn aya_reads_what_kara_writes() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/inputs/aya_filter.o");
    let output = std::env::temp_dir().join(format!("kara-aya-{}.o", std::process::id()));
    let status = Command::new(env!("CARGO_BIN_EXE_kara"))
        .args(["opt", "--kernel", "none", "--proof", "none", "-q", "-o"])
        .args([&output, &input])
        .status()
        .expect("kara");
    let bytes = std::fs::read(&output);
    let _ = std::fs::remove_file(&output);
    assert!(status.success());
    let before = Object::parse(&std::fs::read(&input).expect("fixture")).expect("aya reads its linker's object");
    let after = Object::parse(&bytes.expect("output")).expect("aya reads the result");
    assert!(after.btf.is_some() && after.btf_ext.is_some());
    let ((programs, functions, maps), (now_programs, now_functions, now_maps)) = (outline(&before), outline(&after));
    assert_eq!((&programs, &maps), (&now_programs, &now_maps));
    assert_eq!(programs, ["filter", "udp"]);
    // What is called once is where it was called, and the function is gone.
    let left: BTreeMap<String, usize> = now_functions.into_iter().collect();
    assert!(left.keys().all(|name| functions.iter().any(|(known, _)| known == name)), "{left:?}");
    for (name, slots) in functions {
        let now = left.get(&name).copied();
        let is_right = match programs.contains(&name) {
            true => now.is_some_and(|now| now < slots),
            false => now.is_none_or(|now| now <= slots),
        };
        assert!(is_right, "{name}: {slots} -> {now:?} slots");
    }
}
