//! The lease kept alive in this process.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::claim::{Grant, Released};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Operation, Overrun, Result};
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::locks::Engine;
use crate::locks::cleanup::{Doubt, Leftover};
use crate::locks::events::EventKind;
use crate::locks::hold::Hold;
use crate::locks::keep::{Keep, LostReason, Terms};
use crate::locks::keeper::KeptId;
use crate::locks::run::while_held;
use crate::locks::stays::Stay;
use crate::locks::view::GuardView;
use crate::owned::Owned;
use crate::planted::Bug;

/// A lock that is held: its lease is renewed in the background until the guard is released,
/// detached, dropped or lost.
///
/// # Contract
/// - [`is_held`](Self::is_held) turns false, and [`lost`](Self::lost) resolves, before the store
///   may grant the key to anyone else, as long as this machine's clock and the store's run at the
///   same rate within the margin (1 % and 2 ms; 10 % where an observer times the lease). No two
///   clocks have to agree on the time. A hypervisor that stops the whole machine can hide that
///   from every clock in it: only the [`fence`](Self::fence) helps there.
/// - [`release`](Self::release) is the sure way to give the lock back. Dropping the guard releases
///   it in the background, as long as the runtime lives. When its process dies, the lease ends
///   with its ttl. A guard that is leaked with [`std::mem::forget`] is kept alive like any other:
///   until its [`max_hold`](crate::LockRequest::max_hold), or as long as the process lives.
/// - A guard that stopped believing never believes again.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    engine: Arc<Engine>,
    hold: Arc<Hold>,
    lease: Lease,
    granted_at: Moment,
    kept: KeptId,
    // Earlier tries of the same acquire, which may land yet.
    doubt: Doubt,
    owner_is_chosen: bool,
    open: bool,
    stay: Option<Stay>,
}

pub(crate) struct Granted {
    pub(crate) lease: Lease,
    pub(crate) sent: Moment,
    pub(crate) owner_is_chosen: bool,
    pub(crate) terms: Terms,
}

impl Guard {
    pub(crate) fn new(engine: &Arc<Engine>, granted: Granted) -> Self {
        let Granted { lease, sent, owner_is_chosen, terms } = granted;
        let keep = Keep::granted(terms, sent, lease.remaining);
        let planted = engine.context.planted;
        let hold = Arc::new(Hold::new(keep.belief_until(), terms.ends_at, planted));
        let grant = grant_of(&lease);
        let kept = engine.keeper.keep(keep, Arc::clone(&hold), grant, sent, owner_is_chosen);
        let engine = Arc::clone(engine);
        let stay = engine.stays.begin(&lease, &hold, &*engine.context.clock);
        Self {
            engine,
            hold,
            lease,
            granted_at: sent,
            kept,
            doubt: Doubt::default(),
            owner_is_chosen,
            open: true,
            stay: Some(stay),
        }
    }

    /// What is held.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.lease.key
    }

    /// The secret that proves it, for a caller that has to pass it on.
    #[must_use]
    pub fn owner(&self) -> &crate::Owner {
        &self.lease.owner
    }

    /// The number of this grant: pass it to the protected resource with every write.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.lease.fence
    }

    /// The label that others see.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.lease.holder
    }

    /// The ttl in use, after any clamping.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.lease.ttl
    }

    /// When the store granted it, by the store's wall clock. For people.
    #[must_use]
    pub fn acquired_at(&self) -> SystemTime {
        self.lease.granted_at
    }

    /// How long the lease can still be believed in without another renewal.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold.remaining(&*self.engine.context.clock)
    }

    /// Whether the lease can be believed in at this instant. It reads the clock every time, so it
    /// is right at the first instruction after a pause; what happens between this check and its
    /// use is for the fence.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns when the lease can no longer be believed in, and says why. Cancel-safe.
    pub async fn lost(&self) -> LostReason {
        self.hold.ending(&*self.engine.context.clock, Duration::ZERO).await
    }

    /// Returns when no more than `ahead` is left of the lease, or it is lost: early warning for
    /// work that needs time to stop. It does not fire while renewals come through and `ahead` is
    /// less than the ttl less the renewal interval. Cancel-safe.
    pub async fn ending(&self, ahead: Duration) -> LostReason {
        self.hold.ending(&*self.engine.context.clock, ahead).await
    }

    /// Runs `work` for as long as the lease can be believed in, and does not give the lock back.
    /// When belief ends, `work` is dropped where it stands, and not polled once more after a pause
    /// of the process.
    ///
    /// # Errors
    /// Why the lease is lost.
    pub async fn while_held<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> std::result::Result<T, LostReason> {
        while_held(self, work).await
    }

    /// What this guard believes, for others to ask: it keeps nothing alive, and believes no more
    /// once the guard is released, detached or dropped.
    #[must_use]
    pub fn view(&self) -> GuardView {
        GuardView::new(&self.hold, &self.engine.context.clock, self.fence())
    }

    /// Gives the lock back, after any renewal under way has ended.
    ///
    /// # Contract
    /// After `Ok`, the key was this guard's until now and is free. After `Lost`, it was not this
    /// guard's any more; [`Error::overrun`] says by how much the belief was outlived and which
    /// fence is live now. After any other error, the release goes on in the background until the
    /// lease has ended by itself. The same holds when this future is dropped.
    ///
    /// # Errors
    /// `Lost`, `Unavailable` or `Unknown`, as above.
    pub async fn release(mut self) -> Result<()> {
        self.hold.give_up();
        let engine = Arc::clone(&self.engine);
        let context = &engine.context;
        let is_shared = self.owner_is_chosen;
        let _parting = is_shared.then(|| engine.cleanup.part(self.key(), self.lease.fence));
        engine.keeper.stop(self.kept).await;
        let store = Arc::clone(&context.store);
        let grant = grant_of(&self.lease);
        if is_shared {
            engine.keeper.lose_shared(&grant.key, self.lease.fence);
            engine.cleanup.condemn(&grant, self.lease.ttl);
        }
        let answer =
            Owned::new(&context.runtime, async move { store.release(&grant).await }).await?;
        self.close();
        match answer {
            Released::Released(_) => {
                let held = Some(context.clock.now().since(self.granted_at));
                context.tell(self.key(), EventKind::Released { fence: self.fence(), held });
                Ok(())
            }
            Released::NotHeld(other) => Err(self.overrun(Operation::Release, other.as_ref())),
        }
    }

    /// Hands the lease over: this process leaves it alone, and whoever has the returned value can
    /// renew or release it by key and owner until its ttl ends. Only a try of the same acquire that
    /// was never answered, and takes the key once more after that, is still given back from here.
    #[must_use]
    pub fn detach(mut self) -> Lease {
        self.hold.give_up();
        self.engine.keeper.forget(self.kept);
        self.open = false;
        let Lease { key, owner, fence, .. } = &self.lease;
        // Whoever is given the owner may ask with it again.
        if let Some(doubt) = self.doubt.take(key, owner, true) {
            self.engine.cleanup.queue(Leftover { spared: Some(*fence), ..doubt });
        }
        Lease { remaining: self.remaining(), ..self.lease.clone() }
    }

    /// Why belief has ended, or is about to.
    pub(crate) fn reason(&self) -> LostReason {
        self.hold.reason()
    }

    /// This guard, with earlier tries of its acquire to look after.
    pub(crate) fn with_doubt(mut self, doubt: Doubt) -> Self {
        self.doubt = doubt;
        self
    }

    pub(crate) fn is_planted(&self, bug: Bug) -> bool {
        self.engine.context.planted.has(bug)
    }

    /// The error for work that was stopped because the lease was lost.
    pub(crate) async fn lost_error(self, reason: LostReason) -> Error {
        let live = self.engine.context.store.inspect(self.key()).await.ok().flatten();
        let other = live.filter(|lease| lease.fence != self.fence()).map(|lease| lease.status());
        let error = self.overrun(Operation::Run, other.as_ref());
        match reason {
            LostReason::MaxHold => Error::new(ErrorKind::Lost, "the longest hold is over")
                .during(Operation::Run)
                .about(self.engine.context.label(self.key()).as_str()),
            LostReason::Refused | LostReason::Expired => error,
        }
    }

    fn overrun(&self, operation: Operation, other: Option<&Status>) -> Error {
        let context = &self.engine.context;
        let by = context.clock.now().since(self.hold.belief_until());
        let live_fence = other.map(|status| status.fence);
        let live = match live_fence {
            Some(fence) => format!("fence {fence} is live now"),
            None => "no one is known to hold it now".into(),
        };
        let fence = self.fence();
        let text = format!("the lease with fence {fence} was lost, overrun by {by:?}; {live}");
        Error::new(ErrorKind::Lost, text)
            .during(operation)
            .about(context.label(self.key()).as_str())
            .overran(Overrun { by, live_fence })
    }

    /// The grant is over; a try that was never answered may still have to be undone.
    fn close(&mut self) {
        self.open = false;
        let Lease { key, owner, .. } = &self.lease;
        if let Some(leftover) = self.doubt.take(key, owner, self.owner_is_chosen) {
            self.engine.cleanup.queue(leftover);
        }
    }
}

fn grant_of(lease: &Lease) -> Grant {
    Grant { key: lease.key.clone(), owner: lease.owner.clone(), fence: Some(lease.fence) }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.open {
            self.hold.give_up();
            self.engine.keeper.forget(self.kept);
            let Lease { key, owner, fence, ttl, .. } = self.lease.clone();
            // A renewal may be on its way, and give the lease its ttl once more.
            let until = self.engine.context.clock.now() + ttl * 2;
            let doubt = self.doubt.take(&key, &owner, self.owner_is_chosen);
            let in_doubt = doubt.as_ref().map_or(0, |doubt| doubt.in_doubt);
            let until = doubt.as_ref().map_or(until, |doubt| doubt.until.max(until));
            let owner_is_chosen = self.owner_is_chosen;
            if owner_is_chosen {
                self.engine.keeper.lose_shared(&key, fence);
            }
            self.engine.cleanup.queue(Leftover {
                key,
                owner,
                owner_is_chosen,
                mark: doubt.and_then(|doubt| doubt.mark),
                granted: Some((fence, self.granted_at)),
                spared: None,
                stay: self.stay.take(),
                in_doubt,
                until,
            });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.engine.context.label(self.key()))
            .field("fence", &self.fence())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
