//! What a run costs by itself.

use super::{InKernel, Version, failed};
use crate::error::LabError;
use karakoram_bpf::encode::Slot;
use karakoram_kernel::load::{self, LoadRequest, LoadedProgram};
use karakoram_kernel::run::{RunInput, RunOutput};
use std::rc::Rc;

/// A version that does nothing, on what another one runs on: the kernel's loop around the program, and the
/// program before it where there is one.
pub struct Nothing(pub Rc<dyn Version>);

struct Ready {
    program: LoadedProgram,
    like: Box<dyn InKernel>,
}

impl Version for Nothing {
    fn load(&self) -> Result<Box<dyn InKernel>, LabError> {
        let like = self.0.load()?;
        // r0 = 0; exit
        let slots = [Slot { code: 0xb7, ..Slot::default() }, Slot { code: 0x95, ..Slot::default() }];
        let request = LoadRequest {
            expected_attach_type: like.program().expected_attach_type,
            flags: like.program().flags,
            ..LoadRequest::new("nothing", like.program().prog_type, &slots)
        };
        let program = load::load(&request).map_err(|e| failed(&e))?;
        Ok(Box::new(Ready { program, like }))
    }
}

impl InKernel for Ready {
    fn program(&self) -> &LoadedProgram {
        &self.program
    }

    fn set(&self, _: usize) -> Result<(), LabError> {
        Ok(())
    }

    fn input(&self, case: usize) -> RunInput {
        self.like.input(case)
    }

    fn packet_after<'a>(&self, output: &'a RunOutput) -> &'a [u8] {
        self.like.packet_after(output)
    }
}
