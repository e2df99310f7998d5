//! Contracts of kernel helpers: which arguments they take, what memory they read and write.
//!
//! The table is in `helper/table.rs`. A helper that has no contract is a barrier: it is taken to
//! read and write everything a program can reach.

use crate::insn::Callee;

/// What a helper does with one argument register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// A number, or a pointer that is only compared or handed on, never followed into memory that
    /// the program can reach.
    Plain,
    /// A number of which the kernel's function takes the low half: it declares `u32`, `int` or less.
    Word,
    /// The context.
    Context,
    /// A map.
    Map,
    /// Reads the key size of the map in the first [`Arg::Map`] argument.
    Key,
    /// Reads the value size of that map.
    Value,
    /// Reads that many bytes.
    Read(Length),
    /// Writes that many bytes, none of them read before.
    Write(Length),
    /// Reads and writes that many bytes.
    ReadWrite(Length),
    /// Reads that many bytes, and whatever memory the addresses among them lead to: the arguments of a
    /// format string.
    Gather(Length),
    /// Need not be there: whether it is, something else says, and then it is a number or the address of
    /// something that is read.
    Optional,
    /// Follows the pointer in a way that is not described: everything reachable through it is read
    /// and written.
    Opaque,
}

/// How many bytes behind a pointer argument a helper touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// As many as the value of argument register `r1` + n says (`0` is `r1`).
    Arg(u8),
    /// That many.
    Bytes(u32),
}

/// How a helper treats a class of memory apart from what its arguments point to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Touch {
    /// Not at all.
    None,
    /// Its result or its effect depends on it.
    Reads,
    /// It may change it.
    Writes,
    /// Packet only: the packet may move, all packet pointers become invalid.
    Moves,
}

/// What a helper returns in `r0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// A number.
    Scalar,
    /// A number from 0 to that, inclusive.
    AtMost(u64),
    /// A pointer to a value of the map argument, or null.
    MapValueOrNull,
    /// A pointer to memory of the length given by argument register n (`0` is `r1`), or null.
    MemoryOrNull(u8),
    /// Some kernel pointer, or null.
    PointerOrNull,
    /// Some kernel pointer, never null.
    Pointer,
    /// Does not return (`bpf_tail_call` on success; on failure it falls through).
    Tail,
}

/// The contract of one helper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// Number in `enum bpf_func_id`.
    pub id: i32,
    /// Name without `bpf_`.
    pub name: &'static str,
    /// Arguments, `r1` first; registers beyond them are not read.
    pub args: &'static [Arg],
    /// What `r0` is afterwards.
    pub returns: Returns,
    /// Packet bytes.
    pub packet: Touch,
    /// Map values and other shared memory.
    pub shared: Touch,
    /// Context fields.
    pub context: Touch,
    /// Whether a call whose result is not used may be dropped.
    pub droppable: bool,
}

mod table;

/// The contract of a helper, when it has one.
pub fn contract(id: i32) -> Option<&'static Contract> {
    table::CONTRACTS.binary_search_by_key(&id, |c| c.id).ok().map(|i| &table::CONTRACTS[i])
}

/// The contract of whatever is called: only helpers have one.
pub fn contract_of<F>(callee: &Callee<F>) -> Option<&'static Contract> {
    match callee {
        Callee::Helper(id) => contract(*id),
        Callee::Local(_) | Callee::Kfunc { .. } | Callee::Extern(_) | Callee::Register(_) => None,
    }
}

/// Name without `bpf_`, of every helper the kernel has, with or without contract.
pub fn name(id: i32) -> Option<&'static str> {
    table::NAMES.get(usize::try_from(id).ok()?).copied()
}

/// Number of a helper by its name without `bpf_`.
pub fn id(name: &str) -> Option<i32> {
    table::NAMES.iter().position(|n| *n == name).map(|i| i as i32)
}
