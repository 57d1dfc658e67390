//! A folder as a register: one file per key, for trying out what object storage does.
//!
//! A write is made under a lock on one file of the folder: compare, write beside, sync, rename,
//! sync the folder. Whoever dies in between leaves the old file or the new one, and its lock ends.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as Io, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::name;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;
use crate::key::Key;
use crate::store::{Capabilities, StoreInfo, Timing};
use crate::stores::register::{
    Entries, Entry, Expiry, Fences, Purpose, Register, Swap, Version, Write,
};
use crate::watch::{Watch, WatchHub};

// No name of a key has a dot.
const LOCK: &str = ".tenure-lock";
const NEW: &str = ".tenure-new";

const LOCKED_MAX: Duration = Duration::from_secs(5);
const LOCKED_PAUSE: Duration = Duration::from_millis(2);

/// One file per key.
#[derive(Debug)]
pub(super) struct FolderRegister {
    info: StoreInfo,
    root: Arc<Path>,
    clock: Arc<dyn Clock>,
    /// Those of this process take turns here, so that only other processes are waited for by asking
    /// again and again.
    turn: Mutex<()>,
    watches: WatchHub,
}

impl FolderRegister {
    /// The register in this folder, which is created when only it itself is missing.
    pub(super) async fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let path = path.to_owned();
        let (root, finding) = blocking(move || prepare(&path)).await?;
        let capabilities =
            Capabilities { shared: true, durable: true, wakes: false, ..Capabilities::default() };
        let info = StoreInfo::new("object", Timing::Observer, capabilities, vec![finding]);
        let (turn, watches) = (Mutex::default(), WatchHub::default());
        Ok(Self { info, root: root.into(), clock, turn, watches })
    }
}

#[async_trait]
impl Register for FolderRegister {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn fences(&self) -> Fences {
        Fences::Counted
    }

    fn expiry(&self) -> Expiry {
        Expiry::Observer
    }

    async fn read(&self, key: &Key) -> Result<Option<Entry>> {
        let path = path_of(&self.root, key);
        blocking(move || read(&path)).await
    }

    async fn swap(&self, write: Write<'_>) -> Result<Swap> {
        let _turn = self.turn.lock().await;
        let give_up = self.clock.now() + LOCKED_MAX;
        let lock = loop {
            let root = Arc::clone(&self.root);
            if let Some(lock) = blocking(move || try_lock(&root)).await? {
                break lock;
            }
            if self.clock.now() >= give_up {
                let text = "another process keeps the folder locked: does one hang, or is stopped?";
                return Err(Error::unavailable(text));
            }
            self.clock.sleep_until(self.clock.now() + LOCKED_PAUSE).await;
        };
        let root = Arc::clone(&self.root);
        let path = path_of(&root, write.key);
        let (body, expected) = (write.body.to_vec(), write.expected.cloned());
        let swap = blocking(move || {
            let swap = swap(&root, &path, &body, expected.as_ref());
            drop(lock);
            swap
        })
        .await;
        if matches!(write.purpose, Purpose::Free(_)) {
            self.watches.ring(write.key);
        }
        swap
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Entries> {
        let root = Arc::clone(&self.root);
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        blocking(move || {
            let mut keys = keys(&root)?;
            keys.retain(|key| {
                key.as_str().starts_with(&prefix) && after.as_ref().is_none_or(|after| key > after)
            });
            keys.sort();
            let is_more = keys.len() > limit;
            keys.truncate(limit);
            let next = keys.last().filter(|_| is_more).cloned();
            let mut entries = Vec::new();
            for key in keys {
                entries.extend(read(&path_of(&root, &key))?.map(|entry| (key, entry)));
            }
            Ok(Entries { entries, next })
        })
        .await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        Ok(self.watches.watch(key))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Error::unknown("the work on the folder was cut off")))
}

fn prepare(path: &Path) -> Result<(PathBuf, Finding)> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == Io::AlreadyExists && path.is_dir() => {}
        Err(error) if error.kind() == Io::NotFound => {
            let text = format!("the folder above {} does not exist: create it", path.display());
            return Err(Error::invalid(text));
        }
        Err(error) if matches!(error.kind(), Io::AlreadyExists | Io::NotADirectory) => {
            return Err(Error::invalid(format!("{} is not a folder", path.display())));
        }
        Err(error) => return Err(failed("creating the folder", error)),
    }
    let root = path.canonicalize().map_err(|error| failed("looking at the folder", error))?;
    let finding = kept_where(&root)?;
    drop(try_lock(&root)?);
    Ok((root, finding))
}

#[cfg(target_os = "linux")]
fn kept_where(root: &Path) -> Result<Finding> {
    use crate::stores::file_system::FileSystem;
    let found =
        FileSystem::at(root).map_err(|error| failed("looking at the folder", error.into()))?;
    Ok(match found.not_shared(root)? {
        FileSystem::Memory(name) => {
            let text = format!("the folder is on {name}: a reboot loses grants and fences");
            Finding::lowering("folder", text).remedy("use a folder on a disk")
        }
        FileSystem::Local | FileSystem::Shared(_) => {
            Finding::note("folder", "on a local disk; every write is synced")
        }
    })
}

#[cfg(not(target_os = "linux"))]
fn kept_where(_root: &Path) -> Result<Finding> {
    let text = "the folder must be on a local disk, which is not checked on this system";
    Ok(Finding::warning("folder", text))
}

/// The lock on the folder, which ends with the file; `None` while another has it.
fn try_lock(root: &Path) -> Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(0o600).open(root.join(LOCK));
    let file = file.map_err(|error| failed("opening the folder's lock", error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed("locking the folder", error.into())),
    }
}

fn read(path: &Path) -> Result<Option<Entry>> {
    match fs::read(path) {
        Ok(body) => {
            let tag = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(Some(Entry { version: Version { tag, revision: None }, body }))
        }
        Err(error) if error.kind() == Io::NotFound => Ok(None),
        Err(error) => Err(failed("reading a file of the folder", error)),
    }
}

/// To be called under the lock.
fn swap(root: &Path, path: &Path, body: &[u8], expected: Option<&Version>) -> Result<Swap> {
    let standing = read(path)?.map(|entry| entry.version);
    if standing.as_ref() != expected {
        return Ok(Swap::Conflict);
    }
    let new = root.join(NEW);
    write_synced(&new, body).map_err(|error| failed("writing into the folder", error))?;
    let parents = parents(root, path).map_err(|error| failed("creating a folder", error))?;
    fs::rename(&new, path).map_err(|error| failed("renaming in the folder", error))?;
    // From here on it is there, though not yet for good.
    for parent in parents {
        File::open(parent).and_then(|folder| folder.sync_all()).map_err(|error| {
            Error::unknown("the folder could not be synced after a write").caused_by(error)
        })?;
    }
    written(path, body)
}

/// What became of a body that was put in its place.
fn written(path: &Path, body: &[u8]) -> Result<Swap> {
    match read(path) {
        Ok(Some(entry)) if entry.body == body => Ok(Swap::Done(entry.version)),
        Ok(_) => Err(Error::unknown("another file stands where one was just written")),
        Err(error) => Err(Error::unknown("what was just written cannot be read").caused_by(error)),
    }
}

fn write_synced(path: &Path, body: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(body)?;
    file.sync_all()
}

/// Creates the folders that a file is in, and returns those that have to be synced with it.
fn parents(root: &Path, path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut parents = Vec::new();
    for parent in path.ancestors().skip(1) {
        parents.push(parent.to_owned());
        if parent == root {
            break;
        }
    }
    for parent in parents.iter().rev().skip(1) {
        match fs::DirBuilder::new().mode(0o700).create(parent) {
            Err(error) if error.kind() != Io::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(parents)
}

fn path_of(root: &Path, key: &Key) -> PathBuf {
    root.join(name::encode(key.as_str()))
}

/// All keys there are, in no order.
fn keys(root: &Path) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, start)) = folders.pop() {
        let listed = fs::read_dir(&folder).map_err(|error| failed("listing the folder", error))?;
        for entry in listed {
            let entry = entry.map_err(|error| failed("listing the folder", error))?;
            let part = entry.file_name();
            let Some(part) = part.to_str() else { continue };
            if part.ends_with(name::GOES_ON) {
                folders.push((entry.path(), format!("{start}{part}/")));
            } else {
                keys.extend(name::decode(&format!("{start}{part}")));
            }
        }
    }
    Ok(keys)
}

/// A failure before anything was changed.
fn failed(doing: &str, error: std::io::Error) -> Error {
    let (kind, why) = match error.kind() {
        Io::PermissionDenied => (ErrorKind::Denied, "this user may not"),
        Io::StorageFull | Io::QuotaExceeded => (ErrorKind::Unavailable, "the disk is full"),
        Io::ReadOnlyFilesystem => (ErrorKind::Unavailable, "the file system is read-only"),
        _ => (ErrorKind::Unavailable, "the system refused"),
    };
    Error::new(kind, format!("{doing}: {why}")).caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::SystemTime;

    use super::*;
    use crate::clock::{Moment, Sleep, SystemClock};

    /// A clock on which every sleep is over at once.
    #[derive(Clone, Debug, Default)]
    struct Jumping(Arc<AtomicU64>);

    impl Clock for Jumping {
        fn now(&self) -> Moment {
            Moment::from_nanos(self.0.load(Ordering::SeqCst))
        }

        fn wall(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }

        fn sleep_until(&self, at: Moment) -> Sleep {
            self.0.fetch_max(at.as_nanos(), Ordering::SeqCst);
            Box::pin(std::future::ready(()))
        }
    }

    async fn put(
        register: &FolderRegister,
        key: &str,
        body: &[u8],
        expected: Option<&Version>,
    ) -> Result<Swap> {
        let key = Key::new(key).unwrap();
        register.swap(Write { key: &key, expected, body, purpose: Purpose::Note }).await
    }

    #[test]
    fn a_write_that_cannot_be_read_back_may_have_been_made() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in its place cannot be read as a file.
        for path in [folder.path().to_owned(), folder.path().join("gone")] {
            assert_eq!(written(&path, b"1").unwrap_err().kind(), ErrorKind::Unknown);
        }
    }

    #[tokio::test]
    async fn a_write_needs_the_version_and_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Jumping::default());
        let register = FolderRegister::open(folder.path(), clock).await.unwrap();
        let long = format!("{}/x", "ü".repeat(400));
        for key in ["k", "..", long.as_str()] {
            let Swap::Done(first) = put(&register, key, b"1", None).await.unwrap() else {
                panic!("refused")
            };
            assert_eq!(put(&register, key, b"2", None).await.unwrap(), Swap::Conflict);
            let second = put(&register, key, b"2", Some(&first)).await.unwrap();
            assert!(matches!(second, Swap::Done(_)));
            assert_eq!(put(&register, key, b"3", Some(&first)).await.unwrap(), Swap::Conflict);
        }
        let listed = register.list("", None, 10).await.unwrap();
        let keys: Vec<_> = listed.entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["..", "k", &long]);
        let _lock = try_lock(folder.path()).unwrap().unwrap();
        let error = put(&register, "other", b"1", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }

    #[tokio::test]
    async fn a_bad_path_is_refused_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for (path, text) in [
            (file.clone(), "not a folder"),
            (file.join("a"), "not a folder"),
            (folder.path().join("a/b"), "create it"),
        ] {
            let error = FolderRegister::open(&path, Arc::new(SystemClock)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
