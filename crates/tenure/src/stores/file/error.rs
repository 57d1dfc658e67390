//! What SQLite's errors mean for a caller, case by case.

use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi;
use rustix::fs::Access;

use crate::error::{Error, ErrorKind};

/// Why a job has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite failed: the whole batch is undone.
    Sqlite(rusqlite::Error),
    /// This one job cannot be done; the others of its batch can.
    Told(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl Fault {
    pub(super) fn explain(self, path: &Path) -> Error {
        match self {
            Self::Sqlite(error) => explain(error, path),
            Self::Told(error) => error,
        }
    }
}

/// Whether another process's lock was in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// Whether the connection may no longer know what is on the disk.
pub(super) fn taints_connection(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory
                | ErrorCode::InternalMalfunction
                | ErrorCode::ApiMisuse
        )
    )
}

/// An error of a statement before its commit: the transaction is rolled back, nothing was changed.
pub(super) fn explain(error: rusqlite::Error, path: &Path) -> Error {
    let path = path.display();
    let (kind, text) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Unavailable,
            format!("the disk is full: {path} cannot be written until there is free space on it"),
        ),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => (
            ErrorKind::Unavailable,
            format!("another process kept {path} locked for too long; is one of them stopped?"),
        ),
        Some(ErrorCode::SystemIoFailure) => (
            ErrorKind::Unavailable,
            format!("reading or writing {path} failed: see the system log about its disk"),
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return damaged(path.to_string()).caused_by(error);
        }
        Some(ErrorCode::ReadOnly) if extended(&error) == ffi::SQLITE_READONLY_DBMOVED => {
            return replaced(path.to_string());
        }
        Some(
            ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::AuthorizationForStatementDenied,
        ) => (
            ErrorKind::Denied,
            format!("{path} cannot be written: this user needs read and write access to it"),
        ),
        Some(ErrorCode::CannotOpen) => return cannot_open(error, path.to_string()),
        Some(ErrorCode::OutOfMemory) => {
            (ErrorKind::Unavailable, format!("there was no memory left to use {path}"))
        }
        Some(ErrorCode::SchemaChanged | ErrorCode::OperationInterrupted) => {
            (ErrorKind::Unavailable, format!("the work on {path} was interrupted"))
        }
        Some(ErrorCode::NoLargeFileSupport) => {
            (ErrorKind::Unsupported, format!("{path} is too large for its file system"))
        }
        Some(ErrorCode::TooBig) => {
            (ErrorKind::Invalid, "a value is too long for the store".to_owned())
        }
        // What is left are statements that do not fit the tables, so the tables are not ours.
        Some(_) | None => return damaged(path.to_string()).caused_by(error),
    };
    Error::new(kind, text).caused_by(error)
}

/// An error of the commit itself.
pub(super) fn explain_commit(error: rusqlite::Error, path: &Path) -> Error {
    match error.sqlite_error_code() {
        // These come before the frame that makes a commit one is whole.
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            explain(error, path)
        }
        _ => unsynced(path).caused_by(error),
    }
}

/// A commit that may or may not have come to the disk.
pub(super) fn unsynced(path: &Path) -> Error {
    Error::unknown(format!(
        "the commit to {} failed: the change may or may not be on the disk; see the system log \
         about it",
        path.display()
    ))
}

/// The stored data cannot be trusted.
pub(super) fn damaged(path: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Damaged,
        format!(
            "{path} is no tenure database or is damaged: stop its users, then restore it or move \
             it away together with its -wal and -shm files; fences then start again from what the \
             new file knows, so reset what protected resources remember of them"
        ),
    )
}

/// The path no longer leads to the file in use; nothing was changed.
pub(super) fn replaced(path: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Damaged,
        format!(
            "{path} (or its -wal or -shm file) was removed or replaced while in use; reopen the \
             store"
        ),
    )
}

/// As [`replaced`], found after a commit.
pub(super) fn replaced_after_commit(path: impl std::fmt::Display) -> Error {
    Error::unknown(format!(
        "{path} (or its -wal or -shm file) was removed or replaced while in use; reopen the store"
    ))
}

/// An error of the operating system about `what`, before anything was changed.
pub(super) fn system(error: rustix::io::Errno, what: &str) -> Error {
    use rustix::io::Errno;
    let kind = match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => ErrorKind::Denied,
        Errno::NAMETOOLONG | Errno::NOTDIR | Errno::LOOP | Errno::INVAL => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{what} failed")).caused_by(std::io::Error::from(error))
}

fn extended(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().map_or(0, |native| native.extended_code)
}

/// SQLite does not say why, so the operating system is asked.
fn cannot_open(error: rusqlite::Error, path: String) -> Error {
    let folder = Path::new(&path).parent().unwrap_or(Path::new("/"));
    let may = |path: &Path, access| rustix::fs::access(path, access).is_ok();
    let file_ok = may(Path::new(&path), Access::READ_OK | Access::WRITE_OK);
    let (kind, text) = if !file_ok || !may(folder, Access::WRITE_OK | Access::EXEC_OK) {
        (
            ErrorKind::Denied,
            format!(
                "{path} cannot be opened: this user needs read and write access to it and to its \
                 folder, where the -wal and -shm files are"
            ),
        )
    } else {
        (ErrorKind::Unavailable, format!("{path} cannot be opened: too many open files?"))
    };
    Error::new(kind, text).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Retry;

    fn native(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn each_native_error_has_its_kind() {
        let path = Path::new("/nowhere/locks.db");
        for (code, kind) in [
            (ffi::SQLITE_FULL, ErrorKind::Unavailable),
            (ffi::SQLITE_BUSY, ErrorKind::Unavailable),
            (ffi::SQLITE_BUSY_RECOVERY, ErrorKind::Unavailable),
            (ffi::SQLITE_IOERR_READ, ErrorKind::Unavailable),
            (ffi::SQLITE_CORRUPT, ErrorKind::Damaged),
            (ffi::SQLITE_NOTADB, ErrorKind::Damaged),
            (ffi::SQLITE_READONLY, ErrorKind::Denied),
            (ffi::SQLITE_READONLY_DBMOVED, ErrorKind::Damaged),
            (ffi::SQLITE_CANTOPEN, ErrorKind::Denied),
            (ffi::SQLITE_ERROR, ErrorKind::Damaged),
        ] {
            let error = explain(native(code), path);
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().contains("/nowhere/locks.db"), "{error}");
        }
    }

    #[test]
    fn a_commit_that_may_have_happened_is_unknown() {
        let path = Path::new("/nowhere/locks.db");
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CORRUPT] {
            assert_eq!(explain_commit(native(code), path).retry(), Retry::Unknown, "{code}");
        }
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY] {
            assert_eq!(explain_commit(native(code), path).retry(), Retry::Safe, "{code}");
        }
        assert!(taints_connection(&native(ffi::SQLITE_IOERR_FSYNC)));
        assert!(!taints_connection(&native(ffi::SQLITE_BUSY)));
    }
}
