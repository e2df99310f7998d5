//! The model of latencies that the user measured.

use crate::failure::Failure;
use karakoram_optimize::cost::Latencies;
use std::path::PathBuf;
use std::sync::Arc;

/// Where it is kept.
pub fn path() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    folder.or_else(home).map(|folder| folder.join("karakoram").join("latencies.toml"))
}

/// The model, if there is one.
pub fn read() -> Result<Option<Arc<Latencies>>, Failure> {
    let Some(path) = path().filter(|p| p.is_file()) else { return Ok(None) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|e| Failure::file(&name, "read", &e))?;
    let model = Latencies::parse(&text).map_err(|e| {
        Failure::input(e.to_string()).of_file(&name).help("measure again with `kara lab calibrate`, or remove it")
    })?;
    Ok(Some(Arc::new(model)))
}
