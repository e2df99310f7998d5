//! One kind of trial by itself, some times: `trial KIND TIMES 'key = value' ...`. Optimized builds are made by
//! the `kara` named in the environment variable KARA, on the PATH by default.

use karakoram_lab::error::LabError;
use karakoram_lab::trial::{Parameters, Request, Statistic, Workshop};
use karakoram_lab::trials;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, times, parameters @ ..] = arguments.as_slice() else { panic!("trial KIND TIMES PARAMETERS") };
    let kind = trials::named(kind).expect("a kind");
    let scratch = tempfile::tempdir().expect("a folder");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let workshop = Workshop { programs: &programs, scratch: scratch.path(), optimize: &optimize };
    let parameters = Parameters::parse(&parameters.join("\n")).expect("parameters");
    let mut trial = kind.prepare(&parameters, &workshop).unwrap_or_else(|e| panic!("{e}"));
    for seed in 0..times.parse().expect("a number") {
        let outcome = trial.run(&Request { seed, is_interrupted: &|| false }).unwrap_or_else(|e| panic!("{e}"));
        for samples in &outcome.samples {
            let at = |share| samples.reduce(Statistic::Quantile(share)).unwrap_or(f64::NAN);
            println!("{}: {:.1} {} (n {}, p99 {:.1})", samples.name, at(0.5), samples.unit, samples.count(), at(0.99));
        }
        for curve in &outcome.curves {
            println!("{}: {:?}", curve.name, curve.points);
        }
        println!("void {:?}, {:?}", outcome.void, outcome.notes);
    }
}

fn optimize(object: &Path) -> Result<PathBuf, LabError> {
    let output = object.with_extension("opt.o");
    let kara = std::env::var("KARA").unwrap_or("kara".into());
    let status = Command::new(&kara).arg("opt").arg(object).arg("-o").arg(&output).status();
    match status {
        Ok(status) if status.success() => Ok(output),
        Ok(status) => Err(LabError::Request(format!("{kara} opt: {status}"))),
        Err(e) => Err(LabError::tool(&kara, &e)),
    }
}
