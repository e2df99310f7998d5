//! Loading programs, and why the kernel refuses them.

use crate::btf::Btf;
use crate::errno::Errno;
use crate::error::KernelError;
use crate::log::{self, Analysis, Statistics};
use crate::map::{Map, MapSet};
use crate::running;
use crate::sys::{self, ProgInfo, os};
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Print the path that failed (`BPF_LOG_LEVEL1`).
const LOG_PATH: u32 = 1;
/// Print all paths (`BPF_LOG_LEVEL2`).
const LOG_ALL: u32 = 2;
/// Print the statistics (`BPF_LOG_STATS`, since 5.2).
const LOG_STATISTICS: u32 = 4;

const FIRST_LOG_BYTES: usize = 64 << 10;
/// Most bytes of log, 16 MiB: what kernels before 5.13 accept.
const MOST_LOG_BYTES: usize = (16 << 20) - 1;

/// How much the verifier shall say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogDetail {
    /// Statistics on success, the failing path otherwise.
    #[default]
    Normal,
    /// Every instruction on every path, also on success.
    Everything,
}

/// Instructions with map numbers (`BPF_PSEUDO_MAP_IDX`) in place of descriptors, and all that belongs to them.
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// Name, shortened to 15 bytes.
    pub name: &'a str,
    /// Type.
    pub prog_type: ProgramType,
    /// `enum bpf_attach_type`; 0 for most types.
    pub expected_attach_type: u32,
    /// Type number of the kernel function or structure to attach to; 0 for most types.
    pub attach_btf_id: u32,
    /// BTF of the module `attach_btf_id` is in, or the program it extends.
    pub attach_fd: Option<BorrowedFd<'a>>,
    /// Licence; decides which helpers may be called.
    pub license: &'a str,
    /// Instructions. 64-bit loads of kind 5 and 6 name maps by position in `maps`, of kind 1 and 2
    /// by [`karakoram_bpf::map::MapDef::fd`].
    pub slots: &'a [Slot],
    /// Maps.
    pub maps: &'a [Map],
    /// Type information; needed for `func_info` and `line_info`.
    pub btf: Option<&'a Btf>,
    /// Function records as the kernel takes them: offsets in instructions of `slots`.
    pub func_info: &'a [u8],
    /// Bytes of a function record.
    pub func_info_rec_size: u32,
    /// Line records as the kernel takes them: offsets in instructions of `slots`.
    pub line_info: &'a [u8],
    /// Bytes of a line record.
    pub line_info_rec_size: u32,
    /// BTF of modules that calls of kernel functions name by their offset field, from 1 on.
    pub module_btfs: &'a [BorrowedFd<'a>],
    /// `BPF_F_*` of program load (`BPF_F_XDP_HAS_FRAGS` is 32, `BPF_F_SLEEPABLE` 16).
    pub flags: u32,
    /// `LINUX_VERSION_CODE`, 0 for that of the running kernel.
    pub kern_version: u32,
    /// How much log.
    pub log: LogDetail,
}

/// The shortest program: `r0 = 0; exit`.
pub const NOTHING: [Slot; 2] =
    [Slot { code: 0xb7, dst: 0, src: 0, off: 0, imm: 0 }, Slot { code: 0x95, dst: 0, src: 0, off: 0, imm: 0 }];

impl<'a> LoadRequest<'a> {
    /// A program of the same sort as another one, so that either can go on to the other (Linux 6.18 looks at more
    /// than the type).
    pub fn like(name: &'a str, program: &LoadedProgram, slots: &'a [Slot]) -> LoadRequest<'a> {
        LoadRequest {
            expected_attach_type: program.expected_attach_type,
            flags: program.flags,
            ..LoadRequest::new(name, program.prog_type, slots)
        }
    }

    /// A request with nothing but code, GPL-licensed.
    pub fn new(name: &'a str, prog_type: ProgramType, slots: &'a [Slot]) -> LoadRequest<'a> {
        LoadRequest {
            name,
            prog_type,
            expected_attach_type: 0,
            attach_btf_id: 0,
            attach_fd: None,
            license: "GPL",
            slots,
            maps: &[],
            btf: None,
            func_info: &[],
            func_info_rec_size: 0,
            line_info: &[],
            line_info_rec_size: 0,
            module_btfs: &[],
            flags: 0,
            kern_version: 0,
            log: LogDetail::Normal,
        }
    }

    /// The same with maps.
    pub fn with_maps(self, maps: &'a MapSet) -> LoadRequest<'a> {
        LoadRequest { maps: maps.maps(), ..self }
    }
}

/// A program in the kernel, removed when dropped.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
    /// Type.
    pub prog_type: ProgramType,
    /// Attach type it was loaded for.
    pub expected_attach_type: u32,
    /// `BPF_F_*` it was loaded with.
    pub flags: u32,
    /// Name as requested.
    pub name: String,
    /// What verifying it took.
    pub statistics: Statistics,
    /// What the verifier said; long only when [`LogDetail::Everything`] was asked for.
    pub log: String,
}

/// A verdict of the verifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// Error number.
    pub errno: Errno,
    /// The verifier's own words, whole or, when over 16 MiB, the end of them.
    pub log: String,
    /// What they say.
    pub analysis: Analysis,
}

/// Why a program was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The verifier found it unsafe or too large.
    Rejected(Box<Rejection>),
    /// This process may not load such programs.
    NotPermitted(KernelError),
    /// This kernel does not know such programs.
    NoKernelSupport(KernelError),
    /// Anything else, including requests that make no sense.
    Other(KernelError),
}

impl From<KernelError> for LoadError {
    fn from(e: KernelError) -> LoadError {
        match e {
            KernelError::NotPermitted { .. } => LoadError::NotPermitted(e),
            KernelError::NoKernelSupport { .. } => LoadError::NoKernelSupport(e),
            _ => LoadError::Other(e),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LoadError::Rejected(r) => {
                write!(f, "the kernel's verifier rejected the program ({})", r.errno)?;
                if let Some(at) = r.analysis.insn {
                    write!(f, " at instruction {at}")?;
                }
                match r.analysis.reason.last() {
                    Some(reason) => write!(f, ": {reason}"),
                    None => Ok(()),
                }
            }
            LoadError::NotPermitted(e) | LoadError::NoKernelSupport(e) | LoadError::Other(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl AsFd for LoadedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl LoadedProgram {
    /// What the kernel says of it; `with_code` also fetches machine code and final instructions.
    pub fn info(&self, with_code: bool) -> Result<ProgInfo, KernelError> {
        sys::prog_info(self.as_fd(), with_code)
            .map_err(|e| KernelError::new(format!("ask about program {}", self.name), e))
    }
}

/// Loads a program. Nothing is attached.
pub fn load(request: &LoadRequest) -> Result<LoadedProgram, LoadError> {
    let doing = || format!("load program {} ({})", request.name, request.prog_type.name());
    if request.prog_type == ProgramType::UNSPEC {
        return Err(KernelError::invalid(doing(), "its program type is not known").into());
    }
    let insns = bytes_of(&bind_maps(request)?);
    let license = CString::new(request.license)
        .map_err(|_| KernelError::invalid(doing(), "the licence has a zero byte inside"))?;
    // Index 0 of the array means the kernel itself, so modules start at 1.
    let mut fd_array: Vec<RawFd> = request.module_btfs.iter().map(|fd| fd.as_raw_fd()).collect();
    if !fd_array.is_empty() {
        fd_array.insert(0, 0);
    }
    let mut raw = sys::ProgLoad {
        prog_type: request.prog_type.0,
        expected_attach_type: request.expected_attach_type,
        insns: &insns,
        license: &license,
        name: request.name,
        flags: request.flags,
        kern_version: if request.kern_version == 0 { running::version_code() } else { request.kern_version },
        btf: request.btf.map(|b| b.as_fd()),
        func_info: request.func_info,
        func_info_rec_size: request.func_info_rec_size,
        line_info: request.line_info,
        line_info_rec_size: request.line_info_rec_size,
        attach_btf_id: request.attach_btf_id,
        attach_fd: request.attach_fd,
        fd_array: &fd_array,
        log_level: LOG_STATISTICS,
    };
    if request.log == LogDetail::Everything {
        raw.log_level |= LOG_ALL;
    }
    match load_raw(&mut raw) {
        Ok((fd, text)) => Ok(loaded(request, fd, text)),
        Err(failure) => Err(classify(&raw, doing(), failure)),
    }
}

fn loaded(request: &LoadRequest, fd: OwnedFd, log: String) -> LoadedProgram {
    let mut statistics = Statistics::parse(&log);
    if statistics.processed_insns.is_none() {
        let info = sys::prog_info(fd.as_fd(), false).ok();
        statistics.processed_insns = info.map(|i| i.verified_insns).filter(|n| *n != 0).map(u64::from);
    }
    LoadedProgram {
        fd,
        prog_type: request.prog_type,
        expected_attach_type: request.expected_attach_type,
        flags: request.flags,
        name: request.name.into(),
        statistics,
        log,
    }
}

type Failure = (Errno, String);

/// Loads, and on failure once more: with the failing path in the log, with more locked memory where
/// that is charged, without what an old kernel does not know.
fn load_raw(raw: &mut sys::ProgLoad) -> Result<(OwnedFd, String), Failure> {
    let everything = raw.log_level & LOG_ALL != 0;
    let (errno, text) = match load_with_log(raw) {
        Ok(done) => return Ok(done),
        Err(failure) => failure,
    };
    raw.log_level = match errno {
        // The log is larger than any buffer, which says nothing about the program.
        Errno::ENOSPC if everything => LOG_STATISTICS,
        // Too complex: the path to where the verifier gave up is a million instructions long, and
        // going there again, with a log, takes many seconds.
        Errno::E2BIG if !text.is_empty() => return Err((errno, text)),
        _ if everything && !text.is_empty() => return Err((errno, text)),
        _ if !text.is_empty() => LOG_STATISTICS | LOG_PATH,
        Errno::EPERM => {
            os::raise_memory_lock_limit();
            raw.log_level
        }
        Errno::EINVAL => LOG_PATH,
        _ => return Err((errno, text)),
    };
    match load_with_log(raw) {
        Ok(done) => Ok(done),
        Err((_, longer)) if longer.len() < text.len() || longer.is_empty() => Err((errno, text)),
        Err((Errno::ENOSPC, longer)) => Err((errno, longer)),
        Err(failure) => Err(failure),
    }
}

/// Loads with a log buffer that grows until the log fits or reaches the limit.
fn load_with_log(raw: &sys::ProgLoad) -> Result<(OwnedFd, String), Failure> {
    let mut buffer = vec![0; FIRST_LOG_BYTES];
    loop {
        let (result, wanted) = sys::prog_load(raw, &mut buffer);
        match result {
            Ok(fd) => return Ok((fd, log::text(&buffer))),
            Err(Errno::ENOSPC) if buffer.len() < MOST_LOG_BYTES => {
                let size = wanted.max(buffer.len() * 8).min(MOST_LOG_BYTES);
                buffer = vec![0; size];
            }
            Err(errno) => return Err((errno, log::text(&buffer))),
        }
    }
}

fn classify(raw: &sys::ProgLoad, doing: String, (errno, text): Failure) -> LoadError {
    let mut analysis = Analysis::parse(&text);
    // Without a reason the verifier had not got to the code, unless it names an instruction.
    if analysis.reason.is_empty() && analysis.insn.is_none() {
        match errno {
            Errno::E2BIG => {
                let slots = raw.insns.len() / 8;
                analysis.reason.push(format!("the kernel does not take a program of {slots} instructions"));
            }
            Errno::EINVAL if !knows_type(raw) => {
                return LoadError::NoKernelSupport(KernelError::NoKernelSupport { doing, errno });
            }
            _ => return KernelError::new(doing, errno).into(),
        }
    }
    LoadError::Rejected(Box::new(Rejection { errno, log: text, analysis }))
}

/// Whether the shortest program of that type and attach type loads.
fn knows_type(raw: &sys::ProgLoad) -> bool {
    let insns = bytes_of(&crate::probe::SHORTEST);
    let tiny = sys::ProgLoad {
        insns: &insns,
        btf: None,
        func_info: &[],
        line_info: &[],
        fd_array: &[],
        flags: 0,
        log_level: 0,
        ..*raw
    };
    sys::prog_load(&tiny, &mut []).0.is_ok()
}

/// The slots with descriptors in place of map numbers (kernel `resolve_pseudo_ldimm64`).
fn bind_maps(request: &LoadRequest) -> Result<Vec<Slot>, KernelError> {
    const LOAD_IMM64: u8 = 0x18;
    const CALL: u8 = 0x85;
    let wrong = |at: usize, why: String| {
        KernelError::invalid(format!("load program {}", request.name), format!("instruction {at} {why}"))
    };
    let mut slots = request.slots.to_vec();
    let mut at = 0;
    while at < slots.len() {
        let slot = &mut slots[at];
        let here = at;
        at += if slot.code == LOAD_IMM64 { 2 } else { 1 };
        match (slot.code, slot.src) {
            (LOAD_IMM64, 1 | 2) => {
                let map = request.maps.iter().find(|m| m.def().fd == Some(slot.imm));
                slot.imm = map
                    .ok_or_else(|| wrong(here, format!("names map descriptor {}, which no map has", slot.imm)))?
                    .as_fd()
                    .as_raw_fd();
            }
            (LOAD_IMM64, 5 | 6) => {
                let map = usize::try_from(slot.imm).ok().and_then(|i| request.maps.get(i));
                slot.imm = map
                    .ok_or_else(|| wrong(here, format!("names map {} of {}", slot.imm, request.maps.len())))?
                    .as_fd()
                    .as_raw_fd();
                slot.src -= 4;
            }
            (CALL, 2) if slot.off < 0 || slot.off as usize > request.module_btfs.len() => {
                let modules = request.module_btfs.len();
                return Err(wrong(here, format!("calls a function of module {} of {modules}", slot.off)));
            }
            _ => {}
        }
    }
    Ok(slots)
}

/// `struct bpf_insn` as this machine lays it out.
pub(crate) fn bytes_of(slots: &[Slot]) -> Vec<u8> {
    let bytes = |slot: &Slot| {
        let mut bytes = slot.to_bytes();
        if cfg!(target_endian = "big") {
            bytes[1] = bytes[1].rotate_left(4);
            bytes[2..4].reverse();
            bytes[4..8].reverse();
        }
        bytes
    };
    slots.iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_not_there() {
        let slots = [Slot { code: 0x18, dst: 1, src: 5, off: 0, imm: 3 }, Slot::default()];
        let request = LoadRequest::new("t", ProgramType::XDP, &slots);
        let error = bind_maps(&request).unwrap_err().to_string();
        assert_eq!(error, "could not load program t: instruction 0 names map 3 of 0");
    }
}
