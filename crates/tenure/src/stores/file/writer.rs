//! The thread that owns the connection: it takes the waiting jobs, decides them in one
//! transaction, and has them answered once that is committed, and synced where it must be.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use super::batch::Batch;
use super::boot::Boot;
use super::error::{explain, explain_commit, replaced, system, taints_connection};
use super::job::{Job, Kind};
use super::place::{Place, Stamp};
use super::rows::Rows;
use super::schema::{self, Link};
use super::sync::{Committed, Log, Syncer};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::rule::Now;
use crate::watch::WatchHub;

/// The most jobs of one transaction: a bound on how long the write lock is kept from others.
const BATCH_MAX: usize = 1024;

/// What the writer thread keeps.
#[derive(Debug)]
pub(super) struct Writer {
    place: Arc<Place>,
    boot: Boot,
    jobs: Receiver<Box<dyn Job>>,
    stamp: Stamp,
    link: Option<Link>,
    // Set once the file cannot be trusted any more, for good: a new store has to be opened.
    refusal: Option<Error>,
    hub: WatchHub,
    syncer: Syncer,
}

/// A transaction that was not committed, or not surely: all its jobs have failed.
struct Undone(Error, Connection);

/// What is to become of the connection after a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connection {
    Keep,
    Replace,
}

impl Writer {
    pub(super) fn open(
        place: Arc<Place>,
        boot: Boot,
        hub: WatchHub,
        jobs: Receiver<Box<dyn Job>>,
    ) -> Result<Self> {
        let link = schema::open(&place, &boot)?;
        let syncer = Syncer::start(Arc::clone(&place))?;
        let (stamp, link) = (link.stamp, Some(link));
        Ok(Self { place, boot, jobs, stamp, link, refusal: None, hub, syncer })
    }

    /// Works until every sender of jobs has gone and the last job is done.
    pub(super) fn run(mut self) {
        while let Some(jobs) = self.gather() {
            match self.connect() {
                Ok(link) => self.serve(&link, jobs),
                Err(error) => refuse(jobs, &error),
            }
        }
    }

    /// The jobs that wait, at least one; `None` when there will be no more.
    fn gather(&mut self) -> Option<Vec<Box<dyn Job>>> {
        let first = self.next()?;
        let mut jobs = Vec::with_capacity(16);
        jobs.push(first);
        self.gather_more(&mut jobs);
        jobs.retain(|job| !job.is_abandoned());
        Some(jobs)
    }

    /// The next job. Syncs that were put off are begun while there is none.
    fn next(&mut self) -> Option<Box<dyn Job>> {
        while let Some(left) = self.syncer.sync_if_due() {
            match self.jobs.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                job => return job.ok(),
            }
        }
        self.jobs.recv().ok()
    }

    /// Adds the jobs that have come meanwhile.
    fn gather_more(&self, jobs: &mut Vec<Box<dyn Job>>) {
        let room = BATCH_MAX.saturating_sub(jobs.len());
        jobs.extend(self.jobs.try_iter().take(room).filter(|job| !job.is_abandoned()));
    }

    fn connect(&mut self) -> Result<Link> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if let Some(link) = self.link.take() {
            return Ok(link);
        }
        let link = schema::open(&self.place, &self.boot)?;
        if link.stamp != self.stamp {
            let same_file = self.place.database().is_ok_and(|now| self.stamp.is_of(now));
            if !same_file {
                return Err(self.latch(replaced(self.place.path().display())));
            }
            // Ours was the last connection, so SQLite has made a new log.
            self.stamp = link.stamp;
        }
        Ok(link)
    }

    /// Works on one connection for as long as it can be trusted.
    fn serve(&mut self, link: &Link, jobs: Vec<Box<dyn Job>>) {
        let ready =
            self.place.log().map_err(|error| system(error, "opening the log")).and_then(|file| {
                let log = Arc::new(Log { file, stamp: self.stamp });
                let rows = Rows::new(&link.connection);
                rows.map(|rows| (rows, log)).map_err(|error| explain(error, self.place.path()))
            });
        let (mut rows, log) = match ready {
            Ok(ready) => ready,
            Err(error) => return refuse(jobs, &error),
        };
        let mut next = Some(jobs);
        while let Some(jobs) = next {
            if let Some(refusal) = &self.refusal {
                refuse(jobs, refusal);
            } else if self.work(&mut rows, &log, jobs) == Connection::Replace {
                return rows.abandon();
            }
            next = self.gather();
        }
        // Closing the last connection takes the log away: all answers come first.
        self.syncer.drain();
    }

    /// After a failed sync the kernel may count lost pages of the log as written, and what stands
    /// in them can still be read. Nothing is told of it before all of it is written anew.
    fn settle(&self, rows: &Rows<'_>) -> Result<()> {
        if self.syncer.is_unsettled() {
            rows.rewrite().map_err(|error| explain(error, self.place.path()))?;
            self.syncer.settled();
        }
        Ok(())
    }

    fn work(&mut self, rows: &mut Rows<'_>, log: &Arc<Log>, jobs: Vec<Box<dyn Job>>) -> Connection {
        if let Err(error) = self.settle(rows) {
            refuse(jobs, &error);
            return Connection::Replace;
        }
        // Whoever waits at the same time has no order to keep, so those who only look go first:
        // they need no lock.
        let (reads, writes): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.kind() == Kind::Read);
        if !reads.is_empty() && self.read(rows, log, reads) == Connection::Replace {
            refuse(writes, &Error::unavailable("the store reconnects to its file; try again"));
            return Connection::Replace;
        }
        if writes.is_empty() { Connection::Keep } else { self.write(rows, log, writes) }
    }

    fn read(
        &mut self,
        rows: &mut Rows<'_>,
        log: &Arc<Log>,
        mut jobs: Vec<Box<dyn Job>>,
    ) -> Connection {
        // Before what is read is fixed: a lease that is renewed meanwhile must not look expired.
        let asked = now();
        let looked = rows.begin_read().and_then(|()| rows.meta()).and_then(|meta| {
            let mut batch = Batch::new(rows, self.place.path(), asked, meta.fence);
            jobs.iter_mut().try_for_each(|job| job.decide(&mut batch))?;
            Ok(meta.boot == self.boot.id)
        });
        let undone = rows.rollback();
        match looked.and_then(|same_boot| undone.map(|()| same_boot)) {
            Ok(true) => {
                self.syncer.answer(Committed { jobs, log: Arc::clone(log) });
                Connection::Keep
            }
            Ok(false) => {
                refuse(jobs, &self.other_machine());
                Connection::Keep
            }
            Err(error) => {
                let (error, connection) = self.fail(error);
                refuse(jobs, &error);
                connection
            }
        }
    }

    fn write(
        &mut self,
        rows: &mut Rows<'_>,
        log: &Arc<Log>,
        mut jobs: Vec<Box<dyn Job>>,
    ) -> Connection {
        let freed = match self.transact(rows, &mut jobs) {
            Ok(freed) => freed,
            Err(Undone(error, connection)) => {
                refuse(jobs, &error);
                return connection;
            }
        };
        let (jobs, done): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.must_sync());
        if !jobs.is_empty() || !freed.is_empty() {
            self.syncer.answer(Committed { jobs, log: Arc::clone(log) });
        }
        self.ring(&freed);
        done.into_iter().for_each(Job::answer);
        Connection::Keep
    }

    /// Tells whoever waits for these keys; before the answers, because whoever got one may end its
    /// process at once.
    fn ring(&self, freed: &[Key]) {
        if freed.is_empty() {
            return;
        }
        freed.iter().for_each(|key| self.hub.ring(key));
        if let Err(error) = self.place.touch() {
            tracing::debug!(%error, "the other processes find the release by polling");
        }
    }

    /// One transaction over all jobs; the keys that it freed.
    fn transact(
        &mut self,
        rows: &mut Rows<'_>,
        jobs: &mut Vec<Box<dyn Job>>,
    ) -> Result<Vec<Key>, Undone> {
        rows.begin().map_err(|error| self.undo(rows, error))?;
        // The lock may have been a while in coming: one commit is to serve all who wait by now.
        self.gather_more(jobs);
        if let Some(refusal) = self.check_place() {
            return Err(self.give_up(rows, refusal));
        }
        let meta = rows.meta().map_err(|error| self.undo(rows, error))?;
        if meta.boot != self.boot.id {
            return Err(self.give_up(rows, self.other_machine()));
        }
        let mut batch = Batch::new(rows, self.place.path(), now(), meta.fence);
        let decided = jobs.iter_mut().try_for_each(|job| job.decide(&mut batch));
        let Batch { now, fence, freed, wrote, .. } = batch;
        decided.map_err(|error| self.undo(rows, error))?;
        if !wrote {
            rows.rollback().map_err(|error| self.undo(rows, error))?;
            return Ok(freed);
        }
        rows.sweep(now.at).map_err(|error| self.undo(rows, error))?;
        if fence != meta.fence {
            rows.set_fence(fence).map_err(|error| self.undo(rows, error))?;
        }
        rows.commit().map_err(|error| self.undo_commit(rows, error))?;
        Ok(freed)
    }

    /// The refusal, when the files in use are no longer those that the path leads to.
    fn check_place(&mut self) -> Option<Error> {
        if self.place.stamp().is_ok_and(|now| now == self.stamp) {
            return None;
        }
        Some(self.latch(replaced(self.place.path().display())))
    }

    fn other_machine(&self) -> Error {
        let text = format!(
            "{} was opened under another boot id while in use here: two machines share it; give \
             each its own file, or use a shared store",
            self.place.path().display()
        );
        Error::new(ErrorKind::Mismatch, text)
    }

    fn latch(&mut self, refusal: Error) -> Error {
        self.refusal = Some(refusal.clone());
        refusal
    }

    /// Undoes a transaction that failed before its commit.
    fn undo(&mut self, rows: &Rows<'_>, error: rusqlite::Error) -> Undone {
        let undone = rows.rollback();
        let (error, connection) = self.fail(error);
        Undone(error, if undone.is_err() { Connection::Replace } else { connection })
    }

    /// Undoes a transaction that must not go on.
    fn give_up(&mut self, rows: &Rows<'_>, error: Error) -> Undone {
        let connection =
            if rows.rollback().is_err() { Connection::Replace } else { Connection::Keep };
        Undone(error, connection)
    }

    fn undo_commit(&mut self, rows: &Rows<'_>, error: rusqlite::Error) -> Undone {
        let undone = rows.rollback();
        let error = explain_commit(error, self.place.path());
        let unknown = error.kind() == ErrorKind::Unknown;
        if unknown {
            self.syncer.unsettle();
        }
        let replace = undone.is_err() || unknown;
        let connection = if replace { Connection::Replace } else { Connection::Keep };
        Undone(error, connection)
    }

    fn fail(&mut self, error: rusqlite::Error) -> (Error, Connection) {
        let connection =
            if taints_connection(&error) { Connection::Replace } else { Connection::Keep };
        let error = explain(error, self.place.path());
        // Where one page is broken others may be: nothing is granted until an operator has looked.
        if error.kind() == ErrorKind::Damaged {
            self.latch(error.clone());
        }
        (error, connection)
    }
}

fn refuse(jobs: Vec<Box<dyn Job>>, error: &Error) {
    for job in jobs {
        job.refuse(error);
    }
}

/// The present moment, its wall time as exact as the file keeps it.
fn now() -> Now {
    let wall = SystemClock.wall();
    let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(millis.min(i64::MAX as u64));
    Now { at: SystemClock.now(), wall }
}

#[cfg(test)]
#[path = "tests/writer.rs"]
mod tests;
