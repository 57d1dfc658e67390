//! The locks that this server keeps for clients between their calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;
use tenure::{Fence, Guard, Result};
use tokio::sync::oneshot;

use super::Place;
use crate::quota::Ticket;

/// Every lock has a task that waits for its loss or its end.
#[derive(Debug, Default)]
pub(super) struct Held {
    entries: Mutex<HashMap<Place, Entry>>,
    /// The application is unwell: locks are left to end.
    leaves: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    fence: Fence,
    owner: tenure::Owner,
    end: oneshot::Sender<End>,
}

/// How a lock is to end.
#[derive(Debug)]
enum End {
    Release(oneshot::Sender<Result<()>>),
    Leave,
}

impl Held {
    /// Keeps a lock until it is lost or ended.
    pub(super) fn keep(self: &Arc<Self>, place: Place, guard: Guard, ticket: Ticket) {
        if !self.renews() {
            drop(guard.detach());
            return;
        }
        let (end, ended) = oneshot::channel();
        let fence = guard.fence();
        let entry = Entry { fence, owner: guard.owner().clone(), end };
        let before = self.entries().insert(place.clone(), entry);
        if let Some(before) = before.filter(|before| before.fence == fence) {
            // The same grant, given again to a call that was repeated: only one may give it back.
            let _ = before.end.send(End::Leave);
        }
        let held = Arc::clone(self);
        tokio::spawn(async move {
            let _ticket = ticket;
            let end = tokio::select! {
                _ = guard.lost() => None,
                end = ended => end.ok(),
            };
            match end {
                Some(End::Release(reply)) => {
                    let _ = reply.send(guard.release().await);
                }
                Some(End::Leave) => drop(guard.detach()),
                None => held.forget(&place, fence),
            }
        });
    }

    /// Gives a lock back; `None` when this server does not keep it for that lock id.
    pub(super) async fn release(&self, place: &Place, lock_id: &str) -> Option<Result<()>> {
        let entry = {
            let mut entries = self.entries();
            let owner = entries.get(place)?.owner.expose();
            if !bool::from(owner.as_bytes().ct_eq(lock_id.as_bytes())) {
                return None;
            }
            entries.remove(place)?
        };
        entry.release().await
    }

    pub(super) async fn release_all(&self) {
        let entries: Vec<_> = self.entries().drain().map(|(_, entry)| entry).collect();
        futures_util::future::join_all(entries.into_iter().map(Entry::release)).await;
    }

    /// Whether locks are renewed.
    pub(super) fn renews(&self) -> bool {
        !self.leaves.load(Ordering::Relaxed)
    }

    pub(super) fn go_on_renewing(&self) {
        self.leaves.store(false, Ordering::Relaxed);
    }

    /// Stops renewing, also what comes later.
    pub(super) fn leave_all(&self) {
        self.leaves.store(true, Ordering::Relaxed);
        for (_, entry) in self.entries().drain() {
            let _ = entry.end.send(End::Leave);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries().len()
    }

    fn forget(&self, place: &Place, fence: Fence) {
        let mut entries = self.entries();
        if entries.get(place).is_some_and(|entry| entry.fence == fence) {
            entries.remove(place);
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// `None` when the lock was lost meanwhile.
    async fn release(self) -> Option<Result<()>> {
        let (reply, answer) = oneshot::channel();
        self.end.send(End::Release(reply)).ok()?;
        answer.await.ok()
    }
}
