//! Objects read and written: unchanged byte for byte, and edited and edited back.

mod support;

use karakoram_bpf::insn::{Insn, InsnId, Operand, Reg, Width};
use karakoram_bpf::program::{Function, Node, Program};
use karakoram_elf::Object;
use karakoram_elf::container::{Container, Section};

/// An instruction that does nothing, after the first and in the middle of a function, and at every line of a loop.
fn pad(function: &mut Function) {
    let nop = Insn::Mov { width: Width::W64, dst: Reg::R6, src: Operand::Reg(Reg::R6) };
    let mut fresh = function.fresh_id().0;
    let len = function.nodes.len();
    for at in [len.saturating_sub(1), len / 2, 1] {
        if at < len {
            function.nodes.insert(at, Node { id: InsnId(fresh), insn: nop, patch: None });
            fresh += 1;
        }
    }
}

/// The same program with instructions renumbered as reading it anew would.
fn renumbered(program: &Program) -> Program {
    let mut program = program.clone();
    for function in &mut program.functions {
        let positions = function.positions();
        for (i, node) in function.nodes.iter_mut().enumerate() {
            node.id = InsnId(i as u32);
            node.insn = node.insn.map(|t| InsnId(positions[&t] as u32), |f| f);
        }
    }
    program
}

/// Whether an object has DWARF, and it without, section by section.
fn without_dwarf(bytes: &[u8]) -> Result<(bool, Vec<String>), String> {
    let container = Container::parse(bytes).map_err(|e| e.to_string())?;
    let is_dwarf = |name: &str| name.starts_with(".debug_") || name.starts_with(".rel.debug_");
    let had_dwarf = container.sections.iter().any(|s| is_dwarf(&s.name) && !s.data.is_empty());
    let describe = |s: &Section| match is_dwarf(&s.name) {
        true => s.name.clone(),
        false => format!("{} {} {} {} {} {} {} {:?}", s.name, s.kind, s.flags, s.link, s.info, s.align, s.size, s.data),
    };
    Ok((had_dwarf, container.sections.iter().map(describe).collect()))
}

/// What is left of an object after padding all its functions: read again, it is the padded program;
/// with the padding removed, it is the input, but for DWARF.
fn check(name: &str, bytes: &[u8]) -> Result<usize, String> {
    let object = Object::parse(bytes.to_vec()).map_err(|e| e.to_string())?;
    if object.to_bytes() != bytes || object.rewrite(object.program()).as_deref() != Ok(bytes) {
        return Err("writing it unchanged changes it".into());
    }
    let mut padded = object.program().clone();
    padded.functions.iter_mut().for_each(pad);
    let written = object.rewrite(&padded).map_err(|e| e.to_string())?;
    let again = Object::parse(written).map_err(|e| format!("padded: {e}"))?;
    if again.opaque().len() != object.opaque().len() {
        return Err("padding makes code unreadable".into());
    }
    let (wanted, found) = (renumbered(&padded), again.program());
    if wanted != *found {
        for (a, b) in wanted.functions.iter().zip(&found.functions) {
            if a != b {
                return Err(format!("padding changes function {}:\n{a:?}\n{b:?}", a.name));
            }
        }
        return Err("padding changes the maps".into());
    }
    let mut restored = again.program().clone();
    for (function, padded) in restored.functions.iter_mut().zip(&padded.functions) {
        let before =
            object.program().functions.iter().find(|f| f.name == function.name && f.section == function.section);
        let known = before.map_or(0, |f| f.fresh_id().0);
        let mut at = padded.nodes.iter();
        function.nodes.retain(|_| at.next().is_some_and(|n| n.id.0 < known));
    }
    let back = again.rewrite(&restored).map_err(|e| format!("restored: {e}"))?;
    let (had_dwarf, wanted) = without_dwarf(bytes)?;
    let (_, found) = without_dwarf(&back)?;
    if had_dwarf && wanted != found || !had_dwarf && back != bytes {
        let at = back.iter().zip(bytes).position(|(a, b)| a != b);
        let path = std::env::temp_dir().join("karakoram-restored.o");
        std::fs::write(&path, &back).map_err(|e| e.to_string())?;
        return Err(format!("restoring {name} does not restore it (first difference {at:?}, see {})", path.display()));
    }
    Ok(object.program().functions.len())
}

#[test]
fn own_programs_survive_editing() {
    for (name, bytes) in support::own_objects() {
        let functions = check(&name, &bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(functions >= 1, "{name}");
        let object = Object::parse(bytes).unwrap();
        assert!(object.opaque().is_empty() || !name.ends_with("-g"), "{name}: {:?}", object.opaque());
    }
}

#[test]
fn the_corpus_survives_editing() {
    let Some(paths) = support::corpus() else { return };
    let (mut done, mut functions, mut opaque) = (0, 0, 0);
    let mut failed = Vec::new();
    for path in &paths {
        let bytes = std::fs::read(path).expect("readable");
        if bytes.get(18..20) != Some(&[247, 0]) {
            continue;
        }
        done += 1;
        match check(&path.display().to_string(), &bytes) {
            Ok(n) => functions += n,
            Err(e) => failed.push(format!("{}: {}", path.display(), e.chars().take(400).collect::<String>())),
        }
        if let Ok(object) = Object::parse(bytes) {
            opaque += object.opaque().len();
            for code in object.opaque() {
                eprintln!("kept: {} {}: {}", path.display(), code.name, code.reason);
            }
        }
    }
    eprintln!(
        "{done} objects, {functions} functions edited and restored, {opaque} stretches kept, {} failed",
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
