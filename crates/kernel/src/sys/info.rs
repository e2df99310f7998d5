//! What the kernel says of its objects.

use super::{Result, address_mut, attr, object_info};
use std::os::fd::BorrowedFd;

/// `struct bpf_map_info`, the part that is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapInfo {
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// Number of the map in this kernel.
    pub id: u32,
    /// Key size in bytes.
    pub key_size: u32,
    /// Value size in bytes, of one CPU.
    pub value_size: u32,
    /// Most elements.
    pub max_entries: u32,
    /// Flags of creation.
    pub flags: u32,
}

/// `BPF_OBJ_GET_INFO_BY_FD` of a map.
pub fn map_info(map: BorrowedFd) -> Result<MapInfo> {
    let mut info = attr::MapInfo::default();
    // SAFETY: `MapInfo` holds no pointers.
    unsafe { object_info(map, &mut info) }?;
    Ok(MapInfo {
        map_type: info.map_type,
        id: info.id,
        key_size: info.key_size,
        value_size: info.value_size,
        max_entries: info.max_entries,
        flags: info.map_flags,
    })
}

/// `struct bpf_prog_info`, the part that is used. Lengths in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgInfo {
    /// `enum bpf_prog_type`.
    pub prog_type: u32,
    /// Number of the program in this kernel.
    pub id: u32,
    /// Digest the kernel made of the instructions.
    pub tag: [u8; 8],
    /// Instructions after the kernel's own rewriting.
    pub xlated_len: u32,
    /// Machine code; 0 when the program is interpreted.
    pub jited_len: u32,
    /// Instructions the verifier processed; 0 on kernels before 5.16, which do not say.
    pub verified_insns: u32,
    /// Machine code of all functions one after the other. Empty when not asked for, not compiled or
    /// not permitted (`kernel.kptr_restrict`, CAP_BPF).
    pub jited: Vec<u8>,
    /// Length of the machine code of each function.
    pub function_lengths: Vec<u32>,
    /// Kernel address of each function; zeros when they are hidden.
    pub function_addresses: Vec<u64>,
    /// Instructions after the kernel's own rewriting; empty when not asked for or not permitted.
    pub xlated: Vec<u8>,
    /// Run time and runs counted while `kernel.bpf_stats_enabled` was on, in nanoseconds.
    pub run_time_ns: u64,
    /// Runs counted.
    pub run_count: u64,
}

/// `BPF_OBJ_GET_INFO_BY_FD` of a program; `with_code` also copies machine code and instructions.
pub fn prog_info(program: BorrowedFd, with_code: bool) -> Result<ProgInfo> {
    let mut info = attr::ProgInfo::default();
    // SAFETY: all pointers are null and all counts 0.
    unsafe { object_info(program, &mut info) }?;
    let mut out = ProgInfo {
        prog_type: info.prog_type,
        id: info.id,
        tag: info.tag,
        xlated_len: info.xlated_prog_len,
        jited_len: info.jited_prog_len,
        verified_insns: info.verified_insns,
        run_time_ns: info.run_time_ns,
        run_count: info.run_cnt,
        ..Default::default()
    };
    if with_code {
        prog_code(program, &info, &mut out)?;
    }
    Ok(out)
}

fn prog_code(program: BorrowedFd, sizes: &attr::ProgInfo, out: &mut ProgInfo) -> Result<()> {
    out.jited = vec![0; sizes.jited_prog_len as usize];
    out.xlated = vec![0; sizes.xlated_prog_len as usize];
    out.function_lengths = vec![0; sizes.nr_jited_func_lens as usize];
    out.function_addresses = vec![0; sizes.nr_jited_ksyms as usize];
    let mut info = attr::ProgInfo {
        jited_prog_len: sizes.jited_prog_len,
        jited_prog_insns: address_mut(&mut out.jited),
        xlated_prog_len: sizes.xlated_prog_len,
        xlated_prog_insns: address_mut(&mut out.xlated),
        nr_jited_func_lens: sizes.nr_jited_func_lens,
        jited_func_lens: out.function_lengths.as_mut_ptr() as u64,
        nr_jited_ksyms: sizes.nr_jited_ksyms,
        jited_ksyms: out.function_addresses.as_mut_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: the four buffers were made above with exactly the counts given (bytes, bytes, u32s,
    // u64s), and a loaded program does not change, so the kernel writes no more than that.
    unsafe { object_info(program, &mut info) }?;
    // The kernel nulls the pointer instead of copying when it withholds the code.
    if info.jited_prog_insns == 0 {
        out.jited.clear();
    }
    if info.xlated_prog_insns == 0 {
        out.xlated.clear();
    }
    Ok(())
}
