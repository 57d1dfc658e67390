//! What a worker is told, on its stdin, because the URL may carry a password.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The shorter of the two ttls.
pub(crate) const TTL_SHORT: Duration = Duration::from_secs(2);

/// The longer of the two ttls.
pub(crate) const TTL_LONG: Duration = Duration::from_secs(10);

/// How workers use locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Style {
    /// In every way.
    Mixed,
    /// Nobody waits and nobody forces: each claim is one question.
    AtOnce,
    /// Leases are held for longer than their ttl, which is mostly the shorter one.
    Long,
    /// The same with the shorter ttl alone.
    Brief,
    /// The same with the longer ttl.
    Longest,
    /// Work is run under the lock, which ends it in time.
    Run,
}

/// What a worker is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) parent: i32,
    pub(crate) worker: u64,
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) keys: u64,
    pub(crate) tasks: u64,
    /// When to stop, in nanoseconds on the boot clock.
    pub(crate) until: u64,
    pub(crate) style: Style,
    /// The name of a planted bug.
    pub(crate) planted: Option<String>,
    pub(crate) operation_timeout: Duration,
    /// The rate of its boot clock, in thousandths.
    pub(crate) rate: u64,
}

/// The namespace that all workers share.
pub(crate) const NAMESPACE: &str = "torture";

/// The name of one of the keys.
pub(crate) fn key(number: u64) -> String {
    format!("k{number}")
}

/// Where a worker's history is.
pub(crate) fn history(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("history-{worker}.jsonl"))
}

/// Where a worker writes what else it did.
pub(crate) fn deeds(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("deeds-{worker}.jsonl"))
}

/// Where a worker says why it gave up.
pub(crate) fn complaint(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("worker-{worker}.failed"))
}

/// Where the sink listens.
pub(crate) fn sink(folder: &Path) -> PathBuf {
    folder.join("sink.sock")
}

/// So many nanoseconds.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
