//! The statements, prepared once per connection, and rows as [`Record`]s.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Row, Statement, params};

use crate::claim::{ListQuery, Page, Pledge};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::owner::Owner;
use crate::rule::Record;

/// How many expired rows one batch clears away.
const SWEEP: i64 = 64;

/// A row that is not what this store writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unreadable;

/// What the file says of itself at the start of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// The greatest fence given so far.
    pub fence: i64,
    /// The boot that its deadlines belong to.
    pub boot: String,
}

/// The statements of one connection.
#[derive(Debug)]
pub(super) struct Rows<'c> {
    connection: &'c Connection,
    begin: Statement<'c>,
    begin_read: Statement<'c>,
    commit: Statement<'c>,
    meta: Statement<'c>,
    set_fence: Statement<'c>,
    get: Statement<'c>,
    put: Statement<'c>,
    prolong: Statement<'c>,
    remove: Statement<'c>,
    expired: Statement<'c>,
    list: Statement<'c>,
    pledge: Statement<'c>,
    add_pledge: Statement<'c>,
}

impl<'c> Rows<'c> {
    pub(super) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        let prepare = |sql| connection.prepare(sql);
        Ok(Self {
            connection,
            begin: prepare("BEGIN IMMEDIATE")?,
            begin_read: prepare("BEGIN DEFERRED")?,
            commit: prepare("COMMIT")?,
            meta: prepare(
                "SELECT (SELECT value FROM meta WHERE name = 'fence'),
                        (SELECT value FROM meta WHERE name = 'boot')",
            )?,
            set_fence: prepare("UPDATE meta SET value = ?1 WHERE name = 'fence'")?,
            get: prepare(
                "SELECT owner, holder, fence, ttl_ns, deadline_ns, granted_at_ms
                 FROM leases WHERE key = ?1",
            )?,
            put: prepare(
                "INSERT INTO leases
                    (key, owner, holder, fence, ttl_ns, deadline_ns, granted_at_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
            )?,
            prolong: prepare(
                "UPDATE leases SET ttl_ns = ?3, deadline_ns = ?4 WHERE key = ?1 AND fence = ?2",
            )?,
            remove: prepare("DELETE FROM leases WHERE key = ?1")?,
            // Not one DELETE with a subquery: that would build a temporary table in every batch.
            expired: prepare(
                "SELECT key FROM leases WHERE deadline_ns <= ?1 ORDER BY deadline_ns LIMIT ?2",
            )?,
            // The plus keeps the planner on the order of the keys.
            list: prepare(
                "SELECT owner, holder, fence, ttl_ns, deadline_ns, granted_at_ms, key
                 FROM leases WHERE key >= ?1 AND key IS NOT ?2 AND +deadline_ns > ?3
                 ORDER BY key LIMIT ?4",
            )?,
            pledge: prepare("SELECT fingerprint FROM pledges WHERE namespace = ?1")?,
            add_pledge: prepare(
                "INSERT INTO pledges (namespace, fingerprint) VALUES (?1, ?2)
                 ON CONFLICT DO NOTHING",
            )?,
        })
    }

    pub(super) fn begin(&mut self) -> rusqlite::Result<()> {
        self.begin.execute([]).map(drop)
    }

    pub(super) fn begin_read(&mut self) -> rusqlite::Result<()> {
        self.begin_read.execute([]).map(drop)
    }

    pub(super) fn commit(&mut self) -> rusqlite::Result<()> {
        self.commit.execute([]).map(drop)
    }

    /// Undoes the transaction, unless SQLite already has.
    pub(super) fn rollback(&self) -> rusqlite::Result<()> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("ROLLBACK")
    }

    /// Writes everything that stands in the log into the database, synced, and begins a new log.
    pub(super) fn rewrite(&self) -> rusqlite::Result<()> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy: bool = self.connection.query_row(sql, [], |row| row.get(0))?;
        if busy {
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(busy, None));
        }
        Ok(())
    }

    /// Leaves the log alone when the connection closes.
    pub(super) fn abandon(&self) {
        use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        // Where even this fails, closing does what SQLite thinks is right.
        let _ = self.connection.set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    pub(super) fn meta(&mut self) -> rusqlite::Result<Meta> {
        self.meta.query_row([], |row| Ok(Meta { fence: row.get(0)?, boot: row.get(1)? }))
    }

    pub(super) fn set_fence(&mut self, fence: i64) -> rusqlite::Result<()> {
        self.set_fence.execute([fence]).and_then(exactly_one)
    }

    pub(super) fn get(
        &mut self,
        key: &Key,
    ) -> rusqlite::Result<Option<Result<Record, Unreadable>>> {
        let mut rows = self.get.query([key.as_str()])?;
        Ok(rows.next()?.map(record))
    }

    /// Puts a record where there is none; whether there was none.
    pub(super) fn put(
        &mut self,
        key: &Key,
        record: &Record,
        times: Times,
    ) -> rusqlite::Result<bool> {
        let (owner, fence) = (record.owner.expose(), record.fence.get());
        let changed = self.put.execute(params![
            key.as_str(),
            owner,
            record.holder.as_str(),
            integer(fence),
            times.ttl_ns,
            times.deadline_ns,
            millis(record.granted_at),
        ])?;
        Ok(changed == 1)
    }

    pub(super) fn prolong(
        &mut self,
        key: &Key,
        fence: Fence,
        times: Times,
    ) -> rusqlite::Result<()> {
        self.prolong
            .execute(params![key.as_str(), integer(fence.get()), times.ttl_ns, times.deadline_ns])
            .and_then(exactly_one)
    }

    pub(super) fn remove(&mut self, key: &Key) -> rusqlite::Result<()> {
        self.remove.execute([key.as_str()]).and_then(exactly_one)
    }

    pub(super) fn sweep(&mut self, now: Moment) -> rusqlite::Result<()> {
        let found = self.expired.query_map([integer(now.as_nanos()), SWEEP], |row| row.get(0))?;
        let keys: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
        keys.iter().try_for_each(|key| self.remove.execute([key]).and_then(exactly_one))
    }

    pub(super) fn list(
        &mut self,
        query: &ListQuery,
        now: Moment,
    ) -> rusqlite::Result<Result<Page, Unreadable>> {
        let after = query.after.as_ref().map(Key::as_str);
        let from = after.map_or(query.prefix.as_str(), |after| after.max(&query.prefix));
        let one_more = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut rows = self.list.query(params![from, after, integer(now.as_nanos()), one_more])?;
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            let Ok(text) = row.get_ref(6)?.as_str() else { return Ok(Err(Unreadable)) };
            if !text.starts_with(&query.prefix) {
                break;
            }
            if items.len() == query.limit {
                return Ok(Ok(Page::new(items, true)));
            }
            match record(row) {
                Ok(found) => items.push(found.status(&Key::stored(text.to_owned()), now)),
                Err(unreadable) => return Ok(Err(unreadable)),
            }
        }
        Ok(Ok(Page::new(items, false)))
    }

    /// The fingerprint that stands, and whether it is this one and new.
    pub(super) fn agree(&mut self, pledge: &Pledge) -> rusqlite::Result<(String, bool)> {
        let namespace = pledge.namespace.as_str();
        let added = self.add_pledge.execute([namespace, &pledge.fingerprint])?;
        let standing = self.pledge.query_row([namespace], |row| row.get(0))?;
        Ok((standing, added > 0))
    }
}

/// A record's durations as they are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    ttl_ns: i64,
    deadline_ns: i64,
}

impl Times {
    /// `None` when they are past what a row can hold, some 292 years.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let ttl_ns = i64::try_from(record.ttl.as_nanos()).ok()?;
        let deadline_ns = i64::try_from(record.deadline.as_nanos()).ok()?;
        // After a reboot the deadline is a small number plus the ttl: that must fit as well.
        (ttl_ns <= i64::MAX / 2).then_some(Self { ttl_ns, deadline_ns })
    }
}

pub(super) fn record(row: &Row<'_>) -> Result<Record, Unreadable> {
    let text = |at| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
    let number = |at| {
        let value = row.get_ref(at).ok().and_then(|value| value.as_i64().ok());
        value.and_then(|value| u64::try_from(value).ok()).ok_or(Unreadable)
    };
    let owner = text(0).and_then(|text| Owner::parse(text).ok()).ok_or(Unreadable)?;
    let holder = text(1).and_then(|text| Holder::new(text).ok()).ok_or(Unreadable)?;
    Ok(Record {
        owner,
        holder,
        fence: Fence::new(number(2)?),
        ttl: Duration::from_nanos(number(3)?),
        deadline: Moment::from_nanos(number(4)?),
        granted_at: SystemTime::UNIX_EPOCH + Duration::from_millis(number(5)?),
    })
}

/// A row that was just read must be there to change; if not, table and index disagree.
fn exactly_one(changed: usize) -> rusqlite::Result<()> {
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
