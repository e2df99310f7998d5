//! Programs: loading and test runs, and the type information they come with.

use super::{Command, Result, address, address_mut, attr, bpf, bpf_fd, descriptor, length, object_name};
use crate::errno::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Arguments of [`prog_load`]. Types and flags by their kernel numbers.
#[derive(Clone, Copy)]
pub struct ProgLoad<'a> {
    /// `enum bpf_prog_type`.
    pub prog_type: u32,
    /// `enum bpf_attach_type`.
    pub expected_attach_type: u32,
    /// Instructions, eight bytes each, in the byte order of this machine.
    pub insns: &'a [u8],
    /// Licence.
    pub license: &'a CStr,
    /// Name, see [`super::object_name`].
    pub name: &'a str,
    /// `BPF_F_*` of program load.
    pub flags: u32,
    /// `LINUX_VERSION_CODE`; only kprobes on kernels before 5.0 look at it.
    pub kern_version: u32,
    /// Type information that `func_info` and `line_info` refer to.
    pub btf: Option<BorrowedFd<'a>>,
    /// `struct bpf_func_info` records.
    pub func_info: &'a [u8],
    /// Bytes of one of them.
    pub func_info_rec_size: u32,
    /// `struct bpf_line_info` records.
    pub line_info: &'a [u8],
    /// Bytes of one of them.
    pub line_info_rec_size: u32,
    /// Type of the kernel that the program attaches to (fentry, lsm, struct_ops...).
    pub attach_btf_id: u32,
    /// BTF of the module that type is in, or the program to extend.
    pub attach_fd: Option<BorrowedFd<'a>>,
    /// Descriptors that instructions name by index.
    pub fd_array: &'a [RawFd],
    /// `BPF_LOG_*`; 0 for none.
    pub log_level: u32,
}

/// Loads a program. The verifier's text goes into `log`, closed by a zero byte. Also returns how
/// many bytes the log wanted, 0 when the kernel does not say (before 6.4).
pub fn prog_load(load: &ProgLoad, log: &mut [u8]) -> (Result<OwnedFd>, usize) {
    let mut attr = match prog_load_attr(load) {
        Ok(attr) => attr,
        Err(e) => return (Err(e), 0),
    };
    if load.log_level != 0 {
        attr.log_level = load.log_level;
        attr.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
        attr.log_buf = address_mut(log);
    }
    // SAFETY: all pointers come from slices that live until the call returns; `log` is borrowed for
    // writing. The kernel reads `fd_array` by index and may read past it into our own memory, which
    // copies numbers and fails the load at worst.
    let fd = unsafe { bpf_fd(Command::ProgLoad, &mut attr) };
    (fd, attr.log_true_size as usize)
}

fn prog_load_attr(load: &ProgLoad) -> Result<attr::ProgLoad> {
    let records = |bytes: &[u8], size: u32| -> Result<u32> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let n = length(bytes)?.checked_div(size).ok_or(Errno::EINVAL)?;
        if n as usize * size as usize == bytes.len() { Ok(n) } else { Err(Errno::EINVAL) }
    };
    let func_info_cnt = records(load.func_info, load.func_info_rec_size)?;
    let line_info_cnt = records(load.line_info, load.line_info_rec_size)?;
    Ok(attr::ProgLoad {
        prog_type: load.prog_type,
        insn_cnt: records(load.insns, 8)?,
        insns: address(load.insns),
        license: load.license.as_ptr() as u64,
        kern_version: load.kern_version,
        prog_flags: load.flags,
        prog_name: object_name(load.name),
        expected_attach_type: load.expected_attach_type,
        prog_btf_fd: descriptor(load.btf),
        func_info_rec_size: if func_info_cnt == 0 { 0 } else { load.func_info_rec_size },
        func_info: address(load.func_info),
        func_info_cnt,
        line_info_rec_size: if line_info_cnt == 0 { 0 } else { load.line_info_rec_size },
        line_info: address(load.line_info),
        line_info_cnt,
        attach_btf_id: load.attach_btf_id,
        attach_btf_obj_fd: descriptor(load.attach_fd),
        fd_array: if load.fd_array.is_empty() { 0 } else { load.fd_array.as_ptr() as u64 },
        ..Default::default()
    })
}

/// Loads type information; on failure the reason is in `log`, which may be empty to get none.
pub fn btf_load(btf: &[u8], log: &mut [u8]) -> Result<OwnedFd> {
    let mut attr = attr::BtfLoad {
        btf: address(btf),
        btf_size: length(btf)?,
        btf_log_buf: address_mut(log),
        btf_log_size: length(log)?,
        btf_log_level: !log.is_empty() as u32,
        ..Default::default()
    };
    // SAFETY: both buffers are slices borrowed for the call, with their own lengths.
    unsafe { bpf_fd(Command::BtfLoad, &mut attr) }
}

/// A run of [`test_run`]. What a program type does not take must be empty or 0.
#[derive(Default)]
pub struct TestRun<'a> {
    /// Packet.
    pub data_in: &'a [u8],
    /// Place for the packet afterwards.
    pub data_out: &'a mut [u8],
    /// Context. Mutable because programs of type syscall get this very buffer copied back.
    pub ctx_in: &'a mut [u8],
    /// Place for the context afterwards.
    pub ctx_out: &'a mut [u8],
    /// Times to run it.
    pub repeat: u32,
    /// `BPF_F_TEST_*`.
    pub flags: u32,
    /// CPU, with `BPF_F_TEST_RUN_ON_CPU`.
    pub cpu: u32,
    /// Frames in flight, with `BPF_F_TEST_XDP_LIVE_FRAMES`.
    pub batch_size: u32,
}

/// What [`test_run`] gives back besides the buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TestRunResult {
    /// Value the program returned.
    pub retval: u32,
    /// Mean of one run.
    pub duration_ns: u32,
    /// Bytes the packet has; more than fit when `truncated`.
    pub data_size_out: usize,
    /// Bytes the context has.
    pub ctx_size_out: usize,
    /// The output did not fit.
    pub truncated: bool,
}

/// `BPF_PROG_TEST_RUN`.
pub fn test_run(program: BorrowedFd, run: &mut TestRun) -> Result<TestRunResult> {
    let mut attr = attr::TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: length(run.data_in)?,
        data_size_out: length(run.data_out)?,
        data_in: address(run.data_in),
        data_out: address_mut(run.data_out),
        repeat: run.repeat,
        ctx_size_in: length(run.ctx_in)?,
        ctx_size_out: length(run.ctx_out)?,
        ctx_in: address_mut(run.ctx_in),
        ctx_out: address_mut(run.ctx_out),
        flags: run.flags,
        cpu: run.cpu,
        batch_size: run.batch_size,
        ..Default::default()
    };
    // SAFETY: the inputs are borrowed, the outputs and `ctx_in` borrowed for writing, with their
    // lengths. An output length of 0 would mean "no limit" to the kernel, but then the pointer is
    // null and it writes nothing.
    let result = unsafe { bpf(Command::TestRun, &mut attr) };
    let truncated = result == Err(Errno::ENOSPC);
    if !truncated {
        result?;
    }
    Ok(TestRunResult {
        retval: attr.retval,
        duration_ns: attr.duration,
        data_size_out: attr.data_size_out as usize,
        ctx_size_out: attr.ctx_size_out as usize,
        truncated,
    })
}
