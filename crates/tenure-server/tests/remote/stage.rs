//! A server in this process, and stores that speak to it.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tenure::claim::{Claim, Reentry};
use tenure::clock::SystemClock;
use tenure::{Backoff, Holder, Key, Locks, LocksBuilder, Owner, Store};
use tenure_server::Running;
use tenure_server::config::Config;

/// A server on a free port, with a file of its own.
pub(crate) struct Stage {
    pub(crate) running: Running,
    _folder: TempDir,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// With more of a configuration.
    pub(crate) async fn with(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks.db");
        let text = format!(
            "listen = '127.0.0.1:0'\n{more}\n[stores.main]\nurl = 'file:{}'\n",
            file.display()
        );
        let running = Running::start(Config::parse(&text).unwrap()).await.unwrap();
        Self { running, _folder: folder }
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("tenure://{}{rest}", self.running.address())
    }

    pub(crate) async fn store(&self, rest: &str) -> tenure::Result<Arc<dyn Store>> {
        tenure::stores::open(&self.url(rest), Arc::new(SystemClock)).await
    }

    /// Locks that are woken or not: they never look by themselves.
    pub(crate) async fn locks(&self) -> Locks {
        self.locks_in("default").await
    }

    pub(crate) async fn locks_in(&self, namespace: &str) -> Locks {
        never_looks().namespace(namespace).open(&self.url("")).await.unwrap()
    }
}

fn never_looks() -> LocksBuilder {
    let hour = Duration::from_secs(3600);
    Locks::builder().poll(Backoff { base: hour, cap: hour, jitter: 0.0 })
}

/// What the configuration says about a token, with its grants in TOML.
pub(crate) fn token(token: &str, grants: &str) -> String {
    let digest = Sha256::digest(token);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[tokens]]\nname = '{token}'\nsha256 = '{hex}'\ngrants = {grants}\n")
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub(crate) fn claim(key: &str, owner: &str) -> Claim {
    Claim {
        key: self::key(key),
        owner: Owner::parse(owner).unwrap(),
        ttl: Duration::from_secs(30),
        holder: Holder::new("test").unwrap(),
        reentry: Reentry::Adopt,
    }
}
