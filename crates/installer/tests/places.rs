//! The same sources give the same object, wherever they lie and however cargo is told to build other things.

use karakoram_installer::{BuildOptions, build};
use karakoram_translator::launder::Launder;
use std::path::{Path, PathBuf};

/// Copies a crate's manifest and sources.
fn copy(from: &Path, to: &Path) {
    copy_folder(&from.join("src"), &to.join("src"));
    std::fs::copy(from.join("Cargo.toml"), to.join("Cargo.toml")).expect("manifest");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folder");
    for entry in std::fs::read_dir(from).expect("sources").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match source.is_dir() {
            true => copy_folder(&source, &target),
            false => drop(std::fs::copy(source, target).expect("source")),
        }
    }
}

/// The object of programs with functions of several crates, built in a new folder of that name, where all
/// crates are of one workspace or the programs are alone.
fn built_at(place: &str, is_workspace: bool) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("places").join(place);
    let _ = std::fs::remove_dir_all(&folder);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["crates/extension", "crates/extension-macros", "programs/bmc"] {
        copy(&root.join(name), &folder.join(name));
    }
    let all = "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\", \"programs/*\"]\n";
    if is_workspace {
        std::fs::write(folder.join("Cargo.toml"), all).expect("manifest");
    } else {
        let manifest = folder.join("programs/bmc/Cargo.toml");
        let text = std::fs::read_to_string(&manifest).expect("manifest");
        std::fs::write(&manifest, text + "\n[workspace]\n").expect("manifest");
    }
    let options = BuildOptions {
        folder: folder.join("programs/bmc"),
        target_dir: folder.join("target"),
        extension: None,
        features: Vec::new(),
        launder: Launder::default(),
        translation: Default::default(),
    };
    build(&options).unwrap_or_else(|e| panic!("{e}")).object
}

#[test]
fn where_sources_lie_makes_no_difference() {
    for (is_workspace, places) in [(false, ["one", "another/which/is/deeper"]), (true, ["all", "also/all"])] {
        let [one, other] = places.map(|place| built_at(place, is_workspace));
        assert!(one == other, "{places:?}: {} and {} bytes, or others", one.len(), other.len());
    }
}
