//! Processes whose clock is wrong, by libfaketime.
//!
//! The library is preloaded, and its wrapper is not used: that one refuses to start where a process
//! of the same number was killed before and left its semaphore behind.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The library that moves clocks, for `LD_PRELOAD`. It stands in a folder that is named after the
/// machine.
///
/// # Errors
///
/// If it is not installed.
pub fn library() -> Result<PathBuf> {
    let folders = fs::read_dir("/usr/lib").context("no /usr/lib")?;
    let inside = folders.flatten().map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let mut found = inside.filter(|path| path.is_file());
    found.next().context("libfaketime is not installed: run `cargo xtask install`")
}

/// Takes away what the library leaves behind in a process that was killed.
pub fn clean(pid: u32) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        let _ = fs::remove_file(format!("/dev/shm/{name}{pid}"));
    }
}
