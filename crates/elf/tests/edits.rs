//! What becomes of relocations, symbols, lines and CO-RE records when code is edited.

mod support;

use karakoram_bpf::insn::{AluOp, Callee, FuncId, Imm64, Insn, InsnId, MapRef, Operand, Reg, Width};
use karakoram_bpf::program::{Function, Node, Program};
use karakoram_elf::btf::ext::{BtfExt, Table};
use karakoram_elf::container::Container;
use karakoram_elf::symbol::SymbolKind;
use karakoram_elf::{ElfError, Object};
use std::io::Write;
use std::process::{Command, Stdio};

fn everything() -> Object {
    Object::parse(support::compile("everything.c", &["-mcpu=v3", "-g"])).unwrap()
}

fn new(function: &Function, insn: Insn) -> Node {
    Node { id: function.fresh_id(), insn, patch: None }
}

fn function<'a>(program: &'a mut Program, name: &str) -> &'a mut Function {
    program.functions.iter_mut().find(|f| f.name == name).unwrap()
}

/// Writes and reads again; the instructions must be the same.
fn rewritten(object: &Object, program: &Program) -> (Object, Vec<u8>) {
    let bytes = object.rewrite(program).unwrap();
    let again = Object::parse(bytes.clone()).unwrap();
    for (a, b) in program.functions.iter().zip(&again.program().functions) {
        assert_eq!(a.raw().unwrap(), b.raw().unwrap(), "{}", a.name);
        assert_eq!((&a.name, &a.section, &a.entry), (&b.name, &b.section, &b.entry));
    }
    assert_eq!(program.maps, again.program().maps);
    (again, bytes)
}

/// Offsets of the records about one function, from its start, in slots.
fn records(bytes: &[u8], object: &Object, table: Table, name: &str) -> Vec<u64> {
    let container = Container::parse(bytes).unwrap();
    let ext = BtfExt::parse(&container.sections[container.find(".BTF.ext").unwrap()].data).unwrap();
    let symbol = object.symbols().entries.iter().find(|s| s.name == name && s.size > 0).unwrap();
    let section = &container.sections[symbol.section.unwrap()].name;
    let inside = |at: &u64| (symbol.value..symbol.value + symbol.size).contains(at);
    let all = ext.records(table, object.btf().unwrap(), section).map(|r| r.offset() as u64);
    all.filter(inside).map(|at| (at - symbol.value) / 8).collect()
}

#[test]
fn references_may_be_copied() {
    let object = everything();
    let mut program = object.program().clone();
    for function in &mut program.functions {
        let is_reference =
            |n: &Node| matches!(n.insn, Insn::LoadImm { value, .. } if !matches!(value, Imm64::Value(_)));
        let copies: Vec<usize> = (0..function.nodes.len()).filter(|i| is_reference(&function.nodes[*i])).collect();
        for at in copies.into_iter().rev() {
            let copy = new(function, function.nodes[at].insn);
            function.nodes.insert(at, copy);
        }
    }
    rewritten(&object, &program);
}

#[test]
fn references_that_the_input_does_not_have_are_made() {
    let object = everything();
    let mut program = object.program().clone();
    let maps = program.maps.len() as i32;
    let functions = program.functions.len() as u32;
    let function = function(&mut program, "nested");
    for map in 0..maps {
        let is_data = object.program().maps[map as usize].initial.is_some();
        let map = MapRef::Index(map);
        let value = if is_data { Imm64::MapValue(map, 3) } else { Imm64::Map(map) };
        let node = new(function, Insn::LoadImm { dst: Reg::R6, value });
        function.nodes.insert(1, node);
    }
    for callee in 0..functions {
        let call = new(function, Insn::Call(Callee::Local(FuncId(callee))));
        function.nodes.insert(1, call);
        let address = new(function, Insn::LoadImm { dst: Reg::R6, value: Imm64::Function(FuncId(callee)) });
        function.nodes.insert(1, address);
    }
    rewritten(&object, &program);
}

#[test]
fn deleted_code_takes_its_records_along() {
    let object = everything();
    let mut program = object.program().clone();
    // Nothing but `r0 = 0; exit` remains of one function; the others move up.
    let fields = function(&mut program, "fields");
    let patched = fields.nodes.iter().filter(|n| n.patch.is_some()).count();
    assert!(patched > 0);
    let last = fields.nodes.len() - 1;
    fields.nodes.drain(..last - 1);
    let (again, bytes) = rewritten(&object, &program);
    assert_eq!(records(&bytes, &again, Table::Relocations, "fields"), []);
    assert_eq!(records(&bytes, &again, Table::Functions, "fields"), [0]);
    assert_eq!(records(&bytes, &again, Table::Lines, "fields")[0], 0, "the first instruction has a line");
    let size = |o: &Object| o.symbols().entries.iter().find(|s| s.name == "fields").unwrap().size;
    assert_eq!(size(&again), 16);
    assert!(bytes.len() < object.to_bytes().len());
}

/// Everything that says that a function is there goes with its code; a place of that name stays, so that
/// symbols keep their numbers.
#[test]
fn removed_functions_are_no_functions_any_more() {
    let object = everything();
    let mut program = object.program().clone();
    let gone = program.functions.iter().position(|f| f.name == "scale").unwrap();
    let is_user = |n: &Node| matches!(n.insn, Insn::Call(Callee::Local(f)) if f.0 as usize == gone);
    for function in &mut program.functions {
        for node in function.nodes.iter_mut().filter(|n| is_user(n)) {
            node.insn = Insn::Mov { width: Width::W64, dst: Reg::R0, src: Operand::Imm(3) };
        }
    }
    program.functions[gone].nodes.clear();
    let bytes = object.rewrite(&program).unwrap();
    let again = Object::parse(bytes.clone()).unwrap();
    let names = |p: &Program| p.functions.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
    let mut wanted = names(object.program());
    wanted.remove(gone);
    assert_eq!(names(again.program()), wanted);
    assert!(again.opaque().is_empty(), "{:?}", again.opaque());
    let left = object.symbols().entries.iter().zip(&again.symbols().entries);
    for (old, new) in left {
        assert_eq!(old.name, new.name);
        assert_eq!(new.kind == SymbolKind::Function, old.kind == SymbolKind::Function && old.name != "scale");
    }
    for name in &wanted {
        assert_eq!(records(&bytes, &again, Table::Functions, name), [0], "{name}");
        assert_eq!(records(&bytes, &again, Table::Lines, name)[0], 0, "{name}");
    }
    // A function that others can name does not go.
    let shift = program.functions.iter().position(|f| f.name == "shift").unwrap();
    program.functions[shift].nodes.clear();
    assert!(matches!(object.rewrite(&program), Err(ElfError::Unwritable(_))));
}

/// Code with CO-RE records comes to a section that had none.
#[test]
fn records_for_the_loader_follow_code_into_other_sections() {
    let object = everything();
    let mut program = object.program().clone();
    let patched = function(&mut program, "fields").nodes.iter().find(|n| n.patch.is_some()).unwrap().clone();
    let count = function(&mut program, "count");
    let node = Node { id: count.fresh_id(), ..patched };
    count.nodes.insert(1, node);
    let (again, bytes) = rewritten(&object, &program);
    assert_eq!(records(&object.to_bytes(), &object, Table::Relocations, "count"), []);
    assert_eq!(records(&bytes, &again, Table::Relocations, "count"), [1]);
    assert_eq!(function(&mut again.program().clone(), "count").nodes[1].patch, patched.patch);
}

#[test]
fn the_first_instruction_keeps_a_line() {
    let object = everything();
    let before = records(&object.to_bytes(), &object, Table::Lines, "scale");
    assert_eq!(before[0], 0);
    let mut program = object.program().clone();
    let scale = function(&mut program, "scale");
    let nop = new(scale, Insn::Mov { width: Width::W64, dst: Reg::R1, src: Operand::Reg(Reg::R1) });
    scale.nodes.insert(0, nop);
    let (again, bytes) = rewritten(&object, &program);
    let after = records(&bytes, &again, Table::Lines, "scale");
    assert_eq!(after[0], 0);
    assert!(after.is_sorted_by(|a, b| a < b), "{after:?}");
    assert_eq!(after[1], 1, "the instruction that was first keeps its own");
}

#[test]
fn dwarf_does_not_outlive_the_code_that_it_describes() {
    let mut with_dwarf = 0;
    for (name, bytes) in support::own_objects() {
        let debug = |bytes: &[u8]| {
            let container = Container::parse(bytes).expect("an object");
            container.sections.iter().filter(|s| s.name.contains(".debug_")).map(|s| s.data.len()).sum::<usize>()
        };
        let object = Object::parse(bytes.clone()).expect("an object");
        let mut program = object.program().clone();
        let function = program.functions.last_mut().expect("functions");
        let id = function.fresh_id();
        let nop = Insn::Mov { width: Width::W64, dst: Reg::R0, src: Operand::Reg(Reg::R0) };
        let end = function.nodes.len() - 1;
        function.nodes.insert(end, Node { id, insn: nop, patch: None });
        with_dwarf += usize::from(debug(&bytes) > 0);
        assert_eq!(debug(&object.rewrite(&program).expect("written")), 0, "{name}");
        assert_eq!(debug(&object.rewrite(object.program()).expect("written")), debug(&bytes), "{name}");
    }
    assert!(with_dwarf > 0, "no object has DWARF");
}

#[test]
fn moved_code_keeps_its_lines() {
    let object = everything();
    let mut program = object.program().clone();
    let nested = function(&mut program, "nested");
    // The first two instructions change places.
    nested.nodes.swap(0, 1);
    let (again, bytes) = rewritten(&object, &program);
    let lines = records(&bytes, &again, Table::Lines, "nested");
    assert_eq!(lines[0], 0);
    assert!(lines.is_sorted_by(|a, b| a < b), "{lines:?}");
}

#[test]
fn instructions_patched_at_load_may_move_and_be_copied_but_not_change() {
    let object = everything();
    let mut program = object.program().clone();
    let fields = function(&mut program, "fields");
    let at = fields.nodes.iter().position(|n| n.patch.is_some()).unwrap();
    let slots: usize = fields.nodes[..at].iter().map(|n| n.insn.slots()).sum();
    let nop = new(fields, Insn::Mov { width: Width::W64, dst: Reg::R1, src: Operand::Reg(Reg::R1) });
    fields.nodes.insert(0, nop);
    let (again, bytes) = rewritten(&object, &program);
    assert_eq!(records(&bytes, &again, Table::Relocations, "fields")[0], slots as u64 + 1);

    let mut altered = object.program().clone();
    let fields = function(&mut altered, "fields");
    fields.nodes[at].insn = Insn::Mov { width: Width::W64, dst: Reg::R1, src: Operand::Imm(0) };
    assert!(matches!(object.rewrite(&altered), Err(ElfError::Unwritable(_))));

    let mut copied = object.program().clone();
    let fields = function(&mut copied, "fields");
    let copy = Node { id: fields.fresh_id(), ..fields.nodes[at].clone() };
    fields.nodes.insert(at, copy);
    let (again, bytes) = rewritten(&object, &copied);
    assert_eq!(records(&bytes, &again, Table::Relocations, "fields")[..2], [slots as u64, slots as u64 + 1]);
}

#[test]
fn what_is_patched_may_be_added_where_it_was_moved() {
    let object = Object::parse(support::compile("core.c", &["-g", "-mcpu=v3"])).expect("an object");
    let mut program = object.program().clone();
    let node = program.functions.iter_mut().flat_map(|f| &mut f.nodes).find(|n| n.patched_constant().is_some());
    let node = node.expect("a constant that is patched");
    let (_, constant) = node.patched_constant().unwrap();
    let src = Operand::Imm(constant);
    node.insn = Insn::Alu { width: Width::W64, op: AluOp::Add, dst: Reg::R1, src };
    rewritten(&object, &program);
    let mut shifting = program.clone();
    let node = shifting.functions.iter_mut().flat_map(|f| &mut f.nodes).find(|n| n.patched_constant().is_some());
    node.unwrap().insn = Insn::Alu { width: Width::W64, op: AluOp::Lsh, dst: Reg::R1, src };
    assert!(matches!(object.rewrite(&shifting), Err(ElfError::Unwritable(_))), "not every constant can be shifted by");
}

#[test]
fn programs_of_other_objects_are_refused() {
    let object = everything();
    let mut program = object.program().clone();
    program.functions.pop();
    assert!(matches!(object.rewrite(&program), Err(ElfError::Unwritable(_))));
    let mut program = object.program().clone();
    program.functions[0].nodes[0].insn = Insn::Jump { target: InsnId(100_000), long: false };
    let error = object.rewrite(&program).unwrap_err().to_string();
    assert!(error.ends_with("jump to nowhere"), "{error}");
}

/// llvm-objdump must understand what is written.
#[test]
fn llvm_reads_what_is_written() {
    let tool = std::env::var("LLVM_OBJDUMP").unwrap_or_else(|_| "llvm-objdump-19".into());
    for (name, bytes) in support::own_objects() {
        let object = Object::parse(bytes).unwrap();
        let mut program = object.program().clone();
        for function in &mut program.functions {
            let nop = Insn::Mov { width: Width::W64, dst: Reg::R0, src: Operand::Reg(Reg::R0) };
            let node = new(function, nop);
            function.nodes.insert(function.nodes.len() / 2, node);
        }
        let bytes = object.rewrite(&program).unwrap();
        let mut child = Command::new(&tool)
            .args(["-d", "-r", "-t", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{tool} is needed for this test (set LLVM_OBJDUMP to use another one): {e}"));
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(!text.contains("<unknown>"), "{name}");
        let slots: usize = text.lines().filter(|l| l.contains("r0 = r0")).count();
        assert!(slots >= program.functions.len(), "{name}: {slots} of the new instructions are seen");
    }
}
