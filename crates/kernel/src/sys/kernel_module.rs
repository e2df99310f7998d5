//! Modules of the kernel: putting one in, taking it out, and finding its types.

use super::{Command, Result, bpf, bpf_fd, object_info};
use crate::errno::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// The member of `union bpf_attr` for walking over objects (`start_id`, `next_id`, `open_flags`).
#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// `struct bpf_btf_info`.
#[repr(C)]
#[derive(Default)]
struct BtfInfo {
    btf: u64,
    btf_size: u32,
    id: u32,
    name: u64,
    name_len: u32,
    kernel_btf: u32,
}

const _: () = assert!(size_of::<ById>() == 12 && size_of::<BtfInfo>() == 32);

/// `init_module`: puts a module in, of which this is the file.
pub fn insert(image: &[u8], parameters: &CStr) -> Result<()> {
    // SAFETY: the kernel reads the image, of the length given, and the text up to its zero.
    let n = unsafe { libc::syscall(libc::SYS_init_module, image.as_ptr(), image.len(), parameters.as_ptr()) };
    if n < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// `delete_module`: takes a module out that nobody uses.
pub fn remove(name: &CStr) -> Result<()> {
    // SAFETY: the kernel reads the text up to its zero.
    let n = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) };
    if n < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// The types of a module.
pub fn types_of(module: &str) -> Result<OwnedFd> {
    let mut id = 0;
    loop {
        let mut attr = ById { id, ..ById::default() };
        // SAFETY: no pointers.
        unsafe { bpf(Command::BtfNextId, &mut attr) }?;
        id = attr.next_id;
        let mut attr = ById { id, ..ById::default() };
        // SAFETY: no pointers; the command makes a descriptor.
        match unsafe { bpf_fd(Command::BtfById, &mut attr) } {
            Ok(fd) if is_named(&fd, module)? => return Ok(fd),
            // It is gone meanwhile.
            Ok(_) | Err(Errno::ENOENT) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether types are the kernel's own or a module's, of that name.
fn is_named(types: &OwnedFd, module: &str) -> Result<bool> {
    let mut name = [0u8; 64];
    let mut info = BtfInfo { name: name.as_mut_ptr() as u64, name_len: name.len() as u32, ..BtfInfo::default() };
    // SAFETY: the name's buffer lives until the end of this function and has the length given.
    unsafe { object_info(types.as_fd(), &mut info) }?;
    let text = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::EINVAL)?;
    Ok(info.kernel_btf != 0 && text.to_bytes() == module.as_bytes())
}
