//! Programs and scenarios as the lab times them.

use crate::failure::Failure;
use crate::input::Input;
use crate::judge::{Kernel, Loaded};
use crate::scenario::{Case, Scenario};
use karakoram_bpf::insn::FuncId;
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::run::{RunInput, RunOutput};
use karakoram_lab::error::LabError;
use karakoram_lab::test_run::{self, InKernel, Nothing, Plan, TestRun, Version};
use karakoram_lab::trial::{Kind, Parameters, Trial, Workshop};
use serde::Deserialize;
use std::rc::Rc;
use std::sync::Arc;

/// Two versions of a program and what they run on: a kind of trial whose parameter is the number of
/// the version. The last is one that does nothing.
pub struct Versions {
    all: Vec<Rc<dyn Version>>,
    plan: Arc<Plan>,
}

/// A version with all that loading it takes.
struct Loadable {
    kernel: Rc<Kernel>,
    input: Input,
    entry: FuncId,
    scenario: Arc<Scenario>,
}

struct Ready {
    loaded: Loaded,
    scenario: Arc<Scenario>,
}

impl Versions {
    /// Versions, each an input with the entry that is meant. They must load, and do the same on all of
    /// the scenario.
    pub fn new(
        kernel: Kernel,
        inputs: Vec<(Input, FuncId)>,
        mut scenario: Scenario,
        repeat: Option<u32>,
    ) -> Result<Versions, Failure> {
        scenario.cases.retain(|c| !c.is_only_interpreted);
        // Said here, what the kernel has against one is said with its file.
        inputs.iter().try_for_each(|(input, entry)| kernel.load_input(input, *entry).map(drop))?;
        let (kernel, scenario) = (Rc::new(kernel), Arc::new(scenario));
        let loadable = |(input, entry)| -> Rc<dyn Version> {
            Rc::new(Loadable { kernel: kernel.clone(), input, entry, scenario: scenario.clone() })
        };
        let mut all: Vec<Rc<dyn Version>> = inputs.into_iter().map(loadable).collect();
        let borrowed: Vec<&dyn Version> = all.iter().map(AsRef::as_ref).collect();
        let plan = Plan::find(&borrowed, cases(&scenario.cases), repeat).map_err(failure)?;
        all.extend(all.first().cloned().map(|first| Rc::new(Nothing(first)) as Rc<dyn Version>));
        Ok(Versions { all, plan: Arc::new(plan) })
    }

    /// How everything is run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// What the lab says, as this command says it.
pub fn failure(error: LabError) -> Failure {
    match &error {
        LabError::Machine(_, help) => Failure::machine(error.to_string()).help(help.clone()),
        LabError::Request(_) => Failure::input(error.to_string()),
        LabError::Interrupted => Failure::machine("interrupted; a part of the rounds is no measurement"),
    }
}

fn cases(cases: &[Case]) -> Vec<test_run::Case> {
    let all = cases.iter().all(|c| !c.is_representative);
    let case = |(number, case): (usize, &Case)| test_run::Case {
        name: case.name.clone().unwrap_or_else(|| format!("run {}", number + 1)),
        packet: case.packet.clone(),
        returns: case.returns,
        is_measured: all || case.is_representative,
    };
    cases.iter().enumerate().map(case).collect()
}

impl Kind for Versions {
    fn name(&self) -> &'static str {
        "test-run"
    }

    fn prepare(&self, parameters: &Parameters, _: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Which {
            version: usize,
        }
        let which: Which = parameters.read()?;
        let version =
            self.all.get(which.version).ok_or_else(|| LabError::Request("there is no such version".into()))?;
        Ok(Box::new(TestRun::new(version.clone(), self.plan.clone())))
    }
}

impl Version for Loadable {
    fn load(&self) -> Result<Box<dyn InKernel>, LabError> {
        let load = || {
            let loaded = self.kernel.load_input(&self.input, self.entry)?;
            loaded.set(&self.scenario.settings)?;
            Ok(Ready { loaded, scenario: self.scenario.clone() })
        };
        load().map(|ready| Box::new(ready) as Box<dyn InKernel>).map_err(|e: Failure| refused(&e))
    }
}

fn refused(failure: &Failure) -> LabError {
    LabError::Request(failure.message().to_string())
}

impl InKernel for Ready {
    fn program(&self) -> &LoadedProgram {
        &self.loaded.program
    }

    fn set(&self, case: usize) -> Result<(), LabError> {
        self.loaded.set(&self.scenario.cases[case].settings).map_err(|e| refused(&e))
    }

    fn input(&self, case: usize) -> RunInput {
        self.loaded.run_input(&self.scenario.cases[case])
    }

    fn packet_after<'a>(&self, output: &'a RunOutput) -> &'a [u8] {
        self.loaded.packet_after(output)
    }
}
