//! Taking away the marks of released keys, where the server does not end them by itself.
//!
//! A mark stays for a while first: a consumer that has not come to it yet would miss it, and with
//! it the release. And the last message of a bucket stays for good: a server of version 2.9 that
//! crashes forgets how far it had counted, if it has none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Info, RawMessage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::AbortHandle;

use super::bucket::MARKER_TTL;
use super::error::Silence;
use super::link::Link;
use super::making::Makings;
use super::register::frees;
use crate::clock::Moment;

const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How many of the oldest messages are looked at for marks that others have left. What is alive is
/// written anew again and again, so that marks come to be the oldest.
const OLDEST: usize = 100;

/// The marks that this store has made or found, and not yet taken away.
#[derive(Debug)]
pub(super) struct Marks {
    shared: Arc<Shared>,
    sweeping: OnceLock<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    makings: Arc<Makings>,
    stream: String,
    /// What the subjects of all keys begin with.
    subjects: String,
    by_subject: Mutex<HashMap<String, Mark>>,
    /// The last message that this store knows of.
    newest: Mutex<Written>,
    is_forbidden: AtomicBool,
}

/// Which message something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// In which making of the bucket.
    pub(super) making: u64,
    pub(super) sequence: u64,
}

impl Written {
    /// Whether nothing may have been written after this, as far as is known from `newest`.
    fn may_be_last(self, newest: Self) -> bool {
        self.making == newest.making && self.sequence >= newest.sequence
    }
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    written: Written,
    due: Moment,
}

#[derive(Deserialize)]
struct Found {
    message: RawMessage,
}

impl Drop for Marks {
    fn drop(&mut self) {
        if let Some(sweeping) = self.sweeping.get() {
            sweeping.abort();
        }
    }
}

impl Marks {
    pub(super) fn new(
        link: Arc<Link>,
        makings: Arc<Makings>,
        stream: &str,
        subjects: &str,
    ) -> Self {
        let shared = Shared {
            link,
            makings,
            stream: stream.to_owned(),
            subjects: subjects.to_owned(),
            by_subject: Mutex::default(),
            newest: Mutex::default(),
            is_forbidden: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), sweeping: OnceLock::new() }
    }

    /// Begins to sweep, with what others have left.
    pub(super) fn start(&self) {
        self.sweeping.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let sweeping = async move {
                let forbidden = match shared.sweep_oldest().await {
                    Ok(()) => shared.sweep().await,
                    Err(forbidden) => forbidden,
                };
                shared.give_up(&forbidden);
            };
            tokio::spawn(sweeping).abort_handle()
        });
    }

    /// A key was released; the mark is this message of its subject.
    pub(super) fn made(&self, subject: String, written: Written) {
        self.replaced(&subject, written);
        self.shared.note(subject, written);
    }

    /// Something was written over the mark, if there was one.
    pub(super) fn replaced(&self, subject: &str, written: Written) {
        *self.shared.newest() = written;
        self.shared.by_subject().remove(subject);
    }
}

/// What NATS said when it forbade something.
struct Forbidden(String);

impl Shared {
    fn by_subject(&self) -> MutexGuard<'_, HashMap<String, Mark>> {
        self.by_subject.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> MutexGuard<'_, Written> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a mark to be taken away, unless there is a later one by now.
    fn note(&self, subject: String, written: Written) {
        if !self.is_forbidden.load(Ordering::Relaxed) {
            let due = self.link.clock().now() + MARKER_TTL;
            self.by_subject().entry(subject).or_insert(Mark { written, due });
        }
    }

    /// Marks stay for good then, one for each key that is released.
    fn give_up(&self, Forbidden(what): &Forbidden) {
        tracing::warn!(what, "marks of released keys are not taken away, for want of a permission");
        self.is_forbidden.store(true, Ordering::Relaxed);
        self.by_subject().clear();
    }

    /// Takes away what others have left among the oldest messages, and notes what is too young.
    async fn sweep_oldest(&self) -> Result<(), Forbidden> {
        let Ok(making) = self.makings.now().await else { return Ok(()) };
        let Some(info) = self.ask::<Info>("STREAM.INFO", &json!({})).await? else { return Ok(()) };
        let (state, all) = (info.state, format!("{}>", self.subjects));
        *self.newest() = Written { making, sequence: state.last_sequence };
        let mut next = state.first_sequence;
        for _ in 0..OLDEST {
            let body = json!({ "seq": next, "next_by_subj": all });
            let found = self.ask::<Found>("STREAM.MSG.GET", &body).await?;
            let message = found.and_then(|found| StreamMessage::try_from(found.message).ok());
            let Some(message) = message else { return Ok(()) };
            next = message.sequence.saturating_add(1);
            if frees(&message.headers) {
                let written = Written { making, sequence: message.sequence };
                // By the clock of the server alone.
                let is_old = state.last_timestamp - message.time >= MARKER_TTL;
                if is_old && written.sequence < state.last_sequence {
                    self.purge(&message.subject, written).await?;
                } else {
                    self.note(message.subject.to_string(), written);
                }
            }
        }
        Ok(())
    }

    /// Takes away what is due, until that is forbidden.
    async fn sweep(&self) -> Forbidden {
        let clock = self.link.clock();
        loop {
            clock.sleep_until(clock.now() + SWEEP_EVERY).await;
            let (now, newest) = (clock.now(), *self.newest());
            let is_due = |mark: &Mark| mark.due <= now && !mark.written.may_be_last(newest);
            let due: Vec<_> = self.by_subject().extract_if(|_, mark| is_due(mark)).collect();
            for (subject, mark) in due {
                match self.purge(&subject, mark.written).await {
                    Ok(true) => {}
                    Ok(false) => self.note(subject, mark.written),
                    Err(forbidden) => return forbidden,
                }
            }
        }
    }

    /// Whether the mark is gone. No message after it can go with it, because the purge ends with
    /// its sequence, which is one of this very making.
    async fn purge(&self, subject: &str, mark: Written) -> Result<bool, Forbidden> {
        match self.makings.now().await {
            Ok(making) if making == mark.making => {
                let body = json!({ "filter": subject, "seq": mark.sequence.saturating_add(1) });
                let purged = self.ask::<serde_json::Value>("STREAM.PURGE", &body).await?;
                Ok(purged.is_some())
            }
            Ok(_) => Ok(true),
            Err(_) => Ok(false),
        }
    }

    /// A call about this stream. `None`: it failed, for a reason that may pass.
    async fn ask<T: DeserializeOwned>(
        &self,
        verb: &str,
        body: &serde_json::Value,
    ) -> Result<Option<T>, Forbidden> {
        match self.link.api::<T>(&format!("{verb}.{}", self.stream), body).await {
            Ok(answer) => Ok(answer.ok()),
            Err(Silence::Forbidden(what)) => Err(Forbidden(what)),
            Err(_) => Ok(None),
        }
    }
}
