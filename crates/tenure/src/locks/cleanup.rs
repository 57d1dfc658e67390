//! Giving back what nobody holds any more: dropped guards, and acquires that may have been granted.
//!
//! Every release from here names its fence. One that is delayed on its way can then only end that
//! very grant, and never a later one of the same owner.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::claim::{Grant, Released};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::key::Key;
use crate::locks::context::Context;
use crate::locks::events::EventKind;
use crate::owner::Owner;
use crate::planted::Bug;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Something to be given back.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    /// What was granted for sure: its fence, and when.
    pub(crate) granted: Option<(Fence, Moment)>,
    /// How many tries were never answered. "Not held" is no answer then: each of them may still be
    /// on its way.
    pub(crate) in_doubt: u32,
    /// When all of it has ended by itself.
    pub(crate) until: Moment,
}

/// Tries that were never answered, of one acquire.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Doubt {
    tries: u32,
    until: Option<Moment>,
}

impl Doubt {
    /// One more, whose grant would have ended by then.
    pub(crate) fn add(&mut self, until: Moment) {
        self.tries += 1;
        self.until = self.until.max(Some(until));
    }

    /// One of them has landed.
    pub(crate) fn remove(&mut self) {
        self.tries = self.tries.saturating_sub(1);
    }

    /// What is to be looked after now, if anything; nothing is left here.
    pub(crate) fn take(&mut self, key: &Key, owner: &Owner) -> Option<Leftover> {
        let Self { tries: in_doubt, until } = std::mem::take(self);
        let until = until.filter(|_| in_doubt > 0)?;
        let (key, owner) = (key.clone(), owner.clone());
        Some(Leftover { key, owner, granted: None, in_doubt, until })
    }
}

/// How far the work on something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is not known yet whether there is anything to release.
    Open,
    /// A release may be on its way.
    Releasing,
    /// The owner asks for the key again, so whatever there is will be its own.
    Superseded,
}

type Stages = HashMap<(Key, Owner), Vec<Arc<watch::Sender<Stage>>>>;

#[derive(Debug)]
pub(crate) struct Cleanup {
    context: Arc<Context>,
    pending: watch::Sender<usize>,
    stages: Mutex<Stages>,
}

impl Cleanup {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, pending: watch::Sender::new(0), stages: Mutex::default() }
    }

    /// Something of this owner may have to be given back, as soon as it is known what.
    pub(crate) fn expect(self: &Arc<Self>, key: &Key, owner: &Owner) -> Work {
        self.pending.send_modify(|count| *count += 1);
        let id = (key.clone(), owner.clone());
        let stage = Arc::new(watch::Sender::new(Stage::Open));
        self.stages().entry(id.clone()).or_default().push(Arc::clone(&stage));
        Work { cleanup: Arc::clone(self), id, stage }
    }

    /// Starts to give `leftover` back in the background, until it is done or has ended by itself.
    pub(crate) fn queue(self: &Arc<Self>, leftover: Leftover) {
        self.expect(&leftover.key, &leftover.owner).start(leftover);
    }

    /// Returns when this owner can ask for the key again: no release of a grant that it could be
    /// given once more is on its way. Whatever else there is is left to it: so many things may be
    /// granted to it already, or later.
    pub(crate) async fn supersede(&self, key: &Key, owner: &Owner) -> u32 {
        let id = (key.clone(), owner.clone());
        let stages = self.stages().get(&id).cloned().unwrap_or_default();
        let mut left = 0;
        for stage in stages {
            while !advance(&stage, Stage::Superseded) {
                // It cannot fail: the sender is held here.
                let _ = stage.subscribe().wait_for(|stage| *stage != Stage::Releasing).await;
            }
            left += 1;
        }
        left
    }

    /// Returns when nothing is left to give back.
    pub(crate) async fn flush(&self) {
        // It cannot fail: the sender is this value's.
        let _ = self.pending.subscribe().wait_for(|count| *count == 0).await;
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves on from `Open`; whether it is there now.
fn advance(stage: &watch::Sender<Stage>, to: Stage) -> bool {
    stage.send_if_modified(|stage| {
        let open = *stage == Stage::Open;
        *stage = if open { to } else { *stage };
        open
    });
    *stage.borrow() == to
}

/// One thing that may have to be given back. [`Cleanup::flush`] waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    cleanup: Arc<Cleanup>,
    id: (Key, Owner),
    stage: Arc<watch::Sender<Stage>>,
}

impl Work {
    /// It is known now what there is.
    pub(crate) fn start(self, leftover: Leftover) {
        let runtime = self.cleanup.context.runtime.clone();
        runtime.spawn(async move {
            if let Some((fence, granted_at)) = leftover.granted {
                self.release(&leftover, fence, granted_at).await;
            }
            self.look_after(&leftover).await;
        });
    }

    /// Releases a grant until the store says that it is over, or it has ended by itself; whether it
    /// was this that ended it.
    async fn release(&self, leftover: &Leftover, fence: Fence, granted_at: Moment) -> bool {
        if !advance(&self.stage, Stage::Releasing) {
            return false;
        }
        let mut released = false;
        let Leftover { key, owner, until, .. } = leftover;
        let grant = Grant { key: key.clone(), owner: owner.clone(), fence: Some(fence) };
        let context = &self.cleanup.context;
        let clock = &*context.clock;
        let mut pause = PAUSE_MIN;
        while clock.now() < *until {
            match context.store.release(&grant).await {
                Ok(Released::Released(_)) => {
                    let held = clock.now().since(granted_at);
                    context.tell(key, EventKind::Released { fence, held });
                    released = true;
                    break;
                }
                Ok(Released::NotHeld(_)) => break,
                Err(_) => clock.sleep_until((clock.now() + pause).min(*until)).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.stage.send_replace(Stage::Open);
        released
    }

    /// Looks again and again whether one of the tries has landed, and releases it.
    async fn look_after(&self, leftover: &Leftover) {
        let context = &self.cleanup.context;
        let clock = &*context.clock;
        let mut stage = self.stage.subscribe();
        let mut landed = 0;
        let mut pause = PAUSE_MIN;
        while landed < leftover.in_doubt && clock.now() < leftover.until {
            let looked = clock.now();
            let found = context.store.inspect(&leftover.key).await;
            if *stage.borrow_and_update() == Stage::Superseded {
                return;
            }
            match found {
                Ok(Some(lease)) if lease.owner == leftover.owner => {
                    // Another one's work may have ended it: then it was not what is looked for.
                    landed += u32::from(self.release(leftover, lease.fence, looked).await);
                }
                Ok(_) if context.planted.has(Bug::AbsentIsFinal) => return,
                Ok(_) | Err(_) => {}
            }
            let alarm = clock.sleep_until((clock.now() + pause).min(leftover.until));
            tokio::select! { biased; _ = stage.changed() => {}, () = alarm => {} }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut stages = self.cleanup.stages();
        if let Some(same) = stages.get_mut(&self.id) {
            same.retain(|stage| !Arc::ptr_eq(stage, &self.stage));
            if same.is_empty() {
                stages.remove(&self.id);
            }
        }
        drop(stages);
        self.stage.send_if_modified(|stage| {
            let releasing = *stage == Stage::Releasing;
            *stage = if releasing { Stage::Open } else { *stage };
            releasing
        });
        self.cleanup.pending.send_modify(|count| *count -= 1);
    }
}
