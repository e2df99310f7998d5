//! How long runs of a program take, in the kernel's test run.
//!
//! A round loads every version anew, so that where the kernel happens to place its code is part of what
//! varies, and measures the versions one after the other in random order. Everything is counted:
//! nothing is subtracted for the loop around the program.

use crate::failure::Failure;
use crate::interrupt;
use crate::judge::Loaded;
use crate::scenario::{Case, Scenario};
use karakoram_kernel::error::KernelError;
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use karakoram_lab::random::Random;
use karakoram_lab::statistics::middle_mean;
use serde::Serialize;

/// Runs of one call in a batch for each call of a single run, so that both take about as long.
const BATCH_FOR_SINGLE: u32 = 20;
/// Fewest calls of single runs.
const FEWEST_SINGLE: u32 = 100;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds.
    pub rounds: usize,
    /// Runs of each version on each input in a round.
    pub repeat: u32,
    /// Seed of the order.
    pub seed: u64,
}

/// How runs on an input are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Many runs in one call: processor time of the thread over their number.
    Batch,
    /// One run in each call, because it changes its packet and the next would find another: the
    /// kernel's own clock, whose reading is part of the time; the mean of the middle half.
    Single,
}

/// The times of one input.
#[derive(Clone, Debug)]
pub struct Times {
    /// The input.
    pub name: String,
    /// How they were taken.
    pub way: Way,
    /// For each version one time for each round, in nanoseconds.
    pub ns: Vec<Vec<f64>>,
}

/// Something that loads a version, by number.
pub type Load<'a> = dyn Fn(usize) -> Result<Loaded, Failure> + 'a;

/// Measures `versions` versions on the representative inputs, or on all where none is marked so.
/// Other inputs are run once in their place.
pub fn measure(versions: usize, load: &Load, scenario: &Scenario, plan: Plan) -> Result<Vec<Times>, Failure> {
    let cases: Vec<&Case> = scenario.cases.iter().filter(|c| !c.is_only_interpreted).collect();
    let all = cases.iter().all(|c| !c.is_representative);
    let measured = |c: &Case| all || c.is_representative;
    let _pinned = pin_to_current_cpu();
    let ways = try_out(versions, load, scenario, &cases)?;
    let mut times: Vec<Times> = Vec::new();
    for (number, (case, way)) in cases.iter().zip(&ways).enumerate().filter(|(_, (c, _))| measured(c)) {
        let name = case.name.clone().unwrap_or_else(|| format!("run {}", number + 1));
        times.push(Times { name, way: *way, ns: vec![Vec::new(); versions] });
    }
    let mut random = Random::new(plan.seed);
    for _ in 0..plan.rounds {
        if interrupt::is_asked() {
            return Err(Failure::machine("interrupted; a part of the rounds is no measurement"));
        }
        let loaded = load_all(versions, load, scenario)?;
        let mut next = times.iter_mut();
        for case in &cases {
            loaded.iter().try_for_each(|l| l.set(&case.settings))?;
            let mut order: Vec<usize> = (0..versions).collect();
            random.shuffle(&mut order);
            let Some(times) = measured(case).then(|| next.next()).flatten() else {
                order.iter().try_for_each(|v| run(&loaded[*v], case, 1).map(drop))?;
                continue;
            };
            for v in order {
                times.ns[v].push(time(&loaded[v], case, times.way, plan.repeat)?);
            }
        }
    }
    Ok(times)
}

fn load_all(versions: usize, load: &Load, scenario: &Scenario) -> Result<Vec<Loaded>, Failure> {
    let loaded = (0..versions).map(load).collect::<Result<Vec<_>, _>>()?;
    loaded.iter().try_for_each(|l| l.set(&scenario.settings))?;
    Ok(loaded)
}

/// Runs everything once: versions must agree, and the way to time each input is found out.
fn try_out(versions: usize, load: &Load, scenario: &Scenario, cases: &[&Case]) -> Result<Vec<Way>, Failure> {
    let once = load_all(versions, load, scenario)?;
    let often = load(0)?;
    often.set(&scenario.settings)?;
    let mut ways = Vec::new();
    for case in cases {
        once.iter().chain([&often]).try_for_each(|l| l.set(&case.settings))?;
        let outputs = once.iter().map(|l| run(l, case, 1)).collect::<Result<Vec<_>, _>>()?;
        let same = |o: &RunOutput| (o.retval, &o.data) == (outputs[0].retval, &outputs[0].data);
        if let Some(expected) = case.returns.filter(|r| *r != u64::from(outputs[0].retval)) {
            let got = outputs[0].retval;
            return Err(Failure::input(format!("{}: it returned {got}, not {expected}", title(case))));
        }
        if !outputs.iter().all(same) {
            return Err(Failure::input(format!("{}: the two versions do not do the same", title(case))));
        }
        let again = run(&often, case, 3)?;
        let steady = once[0].packet_after(&outputs[0]) == case.packet && same(&again) && again.ctx == outputs[0].ctx;
        ways.push(if steady { Way::Batch } else { Way::Single });
    }
    Ok(ways)
}

fn title(case: &Case) -> String {
    case.name.as_ref().map_or("a run".to_string(), |name| format!("run {name}"))
}

fn run(loaded: &Loaded, case: &Case, repeat: u32) -> Result<RunOutput, Failure> {
    let mut output = RunOutput::default();
    let input = RunInput { repeat, ..loaded.run_input(case) };
    Runner::default().run(&loaded.program, &input, &mut output).map_err(|e| failed(&e))?;
    Ok(output)
}

/// One time in nanoseconds.
fn time(loaded: &Loaded, case: &Case, way: Way, repeat: u32) -> Result<f64, Failure> {
    let mut runner = Runner::default();
    let mut output = RunOutput::default();
    let mut input = loaded.run_input(case);
    // The first call finds cold buffers.
    runner.run(&loaded.program, &input, &mut output).map_err(|e| failed(&e))?;
    if way == Way::Batch {
        input.repeat = repeat;
        let spent = runner.run_timed(&loaded.program, &input, &mut output).map_err(|e| failed(&e))?;
        return Ok(spent as f64 / f64::from(repeat.max(1)));
    }
    let calls = (repeat / BATCH_FOR_SINGLE).max(FEWEST_SINGLE);
    let mut ns = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        runner.run(&loaded.program, &input, &mut output).map_err(|e| failed(&e))?;
        ns.push(f64::from(output.duration_ns));
    }
    Ok(middle_mean(&ns))
}

fn failed(error: &KernelError) -> Failure {
    Failure::machine(error.to_string())
}
