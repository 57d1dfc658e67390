//! Asking for a lease until it is granted, refused for good, or the wait is over.

mod in_line;

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Attempt, Claim, Grant, Renewal, Renewed};
use crate::clock::{Moment, within};
use crate::error::{Error, ErrorKind, Operation, Result, Retry};
use crate::fence::Fence;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::locks::Engine;
use crate::locks::belief::belief_until;
use crate::locks::cleanup::{Doubt, Leftover};
use crate::locks::events::EventKind;
use crate::locks::guard::{Granted, Guard};
use crate::locks::keep::Terms;
use crate::locks::order::{Order, Waiting};
use crate::locks::queue::Told;
use crate::owned::Owned;
use crate::planted::{self, Bug};
use crate::watch::Watch;

/// No loop without a sleep, whatever a store says is left of a lease.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The state of one acquire.
struct Asking<'a> {
    engine: &'a Arc<Engine>,
    order: &'a Order,
    started: Moment,
    deadline: Option<Moment>,
    watch: Option<Watch>,
    looks: u32,
    seen: Option<Status>,
    /// When the lease that was seen ends, unless it is renewed.
    expiry: Option<Moment>,
    outage: Option<(Moment, Error)>,
    doubt: Doubt,
    /// The fence of a grant that came too late, and counts as in doubt.
    late: Option<Fence>,
}

enum Answer {
    Granted(Lease, Moment),
    Held(Status),
}

pub(crate) async fn acquire(engine: &Arc<Engine>, order: &Order) -> Result<Guard> {
    let mut asking = Asking::new(engine, order);
    let outcome = asking.acquire().await;
    outcome.map_err(|error| asking.named(error))
}

impl<'a> Asking<'a> {
    fn new(engine: &'a Arc<Engine>, order: &'a Order) -> Self {
        let started = engine.context.clock.now();
        Self {
            engine,
            order,
            started,
            deadline: order.wait.map(|wait| started + wait),
            watch: None,
            looks: 0,
            seen: None,
            expiry: None,
            outage: None,
            doubt: Doubt::new(order.mark().cloned()),
            late: None,
        }
    }

    fn key(&self) -> &'a Key {
        &self.order.claim.key
    }

    fn named(&self, error: Error) -> Error {
        error.during(Operation::Acquire).about(self.engine.context.label(self.key()).as_str())
    }

    async fn acquire(&mut self) -> Result<Guard> {
        if self.order.owner_is_chosen {
            self.take_over();
        }
        let waits = self.order.wait != Some(Duration::ZERO);
        let _place = if waits { Some(self.stand_in_line().await?) } else { None };
        if waits && !self.order.owner_is_chosen {
            self.await_own_guard().await?;
        }
        loop {
            match self.ask().await {
                Ok(Answer::Granted(lease, sent)) => {
                    if let Some(guard) = self.guard(lease, sent)? {
                        return Ok(guard);
                    }
                }
                Ok(Answer::Held(status)) => {
                    self.tell(Told::Held(status.clone()));
                    self.held(status)?;
                }
                Err(error) => self.failed(error)?,
            }
            self.pause().await?;
        }
    }

    /// Takes over whatever else there may be of an owner that was used before.
    fn take_over(&mut self) {
        let Claim { key, owner, .. } = &self.order.claim;
        let is_marked = self.order.mark().is_some();
        for ttl in self.engine.cleanup.supersede(key, owner, is_marked) {
            self.doubt.inherit(self.started + ttl);
        }
    }

    /// One question to the store. Its outcome is known, or stays in doubt until it is undone.
    async fn ask(&mut self) -> Result<Answer> {
        let context = &self.engine.context;
        let sent = context.clock.now();
        let answer = match self.time_left(sent) {
            None => self.try_acquire(sent).await,
            Some(left) => match within(&*context.clock, left, self.try_acquire(sent)).await {
                Ok(answer) => answer,
                Err(_) => return self.cut_short(),
            },
        };
        match answer {
            Ok(Attempt::Granted(lease)) => Ok(Answer::Granted(lease, sent)),
            // An earlier try has landed, and this one is refused because of that.
            Ok(Attempt::Held(status)) if self.order.mark() == Some(&status.holder) => {
                Ok(self.adopt(status.fence).await.unwrap_or(Answer::Held(status)))
            }
            Ok(Attempt::Held(status)) => Ok(Answer::Held(status)),
            Err(error) if error.retry() == Retry::Unknown => self.resolve(error, sent).await,
            Err(error) => Err(error),
        }
    }

    /// The wait ended before the answer, which is dealt with when it comes: what was known stands.
    fn cut_short(&self) -> Result<Answer> {
        match &self.seen {
            Some(status) if self.outage.is_none() => Ok(Answer::Held(status.clone())),
            _ => Err(unanswered()),
        }
    }

    /// What is left of the wait; a try without waiting is bounded by the store's own time limit.
    fn time_left(&self, now: Moment) -> Option<Duration> {
        let deadline = self.deadline.filter(|_| self.order.wait != Some(Duration::ZERO))?;
        Some(deadline.since(now))
    }

    fn try_acquire(&self, sent: Moment) -> Owned<Result<Attempt>> {
        let context = &self.engine.context;
        let store = Arc::clone(&context.store);
        let claim = self.order.claim.clone();
        let cleanup = Arc::clone(&self.engine.cleanup);
        let clock = Arc::clone(&context.clock);
        let Claim { key, owner, ttl, .. } = claim.clone();
        let owner_is_chosen = self.order.owner_is_chosen;
        let mark = self.order.mark().cloned();
        let abandoned = move || {
            let work = cleanup.expect(&key, &owner, ttl, mark.is_some());
            move |answer: Result<Attempt>| {
                let (granted, in_doubt) = match answer {
                    Ok(Attempt::Granted(lease)) => (Some((lease.fence, sent)), 0),
                    Err(error) if error.retry() == Retry::Unknown => (None, 1),
                    Ok(Attempt::Held(_)) | Err(_) => return,
                };
                // The store may have decided as late as now.
                let until = clock.now() + ttl;
                let spared = None;
                work.start(Leftover {
                    key,
                    owner,
                    owner_is_chosen,
                    mark,
                    granted,
                    spared,
                    stay: None,
                    in_doubt,
                    until,
                });
            }
        };
        Owned::new(&context.runtime, async move { store.try_acquire(&claim).await })
            .if_abandoned(abandoned)
    }

    /// The store did not answer, and asking again blindly could take the lock twice. Look first.
    async fn resolve(&mut self, error: Error, sent: Moment) -> Result<Answer> {
        let context = &self.engine.context;
        if context.planted.has(Bug::AssumedGrant) {
            return Ok(Answer::Granted(planted::assumed(&self.order.claim), sent));
        }
        if context.planted.has(Bug::ForgottenReply) {
            return Err(Error::unavailable("the store did not answer"));
        }
        let looked = context.clock.now();
        // The store may have decided as late as now.
        self.doubt.add(looked + self.order.claim.ttl);
        match self.look().await {
            Ok(Some(lease)) if self.is_mine(&lease) => self.adopt(lease.fence).await.ok_or(error),
            // It was refused, or has not landed yet.
            Ok(Some(lease)) => Ok(Answer::Held(lease.status())),
            Ok(None) | Err(_) => Err(error),
        }
    }

    async fn look(&self) -> Result<Option<Lease>> {
        self.in_time(self.engine.context.store.inspect(self.key())).await
    }

    /// A look does not tell for sure how much is left of the lease, but a renewal does.
    async fn adopt(&mut self, fence: Fence) -> Option<Answer> {
        let context = &self.engine.context;
        let Claim { key, owner, ttl, .. } = self.order.claim.clone();
        let renewal = Renewal { grant: Grant { key, owner, fence: Some(fence) }, ttl };
        let sent = context.clock.now();
        let is_another_guards = self.engine.keeper.is_believed(self.key(), fence);
        match self.in_time(context.store.renew(&renewal)).await {
            Ok(Renewed::Renewed(lease)) => {
                // One that came too late is none of those that were never answered, and neither is
                // one that its owner had before.
                if self.late != Some(fence) && !is_another_guards {
                    self.doubt.remove();
                }
                Some(Answer::Granted(lease, sent))
            }
            Ok(Renewed::Lost(_)) | Err(_) => None,
        }
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let clock = &*self.engine.context.clock;
        match self.time_left(clock.now()) {
            None => call.await,
            Some(left) => within(clock, left, call)
                .await
                .unwrap_or_else(|_| Err(Error::unavailable("the wait ended without an answer"))),
        }
    }

    /// Whether a lease came from here, or may be shared by whoever has its owner.
    fn is_mine(&self, lease: &Lease) -> bool {
        lease.owner == self.order.claim.owner
            && self.order.mark().is_none_or(|mark| lease.holder == *mark)
    }

    /// The guard for a grant, unless it is of no use: too little is left of it, so that the next
    /// try gets it anew or it is given back in the end; or its release was sent and may yet land.
    fn guard(&mut self, lease: Lease, sent: Moment) -> Result<Option<Guard>> {
        let context = &self.engine.context;
        let timing = context.store.info().timing;
        let now = context.clock.now();
        let Order { claim: Claim { ttl, .. }, owner_is_chosen, .. } = *self.order;
        if belief_until(sent, lease.remaining, timing).since(now) <= ttl / 10 {
            self.late = Some(lease.fence);
            self.doubt.add(now + ttl);
            let text = "the store's answer took longer than the lease is good for";
            return self.failed(Error::unavailable(text)).map(|()| None);
        }
        if self.late.take() == Some(lease.fence) {
            self.doubt.remove();
        }
        let ends_at = self.order.max_hold.map(|hold| sent + hold);
        let terms = Terms { ttl, interval: self.order.interval, ends_at, timing };
        let (status, waited) = (lease.status(), now.since(self.started));
        let guard = Guard::new(self.engine, Granted { lease, sent, owner_is_chosen, terms });
        // Only now, when the guard is known to believe: whoever condemns the fence looks for that.
        if owner_is_chosen && self.engine.cleanup.is_condemned(&guard) {
            drop(guard);
            return self.held(status).map(|()| None);
        }
        self.tell(Told::Ours(status.clone()));
        context.tell(self.key(), EventKind::Granted { fence: status.fence, waited: Some(waited) });
        Ok(Some(guard.with_doubt(std::mem::take(&mut self.doubt))))
    }

    fn held(&mut self, status: Status) -> Result<()> {
        let context = &self.engine.context;
        let now = context.clock.now();
        self.outage = None;
        self.expiry = Some(now + status.remaining);
        let first = self.seen.is_none();
        let changed = self.seen.as_ref().is_none_or(|seen| seen.fence != status.fence);
        if first {
            let (fence, holder) = (status.fence, status.holder.clone());
            let waited = Some(now.since(self.started));
            let kind = EventKind::Contended { fence, holder, waited };
            context.tell(self.key(), kind);
        }
        let holder = status.holder.clone();
        self.seen = Some(status);
        if self.order.wait == Some(Duration::ZERO) {
            return Err(Error::new(ErrorKind::Held, format!("held by {holder}")));
        }
        if changed {
            self.looks = 0;
            self.show(0, self.seen.clone());
        }
        Ok(())
    }

    /// A failure of the store: worth another try, unless it is final or has gone on for too long.
    fn failed(&mut self, error: Error) -> Result<()> {
        let context = &self.engine.context;
        let now = context.clock.now();
        let since = self.outage.as_ref().map_or(now, |(since, _)| *since);
        let too_long = self.deadline.is_none() && now.since(since) > context.options.outage_max;
        let once = self.order.wait == Some(Duration::ZERO);
        if error.retry() == Retry::Never || too_long || once {
            return Err(error);
        }
        // How long the key was held, or the store away, says nothing about how soon it is back.
        self.looks = if self.outage.is_some() { self.looks.min(1) } else { 0 };
        self.tell(Told::Failed(error.clone()));
        self.outage = Some((since, error));
        Ok(())
    }

    /// Sleeps until the key may be free: until the store rings, the lease has ended, or it is time
    /// to look without being called. Never past the deadline.
    async fn pause(&mut self) -> Result<()> {
        self.check_deadline()?;
        // Subscribe first and then look again: a release in between is not missed.
        if self.watch.is_none() && self.outage.is_none() {
            self.subscribe().await;
            if self.watch.is_some() {
                return Ok(());
            }
        }
        self.rest().await
    }

    async fn subscribe(&mut self) {
        let context = &self.engine.context;
        let clock = &*context.clock;
        let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.since(clock.now()));
        let watch = within(clock, left, context.store.watch(self.key())).await;
        self.watch = watch.ok().and_then(Result::ok);
    }

    async fn rest(&mut self) -> Result<()> {
        let context = &self.engine.context;
        let clock = &*context.clock;
        let now = clock.now();
        self.looks = self.looks.saturating_add(1);
        let look = now + context.options.poll.pause(self.looks, &*context.random);
        // What was seen before an outage tells when to ask, until that end has passed.
        let expiry = self.expiry.filter(|expiry| self.outage.is_none() || *expiry > now);
        let expiry = expiry.map(|expiry| expiry.max(now + PAUSE_MIN));
        let wake = [expiry, self.deadline].into_iter().flatten().fold(look, Moment::min);
        let alarm = clock.sleep_until(wake);
        match &mut self.watch {
            Some(watch) => tokio::select! { biased; () = watch.changed() => {}, () = alarm => {} },
            None => alarm.await,
        }
        self.check_deadline()
    }

    fn check_deadline(&self) -> Result<()> {
        let now = self.engine.context.clock.now();
        match self.deadline {
            Some(deadline) if now >= deadline => Err(self.timed_out()),
            _ => Ok(()),
        }
    }

    fn timed_out(&self) -> Error {
        let context = &self.engine.context;
        let waited = context.clock.now().since(self.started);
        context.tell(self.key(), EventKind::TimedOut { waited });
        match (&self.outage, &self.seen) {
            (Some((_, error)), _) => error.clone(),
            (None, Some(status)) => Error::new(
                ErrorKind::TimedOut,
                format!("the wait of {waited:?} is over, held by {}", status.holder),
            ),
            (None, None) => Error::new(
                ErrorKind::TimedOut,
                format!("the wait of {waited:?} is over, others of this process came first"),
            ),
        }
    }

    fn show(&self, ahead: usize, held_by: Option<Status>) {
        if let Some(on_wait) = &self.order.on_wait {
            let key = self.engine.context.label(self.key());
            on_wait(&Waiting { key, ahead, held_by });
        }
    }
}

fn unanswered() -> Error {
    Error::unknown("the wait ended without an answer from the store")
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Claim { key, owner, .. } = &self.order.claim;
        if let Some(leftover) = self.doubt.take(key, owner, self.order.owner_is_chosen) {
            self.engine.cleanup.queue(leftover);
        }
    }
}
