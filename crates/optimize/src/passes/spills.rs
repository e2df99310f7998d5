//! Context fields that wait on the stack: they are loaded again where they are needed.
//!
//! ```text
//! r7 = r1                          r7 = r1
//! r1 = *(u32 *)(r7 + 12)
//! *(u64 *)(r10 - 16) = r1
//! ..                               ..
//! r3 = *(u64 *)(r10 - 16)     =>   r3 = *(u32 *)(r7 + 12)
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::draft::Draft;
use crate::proposal::Proposal;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::{Fact, Root};

/// How much larger than usual windows may be: spilled fields are few, and wait long.
const PATIENCE: usize = 8;

/// A field: offset in the context, size.
type Field = (i64, Size);

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for p in block.range.clone().filter(|p| !context.is_patched(*p)) {
            let Insn::Store { src: Operand::Reg(src), .. } = *context.insn(p) else { continue };
            let load = block.writer(p, src).filter(|q| !context.is_patched(*q));
            if let Some((load, field)) = load.and_then(|q| Some((q, field(context, q)?))) {
                out.extend(loaded_again(context, load, p, field));
            }
        }
    }
}

/// The context field that an instruction loads.
fn field(context: &Context, p: usize) -> Option<Field> {
    match *context.insn(p) {
        Insn::Load { base, off, size, signed: false, .. } => {
            let fact = context.fact(p, base).filter(|f| f.root == Some(Root::Context))?;
            Some((fact.delta as i64 + off as i64, size))
        }
        _ => None,
    }
}

/// The stack bytes of an access.
fn slot(context: &Context, p: usize, base: Reg, off: i16, size: Size) -> Option<(i16, u8)> {
    let offset = context.fact(p, base)?.stack_offset()? + off as i64;
    Some((i16::try_from(offset).ok()?, size.bytes() as u8))
}

/// Every reload of what is spilled at `store` becomes a load of the field.
fn loaded_again(context: &Context, load: usize, store: usize, (offset, size): Field) -> Option<Proposal> {
    let Insn::Store { size: spilled, base, off, .. } = *context.insn(store) else { return None };
    let home = slot(context, store, base, off, spilled)?;
    let held = |p: usize| context.state(p).and_then(|s| s.stack.get(&home));
    let value: Fact = *held(store + 1).filter(|f| f.root.is_some())?;
    let mut draft = Draft::new(context);
    let mut reloads = 0;
    for q in (0..context.len()).filter(|q| context.facts.is_reachable(*q) && !context.is_patched(*q)) {
        let Insn::Load { dst, base, off, size: loaded, signed: false } = *context.insn(q) else { continue };
        if slot(context, q, base, off, loaded) != Some(home) || !held(q).is_some_and(|f| f.is_same(&value)) {
            continue;
        }
        let pointer = |r: &Reg| context.fact(q, *r).filter(|f| f.root == Some(Root::Context));
        let (base, fact) = Reg::all().find_map(|r| Some((r, pointer(&r)?)))?;
        let off = i16::try_from(offset.wrapping_sub(fact.delta as i64)).ok()?;
        draft.put(q, vec![context.instead(q, Insn::Load { size, signed: false, dst, base, off })]);
        reloads += 1;
    }
    if reloads == 0 {
        return None;
    }
    draft.put(store, Vec::new());
    draft.drop_needless();
    let mut proposal = Proposal::new("spills", draft.edits()).since(load);
    proposal.patience = PATIENCE;
    Some(proposal)
}
