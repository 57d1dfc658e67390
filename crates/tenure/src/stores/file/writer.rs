//! The thread that owns the connection: it takes the waiting jobs, decides them in one
//! transaction, and answers only once that is committed.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

use super::batch::Batch;
use super::boot::Boot;
use super::error::{explain, explain_commit, replaced, replaced_after_commit, taints_connection};
use super::job::{Job, Kind};
use super::place::{Place, Stamp};
use super::rows::Rows;
use super::schema::{self, Link};
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
    hub: WatchHub,
    jobs: Receiver<Box<dyn Job>>,
    stamp: Stamp,
    link: Option<Link>,
    // Set once the file cannot be trusted any more, for good: a new store has to be opened.
    refusal: Option<Error>,
    // Whether commits of the present connection wait for the disk.
    synced: bool,
    // A commit failed, and the disk may lack what the log seems to hold.
    unsettled: bool,
}

/// How a transaction ended that was not committed, or not surely.
enum Undone {
    /// It has to be synced and was begun without: once more.
    NeedsSync,
    /// All its jobs have failed.
    Failed(Error, Connection),
}

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
        let stamp = link.stamp;
        let link = Some(link);
        Ok(Self {
            place,
            boot,
            hub,
            jobs,
            stamp,
            link,
            refusal: None,
            synced: true,
            unsettled: false,
        })
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
    fn gather(&self) -> Option<Vec<Box<dyn Job>>> {
        let first = self.jobs.recv().ok()?;
        let mut jobs = Vec::with_capacity(16);
        jobs.push(first);
        self.gather_more(&mut jobs);
        jobs.retain(|job| !job.is_abandoned());
        Some(jobs)
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
        self.synced = true;
        Ok(link)
    }

    /// Works on one connection for as long as it can be trusted.
    fn serve(&mut self, link: &Link, jobs: Vec<Box<dyn Job>>) {
        let mut rows = match Rows::new(&link.connection) {
            Ok(rows) => rows,
            Err(error) => return refuse(jobs, &explain(error, self.place.path())),
        };
        let mut next = Some(jobs);
        while let Some(jobs) = next {
            if let Some(refusal) = &self.refusal {
                refuse(jobs, refusal);
            } else if self.work(&mut rows, jobs) == Connection::Replace {
                return rows.abandon();
            }
            next = self.gather();
        }
    }

    /// After a failed sync the kernel may count lost pages of the log as written, and what stands
    /// in them can still be read. Nothing is told of it before all of it is written anew.
    fn settle(&mut self, rows: &Rows<'_>) -> Result<()> {
        if self.unsettled {
            rows.rewrite().map_err(|error| explain(error, self.place.path()))?;
            self.synced = true;
            self.unsettled = false;
        }
        Ok(())
    }

    fn work(&mut self, rows: &mut Rows<'_>, jobs: Vec<Box<dyn Job>>) -> Connection {
        if let Err(error) = self.settle(rows) {
            refuse(jobs, &error);
            return Connection::Replace;
        }
        // Whoever waits at the same time has no order to keep, so those who only look go first:
        // they need no lock and no sync.
        let (reads, writes): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.kind() == Kind::Read);
        if !reads.is_empty() && self.read(rows, reads) == Connection::Replace {
            refuse(writes, &Error::unavailable("the store reconnects to its file; try again"));
            return Connection::Replace;
        }
        if writes.is_empty() { Connection::Keep } else { self.write(rows, writes) }
    }

    fn read(&mut self, rows: &mut Rows<'_>, mut jobs: Vec<Box<dyn Job>>) -> Connection {
        let looked = rows.begin_read().and_then(|()| rows.meta()).and_then(|meta| {
            let mut batch = Batch::new(rows, self.place.path(), now(), meta.fence);
            jobs.iter_mut().try_for_each(|job| job.decide(&mut batch))?;
            Ok(meta.boot == self.boot.id)
        });
        let undone = rows.rollback();
        match looked.and_then(|same_boot| undone.map(|()| same_boot)) {
            Ok(same_boot) => {
                let refusal =
                    if same_boot { self.check_place() } else { Some(self.other_machine()) };
                match refusal {
                    None => jobs.into_iter().for_each(Job::answer),
                    Some(refusal) => refuse(jobs, &refusal),
                }
                Connection::Keep
            }
            Err(error) => {
                let (error, connection) = self.fail(error);
                refuse(jobs, &error);
                connection
            }
        }
    }

    fn write(&mut self, rows: &mut Rows<'_>, mut jobs: Vec<Box<dyn Job>>) -> Connection {
        let sync = jobs.iter().any(|job| job.kind() != Kind::Renewal);
        let outcome = match self.transact(rows, &mut jobs, sync) {
            Err(Undone::NeedsSync) => self.transact(rows, &mut jobs, true),
            other => other,
        };
        match outcome {
            Ok(freed) => {
                // Before the answers: whoever got one may end its process at once.
                self.ring(&freed);
                jobs.into_iter().for_each(Job::answer);
                Connection::Keep
            }
            Err(Undone::Failed(error, connection)) => {
                refuse(jobs, &error);
                connection
            }
            Err(Undone::NeedsSync) => {
                refuse(jobs, &Error::unavailable("the commit could not be synced"));
                Connection::Replace
            }
        }
    }

    /// One transaction over all jobs; the keys that it freed.
    fn transact(
        &mut self,
        rows: &mut Rows<'_>,
        jobs: &mut Vec<Box<dyn Job>>,
        sync: bool,
    ) -> Result<Vec<Key>, Undone> {
        if self.synced != sync {
            rows.set_synced(sync).map_err(|error| self.undo(rows, error))?;
            self.synced = sync;
        }
        rows.begin().map_err(|error| self.undo(rows, error))?;
        // The lock may have been a while in coming: one commit is to serve all who wait by now.
        if sync {
            self.gather_more(jobs);
        }
        if let Some(refusal) = self.check_place() {
            return Err(self.give_up(rows, refusal));
        }
        let meta = rows.meta().map_err(|error| self.undo(rows, error))?;
        if meta.boot != self.boot.id {
            return Err(self.give_up(rows, self.other_machine()));
        }
        let mut batch = Batch::new(rows, self.place.path(), now(), meta.fence);
        let decided = jobs.iter_mut().try_for_each(|job| job.decide(&mut batch));
        let Batch { now, fence, freed, wrote, must_sync, .. } = batch;
        decided.map_err(|error| self.undo(rows, error))?;
        if !wrote || (must_sync && !sync) {
            rows.rollback().map_err(|error| self.undo(rows, error))?;
            return if wrote { Err(Undone::NeedsSync) } else { Ok(freed) };
        }
        rows.sweep(now.at).map_err(|error| self.undo(rows, error))?;
        if fence != meta.fence {
            rows.set_fence(fence).map_err(|error| self.undo(rows, error))?;
        }
        rows.commit().map_err(|error| self.undo_commit(rows, error))?;
        if self.check_place().is_some() {
            let unknown = replaced_after_commit(self.place.path().display());
            return Err(Undone::Failed(unknown, Connection::Keep));
        }
        Ok(freed)
    }

    /// Wakes those who wait for a key: here, and in other processes.
    fn ring(&self, freed: &[Key]) {
        if freed.is_empty() {
            return;
        }
        freed.iter().for_each(|key| self.hub.ring(key));
        if let Err(error) = self.place.touch() {
            tracing::debug!(%error, "the other processes find the release by polling");
        }
    }

    fn is_in_place(&self) -> bool {
        self.place.stamp().is_ok_and(|now| now == self.stamp)
    }

    /// The refusal, when the files in use are no longer those that the path leads to.
    fn check_place(&mut self) -> Option<Error> {
        if self.is_in_place() {
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
        Undone::Failed(error, if undone.is_err() { Connection::Replace } else { connection })
    }

    /// Undoes a transaction that must not go on.
    fn give_up(&mut self, rows: &Rows<'_>, error: Error) -> Undone {
        let connection =
            if rows.rollback().is_err() { Connection::Replace } else { Connection::Keep };
        Undone::Failed(error, connection)
    }

    fn undo_commit(&mut self, rows: &Rows<'_>, error: rusqlite::Error) -> Undone {
        let undone = rows.rollback();
        let error = explain_commit(error, self.place.path());
        self.unsettled |= error.kind() == ErrorKind::Unknown;
        let connection =
            if undone.is_err() || self.unsettled { Connection::Replace } else { Connection::Keep };
        Undone::Failed(error, connection)
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
