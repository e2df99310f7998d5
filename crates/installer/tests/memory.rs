//! Programs get the memory that they can use, and no more.

use karakoram_installer::installed::manifest;
use karakoram_installer::{BuildOptions, Installed, build};
use karakoram_translator::launder::Launder;
use karakoram_translator::layout::{HEAP_END, HEAP_LOW, STACK_LOW, STACK_TOP};
use karakoram_translator::manifest::Needs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "[package]\nname = \"needs\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
                        [dependencies]\nkarakoram-extension = { path = \"EXTENSION\" }\n";
const SOURCE: &str = r#"#![no_std]
extern crate alloc;
use karakoram_extension::{Xdp, XdpVerdict, xdp};

#[xdp]
pub fn empty(_: &mut Xdp) -> XdpVerdict {
    XdpVerdict::Pass
}

/// Bytes by a place that only the packet knows: on the stack.
#[inline(never)]
fn mixed(packet: &Xdp) -> u8 {
    let mut table = [0u8; 3000];
    for n in 0..table.len() {
        table[n] = packet.u8(n % 64).unwrap_or(n as u8);
    }
    table[usize::from(packet.u8(1).unwrap_or(0)) * 8]
}

#[xdp]
pub fn framed(packet: &mut Xdp) -> XdpVerdict {
    if mixed(packet) == 7 { XdpVerdict::Drop } else { XdpVerdict::Pass }
}

#[xdp]
pub fn heaped(packet: &mut Xdp) -> XdpVerdict {
    let mut bytes = alloc::vec::Vec::new();
    while let Some(byte) = packet.u8(bytes.len()) {
        bytes.push(byte);
    }
    bytes.sort_unstable();
    if bytes.first() == Some(&7) { XdpVerdict::Drop } else { XdpVerdict::Pass }
}

fn deep(n: u32) -> u32 {
    if n == 0 { 1 } else { deep(n - 1).rotate_left(1) ^ n }
}

#[xdp]
pub fn recursive(packet: &mut Xdp) -> XdpVerdict {
    if deep(packet.be32(0).unwrap_or(0)) == 7 { XdpVerdict::Drop } else { XdpVerdict::Pass }
}
"#;

fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("needs");
    std::fs::create_dir_all(folder.join("src")).expect("folder");
    let extension = Path::new(env!("CARGO_MANIFEST_DIR")).join("../extension").canonicalize().expect("the crate");
    let manifest = MANIFEST.replace("EXTENSION", &extension.display().to_string());
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("manifest");
    std::fs::write(folder.join("src/lib.rs"), SOURCE).expect("source");
    let options = BuildOptions {
        target_dir: folder.join("target"),
        folder: folder.clone(),
        extension: None,
        features: Vec::new(),
        launder: Launder::default(),
        translation: Default::default(),
    };
    let object = folder.join("needs.o");
    std::fs::write(&object, build(&options).unwrap_or_else(|e| panic!("{e}")).object).expect("object");
    object
}

#[test]
fn pages_are_there_for_what_a_program_can_touch() {
    let object = built();
    let bytes = std::fs::read(&object).expect("object");
    let manifest = manifest(&bytes).expect("a manifest");
    let needs = |name: &str| manifest.programs.iter().find(|p| p.name == name).expect("a program").needs;
    let stack = STACK_TOP - STACK_LOW;
    assert_eq!(needs("empty"), Needs { stack_bytes: 0, has_heap: false });
    assert!((3000..4096).contains(&needs("framed").stack_bytes), "{:?}", needs("framed"));
    assert!(!needs("framed").has_heap);
    assert!(needs("heaped").has_heap);
    assert_eq!(needs("recursive"), Needs { stack_bytes: stack, has_heap: false });

    let load = |name: &str| Installed::load(&object, &[name]).map(|installed| installed.memory_bytes());
    let empty = match load("empty") {
        Ok(bytes) => bytes,
        Err(e) => return eprintln!("SKIPPED: this kernel or user cannot load extensions: {e}"),
    };
    let more = |name: &str| load(name).unwrap_or_else(|e| panic!("{name}: {e}")) - empty;
    let cpus = karakoram_kernel::sys::os::possible_cpus().expect("processors") as u64;
    assert_eq!(more("framed"), cpus * 4096);
    assert_eq!(more("recursive"), cpus * u64::from(stack));
    assert!(more("heaped") >= cpus * u64::from(HEAP_END - HEAP_LOW));
}
