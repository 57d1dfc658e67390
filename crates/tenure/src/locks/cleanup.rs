//! Giving back what nobody holds any more: dropped guards, and acquires that may have been granted.
//!
//! Every release from here names its fence: one that is delayed on its way can then only end that
//! very grant, and never a later one of the same owner. And a fence whose release was sent is
//! *condemned*: an owner that asks again may be given the same grant once more, and must not use
//! it, because the release may still land.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::claim::{Grant, Released};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::Lease;
use crate::locks::context::Context;
use crate::locks::events::EventKind;
use crate::locks::guard::Guard;
use crate::locks::keeper::Keeper;
use crate::locks::stays::Stay;
use crate::owner::Owner;
use crate::planted::Bug;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a condemned fence is remembered: far longer than a release can be on its way.
const CONDEMNED_TTLS: u32 = 4;
const CONDEMNED_MIN: Duration = Duration::from_secs(60);
/// With so many condemned fences, those that no longer matter are forgotten.
const CONDEMNED_SWEEP: usize = 1024;

/// Something to be given back.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    /// The caller chose the owner, and may use it again.
    pub(crate) owner_is_chosen: bool,
    /// The label that only the tries' own grants have; `None` when all of this owner are theirs.
    pub(crate) mark: Option<Holder>,
    /// What was granted for sure: its fence, and when.
    pub(crate) granted: Option<(Fence, Moment)>,
    /// A grant that was handed over, and is left alone.
    pub(crate) spared: Option<Fence>,
    /// Whoever waits behind what was granted is told when it has been given back, and not before:
    /// the store would only refuse.
    pub(crate) stay: Option<Stay>,
    /// How many tries were never answered. "Not held" is no answer then: each of them may still be
    /// on its way.
    pub(crate) in_doubt: u32,
    /// When all of it has ended by itself.
    pub(crate) until: Moment,
}

impl Leftover {
    /// Whether a lease that stands may have come from one of the tries.
    fn may_be(&self, lease: &Lease) -> bool {
        lease.owner == self.owner
            && self.spared != Some(lease.fence)
            && self.mark.as_ref().is_none_or(|mark| lease.holder == *mark)
    }

    fn grant(&self, fence: Fence) -> Grant {
        Grant { key: self.key.clone(), owner: self.owner.clone(), fence: Some(fence) }
    }
}

/// Tries that were never answered, of one acquire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt {
    tries: u32,
    until: Option<Moment>,
    mark: Option<Holder>,
}

impl Doubt {
    /// None yet, of an acquire whose grants have this mark, if any.
    pub(crate) fn new(mark: Option<Holder>) -> Self {
        Self { mark, ..Self::default() }
    }

    /// One of an earlier acquire, which may come to any lease of the owner.
    pub(crate) fn inherit(&mut self, until: Moment) {
        self.mark = None;
        self.add(until);
    }

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
    pub(crate) fn take(
        &mut self,
        key: &Key,
        owner: &Owner,
        owner_is_chosen: bool,
    ) -> Option<Leftover> {
        let Self { tries: in_doubt, until, mark } = std::mem::take(self);
        let until = until.filter(|_| in_doubt > 0)?;
        let (key, owner) = (key.clone(), owner.clone());
        let (granted, spared, stay) = (None, None, None);
        Some(Leftover { key, owner, owner_is_chosen, mark, granted, spared, stay, in_doubt, until })
    }
}

#[derive(Debug)]
pub(crate) struct Cleanup {
    context: Arc<Context>,
    keeper: Arc<Keeper>,
    pending: watch::Sender<usize>,
    state: Mutex<State>,
}

type Id = (Key, Owner);

#[derive(Debug, Default)]
struct State {
    /// Work that its owner has not taken over.
    works: HashMap<Id, Vec<Pending>>,
    next_work: u64,
    /// The greatest fence of each chosen owner whose release was sent, and until when that
    /// matters.
    condemned: HashMap<Id, (Fence, Moment)>,
    sweep_at: usize,
    /// Grants that their own guards are giving back just now.
    parting: HashSet<(Key, Fence)>,
}

#[derive(Debug)]
struct Pending {
    work: u64,
    /// The ttl of what it is about.
    ttl: Duration,
    /// Nobody else is given what it is about, unless a claim adopts any lease of its owner.
    is_marked: bool,
}

impl State {
    fn remove(&mut self, id: &Id, work: u64) {
        if let Some(works) = self.works.get_mut(id) {
            works.retain(|pending| pending.work != work);
            if works.is_empty() {
                self.works.remove(id);
            }
        }
    }

    fn condemn(&mut self, id: &Id, fence: Fence, now: Moment, until: Moment) {
        if self.condemned.len() >= self.sweep_at.max(CONDEMNED_SWEEP) {
            self.condemned.retain(|_, (_, until)| *until > now);
            self.sweep_at = self.condemned.len() * 2;
        }
        let newest = self.condemned.entry(id.clone()).or_insert((fence, until));
        *newest = (newest.0.max(fence), newest.1.max(until));
    }
}

impl Cleanup {
    pub(crate) fn new(context: Arc<Context>, keeper: Arc<Keeper>) -> Self {
        Self { context, keeper, pending: watch::Sender::new(0), state: Mutex::default() }
    }

    /// Something of this owner may have to be given back, as soon as it is known what.
    pub(crate) fn expect(
        self: &Arc<Self>,
        key: &Key,
        owner: &Owner,
        ttl: Duration,
        is_marked: bool,
    ) -> Work {
        self.pending.send_modify(|count| *count += 1);
        let id = (key.clone(), owner.clone());
        let mut state = self.state();
        let work = state.next_work;
        state.next_work += 1;
        state.works.entry(id.clone()).or_default().push(Pending { work, ttl, is_marked });
        drop(state);
        Work { cleanup: Arc::clone(self), id, number: work }
    }

    /// Starts to give `leftover` back in the background, until it is done or has ended by itself.
    pub(crate) fn queue(self: &Arc<Self>, leftover: Leftover) {
        let ttl = leftover.until.since(self.context.clock.now());
        let Leftover { key, owner, mark, .. } = &leftover;
        self.expect(key, owner, ttl, mark.is_some()).start(leftover);
    }

    /// This owner asks for the key again, so whatever it may have been granted before will be its
    /// own: the ttl of each such thing. One that asks with a mark leaves alone what has another.
    pub(crate) fn supersede(&self, key: &Key, owner: &Owner, is_marked: bool) -> Vec<Duration> {
        let id = (key.clone(), owner.clone());
        let mut state = self.state();
        let works = state.works.remove(&id).unwrap_or_default();
        let (left, taken): (Vec<_>, Vec<_>) =
            works.into_iter().partition(|pending| is_marked && pending.is_marked);
        if !left.is_empty() {
            state.works.insert(id, left);
        }
        taken.into_iter().map(|pending| pending.ttl).collect()
    }

    /// A release of this grant is about to be sent.
    pub(crate) fn condemn(&self, grant: &Grant, ttl: Duration) {
        if let Some(fence) = grant.fence {
            let id = (grant.key.clone(), grant.owner.clone());
            let now = self.context.clock.now();
            self.state().condemn(&id, fence, now, now + CONDEMNED_TTLS * ttl + CONDEMNED_MIN);
        }
    }

    /// A guard gives this grant back itself for as long as the returned value lives: whoever looks
    /// for other tries of its owner leaves it alone, or the guard would find it gone.
    pub(crate) fn part(self: &Arc<Self>, key: &Key, fence: Fence) -> Parting {
        let grant = (key.clone(), fence);
        self.state().parting.insert(grant.clone());
        Parting { cleanup: Arc::clone(self), grant }
    }

    /// Whether a release of this grant was sent, and may yet land.
    pub(crate) fn is_condemned(&self, guard: &Guard) -> bool {
        let id = (guard.key().clone(), guard.owner().clone());
        self.state().condemned.get(&id).is_some_and(|(newest, _)| guard.fence() <= *newest)
    }

    /// Returns when nothing is left to give back.
    pub(crate) async fn flush(&self) {
        // It cannot fail: the sender is this value's.
        let _ = self.pending.subscribe().wait_for(|count| *count == 0).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard is giving its grant back.
#[derive(Debug)]
pub(crate) struct Parting {
    cleanup: Arc<Cleanup>,
    grant: (Key, Fence),
}

impl Drop for Parting {
    fn drop(&mut self) {
        self.cleanup.state().parting.remove(&self.grant);
    }
}

/// One thing that may have to be given back. [`Cleanup::flush`] waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    cleanup: Arc<Cleanup>,
    id: Id,
    number: u64,
}

impl Work {
    /// It is known now what there is.
    pub(crate) fn start(self, mut leftover: Leftover) {
        let granted = leftover
            .granted
            .filter(|(fence, _)| matches!(self.claim(*fence, &leftover), Claimed::Condemned));
        let runtime = self.cleanup.context.runtime.clone();
        runtime.spawn(async move {
            if let Some((fence, granted_at)) = granted {
                let grant = leftover.grant(fence);
                self.release(&grant, fence, granted_at, leftover.until).await;
            }
            drop(leftover.stay.take());
            self.look_after(&leftover).await;
        });
    }

    fn is_alone(&self) -> bool {
        self.cleanup.state().works.get(&self.id).is_none_or(|works| works.len() <= 1)
    }

    /// Whose a grant is that could be released. Only a chosen owner can have it otherwise.
    fn claim(&self, fence: Fence, leftover: &Leftover) -> Claimed {
        let is_believed = || self.cleanup.keeper.is_believed(&leftover.key, fence);
        if !leftover.owner_is_chosen {
            return Claimed::Condemned;
        }
        if is_believed() {
            return Claimed::Believed;
        }
        let mut state = self.cleanup.state();
        if state.parting.contains(&(leftover.key.clone(), fence)) {
            return Claimed::Believed;
        }
        let works = state.works.get(&self.id);
        if !works.is_some_and(|works| works.iter().any(|pending| pending.work == self.number)) {
            return Claimed::Superseded;
        }
        let now = self.cleanup.context.clock.now();
        let span = leftover.until.since(now);
        state.condemn(&self.id, fence, now, now + CONDEMNED_TTLS * span + CONDEMNED_MIN);
        if leftover.in_doubt == 0 {
            // This goes its way to the end: nothing of it is left to be taken over.
            state.remove(&self.id, self.number);
        }
        drop(state);
        // Once more: a guard that came to believe meanwhile did not see the fence condemned.
        if is_believed() { Claimed::Believed } else { Claimed::Condemned }
    }

    /// Releases a grant until the store says that it is over, or it has ended by itself; whether it
    /// was this that ended it.
    async fn release(
        &self,
        grant: &Grant,
        fence: Fence,
        granted_at: Moment,
        until: Moment,
    ) -> bool {
        let context = &self.cleanup.context;
        let clock = &*context.clock;
        let mut pause = PAUSE_MIN;
        while clock.now() < until {
            match context.store.release(grant).await {
                Ok(Released::Released(_)) => {
                    let held = Some(clock.now().since(granted_at));
                    context.tell(&grant.key, EventKind::Released { fence, held });
                    return true;
                }
                Ok(Released::NotHeld(_)) => return false,
                Err(_) => clock.sleep_until((clock.now() + pause).min(until)).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        false
    }

    /// Looks again and again whether one of the tries has landed, and releases it. The last look is
    /// when all of them should have ended.
    async fn look_after(&self, leftover: &Leftover) {
        let clock = &*self.cleanup.context.clock;
        let mut in_doubt = leftover.in_doubt;
        let mut alone = true;
        let mut pause = PAUSE_MIN;
        while in_doubt > 0 {
            let last = clock.now() >= leftover.until;
            alone &= leftover.mark.is_some() || self.is_alone();
            match self.look(leftover).await {
                // With other work for the same owner, it cannot be told whose try it was.
                Look::Released => in_doubt -= u32::from(alone),
                Look::Nothing if last => return,
                Look::Nothing => {}
                Look::Over => return,
            }
            clock.sleep_until((clock.now() + pause).min(leftover.until)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn look(&self, leftover: &Leftover) -> Look {
        let context = &self.cleanup.context;
        let looked = context.clock.now();
        match context.store.inspect(&leftover.key).await {
            Ok(Some(lease)) if leftover.may_be(&lease) => {
                match self.claim(lease.fence, leftover) {
                    Claimed::Condemned => {}
                    Claimed::Believed => return Look::Nothing,
                    Claimed::Superseded => return Look::Over,
                }
                // It may have landed late, and stand longer than was thought.
                let until = leftover.until.max(context.clock.now() + lease.remaining);
                let grant = leftover.grant(lease.fence);
                match self.release(&grant, lease.fence, looked, until).await {
                    true => Look::Released,
                    // Another one's work has ended it: it was not what is looked for.
                    false => Look::Nothing,
                }
            }
            Ok(_) if context.planted.has(Bug::AbsentIsFinal) => Look::Over,
            Ok(_) | Err(_) => Look::Nothing,
        }
    }
}

/// Whose a grant is.
enum Claimed {
    /// Nobody's, and its owner will not use it any more: it can be released.
    Condemned,
    /// A guard's, which believes in it or is giving it back.
    Believed,
    /// That of an acquire under way with the same owner.
    Superseded,
}

/// What a look for a try that may have landed came to.
enum Look {
    /// It had, and is released.
    Released,
    /// It has not yet.
    Nothing,
    /// There is nothing more to look for.
    Over,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.cleanup.state().remove(&self.id, self.number);
        self.cleanup.pending.send_modify(|count| *count -= 1);
    }
}
