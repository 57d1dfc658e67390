//! Taking away the marks of released keys, where the server does not end them by itself.
//!
//! A mark stays for a while first: a consumer that has not come to it yet would miss it, and with
//! it the release.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::task::AbortHandle;

use super::bucket::MARKER_TTL;
use super::link::Link;
use crate::clock::Moment;

const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The marks that this store has made and not yet taken away.
#[derive(Debug)]
pub(super) struct Marks {
    shared: Arc<Shared>,
    sweeping: OnceLock<AbortHandle>,
}

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    stream: String,
    by_subject: Mutex<HashMap<String, Mark>>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    sequence: u64,
    due: Moment,
}

impl Drop for Marks {
    fn drop(&mut self) {
        if let Some(sweeping) = self.sweeping.get() {
            sweeping.abort();
        }
    }
}

impl Marks {
    pub(super) fn new(link: Arc<Link>, stream: &str) -> Self {
        let shared = Shared { link, stream: stream.to_owned(), by_subject: Mutex::default() };
        Self { shared: Arc::new(shared), sweeping: OnceLock::new() }
    }

    /// A key was released; the mark is this message of its subject.
    pub(super) fn made(&self, subject: String, sequence: u64) {
        let due = self.shared.link.clock().now() + MARKER_TTL;
        self.shared.by_subject().insert(subject, Mark { sequence, due });
        self.sweeping.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move { shared.sweep().await }).abort_handle()
        });
    }

    /// A lease was written over the mark, if there was one.
    pub(super) fn replaced(&self, subject: &str) {
        self.shared.by_subject().remove(subject);
    }
}

impl Shared {
    fn by_subject(&self) -> MutexGuard<'_, HashMap<String, Mark>> {
        self.by_subject.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sweep(&self) {
        let clock = self.link.clock();
        loop {
            clock.sleep_until(clock.now() + SWEEP_EVERY).await;
            let now = clock.now();
            let due: Vec<_> = {
                let mut marks = self.by_subject();
                marks.extract_if(|_, mark| mark.due <= now).collect()
            };
            for (subject, mark) in due {
                if !self.purge(&subject, mark.sequence).await {
                    let later = Mark { due: now + MARKER_TTL, ..mark };
                    self.by_subject().entry(subject).or_insert(later);
                }
            }
        }
    }

    /// No message after the mark can go with it, because the purge ends with its sequence.
    async fn purge(&self, subject: &str, sequence: u64) -> bool {
        let verb = format!("STREAM.PURGE.{}", self.stream);
        let body = json!({ "filter": subject, "seq": sequence + 1 });
        matches!(self.link.api::<serde_json::Value>(&verb, &body).await, Ok(Ok(_)))
    }
}
