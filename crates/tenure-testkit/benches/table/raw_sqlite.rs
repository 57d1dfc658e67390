//! What is compared with: SQLite without any of ours, on the same table with the same bytes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::{Connection, Statement, params};
use tenure::clock::{Clock, SystemClock};
use tenure::random::SystemRandom;
use tenure::{Holder, Locks, Owner};

use crate::sample::{elapsed_since, key, median, on_one_thread, rate};

const TTL_NS: i64 = 30_000_000_000;
const WALL_MS: i64 = 1_800_000_000_000;

/// A connection with the settings of the store's own. The store makes the file, so that the tables
/// are the store's, whatever those are.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let url = format!("file:{}", path.display());
    on_one_thread(async {
        Locks::open(&url).await?;
        Ok(())
    })?;
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
    )?;
    Ok(connection)
}

/// The statements that write, prepared, and what they write.
#[derive(Debug)]
pub(crate) struct RawSqlite<'c> {
    begin: Statement<'c>,
    insert: Statement<'c>,
    delete: Statement<'c>,
    commit: Statement<'c>,
    keys: Vec<String>,
    owner: String,
    holder: Holder,
    fence: i64,
}

impl<'c> RawSqlite<'c> {
    pub(crate) fn on(connection: &'c Connection) -> Result<Self> {
        Ok(Self {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            insert: connection.prepare(
                "INSERT INTO leases
                    (key, owner, holder, fence, ttl_ns, deadline_ns, granted_at_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?,
            delete: connection.prepare("DELETE FROM leases WHERE key = ?1")?,
            commit: connection.prepare("COMMIT")?,
            keys: (0..1024).map(|number| format!("t1/default/{}", key(number))).collect(),
            owner: Owner::generate(&SystemRandom)?.expose(),
            holder: Holder::this_process(),
            fence: 0,
        })
    }

    /// Inserts and deletes rows for this long, `batch` of them per transaction; how many went in
    /// and out again per second.
    pub(crate) fn grants_per_second(&mut self, batch: usize, limit: Duration) -> Result<f64> {
        let start = SystemClock.now();
        let mut count = 0;
        while elapsed_since(start) < limit {
            self.insert(batch)?;
            self.delete(batch)?;
            count += batch as u64;
        }
        Ok(rate(count, elapsed_since(start)))
    }

    /// The median time of a transaction that inserts or deletes one row.
    pub(crate) fn commit_time(&mut self, samples: usize) -> Result<Duration> {
        let mut times = Vec::with_capacity(samples * 2);
        for _ in 0..samples {
            let start = SystemClock.now();
            self.insert(1)?;
            let inserted = SystemClock.now();
            self.delete(1)?;
            times.extend([inserted.since(start), elapsed_since(inserted)]);
        }
        median(&mut times).context("no samples")
    }

    fn insert(&mut self, batch: usize) -> Result<()> {
        self.begin.execute([])?;
        let deadline = i64::try_from(SystemClock.now().as_nanos())? + TTL_NS;
        let (owner, holder) = (&self.owner, self.holder.as_str());
        for key in self.keys.iter().take(batch) {
            self.fence += 1;
            let row = params![key, owner, holder, self.fence, TTL_NS, deadline, WALL_MS];
            self.insert.execute(row)?;
        }
        self.commit.execute([])?;
        Ok(())
    }

    fn delete(&mut self, batch: usize) -> Result<()> {
        self.begin.execute([])?;
        for key in self.keys.iter().take(batch) {
            self.delete.execute([key])?;
        }
        self.commit.execute([])?;
        Ok(())
    }
}
