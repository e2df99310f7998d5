//! A module of the kernel that is there as long as the value is, and BPF programs that call its functions.

use crate::errno::Errno;
use crate::error::KernelError;
use crate::sys::kernel_module;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How often and how far apart it is tried to take a module out.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// A module that was put in.
#[derive(Debug)]
pub struct Module {
    name: CString,
    types: Option<OwnedFd>,
}

impl Module {
    /// Puts in a module, of which this is the file, under the name that it gives itself.
    pub fn insert(name: &str, file: &[u8]) -> Result<Module, KernelError> {
        let doing = || format!("load module {name}");
        let module =
            CString::new(name).map_err(|_| KernelError::invalid(doing(), "its name has a zero byte inside"))?;
        kernel_module::insert(file, c"").map_err(|e| match e {
            Errno::EEXIST => KernelError::invalid(doing(), "there is one of that name already"),
            Errno::ENOEXEC => KernelError::invalid(doing(), "it is not for this kernel"),
            e => KernelError::new(doing(), e),
        })?;
        let mut inserted = Module { name: module, types: None };
        let types =
            kernel_module::types_of(name).map_err(|e| KernelError::new(format!("find the types of {name}"), e))?;
        inserted.types = Some(types);
        Ok(inserted)
    }

    /// Its types, for [`crate::load::LoadRequest::module_btfs`].
    pub fn types(&self) -> BorrowedFd<'_> {
        self.types.as_ref().expect("every module that was put in has them").as_fd()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // The kernel lets go of programs that were just closed a little later. Should others call it, it stays.
        for _ in 0..ATTEMPTS {
            match kernel_module::remove(&self.name) {
                Err(Errno::EAGAIN) => std::thread::sleep(PAUSE),
                _ => return,
            }
        }
    }
}
