//! What the kernel refuses in one form it is given in another.

use karakoram_installer::build::separate;
use karakoram_installer::{BuildOptions, InstallError, Installed, forms};
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_translator::Options;
use karakoram_translator::launder::Launder;
use std::path::Path;

/// Built such that the verifier follows every number: it looks at a million instructions and gives up.
#[test]
fn a_program_that_is_refused_is_loaded_in_another_form() {
    const PROGRAM: &str = "insertion";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let options = BuildOptions {
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/extensions/corpus"),
        target_dir: folder.join("corpus"),
        extension: None,
        features: Vec::new(),
        launder: Launder::None,
        translation: Options::default(),
    };
    let programs = separate(&options).unwrap_or_else(|e| panic!("{e}"));
    let (alone, with_forms) = (folder.join("one-form.o"), folder.join("forms.o"));
    std::fs::write(&alone, programs.build(PROGRAM).expect("built").object).expect("object");
    let built = programs.build_with_forms(PROGRAM).expect("built").object;
    assert_eq!(
        forms::others(&built).expect("an object").iter().map(|(form, _)| form.name).collect::<Vec<_>>(),
        ["apart"],
        "the others are what the object is by itself"
    );
    std::fs::write(&with_forms, built).expect("object");
    let refused = match Installed::load(&alone, &[]) {
        Err(InstallError::Machine(what, _)) => {
            eprintln!("SKIPPED: {what}");
            return;
        }
        Err(InstallError::Refused(refused)) => refused,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("this kernel takes it: the test needs another program"),
    };
    assert_eq!(refused.program, PROGRAM);
    assert!(refused.why.contains("too large") || refused.why.contains("too complex"), "{}", refused.why);
    assert!(refused.help.contains("#[inline(never)]"), "{}", refused.help);
    let installed = Installed::load(&with_forms, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(installed.form().name, "apart");
    let before: Vec<(&str, &str)> = installed.refusals().iter().map(|(f, r)| (f.name, r.why.as_str())).collect();
    assert_eq!(before, [("first", refused.why.as_str())]);
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let input = RunInput { data: vec![7; 60], repeat: 1, ..Default::default() };
    runner.run(installed.program(PROGRAM), &input, &mut output).expect("a run");
    assert_eq!((output.retval, installed.state(PROGRAM).panics), (3, 0));
}
