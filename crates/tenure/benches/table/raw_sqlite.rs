//! What is compared with: SQLite without any of ours, on the same table with the same bytes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use tenure::clock::{Clock, SystemClock};
use tenure::random::SystemRandom;
use tenure::{Holder, Locks, Owner};

use crate::sample::{elapsed_since, key, median, on_one_thread, rate};

const INSERT: &str = "INSERT INTO leases
    (key, owner, holder, fence, ttl_ns, deadline_ns, granted_at_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const DELETE: &str = "DELETE FROM leases WHERE key = ?1";

/// A connection with the settings of the store's own, and nothing of it between.
#[derive(Debug)]
pub(crate) struct RawSqlite {
    connection: Connection,
    keys: Vec<String>,
    owner: String,
    holder: Holder,
    fence: i64,
}

impl RawSqlite {
    /// The store makes the file, so that its tables are the store's whatever those are.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let url = format!("file:{}", path.display());
        on_one_thread(async { Ok(drop(Locks::open(&url).await?)) })?;
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
        )?;
        let owner = Owner::generate(&SystemRandom)?.expose();
        let keys = (0..1024).map(|n| format!("t1/default/{}", key(n))).collect();
        Ok(Self { connection, keys, owner, holder: Holder::this_process(), fence: 0 })
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
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        {
            let mut insert = self.connection.prepare_cached(INSERT)?;
            let now = i64::try_from(SystemClock.now().as_nanos())?;
            let ttl = 30_000_000_000_i64;
            for key in self.keys.iter().take(batch) {
                self.fence += 1;
                let (owner, holder) = (&self.owner, self.holder.as_str());
                let wall_ms = 1_700_000_000_000_i64;
                insert.execute(params![key, owner, holder, self.fence, ttl, now + ttl, wall_ms])?;
            }
        }
        self.commit()
    }

    fn delete(&mut self, batch: usize) -> Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        {
            let mut delete = self.connection.prepare_cached(DELETE)?;
            for key in self.keys.iter().take(batch) {
                delete.execute([key])?;
            }
        }
        self.commit()
    }

    fn commit(&self) -> Result<()> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}
