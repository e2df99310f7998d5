//! Argument blocks of bpf(2), laid out by hand: one member each of kernel `union bpf_attr`, and the
//! info structures (`include/uapi/linux/bpf.h`, Linux 6.18).
//!
//! A kernel that knows a shorter block accepts ours as long as what it does not know is zero; one
//! that knows a longer block takes the rest as zero. Pointers are `u64` on every architecture.

/// `BPF_PROG_LOAD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ProgLoad {
    pub prog_type: u32,
    pub insn_cnt: u32,
    pub insns: u64,
    pub license: u64,
    pub log_level: u32,
    pub log_size: u32,
    pub log_buf: u64,
    pub kern_version: u32,
    pub prog_flags: u32,
    pub prog_name: [u8; 16],
    pub prog_ifindex: u32,
    pub expected_attach_type: u32,
    pub prog_btf_fd: u32,
    pub func_info_rec_size: u32,
    pub func_info: u64,
    pub func_info_cnt: u32,
    pub line_info_rec_size: u32,
    pub line_info: u64,
    pub line_info_cnt: u32,
    pub attach_btf_id: u32,
    pub attach_btf_obj_fd: u32,
    pub core_relo_cnt: u32,
    pub fd_array: u64,
    pub core_relos: u64,
    pub core_relo_rec_size: u32,
    /// Written by Linux 6.4 and later: bytes the log needed.
    pub log_true_size: u32,
}

/// `BPF_MAP_CREATE`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MapCreate {
    pub map_type: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub inner_map_fd: u32,
    pub numa_node: u32,
    pub map_name: [u8; 16],
    pub map_ifindex: u32,
    pub btf_fd: u32,
    pub btf_key_type_id: u32,
    pub btf_value_type_id: u32,
    pub btf_vmlinux_value_type_id: u32,
    pub map_extra: u64,
}

/// `BPF_MAP_*_ELEM`, `BPF_MAP_GET_NEXT_KEY` and `BPF_MAP_FREEZE`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MapElement {
    pub map_fd: u32,
    pub pad: u32,
    pub key: u64,
    /// Or the place for the next key.
    pub value: u64,
    pub flags: u64,
}

/// `BPF_MAP_*_BATCH`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MapBatch {
    pub in_batch: u64,
    pub out_batch: u64,
    pub keys: u64,
    pub values: u64,
    /// In: room for that many elements. Out: elements moved.
    pub count: u32,
    pub map_fd: u32,
    pub elem_flags: u64,
    pub flags: u64,
}

/// `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct TestRun {
    pub prog_fd: u32,
    pub retval: u32,
    pub data_size_in: u32,
    pub data_size_out: u32,
    pub data_in: u64,
    pub data_out: u64,
    pub repeat: u32,
    pub duration: u32,
    pub ctx_size_in: u32,
    pub ctx_size_out: u32,
    pub ctx_in: u64,
    pub ctx_out: u64,
    pub flags: u32,
    pub cpu: u32,
    pub batch_size: u32,
    pub pad: u32,
}

/// `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ObjectInfo {
    pub bpf_fd: u32,
    pub info_len: u32,
    pub info: u64,
}

/// `BPF_BTF_LOAD`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct BtfLoad {
    pub btf: u64,
    pub btf_log_buf: u64,
    pub btf_size: u32,
    pub btf_log_size: u32,
    pub btf_log_level: u32,
    pub btf_log_true_size: u32,
}

/// `BPF_LINK_CREATE` of network devices.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct LinkCreate {
    pub prog_fd: u32,
    pub target: u32,
    pub attach_type: u32,
    pub flags: u32,
    /// For tcx: the program to come before or after.
    pub relative_fd: u32,
    pub pad: u32,
    pub expected_revision: u64,
}

/// `BPF_PROG_ATTACH`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ProgAttach {
    pub target_fd: u32,
    pub attach_bpf_fd: u32,
    pub attach_type: u32,
    pub attach_flags: u32,
}

/// `struct perf_event_attr` as it was first, for samples of a processor's clock.
#[repr(C)]
pub(super) struct ClockEvent {
    kind: u32,
    size: u32,
    config: u64,
    sample_frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

impl ClockEvent {
    /// `PERF_FLAG_FD_CLOEXEC`.
    pub const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

    pub fn new(frequency_hz: u64) -> ClockEvent {
        const SOFTWARE: u32 = 1;
        const CPU_CLOCK: u64 = 0;
        /// The frequency is one, and no period.
        const IS_FREQUENCY: u64 = 1 << 10;
        ClockEvent {
            kind: SOFTWARE,
            size: size_of::<ClockEvent>() as u32,
            config: CPU_CLOCK,
            sample_frequency: frequency_hz,
            sample_type: 0,
            read_format: 0,
            flags: IS_FREQUENCY,
            wakeup: 0,
            breakpoint: 0,
            address: 0,
        }
    }
}

/// `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct RawTracepoint {
    pub name: u64,
    pub prog_fd: u32,
    pub pad: u32,
    pub cookie: u64,
}

/// `BPF_ENABLE_STATS`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct EnableStats {
    pub kind: u32,
}

/// `struct bpf_prog_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ProgInfo {
    pub prog_type: u32,
    pub id: u32,
    pub tag: [u8; 8],
    pub jited_prog_len: u32,
    pub xlated_prog_len: u32,
    pub jited_prog_insns: u64,
    pub xlated_prog_insns: u64,
    pub load_time: u64,
    pub created_by_uid: u32,
    pub nr_map_ids: u32,
    pub map_ids: u64,
    pub name: [u8; 16],
    pub ifindex: u32,
    pub gpl_compatible: u32,
    pub netns_dev: u64,
    pub netns_ino: u64,
    pub nr_jited_ksyms: u32,
    pub nr_jited_func_lens: u32,
    pub jited_ksyms: u64,
    pub jited_func_lens: u64,
    pub btf_id: u32,
    pub func_info_rec_size: u32,
    pub func_info: u64,
    pub nr_func_info: u32,
    pub nr_line_info: u32,
    pub line_info: u64,
    pub jited_line_info: u64,
    pub nr_jited_line_info: u32,
    pub line_info_rec_size: u32,
    pub jited_line_info_rec_size: u32,
    pub nr_prog_tags: u32,
    pub prog_tags: u64,
    pub run_time_ns: u64,
    pub run_cnt: u64,
    pub recursion_misses: u64,
    pub verified_insns: u32,
    pub attach_btf_obj_id: u32,
    pub attach_btf_id: u32,
    pub pad: u32,
}

/// `struct bpf_map_info` up to `map_extra`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct MapInfo {
    pub map_type: u32,
    pub id: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    pub name: [u8; 16],
    pub ifindex: u32,
    pub btf_vmlinux_value_type_id: u32,
    pub netns_dev: u64,
    pub netns_ino: u64,
    pub btf_id: u32,
    pub btf_key_type_id: u32,
    pub btf_value_type_id: u32,
    pub btf_vmlinux_id: u32,
    pub map_extra: u64,
}

// The offsets the kernel uses; a mistake above must not compile.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(ProgLoad, prog_name) == 48);
    assert!(offset_of!(ProgLoad, line_info) == 96);
    assert!(offset_of!(ProgLoad, fd_array) == 120);
    assert!(offset_of!(ProgLoad, log_true_size) == 140 && size_of::<ProgLoad>() == 144);
    assert!(offset_of!(MapCreate, map_name) == 28);
    assert!(offset_of!(MapCreate, map_extra) == 64 && size_of::<MapCreate>() == 72);
    assert!(size_of::<MapElement>() == 32);
    assert!(offset_of!(LinkCreate, expected_revision) == 24 && size_of::<LinkCreate>() == 32);
    assert!(size_of::<ClockEvent>() == 64);
    assert!(size_of::<ProgAttach>() == 16 && size_of::<RawTracepoint>() == 24);
    assert!(offset_of!(MapBatch, map_fd) == 36 && size_of::<MapBatch>() == 56);
    assert!(offset_of!(TestRun, ctx_in) == 48 && offset_of!(TestRun, batch_size) == 72);
    assert!(size_of::<TestRun>() == 80);
    assert!(size_of::<ObjectInfo>() == 16);
    assert!(offset_of!(BtfLoad, btf_log_true_size) == 28 && size_of::<BtfLoad>() == 32);
    assert!(offset_of!(ProgInfo, netns_dev) == 88 && offset_of!(ProgInfo, jited_func_lens) == 120);
    assert!(offset_of!(ProgInfo, prog_tags) == 184 && offset_of!(ProgInfo, verified_insns) == 216);
    assert!(size_of::<ProgInfo>() == 232);
    assert!(offset_of!(MapInfo, netns_dev) == 48 && offset_of!(MapInfo, map_extra) == 80);
    assert!(size_of::<MapInfo>() == 88);
};
