//! The two files that a worker writes: its history, and what else it did.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tenure::clock::{Clock, Moment, SystemClock};
use tenure_check::{Recorder, What};

use crate::deed::{Deed, Done};
use crate::job;
use crate::journal::Journal;

/// Writes what a worker does, from any of its tasks.
#[derive(Debug)]
pub(crate) struct Log {
    worker: u64,
    history: Mutex<Recorder>,
    deeds: Mutex<Journal>,
}

impl Log {
    /// The log of a worker, in the folder of the run.
    pub(crate) fn open(folder: &Path, worker: u64) -> io::Result<Self> {
        let history = Mutex::new(Recorder::append(&job::history(folder, worker), worker)?);
        let deeds = Mutex::new(Journal::append(&job::deeds(folder, worker))?);
        Ok(Self { worker, history, deeds })
    }

    /// Writes that this happened now.
    pub(crate) fn note(&self, claim: u64, key: &str, what: What) -> io::Result<()> {
        self.note_at(SystemClock.now(), claim, key, what)
    }

    /// Writes that this happened at that moment.
    pub(crate) fn note_at(&self, at: Moment, claim: u64, key: &str, what: What) -> io::Result<()> {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.note_at(at.as_nanos(), claim, key, what)
    }

    /// Writes what else was done, now.
    pub(crate) fn did(&self, claim: u64, key: &str, what: Done) -> io::Result<()> {
        let at = SystemClock.now().as_nanos();
        let mut deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
        deeds.write(&Deed { worker: self.worker, claim, key: key.to_owned(), at, what })
    }
}
