//! Asks every guard of a worker whether it holds, all the time, from a thread of its own.
//!
//! A thread is there at once when a stopped process goes on, before any task or timer.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::GuardView;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_check::What;

use crate::deed::Done;
use crate::log::Log;

/// How often the guards are asked.
const LOOK: Duration = Duration::from_millis(4);

/// How often a yes is written down: one that is killed is not seen to have believed longer.
const NOTE: Duration = Duration::from_millis(40);

#[derive(Debug)]
struct Watched {
    key: String,
    view: GuardView,
    /// Whether its end, other than by a release, is worth a line.
    is_kept: bool,
    last_yes: Option<Moment>,
    noted: Option<Moment>,
    is_gone: bool,
}

/// The guards that are asked.
#[derive(Debug)]
pub(crate) struct Witness {
    watched: Mutex<BTreeMap<u64, Watched>>,
    log: Arc<Log>,
}

impl Witness {
    /// Starts to ask.
    pub(crate) fn start(log: Arc<Log>) -> Arc<Self> {
        let witness = Arc::new(Self { watched: Mutex::default(), log });
        let asking = Arc::downgrade(&witness);
        std::thread::spawn(move || {
            while let Some(witness) = asking.upgrade() {
                if witness.look().is_err() {
                    return;
                }
                drop(witness);
                nap(LOOK);
            }
        });
        witness
    }

    /// Asks this guard too, from now on.
    pub(crate) fn watch(&self, claim: u64, key: &str, view: GuardView, is_kept: bool) {
        let key = key.to_owned();
        let (last_yes, noted) = (None, None);
        let watched = Watched { key, view, is_kept, last_yes, noted, is_gone: false };
        self.watched().insert(claim, watched);
    }

    /// Asks this guard a last time and then no more, so that it can be given back.
    pub(crate) fn leave(&self, claim: u64) -> io::Result<()> {
        let mut all = self.watched();
        if let Some(mut watched) = all.remove(&claim) {
            watched.look(claim, &self.log)?;
            watched.note(claim, &self.log)?;
        }
        Ok(())
    }

    fn look(&self) -> io::Result<()> {
        for (claim, watched) in self.watched().iter_mut() {
            watched.look(*claim, &self.log)?;
        }
        Ok(())
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<u64, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn look(&mut self, claim: u64, log: &Log) -> io::Result<()> {
        // Before the question: whatever is answered was so at that moment or later.
        let asked = SystemClock.now();
        if self.view.is_held() {
            self.last_yes = Some(asked);
            if self.noted.is_none_or(|noted| asked.since(noted) >= NOTE) {
                self.note(claim, log)?;
            }
        } else if !self.is_gone {
            self.is_gone = true;
            self.note(claim, log)?;
            if self.is_kept {
                log.did(claim, &self.key, Done::Gone)?;
            }
        }
        Ok(())
    }

    /// Writes down the last yes, if that was not done yet.
    fn note(&mut self, claim: u64, log: &Log) -> io::Result<()> {
        match self.last_yes {
            Some(at) if self.noted != Some(at) => {
                self.noted = Some(at);
                log.note_at(at, claim, &self.key, What::Believed)
            }
            _ => Ok(()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread outside of any runtime, and of its timers")]
fn nap(time: Duration) {
    std::thread::sleep(time);
}
