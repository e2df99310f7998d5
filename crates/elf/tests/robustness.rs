//! Damaged objects: an error or a sound reading, never a panic.

mod support;

use karakoram_bpf::insn::{Insn, InsnId, Operand, Reg, Width};
use karakoram_bpf::program::Node;
use karakoram_elf::btf::Btf;
use karakoram_elf::{Object, link};

/// Damaged versions of each object; `KARAKORAM_ROUNDS` asks for more.
fn rounds() -> usize {
    std::env::var("KARAKORAM_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

/// Numbers that look random and are the same every time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// A few bytes changed, to values that are extreme more often than not.
fn damage(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + numbers.next(6) {
        // Headers and tables are at the ends of the file, where damage does most.
        let at = match numbers.next(3) {
            0 => numbers.next(64),
            1 => bytes.len() - 1 - numbers.next(bytes.len().min(4096)),
            _ => numbers.next(bytes.len()),
        };
        bytes[at] = match numbers.next(5) {
            0 => 0,
            1 => 0xff,
            2 => 0x7f,
            3 => bytes[at].wrapping_add(1),
            _ => numbers.next(256) as u8,
        };
    }
    if numbers.next(20) == 0 {
        bytes.truncate(numbers.next(bytes.len()));
    }
    bytes
}

/// Reads an object and does with it all that there is; says whether it could be read.
fn use_it(bytes: Vec<u8>, kernel: &Btf) -> bool {
    let Ok(object) = Object::parse(bytes) else { return false };
    let mut program = object.program().clone();
    for function in &mut program.functions {
        let nop = Insn::Mov { width: Width::W64, dst: Reg::R0, src: Operand::Reg(Reg::R0) };
        function.nodes.insert(0, Node { id: function.fresh_id(), insn: nop, patch: None });
        let unused = function.nodes.iter().position(|n| function.nodes.iter().all(|m| m.insn.target() != Some(&n.id)));
        if let Some(at) = unused.filter(|_| function.nodes.len() > 2) {
            function.nodes.remove(at);
        }
        function.nodes.retain(|n| n.id != InsnId(3) || n.insn.target().is_some());
    }
    let _ = object.rewrite(&program).map(Object::parse);
    let names: Vec<String> = link::programs(&object).map(|(_, name)| name.to_string()).collect();
    for name in names {
        let target = link::Target { btf: Some(kernel), kernel_version: 0x06_01_00, ..Default::default() };
        let _ = link::link(&object, &name, &target).map(|image| image.line(1).cloned());
    }
    true
}

#[test]
fn damaged_objects_do_not_panic() {
    let kernel = support::compile("kernel_types.c", &["-mcpu=v3", "-g"]);
    let kernel = Object::parse(kernel).unwrap().btf().unwrap().clone();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut read, mut refused) = (0, 0);
    for (_, bytes) in support::own_objects() {
        assert!(use_it(bytes.clone(), &kernel));
        for _ in 0..rounds() {
            match use_it(damage(&bytes, &mut numbers), &kernel) {
                true => read += 1,
                false => refused += 1,
            }
        }
    }
    eprintln!("{read} damaged objects read, {refused} refused");
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused: the damage is too small or too large");
}

#[test]
fn damaged_types_do_not_panic() {
    let object = support::compile("everything.c", &["-mcpu=v3", "-g"]);
    let at = object.windows(4).position(|w| w == [0x9f, 0xeb, 1, 0]).expect("the object has BTF");
    let blob = &object[at..];
    // The first header ends where the strings end.
    let word = |n: usize| u32::from_le_bytes(blob[n..n + 4].try_into().unwrap()) as usize;
    let blob = &blob[..word(4) + word(16) + word(20)];
    let mut numbers = Numbers(42);
    for _ in 0..rounds() * 10 {
        let Ok(btf) = Btf::parse(&damage(blob, &mut numbers)) else { continue };
        for ty in btf.types() {
            let _ = (btf.size_of(ty.id), btf.align_of(ty.id), btf.resolve(ty.id).map(|t| t.name.len()));
            let _ = (ty.members().count(), ty.variants().count(), ty.parameters().count(), ty.variables().count());
        }
    }
}
