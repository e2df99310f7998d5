//! The types of the running kernel: numbers of functions and structures that programs attach to
//! (format in kernel `Documentation/bpf/btf.rst`).

use crate::errno::Errno;
use crate::error::KernelError;

/// Kinds of types that are looked for, `BTF_KIND_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeKind {
    /// A structure.
    Struct = 4,
    /// A named type; tracepoints are `btf_trace_NAME`.
    Typedef = 8,
    /// A function.
    Function = 12,
}

/// `/sys/kernel/btf/vmlinux`, a few megabytes.
#[derive(Debug)]
pub struct KernelTypes {
    blob: Vec<u8>,
}

impl KernelTypes {
    /// Reads the types of the running kernel.
    pub fn of_running_kernel() -> Result<KernelTypes, KernelError> {
        let read = std::fs::read("/sys/kernel/btf/vmlinux");
        let blob = read.map_err(|e| KernelError::new("read the types of the kernel", Errno::of(&e)))?;
        Ok(KernelTypes { blob })
    }

    /// The number of the first type of that kind and name. Looks at all of them, about a millisecond.
    pub fn find(&self, kind: TypeKind, name: &str) -> Option<u32> {
        let word = |at: usize| Some(u32::from_ne_bytes(self.blob.get(at..at + 4)?.try_into().ok()?));
        let header = word(4)? as usize;
        let (types, types_len) = (header + word(8)? as usize, word(12)? as usize);
        let strings = header + word(16)? as usize;
        let mut at = types;
        let mut id = 0;
        while at < types.checked_add(types_len)? {
            id += 1;
            let (name_at, info) = (strings + word(at)? as usize, word(at + 4)?);
            let (found, length) = ((info >> 24) & 31, (info & 0xffff) as usize);
            let text = self.blob.get(name_at..)?;
            if found == kind as u32 && text.starts_with(name.as_bytes()) && text.get(name.len()) == Some(&0) {
                return Some(id);
            }
            at += 12 + tail_bytes(found, length)?;
        }
        None
    }
}

/// Bytes that follow the common head of a type; None for kinds not known here.
fn tail_bytes(kind: u32, length: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * length,
        6 | 13 => 8 * length,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}
