//! The machine code the kernel made of a program.

use crate::error::KernelError;
use crate::load::LoadedProgram;

/// Machine code of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JitFunction {
    /// Where it lies in the kernel; 0 when that is hidden.
    pub address: u64,
    /// The code, in the instruction set of this machine.
    pub code: Vec<u8>,
}

/// Machine code of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JitImage {
    /// Bytes of all functions together, known even when the code is withheld; 0 when the program is
    /// interpreted.
    pub bytes: u32,
    /// Functions, in the order of the program. Empty when the code is withheld.
    pub functions: Vec<JitFunction>,
}

impl LoadedProgram {
    /// Bytes of machine code, 0 when the program is interpreted.
    pub fn jited_len(&self) -> Result<u32, KernelError> {
        Ok(self.info(false)?.jited_len)
    }

    /// The machine code.
    pub fn jit_image(&self) -> Result<JitImage, KernelError> {
        let info = self.info(true)?;
        let mut rest = info.jited.as_slice();
        let mut functions = Vec::new();
        for (i, length) in info.function_lengths.iter().enumerate() {
            let Some((code, after)) = rest.split_at_checked(*length as usize) else { break };
            rest = after;
            let address = info.function_addresses.get(i).copied().unwrap_or(0);
            functions.push(JitFunction { address, code: code.to_vec() });
        }
        Ok(JitImage { bytes: info.jited_len, functions })
    }
}
