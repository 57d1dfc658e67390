//! The owner in a file: written for this user alone, and read back to prove a lease.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tenure::Owner;

use crate::chance;
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
    write_to(&mut create_new(path)?, owner).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write_to(file: &mut File, owner: &Owner) -> io::Result<()> {
    file.write_all(format!("{}\n", owner.expose()).as_bytes())
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

/// A file for the owner in a folder of this user, which goes with this value.
///
/// It is empty and locked until the owner is handed out. So it tells a process that is to become
/// the command when it may: `tenure` has looked whether it still believes in its lease after that
/// process was there to be killed, and not before.
#[derive(Debug)]
pub(crate) struct OwnerFile {
    path: PathBuf,
    file: File,
}

impl OwnerFile {
    /// Makes the file, with nothing in it yet.
    pub(crate) fn create() -> Result<Self, Failure> {
        let name = format!("tenure-{}-{}", std::process::id(), chance::name()?);
        let path = folder().join(name);
        let file = create_new(&path).map_err(|error| not_written(&path, &error))?;
        let made = Self { path, file };
        flock(&made.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| not_written(&made.path, &error.into()))?;
        Ok(made)
    }

    /// Writes the owner: whoever waits for that goes on.
    pub(crate) fn hand_out(&mut self, owner: &Owner) -> Result<(), Failure> {
        write_to(&mut self.file, owner)
            .and_then(|()| Ok(flock(&self.file, FlockOperation::Unlock)?))
            .map_err(|error| not_written(&self.path, &error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Waits until the owner is handed out, or whoever made the file is gone: then it is not.
///
/// # Errors
/// What the file system says.
pub(crate) fn is_handed_out(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    flock(&file, FlockOperation::LockShared)?;
    Ok(file.metadata()?.len() > 0)
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let text = format!("the owner's file {} cannot be written", path.display());
    Failure::caused(Exit::Internal, &text, error)
        .advise("name a folder that can be written in XDG_RUNTIME_DIR or TMPDIR")
}

impl Drop for OwnerFile {
    fn drop(&mut self) {
        // Whoever has removed it before has done what is to be done.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|path| path.is_absolute() && path.is_dir()).unwrap_or_else(std::env::temp_dir)
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
    fn a_file_that_is_left_empty_hands_out_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner");
        let file = create_new(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let waiting = {
            let path = path.clone();
            std::thread::spawn(move || is_handed_out(&path).unwrap())
        };
        drop(file);
        assert!(!waiting.join().unwrap());
        let file = File::options().write(true).open(&path).unwrap();
        let mut made = OwnerFile { path: path.clone(), file };
        made.hand_out(&Owner::parse("secret").unwrap()).unwrap();
        assert!(is_handed_out(&path).unwrap());
        assert_eq!(read(&path).unwrap(), "secret");
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn the_end_of_the_line_is_no_part_of_the_owner() {
        for text in ["secret", "secret\n", "secret\r\n"] {
            assert_eq!(text_of(text.as_bytes()).unwrap(), "secret");
        }
        assert!(text_of(&b"\xff\xfe"[..]).is_err());
    }
}
