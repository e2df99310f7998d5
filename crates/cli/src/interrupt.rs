//! Ctrl-C: the first one asks to finish with what there is, the second one ends the process at once,
//! without leaving half a file.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Set by Ctrl-C and by a time limit alike.
static STOP: AtomicBool = AtomicBool::new(false);
/// Whether there is nothing to finish with.
static IS_ALL_OR_NOTHING: AtomicBool = AtomicBool::new(false);
/// Whether it goes on until somebody asks.
static IS_ENDLESS: AtomicBool = AtomicBool::new(false);
/// Files that are being written and have not got their name yet.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Exit status of a process that Ctrl-C ended, as shells count it.
const INTERRUPTED: i32 = 130;

/// Starts to listen.
pub fn install() {
    // Without a handler Ctrl-C just ends the process, which is tolerable.
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) || IS_ALL_OR_NOTHING.load(Ordering::Relaxed) {
            if let Ok(files) = UNFINISHED.lock() {
                files.iter().for_each(|f| drop(std::fs::remove_file(f)));
            }
            std::process::exit(INTERRUPTED);
        }
        STOP.store(true, Ordering::Relaxed);
        if IS_ENDLESS.load(Ordering::Relaxed) {
            return;
        }
        eprintln!("\ninterrupted: finishing with the best result so far; once more to give up");
    });
}

/// For work of which a part is worth nothing: the first Ctrl-C ends the process.
pub fn ends_at_once() {
    IS_ALL_OR_NOTHING.store(true, Ordering::Relaxed);
}

/// For what goes on until Ctrl-C: nothing has to be said about it.
pub fn is_the_end() {
    IS_ENDLESS.store(true, Ordering::Relaxed);
}

/// The flag that long work looks at.
pub fn flag() -> &'static AtomicBool {
    &STOP
}

/// Raises the flag after some time.
pub fn stop_after(time: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(time);
        STOP.store(true, Ordering::Relaxed);
    });
}

/// Whether someone pressed Ctrl-C.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Remembers a file to be removed when the process is ended.
pub fn guard(file: &Path) {
    if let Ok(mut files) = UNFINISHED.lock() {
        files.push(file.to_path_buf());
    }
}

/// The file is done.
pub fn release(file: &Path) {
    if let Ok(mut files) = UNFINISHED.lock() {
        files.retain(|f| f != file);
    }
}
