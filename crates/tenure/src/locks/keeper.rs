//! Keeps every guard's lease alive, and tells the guard when it no longer can.
//!
//! One task serves all guards of a [`Locks`](crate::Locks): it sleeps until the first of them needs
//! something. What to do is decided by [`Keep`]; here is only when and how.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::claim::{Grant, Renewal, Renewed};
use crate::clock::{Moment, within};
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::key::Key;
use crate::locks::context::Context;
use crate::locks::events::EventKind;
use crate::locks::hold::Hold;
use crate::locks::keep::{Keep, LostReason, Step};
use crate::owned::Owned;
use crate::planted::Bug;

#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    state: Mutex<State>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    kept: HashMap<u64, Kept>,
    schedule: BTreeMap<(Moment, u64), ()>,
    leaving: HashMap<u64, oneshot::Sender<()>>,
    /// Guards whose owner was chosen, and may be used more than once, by their grant.
    shared: HashMap<(Key, Fence), Vec<u64>>,
}

#[derive(Debug)]
struct Kept {
    keep: Keep,
    hold: Arc<Hold>,
    grant: Grant,
    granted_at: Moment,
    due: Moment,
    renewing: bool,
}

/// A guard's registration with its keeper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptId(u64);

impl Keeper {
    pub(crate) fn start(context: Arc<Context>) -> Self {
        let runtime = context.runtime.clone();
        let state = Mutex::default();
        let shared = Arc::new(Shared { context, state, earlier: Notify::new() });
        let task = runtime.spawn(watch_over(Arc::clone(&shared))).abort_handle();
        Self { shared, task }
    }

    /// Takes charge of a lease that was just granted.
    pub(crate) fn keep(
        &self,
        keep: Keep,
        hold: Arc<Hold>,
        grant: Grant,
        granted_at: Moment,
        owner_is_chosen: bool,
    ) -> KeptId {
        let mut state = self.shared.state();
        let id = state.next_id;
        state.next_id += 1;
        if owner_is_chosen && let Some(fence) = grant.fence {
            state.shared.entry((grant.key.clone(), fence)).or_default().push(id);
        }
        let due = next_due(&keep, granted_at);
        let earliest = state.schedule.first_key_value().is_none_or(|((first, _), ())| due < *first);
        state.schedule.insert((due, id), ());
        state.kept.insert(id, Kept { keep, hold, grant, granted_at, due, renewing: false });
        drop(state);
        if earliest {
            self.shared.earlier.notify_one();
        }
        KeptId(id)
    }

    /// Whether a guard with a chosen owner believes in this grant.
    pub(crate) fn is_believed(&self, key: &Key, fence: Fence) -> bool {
        self.shared.state().shared.contains_key(&(key.clone(), fence))
    }

    /// The grant is about to be released: every guard that shares it stops believing first.
    pub(crate) fn lose_shared(&self, key: &Key, fence: Fence) {
        let mut state = self.shared.state();
        let ids = state.shared.get(&(key.clone(), fence)).cloned().unwrap_or_default();
        for id in ids {
            self.shared.lose(&mut state, id, LostReason::Refused);
        }
    }

    /// Leaves the lease alone from now on; a renewal under way may still end.
    pub(crate) fn forget(&self, id: KeptId) {
        self.shared.state().remove(id.0);
    }

    /// Leaves the lease alone and returns when no renewal of it is under way any more.
    pub(crate) async fn stop(&self, id: KeptId) {
        let done = {
            let mut state = self.shared.state();
            if state.remove(id.0).is_some_and(|kept| kept.renewing) {
                let (tell, done) = oneshot::channel();
                state.leaving.insert(id.0, tell);
                Some(done)
            } else {
                None
            }
        };
        if let Some(done) = done {
            // An error means that the renewal was dropped with the runtime: it is over too.
            let _ = done.await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn remove(&mut self, id: u64) -> Option<Kept> {
        let kept = self.kept.remove(&id)?;
        self.schedule.remove(&(kept.due, id));
        if !self.shared.is_empty()
            && let Some(fence) = kept.grant.fence
        {
            let grant = (kept.grant.key.clone(), fence);
            if let Some(ids) = self.shared.get_mut(&grant) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.shared.remove(&grant);
                }
            }
        }
        Some(kept)
    }

    fn reschedule(&mut self, id: u64, due: Moment) {
        if let Some(kept) = self.kept.get_mut(&id) {
            self.schedule.remove(&(kept.due, id));
            kept.due = due;
            self.schedule.insert((due, id), ());
        }
    }

    fn first_due(&self) -> Option<(Moment, u64)> {
        self.schedule.first_key_value().map(|(first, ())| *first)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does all that is due; returns when to look again.
    fn serve(self: &Arc<Self>) -> Option<Moment> {
        let mut state = self.state();
        loop {
            let now = self.context.clock.now();
            let (due, id) = state.first_due()?;
            if due > now {
                return Some(due);
            }
            let Some(kept) = state.kept.get_mut(&id) else {
                state.schedule.remove(&(due, id));
                continue;
            };
            match kept.keep.step(now) {
                Step::Wait(at) => state.reschedule(id, at),
                Step::Renew => {
                    kept.keep.renewing();
                    kept.renewing = true;
                    let renewal = Renewal { grant: kept.grant.clone(), ttl: kept.keep.ttl() };
                    let at = next_due(&kept.keep, now);
                    state.reschedule(id, at);
                    self.context.runtime.spawn(Arc::clone(self).renew(id, renewal, at.since(now)));
                }
                Step::Lost(reason) => self.lose(&mut state, id, reason),
            }
        }
    }

    fn lose(&self, state: &mut State, id: u64, reason: LostReason) {
        let renewing = state.kept.get(&id).is_some_and(|kept| kept.renewing);
        if renewing && self.context.planted.has(Bug::UnboundedRenewal) {
            return state.reschedule(id, Moment::from_nanos(u64::MAX));
        }
        let Some(kept) = state.remove(id) else { return };
        if self.context.planted.has(Bug::SilentLoss) {
            kept.hold.believe_until(Moment::from_nanos(u64::MAX));
            return;
        }
        kept.hold.lose(reason);
        let held = Some(self.context.clock.now().since(kept.granted_at));
        let fence = kept.grant.fence.unwrap_or(Fence::new(0));
        self.context.tell(&kept.grant.key, EventKind::Lost { fence, reason, held });
    }

    /// One renewal with a time limit of its own: half of what is left, so that there is time for
    /// another.
    async fn renew(self: Arc<Self>, id: u64, renewal: Renewal, left: std::time::Duration) {
        let context = &self.context;
        let clock = &*context.clock;
        let sent = clock.now();
        let store = Arc::clone(&context.store);
        let work = Owned::new(&context.runtime, {
            let renewal = renewal.clone();
            async move { store.renew(&renewal).await }
        });
        let answer = if context.planted.has(Bug::UnboundedRenewal) {
            work.await
        } else {
            let limit = context.options.operation_timeout.min(left / 2);
            within(clock, limit, work)
                .await
                .unwrap_or_else(|_| Err(Error::unknown("the renewal was not answered in time")))
        };
        self.settle(id, &renewal.grant, sent, answer);
    }

    fn settle(&self, id: u64, grant: &Grant, sent: Moment, answer: Result<Renewed>) {
        let mut state = self.state();
        if let Some(tell) = state.leaving.remove(&id) {
            // The guard may have been dropped while it waited.
            let _ = tell.send(());
        }
        let Some(kept) = state.kept.get_mut(&id) else { return };
        kept.renewing = false;
        let now = self.context.clock.now();
        // Once belief has ended it does not come back, whatever the store says: the guard has
        // been told, or is about to be.
        if let Step::Lost(reason) = kept.keep.step(now) {
            return self.lose(&mut state, id, reason);
        }
        match answer {
            Ok(Renewed::Renewed(lease)) => {
                let from_reply = self.context.planted.has(Bug::BeliefFromReply);
                kept.keep.confirmed(if from_reply { now } else { sent }, lease.remaining);
                kept.hold.believe_until(kept.keep.belief_until());
                let (fence, took) = (lease.fence, now.since(sent));
                self.context.tell(&grant.key, EventKind::Renewed { fence, took });
            }
            Ok(Renewed::Lost(_)) => return self.lose(&mut state, id, LostReason::Refused),
            Err(_) if self.context.planted.has(Bug::SilentLoss) => {
                return self.lose(&mut state, id, LostReason::Expired);
            }
            Err(error) => {
                tracing::debug!(error = %crate::error::Chain(&error), "a renewal failed");
                kept.keep.unanswered(now);
            }
        }
        let due = next_due(&kept.keep, now);
        state.reschedule(id, due);
        drop(state);
        self.earlier.notify_one();
    }
}

fn next_due(keep: &Keep, now: Moment) -> Moment {
    match keep.step(now) {
        Step::Wait(at) => at,
        Step::Renew | Step::Lost(_) => now,
    }
}

async fn watch_over(shared: Arc<Shared>) {
    loop {
        match shared.serve() {
            None => shared.earlier.notified().await,
            Some(due) => {
                let alarm = shared.context.clock.sleep_until(due);
                tokio::select! {
                    biased;
                    () = shared.earlier.notified() => {}
                    () = alarm => {}
                }
            }
        }
    }
}
