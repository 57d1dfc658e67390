//! The store as a whole, on real files.

mod files;
mod locking;
mod reboot;
mod several_processes;

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::FileStore;
use crate::claim::{Attempt, Claim, Eviction, Grant, Reentry};
use crate::clock::{Clock, SystemClock};
use crate::{Holder, Key, Lease, Owner, Store};

pub(super) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(super) fn evicting(name: &str) -> Eviction {
    Eviction::new(key(name), "a test").unwrap()
}

pub(super) fn claim(name: &str, owner: &str, ttl_ms: u64) -> Claim {
    Claim {
        key: key(name),
        owner: Owner::parse(owner).unwrap(),
        ttl: Duration::from_millis(ttl_ms),
        holder: Holder::new("test").unwrap(),
        reentry: Reentry::Adopt,
    }
}

pub(super) fn grant_of(lease: &Lease) -> Grant {
    Grant { key: lease.key.clone(), owner: lease.owner.clone(), fence: Some(lease.fence) }
}

async fn open(path: &Path) -> FileStore {
    FileStore::open(path.to_str().unwrap()).await.unwrap()
}

async fn granted(store: &FileStore, claim: &Claim) -> Lease {
    match store.try_acquire(claim).await.unwrap() {
        Attempt::Granted(lease) => lease,
        Attempt::Held(status) => panic!("held: {status:?}"),
    }
}

async fn is_held(store: &FileStore, claim: &Claim) -> bool {
    matches!(store.try_acquire(claim).await.unwrap(), Attempt::Held(_))
}

fn temporary() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    (folder, path)
}

/// Waits until `condition` holds, for ten seconds at the most.
async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let end = SystemClock.now() + Duration::from_secs(10);
    while !condition() {
        assert!(SystemClock.now() < end, "{what}: not within ten seconds");
        SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(2)).await;
    }
}

/// Drops the store and waits until its threads have let go of the file.
async fn close(store: FileStore) {
    let place = std::sync::Arc::downgrade(store.place());
    drop(store);
    wait_for("the threads end", || place.strong_count() == 0).await;
}

async fn pause(ms: u64) {
    SystemClock.sleep_until(SystemClock.now() + Duration::from_millis(ms)).await;
}
