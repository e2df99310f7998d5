//! Frames of the functions of an object. A chain of calls has 512 bytes for all its frames; where that
//! is not enough, locals move to the arena.

use crate::error::InstallError;
use karakoram_bpf::insn::{Callee, FuncId, Insn, Reg};
use karakoram_bpf::program::{Function, Program};
use karakoram_elf::Object;
use karakoram_translator::Options;
use karakoram_translator::module::Module;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a chain of calls has, less what the kernel adds for `may_goto` in each of its functions.
const MOST_BYTES: u32 = 512;
/// What the kernel keeps in the frame of a function with loops.
const LOOP_BYTES: u32 = 16;

/// Changes the options such that frames become smaller; false when they are small enough, or nothing can be
/// done. Locals move to the arena, of the function with the largest frame on a chain of calls that is too
/// deep and of those with loops and large frames; before that a machine in one function is taken apart. A program's own come last, as every packet goes through it,
/// and only after it calls the function that it runs (`entries`, by its name). Where all that is not enough,
/// the functions that were put into that one are called instead.
pub(crate) fn shrink(object: &[u8], entries: &BTreeMap<String, u32>, options: &mut Options) -> bool {
    let Ok(object) = Object::parse(object.to_vec()) else { return false };
    let program = object.program();
    let programs = |functions: &mut dyn Iterator<Item = &Function>| -> BTreeSet<u32> {
        let found = functions.filter_map(|f| entries.get(&f.name));
        found.filter(|n| !options.called.contains(n)).copied().collect()
    };
    let number = |f: &Function| number(f).filter(|_| !entries.contains_key(&f.name));
    let large = || program.functions.iter().filter(|f| has_loops(f) && frame(f) > options.most_frame_in_loops);
    let called = programs(&mut large());
    if !called.is_empty() {
        options.called.extend(called);
        return true;
    }
    // A machine in one function needs a larger frame than its members have.
    let is_machine = |f: &Function| f.name.starts_with('m');
    let fused: BTreeSet<u32> = large().filter(|f| is_machine(f)).filter_map(number).collect();
    let fused: Vec<u32> = fused.into_iter().filter(|n| !options.unfused.contains(n)).collect();
    if !fused.is_empty() {
        options.unfused.extend(fused);
        return true;
    }
    let in_loops: BTreeSet<u32> = large().filter_map(number).filter(|n| !options.in_arena.contains(n)).collect();
    if !in_loops.is_empty() {
        options.in_arena.extend(in_loops);
        return true;
    }
    let chains = (0..program.functions.len() as u32).map(|f| deepest(program, FuncId(f), 0, frame));
    let Some((_, chain)) = chains.max_by_key(|c| c.0).filter(|c| c.0 > MOST_BYTES) else { return false };
    let chain: Vec<&Function> = chain.into_iter().map(|f| program.function(f)).collect();
    let called = programs(&mut chain.iter().copied());
    let numbered = chain.iter().filter_map(|f| Some((frame(f), number(f)?)));
    let mut functions: Vec<(u32, u32)> = numbered.collect();
    functions.sort_unstable();
    let largest = |done: &[u32]| functions.iter().rev().map(|(_, n)| *n).find(|n| !done.contains(n));
    let machines: Vec<u32> = chain.iter().filter(|f| is_machine(f)).filter_map(|f| number(f)).collect();
    if let Some(number) = largest(&options.in_arena) {
        match machines.contains(&number) && !options.unfused.contains(&number) {
            true => options.unfused.push(number),
            false => options.in_arena.push(number),
        }
    } else if !called.is_empty() {
        options.called.extend(called);
    } else if std::mem::take(&mut options.has_own_stacks) {
        // What functions had on the stack, which were put into others, takes registers of these.
    } else if let Some(number) = largest(&options.alone) {
        options.alone.push(number);
    } else {
        return false;
    }
    true
}

/// Frames of a chain of calls that the kernel allows.
const MOST_FRAMES: usize = 8;

/// Says which chain of calls needs more of the kernel's stack, or more frames, than it has. With the WebAssembly
/// the functions have the names that they have in the source.
pub(crate) fn check(object: &[u8], wasm: Option<&[u8]>) -> Result<(), InstallError> {
    let Ok(object) = Object::parse(object.to_vec()) else { return Ok(()) };
    match too_deep(object.program(), wasm) {
        Some(what) => Err(InstallError::Source(what)),
        None => Ok(()),
    }
}

/// The chain of calls that is too deep, in words.
pub(crate) fn too_deep(program: &Program, wasm: Option<&[u8]>) -> Option<String> {
    let all = || (0..program.functions.len() as u32).map(|f| deepest(program, FuncId(f), 0, bare_frame));
    let largest = all().max_by_key(|c| c.0).filter(|c| c.0 > MOST_BYTES);
    let longest = || all().max_by_key(|c| c.1.len()).filter(|c| c.1.len() > MOST_FRAMES);
    let (bytes, mut chain) = largest.or_else(longest)?;
    chain.reverse();
    let module = wasm.and_then(|wasm| Module::parse(wasm).ok());
    let shown = |id: &FuncId| {
        let function = program.function(*id);
        let named = number(function).and_then(|n| Some(module.as_ref()?.function(n)?.name.clone()));
        format!("\n  {} ({} bytes)", named.unwrap_or_else(|| function.name.clone()), bare_frame(function))
    };
    let chain: Vec<String> = chain.iter().map(shown).collect();
    Some(format!(
        "a chain of {} calls needs {bytes} bytes of the kernel's stack, which has {MOST_FRAMES} frames and {MOST_BYTES} \
         bytes:{}\nMove what the largest of these do with many values at a time into functions of their own that are \
         called one after the other",
        chain.len(),
        chain.concat()
    ))
}

/// The number in `f12`, `f12_xdp` or `m12` (the member of a machine), the translator's names.
fn number(function: &Function) -> Option<u32> {
    let rest = function.name.strip_prefix(['f', 'm'])?;
    rest.split('_').next()?.parse().ok()
}

/// Bytes of the deepest chain from a function, and the chain. Programs that recurse do not verify.
fn deepest(program: &Program, from: FuncId, depth: u32, frame: fn(&Function) -> u32) -> (u32, Vec<FuncId>) {
    const MOST_CALLS: u32 = 16;
    let function = program.function(from);
    let callees = function.nodes.iter().filter_map(|n| match n.insn {
        Insn::Call(Callee::Local(f)) => Some(f),
        _ => None,
    });
    let mut callees: Vec<FuncId> = callees.collect();
    callees.sort_by_key(|f| f.0);
    callees.dedup();
    let below = callees.into_iter().filter(|_| depth < MOST_CALLS).map(|f| deepest(program, f, depth + 1, frame));
    let (bytes, mut chain) = below.max_by_key(|c| c.0).unwrap_or_default();
    chain.push(from);
    (bytes + frame(function), chain)
}

/// Bytes of a frame with what the kernel keeps in it.
fn frame(function: &Function) -> u32 {
    bare_frame(function) + if has_loops(function) { LOOP_BYTES } else { 0 }
}

/// Bytes of a frame as the kernel counts them when it decides whether a chain of calls is too deep.
fn bare_frame(function: &Function) -> u32 {
    let offset = |insn: &Insn| match insn {
        Insn::Load { base, off, .. } | Insn::Store { base, off, .. } if *base == Reg::FP => {
            Some(u32::from(off.unsigned_abs()))
        }
        _ => None,
    };
    let used = function.nodes.iter().filter_map(|n| offset(&n.insn)).max().unwrap_or(0);
    used.next_multiple_of(16)
}

fn has_loops(function: &Function) -> bool {
    function.nodes.iter().any(|n| matches!(n.insn, Insn::MayGoto { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_bpf::text::asm;

    /// A program that calls functions, each with a frame of so many bytes.
    fn chain(frames: &[u32]) -> Program {
        let names = ["prog", "f7", "f8_xdp"];
        let mut text = String::new();
        for (n, frame) in frames.iter().enumerate() {
            let section = if n == 0 { "xdp" } else { ".text" };
            let call = if n + 1 < frames.len() { format!("    call {}\n", names[n + 1]) } else { String::new() };
            text += &format!(
                ".func {}\n.section {section}\n    r0 = 0\n    *(u64 *)(r10 - {frame}) = r0\n{call}    exit\n\n",
                names[n]
            );
        }
        asm::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
    }

    #[test]
    fn a_chain_that_is_too_deep_is_named() {
        assert_eq!(too_deep(&chain(&[64, 128, 256]), None), None);
        let said = too_deep(&chain(&[64, 128, 384]), None).expect("too deep");
        assert!(said.starts_with("a chain of 3 calls needs 576 bytes of the kernel's stack"), "{said}");
        assert!(said.contains("\n  prog (64 bytes)\n  f7 (128 bytes)\n  f8_xdp (384 bytes)\n"), "{said}");
    }
}
