//! A CO-RE answer into its instruction.

use super::{Answer, Resize};
use crate::code::opcode;
use crate::link::error::{LinkError, invalid};
use karakoram_bpf::encode::Slot;
use karakoram_bpf::insn::Size;

/// A helper that does not exist: the verifier refuses the program if the instruction can be reached,
/// and names this number, which tools know.
const POISON_HELPER: i32 = 0x0bad_2310;

/// Instruction classes.
mod class {
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const ALU64: u8 = 7;
}

/// Bit that says that the operand is a register.
const SOURCE_REGISTER: u8 = 8;
const SIZE_BITS: u8 = 0x18;

pub(super) fn apply(answer: &Answer, slots: &mut [Slot]) -> Result<(), LinkError> {
    let Some(value) = answer.value else {
        poison(slots);
        return Ok(());
    };
    // Fields of instructions are narrower than the answers, which are sign-extended.
    let expected = |found: u64, mask: u64| match answer.expected {
        Some(expected) if expected & mask != found & mask => {
            invalid(format!("the instruction has {found:#x} where the relocation expects {expected:#x}"))
        }
        _ => Ok(()),
    };
    let [first, rest @ ..] = slots else {
        return invalid("there is no instruction");
    };
    match first.code & 7 {
        class::ALU | class::ALU64 if first.code & SOURCE_REGISTER == 0 => {
            expected(first.imm as u64, u32::MAX as u64)?;
            // Constants are 32 bits wide; offsets and sizes always fit, values need a wide load.
            first.imm = value as i32;
        }
        class::LDX | class::ST | class::STX => {
            expected(first.off as u64, u16::MAX as u64)?;
            let Ok(off) = i16::try_from(value) else {
                return invalid(format!("offset {value} does not fit the instruction"));
            };
            first.off = off;
            match answer.resize {
                Some(resize) if resize.is_sound => resize_access(first, resize)?,
                Some(_) => poison(slots),
                None => {}
            }
        }
        class::LD if first.code == opcode::LOAD_IMM64 && rest.len() == 1 => {
            expected(first.imm as u32 as u64 | (rest[0].imm as u32 as u64) << 32, u64::MAX)?;
            first.imm = value as i32;
            rest[0].imm = (value >> 32) as i32;
        }
        _ => return invalid("the instruction has no constant to patch"),
    }
    Ok(())
}

fn poison(slots: &mut [Slot]) {
    for slot in slots {
        *slot = Slot { code: opcode::CALL, imm: POISON_HELPER, ..Slot::default() };
    }
}

/// Makes a load or store as wide as the field is in the kernel.
fn resize_access(slot: &mut Slot, resize: Resize) -> Result<(), LinkError> {
    let code = |bytes| {
        Size::from_bytes(bytes).map(|size| match size {
            Size::W => 0x00,
            Size::H => 0x08,
            Size::B => 0x10,
            Size::D => 0x18,
        })
    };
    match (code(resize.from), code(resize.to)) {
        (Some(from), Some(to)) if slot.code & SIZE_BITS == from => {
            slot.code = slot.code & !SIZE_BITS | to;
            Ok(())
        }
        _ => invalid(format!("an access of a field of {} bytes cannot be made one of {}", resize.from, resize.to)),
    }
}
