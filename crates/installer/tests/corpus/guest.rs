//! The same test in a virtual machine with another kernel.

use karakoram_lab::guest::{self, Done, Job, Kernels};
use std::path::Path;
use std::time::Duration;

/// Runs this executable there, on objects that were built here.
pub fn run(kernel: &str, objects: &Path, runs: u64) -> Done {
    let cache = guest::default_cache().expect("a home folder");
    let kernel = Kernels::new(cache).get(kernel, &[]).unwrap_or_else(|e| panic!("{e}"));
    let this = std::env::current_exe().expect("this executable");
    let job = Job {
        files: vec![("objects".to_string(), objects.to_path_buf())],
        programs: vec![("corpus".to_string(), this)],
        time_limit: Duration::from_secs(3600),
        ..Job::new(format!("OBJECTS=/job/objects TABLE=/out/table.md RUNS={runs} corpus --nocapture"))
    };
    guest::run(&kernel, &job, &|| false).unwrap_or_else(|e| panic!("{e}"))
}
