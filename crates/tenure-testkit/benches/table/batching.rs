//! How many jobs the store puts into one transaction, read from the file from outside.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

use crate::role::{Helper, argument, say};

/// Where the index of SQLite's log keeps its count of commits, modulo 2^32 (`iChange` of
/// `WalIndexHdr`).
const COMMITS_AT: u64 = 8;

/// How many transactions have been committed to the file, modulo 2^32.
///
/// Another process reads it: SQLite's locks of this one would be gone as soon as this one closed
/// the file.
pub(crate) fn commits(path: &Path) -> Result<u32> {
    let [count] = Helper::start("count commits", &[&path.display().to_string()])?.numbers::<1>()?;
    Ok(u32::try_from(count)?)
}

pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let path: String = argument(arguments, 0)?;
    let mut bytes = [0; 4];
    File::open(format!("{path}-shm"))?.read_exact_at(&mut bytes, COMMITS_AT)?;
    say(&u32::from_ne_bytes(bytes).to_string())
}
