//! Where files are that must be on a disk: what is kept in memory only survives too much.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What `statfs` says of file systems in memory: tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58F6];

/// Puts all temporary files of this process, and so of the servers that it starts, on a disk.
pub(crate) fn settle() -> Result<()> {
    let folders = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("target")];
    let found = folders.iter().find(|folder| is_on_disk(folder)).context(
        "no folder on a disk for temporary files was found: set TMPDIR to one that is not on tmpfs",
    )?;
    // It was set before, by a run in the same process.
    let _ = tempfile::env::override_temp_dir(&found.canonicalize()?);
    Ok(())
}

fn is_on_disk(folder: &Path) -> bool {
    let told = rustix::fs::statfs(folder);
    #[allow(clippy::unnecessary_cast, reason = "it has another type elsewhere")]
    told.is_ok_and(|told| !IN_MEMORY.contains(&(told.f_type as i64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_no_disk() {
        assert!(!is_on_disk(Path::new("/dev/shm")));
        assert!(!is_on_disk(Path::new("/nowhere")));
        assert!(is_on_disk(Path::new("/proc")), "it is of another kind");
    }
}
