//! The owner in a file that only this user can read: so that the command can prove that it holds
//! the lock, and no secret stands in an environment or on a command line.

use std::path::{Path, PathBuf};

use tenure::Owner;
use tenure::random::{Random, SystemRandom};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::owner_file;

/// A file that goes with this value.
#[derive(Debug)]
pub(super) struct OwnerFile(PathBuf);

impl OwnerFile {
    /// Writes the owner into a file of its own, in the user's folder for such things.
    pub(super) fn write(owner: &Owner) -> Result<Self, Failure> {
        let path = folder().join(format!("tenure-{}-{:016x}", std::process::id(), number()?));
        owner_file::write_new(&path, owner).map(|()| Self(path.clone())).map_err(|error| {
            let text = format!("the owner's file {} cannot be written", path.display());
            Failure::caused(Exit::Internal, &text, &error)
                .advise("name a folder that can be written in XDG_RUNTIME_DIR or TMPDIR")
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnerFile {
    fn drop(&mut self) {
        // Whoever has removed it before has done what is to be done.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(std::env::temp_dir)
}

fn number() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    if SystemRandom.fill(&mut bytes) {
        Ok(u64::from_le_bytes(bytes))
    } else {
        Err(Failure::new(Exit::Internal, "the operating system gave no random bytes"))
    }
}
