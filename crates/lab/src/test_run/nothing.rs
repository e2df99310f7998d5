//! What a run costs by itself.

use super::{InKernel, Version, failed};
use crate::error::LabError;
use karakoram_kernel::load::{self, LoadRequest, LoadedProgram, NOTHING};
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
        let request = LoadRequest::like("nothing", like.program(), &NOTHING);
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
