//! Every experiment of the repository can be read, is of a kind that exists, and asks for something.

use karakoram_lab::experiment::Experiment;
use karakoram_lab::trials;
use std::path::Path;

#[test]
fn experiments_are_of_kinds_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|e| e.path().join("experiment.toml").is_file()) {
        let experiment = Experiment::read(&entry.path()).unwrap_or_else(|e| panic!("{e}"));
        let definition = &experiment.definition;
        let mut kinds = trials::kinds().iter().chain(karakoram_extension_lab::kinds());
        assert!(kinds.any(|k| k.name() == definition.kind), "{}: no kind {}", experiment.name, definition.kind);
        assert!(!definition.claims.is_empty(), "{} has no claim, so no verdict", experiment.name);
        let is_known =
            |of: &str| definition.metrics.iter().any(|m| m.name == of || m.samples == of) || of.contains("over");
        assert!(definition.figures.iter().all(|f| is_known(&f.of)), "{}: a figure of nothing", experiment.name);
        // What is counted comes out the same in every round.
        let is_counted = ["bmc-instructions", "footprint", "lines"].contains(&definition.kind.as_str());
        assert!(
            is_counted || experiment.rounds(true).least >= 5,
            "{}: too few rounds in the quick form",
            experiment.name
        );
        read += 1;
    }
    assert!(read > 0, "no experiments");
}
