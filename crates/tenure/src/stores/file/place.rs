//! Where the file is: checked before SQLite touches it, and watched for being replaced.
//!
//! The database file is never opened here. SQLite's locks are POSIX locks, which the kernel drops
//! as soon as this process closes any descriptor of the file; so everything goes by its path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_NOW, mknodat,
    stat, statx, utimensat,
};
use rustix::io::Errno;

use super::error::system;
use crate::error::{Error, Result};
use crate::stores::file_system::FileSystem;

/// The database's path and those of the files that SQLite keeps beside it.
#[derive(Debug)]
pub(super) struct Place {
    // As the user gave it, made absolute: a link that is turned elsewhere is a replaced file.
    path: PathBuf,
    wal: PathBuf,
    shm: PathBuf,
    file_system: FileSystem,
}

/// Which files the paths of a [`Place`] lead to: device and inode of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp([(u64, u64); 3]);

impl Stamp {
    /// Whether its database file is this one.
    pub(super) fn is_of(&self, database: (u64, u64)) -> bool {
        self.0[0] == database
    }
}

impl Place {
    /// Checks the path and creates an empty file when there is none, for this user alone: owners
    /// are kept in it.
    pub(super) fn new(path: &str) -> Result<Self> {
        if path.is_empty() {
            return Err(Error::invalid("file: needs a path, such as file:/var/lib/app/locks.db"));
        }
        let path = std::path::absolute(path)
            .map_err(|error| Error::invalid("file: has no usable path").caused_by(error))?;
        if path.to_string_lossy().ends_with('/') {
            return Err(Error::invalid(format!("{} is a folder, not a file", path.display())));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        match stat(folder) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {}
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {
                return Err(Error::invalid(format!(
                    "the folder {} does not exist: create it, with write access for this user",
                    folder.display()
                )));
            }
            Err(error) => return Err(system(error, &format!("looking at {}", folder.display()))),
        }
        let file_system = file_system(&path, folder)?;
        create(&path)?;
        let real = path.canonicalize().map_err(|error| {
            Error::unavailable(format!("{} cannot be resolved", path.display())).caused_by(error)
        })?;
        let (wal, shm) = (beside(&real, "-wal"), beside(&real, "-shm"));
        Ok(Self { path, wal, shm, file_system })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file_system(&self) -> FileSystem {
        self.file_system
    }

    /// Which database file the path leads to now.
    pub(super) fn database(&self) -> rustix::io::Result<(u64, u64)> {
        identity(&self.path)
    }

    /// Which files the paths lead to now. While a connection is open, SQLite itself never replaces
    /// any of them; with one replaced, two processes would no longer see each other's locks.
    pub(super) fn stamp(&self) -> rustix::io::Result<Stamp> {
        Ok(Stamp([self.database()?, identity(&self.wal)?, identity(&self.shm)?]))
    }

    /// The log, to be synced. Unlike the database file it can be opened and closed beside SQLite,
    /// which has no locks on it.
    pub(super) fn log(&self) -> rustix::io::Result<std::fs::File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(&self.wal, flags, Mode::empty()).map(Into::into)
    }

    /// Sets the file's times to now: an event for those who listen, and nothing else.
    pub(super) fn touch(&self) -> rustix::io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        utimensat(CWD, &self.path, &times, AtFlags::empty())
    }

    /// Makes the names of new files durable.
    pub(super) fn sync_folder(&self) -> std::io::Result<()> {
        std::fs::File::open(self.wal.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

fn identity(path: &Path) -> rustix::io::Result<(u64, u64)> {
    // Not `stat`: on kernels with fine-grained times, asking for a file's times makes its next
    // write record new ones, which costs a write of the inode with every sync.
    match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
        Ok(found) => {
            let device = (u64::from(found.stx_dev_major) << 32) | u64::from(found.stx_dev_minor);
            Ok((device, found.stx_ino))
        }
        Err(Errno::NOSYS) => stat(path).map(|found| (found.st_dev, found.st_ino)),
        Err(error) => Err(error),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

fn file_system(path: &Path, folder: &Path) -> Result<FileSystem> {
    // A file or link can be on another file system than its folder; a new one cannot.
    let found = FileSystem::at(path).or_else(|_| FileSystem::at(folder));
    let found =
        found.map_err(|error| system(error, &format!("looking at {}", folder.display())))?;
    found.not_shared(path)
}

fn create(path: &Path) -> Result<()> {
    match mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(system(error, &format!("creating {}", path.display()))),
    }
    let found = stat(path).map_err(|error| system(error, &path.display().to_string()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => {
            Err(Error::invalid(format!("{} is a folder, not a file", path.display())))
        }
        _ => Err(Error::invalid(format!("{} is not a regular file", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_new_file_is_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        Place::new(path.to_str().unwrap()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    #[test]
    fn a_bad_path_is_refused_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/locks.db");
        let error = Place::new(missing.to_str().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("missing does not exist: create it"), "{error}");
        assert!(!folder.path().join("missing").exists());
        for bad in ["", folder.path().to_str().unwrap(), "/dev/null", "/tmp/", "a\0b"] {
            assert_eq!(Place::new(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
        }
    }
}
