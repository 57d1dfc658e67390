//! Waiting for the disk, outside of the write lock.
//!
//! A commit writes to the log and lets go of the lock; whoever was granted something is answered
//! once the log is synced, which one call does for all commits that wait by then, of this and of
//! other processes. Releases are synced too, but nobody waits for that: it is put off for a while,
//! and the next grant does it along with its own.
//! What is seen before it is synced does no harm: whoever acts on it syncs the same log, and with
//! it all that stands before.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use super::error::{replaced_after_commit, unsynced};
use super::job::Job;
use super::place::{Place, Stamp};
use crate::clock::{Clock, Moment, SystemClock};
use crate::error::{Error, Result};

/// How long the sync of releases is put off: until then, a machine that goes down forgets them, and
/// their keys are free a ttl later than they could be.
const POSTPONED_MAX: Duration = Duration::from_millis(10);

/// The log that a connection writes to.
#[derive(Debug)]
pub(super) struct Log {
    pub file: File,
    /// The files that the connection uses.
    pub stamp: Stamp,
}

/// Jobs that are decided and committed, and not yet synced.
#[derive(Debug)]
pub(super) struct Committed {
    pub jobs: Vec<Box<dyn Job>>,
    pub log: Arc<Log>,
}

#[derive(Debug)]
enum Message {
    Committed(Committed),
    Drain(SyncSender<()>),
}

/// The thread that syncs and answers. It ends when this is dropped and all is answered.
#[derive(Debug)]
pub(super) struct Syncer {
    messages: Sender<Message>,
    state: Arc<State>,
    postponed: Option<Postponed>,
}

/// A sync that nobody waits for, and when it has to be.
#[derive(Debug)]
struct Postponed {
    log: Arc<Log>,
    at: Moment,
}

#[derive(Debug, Default)]
struct State {
    /// A sync failed: the kernel may count lost pages of the log as written.
    unsettled: AtomicBool,
    syncs: AtomicU64,
}

impl Syncer {
    pub(super) fn start(place: Arc<Place>) -> Result<Self> {
        let (messages, waiting) = channel();
        let state = Arc::new(State::default());
        let work = Work { place, state: Arc::clone(&state) };
        std::thread::Builder::new()
            .name("tenure-sync".into())
            .spawn(move || work.run(&waiting))
            .map_err(|error| Error::unavailable("no thread could be started").caused_by(error))?;
        Ok(Self { messages, state, postponed: None })
    }

    /// Has the jobs answered as soon as the log is synced. Where there are none, that has time.
    pub(super) fn answer(&mut self, committed: Committed) {
        if !committed.jobs.is_empty() {
            // One sync does for all that stands before.
            self.postponed = None;
            self.send(committed);
        } else if self.postponed.is_none() {
            let at = SystemClock.now() + POSTPONED_MAX;
            self.postponed = Some(Postponed { log: committed.log, at });
        }
    }

    /// Begins the sync that was put off if its time has come. How long there is until then, if it
    /// has not; `None` when nothing is put off any more.
    pub(super) fn sync_if_due(&mut self) -> Option<Duration> {
        let left = self.postponed.as_ref()?.at.since(SystemClock.now());
        if left.is_zero() {
            self.sync_postponed();
            return None;
        }
        Some(left)
    }

    fn sync_postponed(&mut self) {
        if let Some(Postponed { log, .. }) = self.postponed.take() {
            self.send(Committed { jobs: Vec::new(), log });
        }
    }

    fn send(&self, committed: Committed) {
        if let Err(unsent) = self.messages.send(Message::Committed(committed))
            && let Message::Committed(Committed { jobs, .. }) = unsent.0
        {
            let gone = Error::unknown("the thread that syncs the store has ended; reopen it");
            jobs.into_iter().for_each(|job| job.refuse(&gone));
        }
    }

    /// Returns when everything so far is synced and answered.
    pub(super) fn drain(&mut self) {
        self.sync_postponed();
        let (done, wait) = sync_channel(1);
        if self.messages.send(Message::Drain(done)).is_ok() {
            // An error means that the thread has ended, and so has answered all.
            let _ = wait.recv();
        }
    }

    /// Whether a sync has failed, and the log has to be written anew before anything else.
    pub(super) fn is_unsettled(&self) -> bool {
        self.state.unsettled.load(Ordering::Acquire)
    }

    /// Everything that stands in the log was written anew.
    pub(super) fn settled(&self) {
        self.state.unsettled.store(false, Ordering::Release);
    }

    /// The disk may lack what the log seems to hold.
    pub(super) fn unsettle(&self) {
        self.state.unsettled.store(true, Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn syncs(&self) -> u64 {
        self.counter()()
    }

    #[cfg(test)]
    pub(super) fn counter(&self) -> impl Fn() -> u64 + use<> {
        let state = Arc::clone(&self.state);
        move || state.syncs.load(Ordering::Acquire)
    }
}

struct Work {
    place: Arc<Place>,
    state: Arc<State>,
}

impl Work {
    fn run(self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let (mut committed, mut drained) = (Vec::new(), Vec::new());
            for message in std::iter::once(first).chain(messages.try_iter()) {
                match message {
                    Message::Committed(one) => committed.push(one),
                    Message::Drain(done) => drained.push(done),
                }
            }
            self.settle(committed);
            for done in drained {
                // Whoever waits may have gone.
                let _ = done.send(());
            }
        }
    }

    /// Syncs once for all, and answers each.
    fn settle(&self, committed: Vec<Committed>) {
        let Some(log) = committed.last().map(|last| Arc::clone(&last.log)) else { return };
        // Those of an earlier connection are in doubt: its log is not the one that is synced.
        let (same, earlier): (Vec<_>, Vec<_>) =
            committed.into_iter().partition(|one| Arc::ptr_eq(&one.log, &log));
        refuse(earlier, &unsynced(self.place.path()));
        match self.sync(&log) {
            Ok(()) => same.into_iter().flat_map(|one| one.jobs).for_each(Job::answer),
            Err(error) => refuse(same, &error),
        }
    }

    fn sync(&self, log: &Log) -> Result<()> {
        if self.state.unsettled.load(Ordering::Acquire) {
            return Err(unsynced(self.place.path()));
        }
        self.state.syncs.fetch_add(1, Ordering::AcqRel);
        if let Err(error) = log.file.sync_data() {
            // From here on no sync is believed until everything is written anew: the kernel tells
            // of lost pages only once.
            self.state.unsettled.store(true, Ordering::Release);
            return Err(unsynced(self.place.path()).caused_by(error));
        }
        if !self.place.stamp().is_ok_and(|now| now == log.stamp) {
            return Err(replaced_after_commit(self.place.path().display()));
        }
        Ok(())
    }
}

fn refuse(committed: Vec<Committed>, error: &Error) {
    for job in committed.into_iter().flat_map(|one| one.jobs) {
        job.refuse(error);
    }
}
