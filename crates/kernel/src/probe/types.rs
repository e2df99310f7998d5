//! Which program and map types this kernel takes from this process.

use super::{SHORTEST, Status};
use crate::errno::Errno;
use crate::error::KernelError;
use crate::load::bytes_of;
use crate::map::{Map, MapOptions};
use crate::sys;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::{MapDef, MapType};

/// Loads the shortest program of each type.
pub(super) fn program_types() -> Vec<(ProgramType, Status)> {
    (1..=32).map(ProgramType).map(|kind| (kind, program_type(kind))).collect()
}

/// `BPF_TRACE_FENTRY`.
const FENTRY: u32 = 24;

/// Tracing programs at the entry of kernel functions, which may be forbidden where others are not.
pub(super) fn fentry() -> Status {
    load_shortest(ProgramType::TRACING, FENTRY)
}

fn program_type(kind: ProgramType) -> Status {
    use ProgramType as T;
    // `enum bpf_attach_type` where the type alone is not enough.
    let expected_attach_type = match kind {
        T::CGROUP_SOCK_ADDR => 8,
        T::CGROUP_SOCKOPT => 21,
        T::TRACING => 23,
        T::LSM => 27,
        T::SK_LOOKUP => 36,
        T::NETFILTER => 45,
        _ => 0,
    };
    load_shortest(kind, expected_attach_type)
}

fn load_shortest(kind: ProgramType, expected_attach_type: u32) -> Status {
    use ProgramType as T;
    const SLEEPABLE: u32 = 1 << 4;
    let insns = bytes_of(&SHORTEST);
    // These want a target in the kernel. Type 1 is none, which a kernel that knows them says.
    let wants_target = [T::TRACING, T::LSM, T::EXT, T::STRUCT_OPS].contains(&kind);
    let load = sys::ProgLoad {
        prog_type: kind.0,
        expected_attach_type,
        insns: &insns,
        license: c"GPL",
        name: "kara_probe",
        flags: if kind == T::SYSCALL { SLEEPABLE } else { 0 },
        kern_version: crate::running::version_code(),
        btf: None,
        func_info: &[],
        func_info_rec_size: 0,
        line_info: &[],
        line_info_rec_size: 0,
        attach_btf_id: wants_target as u32,
        attach_fd: None,
        fd_array: &[],
        log_level: wants_target as u32,
    };
    let mut log = vec![0; 4096];
    match sys::prog_load(&load, &mut log).0 {
        Err(Errno::EINVAL | Errno::ENOTSUPP) if wants_target && log[0] != 0 => Status::Yes,
        result => Status::of_result(result),
    }
}

/// Creates the smallest map of each type.
pub(super) fn map_types() -> Vec<(MapType, Status)> {
    (1..=33).filter(|n| *n != STRUCT_OPS.0).map(MapType).map(|kind| (kind, map_type(kind))).collect()
}

/// Wants a structure of the kernel.
const STRUCT_OPS: MapType = MapType(26);

fn map_type(kind: MapType) -> Status {
    match Map::create(&smallest(kind), MapOptions::default()) {
        Ok(_) => Status::Yes,
        Err(KernelError::NotPermitted { .. }) => Status::NotPermitted,
        Err(_) => Status::No,
    }
}

fn smallest(kind: MapType) -> MapDef {
    const CGROUP_STORAGE: MapType = MapType(19);
    const PER_CPU_CGROUP_STORAGE: MapType = MapType(21);
    const BLOOM_FILTER: MapType = MapType(30);
    const USER_RINGBUF: MapType = MapType(31);
    const ARENA: MapType = MapType(33);
    const MAPPABLE: u32 = crate::map::MAPPABLE;
    let (key_size, value_size, max_entries, flags) = match kind {
        MapType::RINGBUF | USER_RINGBUF => (0, 0, 4096, 0),
        MapType::QUEUE | MapType::STACK | BLOOM_FILTER => (0, 4, 1, 0),
        MapType::STACK_TRACE => (4, 8, 1, 0),
        MapType::LPM_TRIE => (8, 4, 1, 0),
        // `struct bpf_cgroup_storage_key`.
        CGROUP_STORAGE | PER_CPU_CGROUP_STORAGE => (16, 4, 0, 0),
        ARENA => (0, 0, 1, MAPPABLE),
        MapType::SK_STORAGE | MapType(28) | MapType(29) | MapType(32) => (4, 4, 0, 0),
        _ => (4, 4, 1, 0),
    };
    let plain = |kind, key_size, value_size, max_entries, flags, inner| MapDef {
        name: "kara_probe".into(),
        kind,
        key_size,
        value_size,
        max_entries,
        flags,
        fd: None,
        initial: None,
        frozen: false,
        inner,
    };
    let of_maps = [MapType::ARRAY_OF_MAPS, MapType::HASH_OF_MAPS].contains(&kind);
    let inner = of_maps.then(|| Box::new(plain(MapType::ARRAY, 4, 4, 1, 0, None)));
    plain(kind, key_size, value_size, max_entries, flags, inner)
}
