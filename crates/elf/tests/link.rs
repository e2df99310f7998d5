//! Load images: CO-RE answers for a made-up kernel, extern symbols, records, maps.

mod support;

use karakoram_bpf::encode::{self, Slot};
use karakoram_bpf::insn::{Callee, Imm64, Insn, MapRef, Operand, RawInsn, Reg};
use karakoram_elf::btf::{Btf, Kind};
use karakoram_elf::link::{self, LinkError, LoadImage, Target};
use karakoram_elf::{Object, container::Container};
use std::collections::BTreeMap;

fn kernel() -> Btf {
    let object = support::compile("kernel_types.c", &["-mcpu=v3", "-g"]);
    Object::parse(object).unwrap().btf().unwrap().clone()
}

fn object(name: &str) -> Object {
    Object::parse(support::compile(name, &["-mcpu=v3", "-g"])).unwrap()
}

fn config(name: &str) -> Option<String> {
    (name == "CONFIG_HZ").then(|| "250".to_string())
}

fn target(kernel: &Btf) -> Target<'_> {
    Target { btf: Some(kernel), kernel_version: 0x06_01_02, config: Some(&config), ..Target::default() }
}

fn decode(slots: &[Slot]) -> Vec<(usize, RawInsn)> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < slots.len() {
        let insn = encode::decode(slots, at).unwrap();
        out.push((at, insn));
        at += insn.slots();
    }
    out
}

/// What `core.c` stores in each of its answers: a constant, or size and offset of a load.
fn answers(image: &LoadImage) -> BTreeMap<i16, String> {
    let mut known: BTreeMap<Reg, String> = BTreeMap::new();
    let mut stored = BTreeMap::new();
    for (_, insn) in decode(&image.slots) {
        match insn {
            Insn::Mov { dst, src: Operand::Imm(imm), .. } => drop(known.insert(dst, format!("{imm}"))),
            Insn::LoadImm { dst, value: Imm64::Value(v) } => drop(known.insert(dst, format!("{v:#x}"))),
            Insn::Load { size, dst, off, .. } => drop(known.insert(dst, format!("u{} at {off}", size.bits()))),
            Insn::Store { off, src: Operand::Reg(src), .. } => drop(stored.insert(off / 8, known[&src].clone())),
            _ => {}
        }
    }
    stored
}

#[test]
fn core_relocations_find_the_kernels_layout() {
    let kernel = kernel();
    let image = link::link(&object("core.c"), "ask", &target(&kernel)).unwrap();
    let wanted = [
        (0, "8", "member of an anonymous structure"),
        (1, "2", "size of a narrower field"),
        (2, "0", "a field that is gone"),
        (3, "56", "array element"),
        (4, "80", "member of a nested array element"),
        (5, "56", "left shift of a bit field"),
        (6, "59", "right shift of a bit field"),
        (7, "4", "size of an array element"),
        (8, "1", "a field of another flavour"),
        (9, "96", "offset of a field of another flavour"),
        (10, "0", "a field of another kind is another field"),
        (11, "1", "a type that exists"),
        (12, "0", "a type that does not"),
        (13, "4", "size behind a typedef"),
        (14, "8", "size of a union"),
        (15, "1", "a type with more members matches"),
        (16, "1", "an equal type matches"),
        (17, "0x7", "value of an enumeration"),
        (18, "0x11223344", "larger value of an enumeration"),
        (19, "0x0", "a value that does not exist"),
        (20, "0x123456789abc", "64-bit value of an enumeration"),
        (21, "u16 at 16", "a load of a field that is narrower"),
        (22, "u64 at 24", "a load of a field that is wider"),
        (23, "u64 at 88", "a load of a pointer"),
        (24, "107", "flexible array"),
        (25, "32", "offset of a bit field"),
        (26, "0", "an unsigned field"),
        (27, "1", "a signed field"),
    ];
    let found = answers(&image);
    for (n, value, what) in wanted {
        assert_eq!(found.get(&n).map(String::as_str), Some(value), "{what}");
    }
}

#[test]
fn what_the_kernel_lacks_becomes_a_call_that_must_not_run() {
    let kernel = kernel();
    let image = link::link(&object("core.c"), "lost", &target(&kernel)).unwrap();
    let poisoned = image.slots.iter().filter(|s| s.code == 0x85 && s.imm == 0x0bad_2310).count();
    // One load, and both slots of one constant.
    assert_eq!(poisoned, 3);
    let error = link::link(&object("core.c"), "ask", &Target::default()).unwrap_err();
    assert_eq!(error.to_string(), "the kernel has no BTF, which the program needs (CO-RE)");
}

#[test]
fn images_have_what_programs_need_and_no_more() {
    let kernel = kernel();
    let object = object("everything.c");
    let image = link::link(&object, "count", &target(&kernel)).unwrap();
    let names: Vec<&str> = image.maps.iter().map(|m| m.def.name.as_str()).collect();
    assert_eq!(names, ["table", ".rodata", ".data", ".bss", ".kconfig"]);
    let config = &image.maps[4].def;
    // Widest alignment first: the version, then the missing option.
    assert_eq!(config.initial.as_deref(), Some(&[2, 1, 6, 0, 0][..]));
    assert!(config.frozen);
    let functions: Vec<&str> =
        image.functions.iter().map(|(id, _)| object.program().function(*id).name.as_str()).collect();
    assert_eq!(functions, ["count", "scale", "shift", "offset", "step"]);
    assert_eq!((image.program_type.name(), image.expected_attach_type, image.attach_btf_id), ("xdp", 37, 0));
    assert_eq!(image.license, "GPL");
    assert_eq!(image.origins.len(), image.slots.len());
    let map_numbers = decode(&image.slots).into_iter().filter_map(|(_, insn)| match insn {
        Insn::LoadImm { value: Imm64::Map(MapRef::Index(n)) | Imm64::MapValue(MapRef::Index(n), _), .. } => Some(n),
        _ => None,
    });
    assert_eq!(map_numbers.max(), Some(4));
}

#[test]
fn records_are_in_slots_of_the_flat_program() {
    let kernel = kernel();
    let image = link::link(&object("everything.c"), "count", &target(&kernel)).unwrap();
    let words = |bytes: &[u8], size: u32| -> Vec<u32> {
        bytes.chunks_exact(size as usize).map(|c| u32::from_le_bytes(c[..4].try_into().unwrap())).collect()
    };
    let functions = words(&image.func_info, image.func_info_record_bytes);
    let starts: Vec<u32> = image.functions.iter().map(|(_, at)| *at as u32).collect();
    assert_eq!(functions, starts);
    let lines = words(&image.line_info, image.line_info_record_bytes);
    assert!(lines.is_sorted_by(|a, b| a < b), "{lines:?}");
    assert!(starts.iter().all(|s| lines.contains(s)), "every function begins with a line");
    let line = image.line(image.functions[1].1).unwrap();
    assert_eq!(line.text, "static noinline u32 scale(u32 x) { return x * hidden_limit + zeroed; }");
    assert!(line.file.ends_with("everything.c") && line.line > 10, "{line:?}");
}

#[test]
fn kernel_symbols_become_type_numbers() {
    let kernel = kernel();
    let object = object("everything.c");
    let image = link::link(&object, "fields", &target(&kernel)).unwrap();
    let lock = kernel.find("bpf_rcu_read_lock", Kind::Function).unwrap().id as i32;
    let calls = decode(&image.slots);
    assert!(calls.iter().any(|(_, i)| *i == Insn::Call(Callee::Kfunc { id: lock, off: 0 })));
    let typedef = kernel.find("btf_trace_task_newtask", Kind::Typedef).unwrap().id;
    assert_eq!((image.expected_attach_type, image.attach_btf_id), (23, typedef));

    let image = link::link(&object, "nested", &target(&kernel)).unwrap();
    let variable = kernel.find("bpf_prog_active", Kind::Variable).unwrap().id as i32;
    let loads = decode(&image.slots);
    assert!(
        loads
            .iter()
            .any(|(_, i)| matches!(i, Insn::LoadImm { value: Imm64::Btf { id, fd: 0 }, .. } if *id == variable))
    );

    // A weak symbol that is not there has the address 0; one that is, its own.
    let address = |image: &LoadImage| {
        decode(&image.slots).iter().find_map(|(_, i)| match i {
            Insn::LoadImm { value: Imm64::Value(v), .. } => Some(*v),
            _ => None,
        })
    };
    let image = link::link(&object, "second", &target(&kernel)).unwrap();
    assert_eq!(address(&image), Some(0));
    let symbols = |name: &str| (name == "__init_begin").then_some(0xffff_ffff_8100_0000);
    let target = Target { kernel_symbols: Some(&symbols), ..target(&kernel) };
    let image = link::link(&object, "second", &target).unwrap();
    assert_eq!(address(&image), Some(0xffff_ffff_8100_0000));
}

#[test]
fn types_are_made_fit_for_the_kernel() {
    let kernel = kernel();
    let bytes = support::compile("everything.c", &["-mcpu=v3", "-g"]);
    let container = Container::parse(&bytes).unwrap();
    let object = Object::parse(bytes).unwrap();
    let image = link::link(&object, "count", &target(&kernel)).unwrap();
    let btf = Btf::parse(image.btf.as_ref().unwrap()).unwrap();
    for section in btf.types().filter(|t| t.kind == Kind::DataSection) {
        let size = section.size().unwrap();
        if let Some(n) = container.find(section.name) {
            assert_eq!(size as u64, container.sections[n].size, "{}", section.name);
        }
        let mut end = 0;
        for variable in section.variables() {
            assert!(variable.offset >= end, "{} is out of order", section.name);
            end = variable.offset + variable.size;
            let linkage = btf.get(variable.ty).unwrap().linkage();
            assert!(matches!(linkage, Some(karakoram_elf::btf::Linkage::Static | karakoram_elf::btf::Linkage::Global)));
        }
        assert!(end <= size, "{}", section.name);
    }
    let offset = btf.find("offset", Kind::Function).unwrap();
    assert_eq!(offset.linkage(), Some(karakoram_elf::btf::Linkage::Static), "hidden functions are static");
}

/// BTF without types.
fn empty_types() -> Vec<u8> {
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    for word in [24u32, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn errors_name_what_is_missing() {
    let kernel = kernel();
    let object = object("everything.c");
    let none = link::link(&object, "nothing", &target(&kernel)).unwrap_err();
    assert_eq!(none, LinkError::NoProgram("nothing".into()));
    let symbols = |_: &str| Some(0x1000);
    let error = link::link(&object, "count", &Target { config: None, ..target(&kernel) });
    assert!(error.is_ok(), "a missing weak option is 0");
    let other = Btf::parse(&empty_types()).unwrap();
    let bare = Target { btf: Some(&other), kernel_symbols: Some(&symbols), ..Target::default() };
    let error = link::link(&object, "nested", &bare).unwrap_err();
    assert_eq!(error, LinkError::Missing("variable bpf_prog_active".into()));
    let error = link::link(&object, "fields", &bare).unwrap_err();
    assert_eq!(error, LinkError::Missing("function bpf_rcu_read_lock".into()));
    let no_types = Target { kernel_version: 1, ..Target::default() };
    let error = link::link(&object, "nested", &no_types).unwrap_err();
    assert_eq!(error.to_string(), "the kernel has no BTF, which is needed to find bpf_prog_active");
}
