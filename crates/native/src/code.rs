//! An extension's machine code. rustc optimizes the whole program and hands over LLVM's text form; what
//! rustc itself cannot be told on stable is said there: that every function checks the stack before it
//! takes more of it (what LLVM has for split stacks), and that returns and indirect calls go the way that
//! the kernel's do, by its thunks. `llc` makes assembly of it, `as` and `ld` one object.

use crate::glue::put;
use crate::tables::{COUNTER, Contents, PROGRAM};
use karakoram_installer::InstallError;
use karakoram_translator::manifest::Program;
use karakoram_translator::toolchain::Toolchain;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The section of the code in the object.
pub const SECTION: &str = ".text.kara";

/// Split stacks are made for user programs only, and `as` wants names of files in one piece.
const LLC: [&str; 5] = [
    "-O2",
    "-mtriple=x86_64-unknown-linux-gnu",
    "-code-model=kernel",
    "-relocation-model=static",
    "-dwarf-directory=0",
];
/// What the checks of the stack compare with: a field of the thread in user programs, here of the CPU.
const LIMIT: (&str, &str) = ("%fs:112", "%gs:kara_stack_limit");

/// What comes after a check: a user program's stack would then be larger.
const OVERFLOW: (&str, &str) = ("callq\t__morestack\n\tretq\n", "callq\t__morestack\n");

/// Attributes of functions as rustc writes them, and as they are to be.
const ATTRIBUTES: [(&str, &str); 3] = [
    ("\"probe-stack\"=\"inline-asm\"", "fn_ret_thunk_extern \"split-stack\""),
    (
        "\"target-features\"=\"",
        "\"target-features\"=\"+retpoline-external-thunk,+retpoline-indirect-branches,+retpoline-indirect-calls,+harden-sls-ijmp,",
    ),
    // Calls through a table of addresses, which modules do not have.
    (" nonlazybind", ""),
];

/// What the glue has functions for.
const HOOKS: [&str; 2] = ["xdp", "tc"];

/// Functions that the kernel has better ones of than the compiler's library.
const KERNELS: [&str; 5] = ["memcpy", "memmove", "memset", "memcmp", "bcmp"];

/// Lines of what a failed tool says that are passed on.
const LINES_SAID: usize = 20;

/// All code in one section, with its begin and its end.
const LINKER_SCRIPT: &str = "\
SECTIONS {
    .text.kara : { kara_code_start = .; *(.text .text.*) kara_code_end = .; }
    .rodata : { *(.rodata .rodata.*) }
    .data : { *(.data .data.*) }
    .bss : { *(.bss .bss.*) }
}
";

/// The code of an extension.
pub struct Code {
    /// For the module.
    pub object: Vec<u8>,
    /// The same linked to addresses, with debug information.
    pub image: Vec<u8>,
    /// What is in it.
    pub contents: Contents,
}

/// Compiles LLVM's text form; what it uses of the compiler's library is taken from the archive.
pub fn compile(ir: &str, archive: &Path, work: &Path) -> Result<Code, InstallError> {
    let contents = contents(ir)?;
    let assembly = Toolchain::find()?.assembly(&adapted(ir, &contents), &LLC)?;
    let [source, own, script, linked, object, image] =
        ["code.s", "own.o", "code.lds", "linked.o", "code.o", "image"].map(|name| work.join(name));
    let assembly = assembly.replace(LIMIT.0, LIMIT.1).replace(OVERFLOW.0, OVERFLOW.1);
    put(&source, assembly.as_bytes())?;
    put(&script, LINKER_SCRIPT.as_bytes())?;
    run(Command::new("as").arg("-o").arg(&own).arg(&source))?;
    let wrapped = KERNELS.map(|name| format!("--wrap={name}"));
    run(Command::new("ld")
        .arg("-r")
        .args(&wrapped)
        .arg("-T")
        .arg(&script)
        .arg("-o")
        .arg(&linked)
        .args([&own, archive]))?;
    run(Command::new("ld")
        .args(["--unresolved-symbols=ignore-all", "--entry=0", "-T"])
        .arg(&script)
        .arg("-o")
        .args([&image, &linked]))?;
    let renamed = KERNELS.map(|name| format!("--redefine-sym=__wrap_{name}={name}"));
    // The compiler's library also carries what it was made from.
    let unwanted = ["--remove-section=.llvmbc", "--remove-section=.llvmcmd", "--strip-debug"];
    run(Command::new("objcopy").args(unwanted).args(&renamed).args([&linked, &object]))?;
    Ok(Code { object: read(&object)?, image: read(&image)?, contents })
}

fn read(path: &PathBuf) -> Result<Vec<u8>, InstallError> {
    std::fs::read(path).map_err(|e| InstallError::file("read", path, &e))
}

/// Runs a tool; what it says is the error when it fails.
pub fn run(command: &mut Command) -> Result<(), InstallError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| {
        InstallError::Machine(format!("could not run {tool}: {e}"), "scripts/setup installs what is needed".into())
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last: Vec<&str> = said.lines().rev().take(LINES_SAID).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(InstallError::Object(format!("{tool} failed:\n{}", last.join("\n"))))
}

/// What is defined: `@"kara:HOOK:VERDICT:NAME"` are programs.
fn contents(ir: &str) -> Result<Contents, InstallError> {
    let mut contents = Contents::default();
    for line in ir.lines() {
        if let Some(counter) = line.strip_prefix('@').and_then(|l| l.strip_prefix(COUNTER)) {
            contents.counters.extend(counter.split(' ').next().map(str::to_string));
        } else if line.starts_with("define ")
            && let Some((_, rest)) = line.split_once("@\"kara:")
        {
            let program = program(rest.split('"').next().unwrap_or_default());
            if let Some(Program { name, hook, .. }) = program.as_ref().filter(|p| !HOOKS.contains(&p.hook.as_str())) {
                let what = format!("{name} is for the hook {hook}; a module has programs for {}", HOOKS.join(" and "));
                return Err(InstallError::Source(format!("{what}. Build it as BPF, or without this program")));
            }
            contents.programs.extend(program);
        }
    }
    match contents.programs.is_empty() {
        true => Err(InstallError::Source("it has no programs: mark one with #[xdp] or #[tc]".into())),
        false => Ok(contents),
    }
}

/// `HOOK:VERDICT:NAME`.
fn program(text: &str) -> Option<Program> {
    let mut parts = text.split(':');
    let (hook, on_panic, name) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    Some(Program { name: name.to_string(), hook: hook.to_string(), target: None, on_panic, needs: Default::default() })
}

/// The text form as `llc` is to have it.
fn adapted(ir: &str, contents: &Contents) -> String {
    let mut out = String::with_capacity(ir.len());
    let free = free_number(ir);
    for line in ir.lines() {
        match line {
            _ if line.starts_with("attributes #") => {
                out.push_str(&ATTRIBUTES.iter().fold(line.to_string(), |l, (from, to)| l.replace(from, to)));
            }
            _ if line.ends_with("!{i32 2, !\"RtLibUseGOT\", i32 1}") => out.push_str(&line.replace("i32 1}", "i32 0}")),
            _ if line.starts_with("!llvm.module.flags = !{") => {
                // Functions that are called indirectly begin with an instruction that says so.
                out.push_str(&line.replace("!{", &format!("!{{!{free}, ")));
                out.push_str(&format!("\n!{free} = !{{i32 8, !\"cf-protection-branch\", i32 1}}"));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    for (n, Program { name, hook, on_panic, .. }) in contents.programs.iter().enumerate() {
        out = out.replace(&format!("@\"kara:{hook}:{on_panic}:{name}\""), &format!("@{PROGRAM}{n}"));
    }
    out
}

/// A number that nothing else in the text has.
fn free_number(ir: &str) -> u64 {
    let number = |line: &str| line.strip_prefix('!')?.split_once(" = ")?.0.parse::<u64>().ok();
    ir.lines().filter_map(number).max().map_or(0, |most| most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_has_a_number_of_its_own() {
        let ir = "!llvm.module.flags = !{!0, !1}\n!0 = !{i32 1}\n!100000 = distinct !{}\n!7 = !{}\n";
        let text = adapted(ir, &Contents::default());
        assert!(text.contains("!llvm.module.flags = !{!100001, !0, !1}\n!100001 = !{i32 8,"), "{text}");
    }
}
