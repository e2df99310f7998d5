//! Our own packet programs (`programs/`): compiled when they are needed, in an original and an
//! optimized build.

use crate::error::LabError;
use crate::trial::Workshop;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which build of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Build {
    /// As the compiler made it.
    #[default]
    Original,
    /// As `kara opt` made it of that.
    Optimized,
}

/// Compilers, best first; all that are new enough for what the programs use.
const COMPILERS: [&str; 5] = ["clang-19", "clang", "clang-18", "clang-17", "clang-16"];

/// The object of a program: `name` is a path below `programs/` without its ending, or the path of an
/// object that is there already.
pub fn build(workshop: &Workshop, name: &str, build: Build) -> Result<PathBuf, LabError> {
    let original = match name.ends_with(".o") {
        true => PathBuf::from(name),
        false => compile(workshop, name)?,
    };
    match build {
        Build::Original => Ok(original),
        Build::Optimized => (workshop.optimize)(&original),
    }
}

fn compile(workshop: &Workshop, name: &str) -> Result<PathBuf, LabError> {
    let source = workshop.programs.join(name).with_extension("c");
    if !source.is_file() {
        return Err(LabError::Request(format!("there is no program {}", source.display())));
    }
    let object = workshop.scratch.join(format!("{}.o", name.replace('/', "-")));
    if object.is_file() {
        return Ok(object);
    }
    for compiler in COMPILERS {
        match run(compiler, &source, &object) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(LabError::tool(compiler, &e)),
            Ok(output) if output.status.success() => return Ok(object),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(LabError::Request(format!("{compiler} does not compile {}: {said}", source.display())));
            }
        }
    }
    let what = "no clang to compile packet programs with".into();
    Err(LabError::Machine(what, "install it: apt-get install clang-19".into()))
}

fn run(compiler: &str, source: &Path, object: &Path) -> std::io::Result<std::process::Output> {
    // clang for BPF does not look into the host's multiarch folder, where <asm/types.h> is.
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    Command::new(compiler)
        .args(["-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", "-idirafter", &headers, "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
}

/// The program of an object to use: the one named, or the only one.
pub fn entry(object: &Path, named: Option<&str>) -> Result<String, LabError> {
    let there = crate::object::programs(object)?;
    let wrong =
        |what: &str| Err(LabError::Request(format!("{}: {what} (it has {})", object.display(), there.join(", "))));
    match (named, there.as_slice()) {
        (Some(name), _) if there.iter().any(|p| p == name) => Ok(name.into()),
        (Some(name), _) => wrong(&format!("no program {name}")),
        (None, [only]) => Ok(only.clone()),
        (None, _) => wrong("more than one program, or none; name one by `entry`"),
    }
}
