//! Giving back what nobody holds any more: dropped guards, and acquires that may have been granted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::claim::{Grant, Released};
use crate::clock::Moment;
use crate::key::Key;
use crate::locks::context::Context;
use crate::locks::events::EventKind;
use crate::owner::Owner;
use crate::planted::Bug;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What to give back, and how sure it is that there is something.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) grant: Grant,
    /// When the lease has ended by itself.
    pub(crate) until: Moment,
    /// When it was granted, if it surely was. If it only may have been, "not held" is no answer:
    /// the write may still be on its way.
    pub(crate) granted_at: Option<Moment>,
}

#[derive(Debug)]
pub(crate) struct Cleanup {
    context: Arc<Context>,
    pending: Arc<watch::Sender<usize>>,
    doubtful: Mutex<Doubtful>,
}

/// The work on leases that may have been granted, by what they would be.
type Doubtful = HashMap<(Key, Owner), Arc<watch::Sender<State>>>;

/// Counts as work that [`Cleanup::flush`] waits for.
#[derive(Debug)]
pub(crate) struct Busy(Arc<watch::Sender<usize>>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Working,
    Superseded,
    Done,
}

impl Cleanup {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, pending: Arc::new(watch::Sender::new(0)), doubtful: Mutex::default() }
    }

    /// Starts to give `leftover` back in the background, until it is done or has ended by itself.
    pub(crate) fn queue(self: &Arc<Self>, leftover: Leftover) {
        let busy = self.busy();
        let id = (leftover.grant.key.clone(), leftover.grant.owner.clone());
        let state = Arc::new(watch::Sender::new(State::Working));
        if leftover.granted_at.is_none() {
            self.doubtful().insert(id.clone(), Arc::clone(&state));
        }
        let this = Arc::clone(self);
        self.context.runtime.spawn(async move {
            this.give_back(&leftover, state.subscribe()).await;
            state.send_replace(State::Done);
            let mut doubtful = this.doubtful();
            if doubtful.get(&id).is_some_and(|latest| Arc::ptr_eq(latest, &state)) {
                doubtful.remove(&id);
            }
            drop(doubtful);
            drop(busy);
        });
    }

    /// Ends the cleanup of this owner on this key, because the owner asks for the key again and
    /// whatever was granted to it will be its own.
    pub(crate) async fn supersede(&self, key: &Key, owner: &Owner) {
        let id = (key.clone(), owner.clone());
        let mut done = match self.doubtful().get(&id) {
            Some(state) => {
                state.send_replace(State::Superseded);
                state.subscribe()
            }
            None => return,
        };
        // An error means that the sender is gone, and so the work is done.
        let _ = done.wait_for(|state| *state == State::Done).await;
    }

    /// Something that may have to be given back is under way until this is dropped.
    pub(crate) fn busy(&self) -> Busy {
        self.pending.send_modify(|count| *count += 1);
        Busy(Arc::clone(&self.pending))
    }

    /// Returns when nothing is left to give back.
    pub(crate) async fn flush(&self) {
        let mut pending = self.pending.subscribe();
        // It cannot fail: the sender is this value's.
        let _ = pending.wait_for(|count| *count == 0).await;
    }

    fn doubtful(&self) -> MutexGuard<'_, Doubtful> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn give_back(&self, leftover: &Leftover, mut supersede: watch::Receiver<State>) {
        let clock = &*self.context.clock;
        let mut pause = PAUSE_MIN;
        while clock.now() < leftover.until && *supersede.borrow() == State::Working {
            if self.is_over(leftover).await {
                return;
            }
            let alarm = clock.sleep_until(leftover.until.min(clock.now() + pause));
            tokio::select! {
                biased;
                _ = supersede.changed() => {}
                () = alarm => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn is_over(&self, leftover: &Leftover) -> bool {
        let context = &self.context;
        match context.store.release(&leftover.grant).await {
            Ok(Released::Released(status)) => {
                let held = leftover.granted_at.map(|at| context.clock.now().since(at));
                let (fence, held) = (status.fence, held.unwrap_or_default());
                context.tell(&leftover.grant.key, EventKind::Released { fence, held });
                true
            }
            Ok(Released::NotHeld(_)) => {
                leftover.granted_at.is_some() || context.planted.has(Bug::AbsentIsFinal)
            }
            Err(_) => false,
        }
    }
}
