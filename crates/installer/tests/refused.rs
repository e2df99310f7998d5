//! What cannot be built is refused with the place and the reason.

use karakoram_installer::{BuildOptions, InstallError, build};
use karakoram_translator::launder::Launder;
use std::path::Path;

const SOURCE: &str = r#"
#![cfg_attr(not(test), no_std)]
use karakoram_extension::{Xdp, XdpVerdict, xdp};

#[xdp]
pub fn loud(packet: &mut Xdp) -> XdpVerdict {
    let mut buffer = [0; 64];
    let bytes = packet.bytes(&mut buffer);
    let sum: u32 = bytes.iter().map(|b| *b as u32).sum();
    let average = sum as f32 / bytes.len() as f32;
    if average > 99.5 { XdpVerdict::Drop } else { XdpVerdict::Pass }
}
"#;

#[test]
fn floating_point_is_named_with_file_and_line() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("floats");
    std::fs::create_dir_all(folder.join("src")).expect("folder");
    let extension = Path::new(env!("CARGO_MANIFEST_DIR")).join("../extension").canonicalize().expect("the crate");
    let manifest = format!(
        "[package]\nname = \"floats\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         karakoram-extension = {{ path = {extension:?} }}\n\n[workspace]\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("manifest");
    std::fs::write(folder.join("src/lib.rs"), SOURCE).expect("source");
    let options = BuildOptions {
        folder: folder.clone(),
        target_dir: folder.join("target"),
        extension: None,
        features: Vec::new(),
        launder: Launder::default(),
        translation: Default::default(),
    };
    let said = match build(&options) {
        Err(InstallError::Translate(e)) => e.to_string(),
        Err(e @ InstallError::Machine(..)) => return eprintln!("SKIPPED: {e}"),
        other => panic!("{other:?}"),
    };
    // The optimizer may take a piece of the one line for one of the other.
    let lines = [9, 10].map(|line| format!("src/lib.rs:{line}: floating point"));
    assert!(lines.iter().any(|wanted| said.contains(wanted)), "{said}");
    assert!(said.contains("in `loud`: BPF has none"), "{said}");
}
