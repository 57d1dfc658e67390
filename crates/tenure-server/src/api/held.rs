//! The locks that this server keeps for clients between their calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;
use tenure::{Fence, Guard, Result};
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use super::{Place, Room};
use crate::quota::Ticket;

/// Every lock has a task that waits for its loss or its end.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Place, Entry>,
    care: Care,
}

/// What becomes of the locks that are given in here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Care {
    #[default]
    Renew,
    /// The application is unwell: they are left to end.
    Leave,
    /// The server is going down: they are given back.
    GiveBack,
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
    /// Within the span of whoever asked for it.
    Release(oneshot::Sender<Result<()>>, Span),
    Leave,
}

impl Held {
    /// Keeps a lock until it is lost or ended.
    pub(super) fn keep(self: &Arc<Self>, room: Room, guard: Guard, ticket: Ticket) {
        let (end, ended) = oneshot::channel();
        let fence = guard.fence();
        let entry = Entry { fence, owner: guard.owner().clone(), end };
        let before = {
            let mut table = self.table();
            match table.care {
                Care::Renew => table.entries.insert(room.place.clone(), entry),
                Care::Leave => return drop(guard.detach()),
                Care::GiveBack => return drop(guard),
            }
        };
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
                Some(End::Release(reply, span)) => {
                    let _ = reply.send(guard.release().instrument(span).await);
                }
                Some(End::Leave) => drop(guard.detach()),
                None => held.forget(&room.place, fence),
            }
        });
    }

    /// Gives a lock back; `None` when this server does not keep it for that lock id.
    pub(super) async fn release(&self, place: &Place, lock_id: &str) -> Option<Result<()>> {
        let entry = {
            let entries = &mut self.table().entries;
            let owner = entries.get(place)?.owner.expose();
            if !bool::from(owner.as_bytes().ct_eq(lock_id.as_bytes())) {
                return None;
            }
            entries.remove(place)?
        };
        entry.release().await
    }

    /// Gives back every lock, also what comes later.
    pub(super) async fn release_all(&self) {
        let entries = self.take_all(Care::GiveBack);
        futures_util::future::join_all(entries.into_values().map(Entry::release)).await;
    }

    /// Whether locks are renewed.
    pub(super) fn renews(&self) -> bool {
        self.table().care == Care::Renew
    }

    /// Renews what comes from now on, if it was left to end until now.
    pub(super) fn go_on_renewing(&self) {
        let care = &mut self.table().care;
        if *care == Care::Leave {
            *care = Care::Renew;
        }
    }

    /// Stops renewing, also what comes later.
    pub(super) fn leave_all(&self) {
        for entry in self.take_all(Care::Leave).into_values() {
            let _ = entry.end.send(End::Leave);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table().entries.len()
    }

    /// Takes out every lock. What comes later is treated so.
    fn take_all(&self, care: Care) -> HashMap<Place, Entry> {
        let mut table = self.table();
        table.care = care;
        std::mem::take(&mut table.entries)
    }

    fn forget(&self, place: &Place, fence: Fence) {
        let entries = &mut self.table().entries;
        if entries.get(place).is_some_and(|entry| entry.fence == fence) {
            entries.remove(place);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// `None` when the lock was lost meanwhile.
    async fn release(self) -> Option<Result<()>> {
        let (reply, answer) = oneshot::channel();
        self.end.send(End::Release(reply, Span::current())).ok()?;
        answer.await.ok()
    }
}
