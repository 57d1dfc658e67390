//! The owner in a file: written for this user alone, and read back to prove a lease.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tenure::Owner;
use tenure::random::{Random, SystemRandom};

use crate::exit::Exit;
use crate::failure::Failure;

/// Where a command under a lock finds the file.
pub(crate) const VARIABLE: &str = "TENURE_OWNER_FILE";

/// More than any owner has: what is longer is another file.
const BYTES_MAX: u64 = 4096;

/// Writes the owner into a new file that only this user can read. One that is there already is not
/// touched, and none is left behind by a failure.
///
/// # Errors
/// `AlreadyExists`, or what else the file system says.
pub(crate) fn write_new(path: &Path, owner: &Owner) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{}", owner.expose()).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// Reads what [`write_new`] has written; `-` is stdin.
///
/// # Errors
/// What the file system says; `InvalidData` when it is no text.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        return text_of(io::stdin().lock());
    }
    text_of(File::open(path)?)
}

/// A file with the owner in a folder of this user, which goes with this value.
#[derive(Debug)]
pub(crate) struct OwnerFile(PathBuf);

impl OwnerFile {
    /// Writes the owner into a file of its own.
    pub(crate) fn write(owner: &Owner) -> Result<Self, Failure> {
        let path = folder().join(format!("tenure-{}-{:016x}", std::process::id(), number()?));
        match write_new(&path, owner) {
            Ok(()) => Ok(Self(path)),
            Err(error) => {
                let text = format!("the owner's file {} cannot be written", path.display());
                Err(Failure::caused(Exit::Internal, &text, &error)
                    .advise("name a folder that can be written in XDG_RUNTIME_DIR or TMPDIR"))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
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

fn text_of(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_line_is_no_part_of_the_owner() {
        for text in ["secret", "secret\n", "secret\r\n"] {
            assert_eq!(text_of(text.as_bytes()).unwrap(), "secret");
        }
        assert!(text_of(&b"\xff\xfe"[..]).is_err());
    }
}
