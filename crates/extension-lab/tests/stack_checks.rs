//! Extensions check their stack unless they are told not to.

use karakoram_installer::{BuildOptions, build};
use karakoram_translator::Options;
use karakoram_translator::manifest::Fault;
use std::path::Path;

fn overflows(stack_checks: bool, target_dir: &Path) -> usize {
    let options = BuildOptions {
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/recursion"),
        target_dir: target_dir.into(),
        extension: None,
        features: Vec::new(),
        launder: Default::default(),
        translation: Options { stack_checks, ..Options::default() },
    };
    let built = build(&options).unwrap_or_else(|e| panic!("{e}"));
    built.manifest.sites.iter().filter(|s| matches!(s.what, Fault::StackOverflow)).count()
}

#[test]
fn checks_are_there_unless_they_are_not_wanted() {
    let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recursion");
    // A record of a call, and a frame, in the two programs.
    assert!(overflows(true, &target_dir) >= 2);
    assert_eq!(overflows(false, &target_dir), 0);
}
