//! One task of a worker: one claim after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tenure::clock::{Clock, SystemClock, within};
use tenure::{Error, ErrorKind, Guard, LockRequest, Owner, Status};
use tenure_check::What;

use crate::deed::Done;
use crate::dice::Dice;
use crate::job::{Style, TTL_LONG, TTL_SHORT, key, nanos};
use crate::worker::Shared;

/// How much longer than a ttl those wait who are to see that an orphan is freed.
const LONGER: Duration = Duration::from_secs(4);

/// How many keys are fought over more than the others.
const HOT: u64 = 4;

/// How often work that is run under a lock writes down that it goes on.
const STEP: Duration = Duration::from_millis(5);

/// The kind of failure of an acquire whose answer was not waited for.
pub(crate) const ABANDONED: &str = "Abandoned";

/// The kind of failure of an acquire that was given what its owner had before: nothing new.
pub(crate) const AGAIN: &str = "Again";

/// The kind of failure that leaves open whether what was asked for was done.
pub(crate) const UNKNOWN: &str = "Unknown";

/// The kind of failure of a release whose outcome nobody is told: the lock ended the work, or the
/// work its lock.
pub(crate) const UNTOLD: &str = "Untold";

/// A task, and the claim that it is at.
#[derive(Debug)]
pub(crate) struct Turn {
    shared: Arc<Shared>,
    dice: Dice,
    claim: u64,
    key: String,
}

/// How one claim is made.
#[derive(Clone, Copy, Debug)]
struct Manner {
    ttl: Duration,
    wait: Duration,
    hold: Duration,
    keep_alive: bool,
    /// Whether it asks once more, with the same owner, for what it holds.
    twice: bool,
}

impl Turn {
    /// A task with chances of its own.
    pub(crate) fn new(shared: Arc<Shared>, dice: Dice) -> Self {
        Self { shared, dice, claim: 0, key: String::new() }
    }

    /// Does one thing, and begins nothing that lasts for longer than `left`.
    pub(crate) async fn take(&mut self, left: Duration) -> Result<()> {
        let keys = self.shared.job.keys;
        let number = if self.dice.below(4) == 0 { HOT.min(keys) } else { keys };
        self.key = key(self.dice.below(number));
        let is_mixed = self.shared.job.style == Style::Mixed;
        match self.dice.below(1000) {
            0..3 if is_mixed => self.force().await,
            3..90 => self.look().await,
            _ => {
                let manner = self.manner(left);
                self.ask(manner).await
            }
        }
    }

    fn manner(&mut self, left: Duration) -> Manner {
        let style = self.shared.job.style;
        let dice = &mut self.dice;
        let is_short = dice.chance(match style {
            Style::Mixed | Style::AtOnce => 500,
            Style::Long | Style::Run => 900,
            Style::Brief => 1000,
            Style::Longest => 0,
        });
        let ttl = if is_short { TTL_SHORT } else { TTL_LONG };
        let wait = match (style, dice.below(100)) {
            (Style::AtOnce, _) | (_, 0..50) => Duration::ZERO,
            (_, 50..84) => dice.millis(20, 300),
            (_, 84..94) => Duration::from_secs(1),
            _ => ttl + LONGER,
        };
        let (of_ttl, ms) = (ttl.as_millis() as u64, 1);
        let hold = match (style, dice.below(100)) {
            (Style::Long | Style::Brief | Style::Run, _) => dice.millis(of_ttl / 2, of_ttl * 3),
            (Style::Longest, _) => dice.millis(of_ttl, of_ttl * 5 / 2),
            (_, 0..70) => dice.millis(0, 6 * ms),
            (_, 70..93) => dice.millis(5 * ms, 60 * ms),
            (_, 93..98) => dice.millis(100 * ms, 600 * ms),
            _ => dice.millis(of_ttl / 2, of_ttl * 3 / 2),
        };
        let keep_alive = style != Style::Mixed || !dice.chance(30);
        let twice = style == Style::Mixed && keep_alive && dice.chance(40);
        Manner { ttl, wait: wait.min(left), hold: hold.min(left), keep_alive, twice }
    }

    async fn ask(&mut self, manner: Manner) -> Result<()> {
        self.claim = self.shared.next_claim();
        let Manner { ttl, wait, keep_alive, .. } = manner;
        let mut request = self.request(ttl, wait).keep_alive(keep_alive);
        if manner.twice {
            let owner = format!("worker-{}-{}", self.shared.job.worker, self.claim);
            request = request.owner(Owner::parse(&owner)?);
        }
        self.note(What::Asked { ttl: nanos(ttl), wait: Some(nanos(wait)) })?;
        if self.shared.job.style == Style::Run {
            return self.run(&request, manner.hold).await;
        }
        if self.dice.chance(8) && self.shared.job.style == Style::Mixed {
            return self.change_mind(&request).await;
        }
        match request.acquire().await {
            Ok(guard) => self.hold(guard, manner).await,
            Err(error) => self.refused(&error).await,
        }
    }

    /// What asks for the key, so that it is known which claim that is of.
    fn request(&self, ttl: Duration, wait: Duration) -> LockRequest {
        let label = self.shared.tries.begin(self.claim, !wait.is_zero());
        self.shared.locks.lock(&self.key).ttl(ttl).wait(wait).holder(&label)
    }

    async fn refused(&mut self, error: &Error) -> Result<()> {
        self.told_nothing(error)?;
        let pause = match error.kind() {
            ErrorKind::Held | ErrorKind::TimedOut => self.dice.millis(1, 15),
            _ => self.dice.millis(20, 100),
        };
        sleep(pause).await;
        Ok(())
    }

    /// Asks, and does not wait for the answer: whatever was granted must be given back by itself.
    async fn change_mind(&mut self, request: &LockRequest) -> Result<()> {
        let patience = self.dice.millis(0, 3);
        match within(&SystemClock, patience, request.acquire()).await {
            Ok(Err(error)) => self.told_nothing(&error),
            // Nobody was told: it is as if the worker had been killed just here.
            Ok(Ok(_)) | Err(_) => {
                self.shared.tries.abandoned(self.claim)?;
                self.note(What::Failed { kind: ABANDONED.to_owned(), unknown: true })
            }
        }
    }

    async fn hold(&mut self, guard: Guard, manner: Manner) -> Result<()> {
        let (shared, fence) = (Arc::clone(&self.shared), guard.fence().get());
        self.told(fence)?;
        shared.witness.watch(self.claim, &self.key, guard.view(), manner.keep_alive);
        shared.sink.write(shared.job.worker, &self.key, fence).await?;
        if manner.twice {
            self.ask_again(&guard).await?;
        }
        sleep(manner.hold).await;
        // Without a look at the guard: a worker that was paused must be stopped by the fence.
        shared.sink.write(shared.job.worker, &self.key, fence).await?;
        shared.witness.leave(self.claim)?;
        if self.dice.chance(60) {
            self.note(What::Dropped)?;
            drop(guard);
            return Ok(());
        }
        self.give_back(guard).await
    }

    /// Asks once more for what it holds, as a client does that was started again with its owner.
    async fn ask_again(&mut self, guard: &Guard) -> Result<()> {
        let (shared, first) = (Arc::clone(&self.shared), self.claim);
        let (ttl, owner) = (guard.ttl(), guard.owner().clone());
        self.claim = shared.next_claim();
        let request = self.request(ttl, Duration::ZERO).owner(owner);
        self.note(What::Asked { ttl: nanos(ttl), wait: Some(0) })?;
        let answer = request.acquire().await;
        let told = match &answer {
            Ok(again) => Some(Some(again.fence().get())),
            Err(error) if error.kind() == ErrorKind::Held => Some(None),
            Err(_) => None,
        };
        if let Some(fence) = told.filter(|_| guard.is_held()) {
            shared.log.did(first, &self.key, Done::Again { fence })?;
        }
        match answer {
            Ok(again) if again.fence() == guard.fence() => {
                drop(again.detach());
                shared.tries.granted_again(self.claim)?;
                self.note(What::Failed { kind: AGAIN.to_owned(), unknown: false })?;
            }
            Ok(another) => {
                self.told(another.fence().get())?;
                self.give_back(another).await?;
            }
            Err(error) => self.told_nothing(&error)?,
        }
        self.claim = first;
        Ok(())
    }

    async fn give_back(&self, guard: Guard) -> Result<()> {
        self.note(What::ReleaseAsked)?;
        let outcome = guard.release().await;
        self.note(returned(outcome.map_err(|error| error.kind())))
    }

    /// Work that trusts the lock to end it: that it goes on is all the belief there is.
    async fn run(&mut self, request: &LockRequest, length: Duration) -> Result<()> {
        let is_granted = AtomicBool::new(false);
        let (shared, claim, key) = (&self.shared, self.claim, &self.key);
        let note = |what| shared.log.note(claim, key, what);
        let outcome = request
            .run(async |guard: &Guard| {
                is_granted.store(true, Ordering::Relaxed);
                shared.tries.granted(claim)?;
                note(What::Granted { fence: guard.fence().get() })?;
                let end = SystemClock.now() + length;
                while SystemClock.now() < end {
                    note(What::Believed)?;
                    sleep(STEP).await;
                }
                note(What::ReleaseAsked)
            })
            .await;
        match outcome {
            // Whether the lock was given back is not told: that the work was done is what counts.
            Ok(written) => {
                written?;
                self.note(What::ReleaseFailed { kind: UNTOLD.to_owned() })
            }
            // The guard knows by itself that it is over, whatever the store says.
            Err(_) if is_granted.load(Ordering::Relaxed) => self.note(What::Dropped),
            Err(error) => self.refused(&error).await,
        }
    }

    async fn look(&mut self) -> Result<()> {
        self.claim = self.shared.next_claim();
        self.did(Done::LookAsked)?;
        let done = match self.shared.locks.status(&self.key).await {
            Ok(status) => Done::Looked { fence: fence_of(status) },
            Err(error) => Done::LookFailed { kind: format!("{:?}", error.kind()) },
        };
        self.did(done)
    }

    /// Takes the key from whoever holds it, and writes down whose lease that was.
    async fn force(&mut self) -> Result<()> {
        self.claim = self.shared.next_claim();
        let (shared, key) = (&self.shared, &self.key);
        let asked = SystemClock.now();
        self.did(Done::ForceAsked)?;
        let done = match shared.locks.force_release(key, "torture").await {
            Ok(status) => {
                let fence = fence_of(status);
                if let Some(fence) = fence {
                    // It ended between these two.
                    shared.log.note_at(asked, 0, key, What::Forced { fence })?;
                    shared.log.note(0, key, What::Forced { fence })?;
                }
                Done::Forced { fence }
            }
            Err(error) => Done::ForceFailed { kind: format!("{:?}", error.kind()) },
        };
        self.did(done)
    }

    fn did(&self, done: Done) -> Result<()> {
        Ok(self.shared.log.did(self.claim, &self.key, done)?)
    }

    fn told(&self, fence: u64) -> Result<()> {
        self.shared.tries.granted(self.claim)?;
        self.note(What::Granted { fence })
    }

    fn told_nothing(&self, error: &Error) -> Result<()> {
        let what = What::refusal(error);
        self.shared.tries.refused(self.claim, what == What::Held)?;
        self.note(what)
    }

    fn note(&self, what: What) -> Result<()> {
        Ok(self.shared.log.note(self.claim, &self.key, what)?)
    }
}

fn fence_of(status: Option<Status>) -> Option<u64> {
    status.map(|status| status.fence.get())
}

fn returned(outcome: Result<(), ErrorKind>) -> What {
    match outcome {
        Ok(()) => What::Released,
        Err(ErrorKind::Lost) => What::Lost,
        Err(kind) => What::ReleaseFailed { kind: format!("{kind:?}") },
    }
}

async fn sleep(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}
