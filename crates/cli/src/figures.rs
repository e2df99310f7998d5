//! The numbers that say how large a program is and what it costs to load.

use crate::input::reachable;
use crate::judge::Loaded;
use karakoram_bpf::effects;
use karakoram_bpf::insn::{AluOp, Callee, FuncId, Imm64, Insn, Operand, Reg, Width};
use karakoram_bpf::program::{Entry, Function, Program};
use serde::Serialize;

/// Figures of one program with all functions that it needs; `None` where not known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Slots of eight bytes.
    pub slots: usize,
    /// Instructions: a 64-bit constant is one.
    pub insns: usize,
    /// Bytes of stack on the deepest chain of calls.
    pub stack_bytes: Option<u32>,
    /// Bytes of machine code.
    pub jited_bytes: Option<u32>,
    /// Instructions that the verifier processed.
    pub verified_insns: Option<u64>,
}

impl Figures {
    /// What the code itself says.
    pub fn of(program: &Program, entry: FuncId) -> Figures {
        let functions = reachable(program, entry);
        let depth = |f: FuncId| stack_of(program.function(f));
        Figures {
            slots: functions.iter().map(|f| program.function(*f).slots()).sum(),
            insns: functions.iter().map(|f| program.function(*f).nodes.len()).sum(),
            stack_bytes: Some(deepest(program, entry, &depth, &mut Vec::new())),
            jited_bytes: None,
            verified_insns: None,
        }
    }

    /// The same with what the kernel says.
    pub fn with_kernel(mut self, program: &Program, entry: FuncId, loaded: &Loaded) -> Figures {
        self.verified_insns = loaded.program.statistics.processed_insns;
        // 0 says that the kernel interprets it.
        self.jited_bytes = loaded.program.jited_len().ok().filter(|n| *n > 0);
        let depths = &loaded.program.statistics.stack_depth;
        if depths.len() == loaded.functions.len() {
            let depth = |f: FuncId| {
                let place = loaded.functions.iter().position(|g| *g == f);
                place.map_or_else(|| stack_of(program.function(f)), |p| depths[p])
            };
            self.stack_bytes = Some(deepest(program, entry, &depth, &mut Vec::new()));
        }
        self
    }
}

/// Bytes of stack on the deepest chain of calls from `entry`.
fn deepest(program: &Program, entry: FuncId, depth: &dyn Fn(FuncId) -> u32, chain: &mut Vec<FuncId>) -> u32 {
    // The kernel refuses recursion; whoever writes it shall not make us recurse.
    if chain.contains(&entry) || chain.len() >= 16 {
        return 0;
    }
    chain.push(entry);
    let mut callees: Vec<FuncId> = Vec::new();
    for node in &program.function(entry).nodes {
        if let Insn::Call(Callee::Local(f)) | Insn::LoadImm { value: Imm64::Function(f), .. } = node.insn
            && !callees.contains(&f)
        {
            callees.push(f);
        }
    }
    let below = callees.into_iter().map(|f| deepest(program, f, depth, chain)).max().unwrap_or(0);
    chain.pop();
    depth(entry) + below
}

/// Bytes of a function's frame, as far as its code says: the lowest address below the frame pointer
/// that it forms in straight lines.
fn stack_of(function: &Function) -> u32 {
    let mut lowest = 0i64;
    let mut offsets: [Option<i64>; Reg::COUNT] = [None; Reg::COUNT];
    offsets[Reg::FP.index()] = Some(0);
    for node in &function.nodes {
        let insn = &node.insn;
        if let Insn::Load { base, off, .. }
        | Insn::Store { base, off, .. }
        | Insn::Atomic { base, off, .. }
        | Insn::LoadAcquire { base, off, .. }
        | Insn::StoreRelease { base, off, .. } = insn
            && let Some(at) = offsets[base.index()]
        {
            lowest = lowest.min(at + *off as i64);
        }
        let moved = match insn {
            Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } => Some((*dst, offsets[src.index()])),
            Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Imm(by) } => {
                Some((*dst, offsets[dst.index()].map(|o| o + *by as i64)))
            }
            _ => None,
        };
        effects::of(insn).writes.iter().for_each(|r| offsets[r.index()] = None);
        if let Some((dst, offset)) = moved {
            offsets[dst.index()] = offset;
            lowest = lowest.min(offset.unwrap_or(0));
        }
    }
    lowest.unsigned_abs().min(512) as u32
}

/// What a function is, for reports: its hook, or `subprogram`.
pub fn kind(function: &Function) -> String {
    match function.entry {
        Entry::Hook(hook) => hook.name(),
        Entry::Subprogram { .. } => "subprogram".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_chain_counts() {
        let program = karakoram_bpf::text::asm::parse(
            ".func main\n.hook xdp\n*(u64 *)(r10 - 8) = 1\ncall a\ncall b\nr0 = 0\nexit\n\
             .func a\n.local\nr1 = r10\nr1 += -32\ncall b\nexit\n\
             .func b\n.local\n*(u8 *)(r10 - 1) = 1\nr0 = 1 ll\nexit\n",
        )
        .unwrap();
        let figures = Figures::of(&program, FuncId(0));
        assert_eq!(figures.stack_bytes, Some(8 + 32 + 1));
        assert_eq!((figures.slots, figures.insns), (5 + 4 + 4, 5 + 4 + 3));
    }
}
