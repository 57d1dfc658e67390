//! What a worker does with a lock that it holds, and how it ends that.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::clock::{Clock, within};
use tenure::{ErrorKind, Guard, Lease, LostReason};

use super::check::{Believer, Phase, Probe};
use super::client::{Attempt, Client, Owning, Worker};
use super::clock::nanos;
use super::counters::Count;
use super::message::{attempt_number, key_name};
use super::trace::Step;
use super::world::Registration;

/// For how long a guard of a running process may have stopped believing before `lost` tells it.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// What a worker has seen of its guard.
#[derive(Debug, Default)]
struct Seen {
    told: bool,
    /// Since when it has not believed, in true time, and how often the process had been stopped.
    unheld: Option<(u64, u64)>,
}

impl Worker {
    pub(crate) async fn hold(&self, attempt: &Attempt, guard: Guard) {
        let world = &self.client.world;
        let fence = guard.fence().get();
        let guard = Arc::new(guard);
        let registration = self.got(attempt, &guard, Probe::Guard(Arc::downgrade(&guard)));
        let span = attempt.ttl.mul_f64(0.1) + world.dice.millis(0, 2500);
        self.use_for(attempt, &guard, span).await;
        drop(registration);
        let Some(guard) = Arc::into_inner(guard) else {
            return world.violation("the simulation shares a guard that is to be released");
        };
        match world.dice.below(100) {
            0..50 => self.release(attempt, guard).await,
            50..60 => self.release_half(attempt, guard).await,
            60..75 => {
                world.count(Count::GuardDropped);
                drop(guard);
                self.over(attempt, "dropped").await;
            }
            75..90 if attempt.owning == Owning::Alone => self.detach(attempt, guard).await,
            75..90 if attempt.owning == Owning::Strict => self.hand_over(attempt, guard),
            // A forgotten guard that is kept alive stands until its process ends.
            _ if attempt.is_bounded => {
                world.count(Count::GuardForgotten);
                world.ended(attempt.number, Phase::Left);
                std::mem::forget(guard);
            }
            _ => self.release(attempt, guard).await,
        }
        world.step(Step::Ended { seat: self.client.seat, attempt: attempt.number, how: "held" });
        world.checker().at_most_one(attempt.key);
        debug_assert!(fence > 0 || world.plan.mutant.is_some());
    }

    /// Puts a guard into the books.
    fn got(&self, attempt: &Attempt, guard: &Guard, probe: Probe) -> Registration {
        let Client { world, seat, node, .. } = &*self.client;
        let (key, fence) = (attempt.key, guard.fence().get());
        {
            let mut checker = world.checker();
            checker.step(Step::Got { seat: *seat, attempt: attempt.number, key, fence });
            checker.got(key, fence, guard.owner());
            if guard.key().as_str() != key_name(key) {
                checker.violation(&format!("a guard of k{key} says {}", guard.key()));
            }
            let is_its_own = attempt_number(guard.holder()) == Some(attempt.number);
            if attempt.owning != Owning::Shared && !is_its_own {
                let holder = guard.holder();
                checker
                    .violation(&format!("k{key} was granted to {holder}, and taken for its own"));
            }
        }
        Registration::new(world, Believer { key, fence, node: Arc::clone(node), probe })
    }

    /// Uses the resource again and again, and looks whether the guard is told of its loss.
    async fn use_for(&self, attempt: &Attempt, guard: &Guard, span: Duration) {
        let Client { world, clock, .. } = &*self.client;
        let until = clock.now() + span;
        let mut lost = pin!(guard.lost());
        let mut seen = Seen::default();
        while clock.now() < until && !world.is_healed() {
            self.look(attempt, guard, &mut seen);
            let step = clock.sleep_until(clock.now() + world.dice.millis(20, 300));
            tokio::select! {
                biased;
                reason = &mut lost, if !seen.told => {
                    seen.told = true;
                    self.lost(attempt, guard, reason);
                }
                () = step => {}
            }
            if seen.told && world.dice.chance(300) {
                break;
            }
        }
        self.look(attempt, guard, &mut seen);
    }

    /// One look at the guard and one use of the resource. Careless callers use it even when the
    /// guard no longer believes: the sink is there for those.
    fn look(&self, attempt: &Attempt, guard: &Guard, seen: &mut Seen) {
        let Client { world, seat, node, .. } = &*self.client;
        let (key, fence, held) = (attempt.key, guard.fence().get(), guard.is_held());
        let mut checker = world.checker();
        let now = checker.now;
        if held || world.dice.chance(200) {
            checker.step(Step::Used { seat: *seat, key, fence, held });
            checker.used(key, fence, held);
        }
        match seen.unheld {
            _ if held && (seen.told || seen.unheld.is_some()) => {
                checker.violation(&format!("a guard of k{key} believes again, fence {fence}"));
            }
            None if !held => seen.unheld = Some((now, node.stops())),
            Some((_, stops)) if stops != node.stops() || !node.is_running() => {
                seen.unheld = Some((now, node.stops()));
            }
            Some((since, _)) if !seen.told && now - since > nanos(TOLD_WITHIN) => {
                checker
                    .violation(&format!("a guard of k{key} was lost and not told, fence {fence}"));
                seen.told = true;
            }
            _ => {}
        }
    }

    fn lost(&self, attempt: &Attempt, guard: &Guard, reason: LostReason) {
        let Client { world, seat, .. } = &*self.client;
        let (key, fence) = (attempt.key, guard.fence().get());
        let mut checker = world.checker();
        checker.step(Step::Lost { seat: *seat, key, fence });
        checker.count(match reason {
            LostReason::Refused => Count::LostRefused,
            LostReason::MaxHold => Count::LostMaxHold,
            _ => Count::LostExpired,
        });
        if guard.is_held() {
            checker.violation(&format!("lost() told of k{key}, but it is_held(), fence {fence}"));
        }
    }

    /// Work under a lock: it must not be polled once the guard has stopped believing.
    pub(crate) async fn work_under(&self, attempt: &Attempt, guard: &Guard, span: Duration) {
        let Client { world, seat, clock, .. } = &*self.client;
        let belief = || (clock.now() + guard.remaining()).as_nanos();
        let until = Arc::new(AtomicU64::new(belief()));
        let probe = Probe::Work { clock: (**clock).clone(), until: Arc::clone(&until) };
        let _registration = self.got(attempt, guard, probe);
        let (key, fence) = (attempt.key, guard.fence().get());
        let end = clock.now() + span;
        while clock.now() < end && !world.is_healed() {
            {
                let held = guard.is_held();
                until.store(if held { belief() } else { 0 }, Ordering::Relaxed);
                let mut checker = world.checker();
                checker.step(Step::Used { seat: *seat, key, fence, held });
                checker.used(key, fence, held);
                if !held {
                    checker.violation(&format!("work under k{key} went on after its lease"));
                }
            }
            self.client.nap(world.dice.millis(20, 300)).await;
        }
    }

    async fn release(&self, attempt: &Attempt, guard: Guard) {
        let world = &self.client.world;
        let fence = guard.fence().get();
        match guard.release().await {
            Ok(()) => {
                let standing = world.standing_fence(attempt.key);
                world.checker().gave_back(attempt.key, fence, standing);
            }
            Err(error) => match error.kind() {
                ErrorKind::Lost => world.count(Count::ReleaseLost),
                ErrorKind::Unavailable => world.count(Count::ReleaseUnavailable),
                ErrorKind::Unknown => world.count(Count::ReleaseUnknown),
                _ => world.violation(&format!("a release failed in an odd way: {error}")),
            },
        }
        self.over(attempt, "released").await;
    }

    /// A release whose caller goes away.
    async fn release_half(&self, attempt: &Attempt, guard: Guard) {
        let world = &self.client.world;
        let limit = world.dice.millis(0, 40);
        if within(&*self.client.clock, limit, guard.release()).await.is_err() {
            world.count(Count::ReleaseCancelled);
        }
        self.over(attempt, "released half-way").await;
    }

    /// The lease is handed over, renewed by key and owner, and released so, unless it is left.
    async fn detach(&self, attempt: &Attempt, guard: Guard) {
        let Client { world, locks, .. } = &*self.client;
        let Lease { owner, .. } = guard.detach();
        world.ended(attempt.number, Phase::Left);
        let key = key_name(attempt.key);
        self.client.nap(world.dice.millis(0, 500)).await;
        if world.dice.chance(500) {
            match locks.renew(&key, &owner, attempt.ttl).await {
                Ok(_) => world.count(Count::DetachedRenewed),
                Err(error) => self.detached_failed(error.kind()),
            }
        }
        if world.dice.chance(800) {
            match locks.release(&key, &owner).await {
                Ok(()) => world.count(Count::DetachedReleased),
                Err(error) => self.detached_failed(error.kind()),
            }
        }
    }

    /// The lease is handed over and ends by itself. It is not released by its owner: a release that
    /// is not answered may land later, and such an owner is not to be used again.
    fn hand_over(&self, attempt: &Attempt, guard: Guard) {
        let world = &self.client.world;
        let fence = guard.detach().fence.get();
        world.ended(attempt.number, Phase::Left);
        world.checker().handed_over(fence);
    }

    fn detached_failed(&self, kind: ErrorKind) {
        if matches!(kind, ErrorKind::NotFound | ErrorKind::WrongOwner) {
            self.client.world.count(Count::DetachedRefused);
        }
    }
}
