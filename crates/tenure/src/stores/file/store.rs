//! The store as callers see it: every method is a job for the writer thread.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::bell::Bell;
use super::boot::Boot;
use super::job::{Ask, Job, Kind, Question};
use super::place::Place;
use super::schedule::give_way;
use super::verbs::{Force, Look};
use super::writer::Writer;
use crate::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use crate::error::{Chain, Error, Operation, Result};
use crate::finding::Finding;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::store::{Capabilities, Store, StoreInfo, Timing};
use crate::stores::file_system::FileSystem;
use crate::watch::{Watch, WatchHub};

/// Locks in one file on a local disk, shared by every process of this machine.
///
/// Deadlines are on the machine's boot clock. Dropping the store lets its threads finish the jobs
/// that are queued and end; it does not wait for them.
#[derive(Debug)]
pub struct FileStore {
    info: StoreInfo,
    place: Arc<Place>,
    hub: WatchHub,
    jobs: Sender<Box<dyn Job>>,
    // Rung by other processes. Only who waits needs it, so it is hung up with the first watch.
    bell: Mutex<Option<Bell>>,
}

impl FileStore {
    /// Opens the file at `path`, and creates it when there is none. Its folder must exist.
    ///
    /// # Errors
    /// `Invalid` when the path cannot be a file of ours, or is another program's; `Unsupported` on
    /// a network file system or for a file of a newer version; `Mismatch` when another time
    /// namespace uses it; `Denied`, `Damaged` or `Unavailable` as the file is. Nothing is changed
    /// in a file that is refused.
    pub async fn open(path: &str) -> Result<Self> {
        let boot = Boot::current().map_err(|error| error.during(Operation::Open))?;
        Self::open_with(path, boot).await
    }

    pub(super) async fn open_with(path: &str, boot: Boot) -> Result<Self> {
        let (ready, opened) = oneshot::channel();
        let (jobs, waiting) = channel();
        let hub = WatchHub::default();
        let (path, watches) = (path.to_owned(), hub.clone());
        let work = move || {
            let writer = Place::new(&path).map(Arc::new).and_then(|place| {
                Ok((Writer::open(Arc::clone(&place), boot, watches, waiting)?, place))
            });
            match writer {
                Ok((writer, place)) => {
                    give_way();
                    let _ = ready.send(Ok(place));
                    writer.run();
                }
                Err(error) => drop(ready.send(Err(error.during(Operation::Open)))),
            }
        };
        let spawned = std::thread::Builder::new().name("tenure-file".into()).spawn(work);
        spawned.map_err(|error| {
            Error::unavailable("no thread could be started")
                .during(Operation::Open)
                .caused_by(error)
        })?;
        let place = opened.await.unwrap_or_else(|_| Err(gone(Operation::Open, false)))?;
        let info = info(place.file_system());
        Ok(Self { info, place, hub, jobs, bell: Mutex::default() })
    }

    #[cfg(test)]
    pub(super) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    async fn ask<Q: Question>(&self, question: Q) -> Result<Q::Answer> {
        let (job, answer) = Ask::new(question);
        if self.jobs.send(job).is_err() {
            return Err(gone(Q::OPERATION, false));
        }
        answer.await.unwrap_or_else(|_| Err(gone(Q::OPERATION, Q::KIND != Kind::Read)))
    }

    fn listen(&self) {
        let mut bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        if bell.is_none() {
            match Bell::hang(Arc::clone(&self.place), self.hub.clone()) {
                Ok(hung) => *bell = Some(hung),
                Err(error) => tracing::warn!(
                    error = %Chain(&error),
                    "releases of other processes are found by polling only"
                ),
            }
        }
    }
}

fn gone(operation: Operation, maybe_done: bool) -> Error {
    const TEXT: &str = "the writer thread of the store has ended; reopen the store";
    let error = if maybe_done { Error::unknown(TEXT) } else { Error::unavailable(TEXT) };
    error.during(operation)
}

fn info(file_system: FileSystem) -> StoreInfo {
    let first = match file_system {
        FileSystem::Memory(name) => Finding::lowering(
            "file system",
            format!("the file is on {name}: a reboot takes it along, and fences start again at 1"),
        )
        .remedy("put the file on a disk"),
        FileSystem::Local | FileSystem::Shared(_) => Finding::note(
            "sync",
            "grants are synced to disk before they are answered, releases right after",
        ),
    };
    let findings = vec![
        first,
        Finding::note(
            "reboot",
            "after a reboot every lease gets its full ttl again, so none ends early",
        ),
        Finding::note(
            "fence",
            "one counter in the file gives all fences, in the same transaction as the grant",
        ),
    ];
    let capabilities = Capabilities { shared: true, durable: true, ..Capabilities::default() };
    StoreInfo::new("file", Timing::Store, capabilities, findings)
}

#[async_trait]
impl Store for FileStore {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.ask(claim.clone()).await
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        self.ask(renewal.clone()).await
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        self.ask(grant.clone()).await
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.ask(Force(eviction.key.clone())).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        self.ask(Look(key.clone())).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.ask(query.clone()).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        // First the bell, then the watch: what is released after this call is never missed.
        self.listen();
        Ok(self.hub.watch(key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.ask(pledge.clone()).await
    }
}
