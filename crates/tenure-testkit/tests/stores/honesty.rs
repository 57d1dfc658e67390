//! What a store says of a failure is true. Its connection is broken in the middle of every
//! operation, in every way, and a second, sound connection looks at what really happened: after
//! "nothing was changed" nothing is, now or later; after an answer it is as answered; and a broken
//! connection is never called anything that it would be no use to try again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tenure::claim::{Attempt, Claim, Grant, Reentry, Released, Renewal, Renewed};
use tenure::clock::SystemClock;
use tenure::error::Chain;
use tenure::{Holder, Key, Lease, Operation, Owner, Retry, Store};
use tenure_testkit::faults::{Fault, Faults};
use tenure_testkit::mutants::{Mutant, StoreBug};
use tenure_testkit::proxy::{Flow, Proxy};
use tenure_testkit::servers::{Kind, fresh_room};
use tenure_testkit::wait::{bounded, sleep, until};

use crate::{Idea, Load, NO_SERVER, Outcome, own};

pub(crate) const IDEA: Idea = Idea {
    name: "honesty",
    load: Load::Waits,
    show: |kind| Box::pin(show(kind)),
    control: (|kind| Box::pin(lying(kind)), "a fresh key is held"),
};

const KEYS: usize = 5;
const TTL: Duration = Duration::from_secs(60);
const LONGER: Duration = Duration::from_secs(600);
/// What is not answered by then is not known: callers above give up as well.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The same where no answer can come, so that nothing is gained by more.
const SILENCE_MAX: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_millis(40);
const RECOVERY_MAX: Duration = Duration::from_secs(10);
/// When what was on its way has surely arrived.
const LATER: Duration = Duration::from_secs(1);

/// How a connection breaks.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// So many replies arrive, the next is lost, and then the connection.
    LostReply(u64),
    /// So many requests arrive, the next is lost, and then the connection.
    LostRequest(u64),
    /// The connection was reset while nothing was on it.
    Reset,
    /// The connection was closed, and no new one can be made.
    Away,
    /// Everything arrives late.
    Slow,
    /// So many bytes of replies arrive on each connection, which is then cut.
    CutReply(u64),
    /// So many bytes of requests arrive on each connection, which is then cut.
    CutRequest(u64),
    /// Requests arrive, and no reply comes back.
    NoReplies,
    /// No request arrives, on any connection.
    NoRequests,
    /// Nothing arrives on either side, and neither is told.
    HalfOpen,
}

impl Break {
    fn is_silent(self) -> bool {
        matches!(self, Self::NoReplies | Self::NoRequests | Self::HalfOpen)
    }

    fn keys(self) -> usize {
        if self.is_silent() { 1 } else { KEYS }
    }

    fn answer_max(self) -> Duration {
        if self.is_silent() { SILENCE_MAX } else { ANSWER_MAX }
    }
}

/// An operation may take several requests: any of them may be the one that counts.
const BREAKS: &[Break] = &[
    Break::LostReply(0),
    Break::LostReply(1),
    Break::LostReply(2),
    Break::LostReply(3),
    Break::LostRequest(0),
    Break::LostRequest(1),
    Break::LostRequest(2),
    Break::Reset,
    Break::Away,
    Break::Slow,
    Break::CutReply(1),
    Break::CutReply(30),
    Break::CutRequest(1),
    Break::CutRequest(30),
    Break::NoReplies,
    Break::NoRequests,
    Break::HalfOpen,
];

/// Breaks the connection for the next operation.
enum Trouble {
    Network(Proxy),
    Faults(Faults),
}

impl Trouble {
    fn begin(&self, how: Break, operation: Operation) {
        let proxy = match self {
            Self::Network(proxy) => proxy,
            Self::Faults(faults) => return faults.next(operation, Fault::ErrorBefore),
        };
        match how {
            Break::LostReply(after) => proxy.replies(Flow::LoseOne(after)),
            Break::LostRequest(after) => proxy.requests(Flow::LoseOne(after)),
            Break::Reset => proxy.reset(),
            Break::Away => {
                proxy.refuse();
                proxy.cut();
            }
            Break::Slow => {
                proxy.requests(Flow::Delay(SLOW));
                proxy.replies(Flow::Delay(SLOW));
            }
            Break::CutReply(after) => proxy.replies(Flow::CutAfter(after)),
            Break::CutRequest(after) => proxy.requests(Flow::CutAfter(after)),
            Break::NoReplies => proxy.replies(Flow::Lose),
            Break::NoRequests => proxy.requests(Flow::Lose),
            Break::HalfOpen => proxy.half_open(),
        }
    }

    fn end(&self) {
        if let Self::Network(proxy) = self {
            proxy.pass();
        }
    }
}

async fn show(kind: Kind) -> Result<Outcome> {
    let service = own(kind).await?;
    let Some(server) = service.server() else { return Ok(NO_SERVER) };
    let room = fresh_room();
    let proxy = Proxy::start(server.address(), 1).await?;
    let store = open(&service.url(room, Some(proxy.address()))).await?;
    let truth = open(&service.url(room, None)).await?;
    Witness::new(store, truth, Trouble::Network(proxy)).question(BREAKS).await
}

/// A store that takes any failure for "held by another".
async fn lying(kind: Kind) -> Result<Outcome> {
    let service = own(kind).await?;
    let url = service.url(fresh_room(), None);
    let faults = Faults::new(open(&url).await?);
    let liar = Arc::new(Mutant::new(Arc::new(faults.clone()), StoreBug::FailureIsHeld));
    Witness::new(liar, open(&url).await?, Trouble::Faults(faults)).question(&BREAKS[..1]).await
}

async fn open(url: &str) -> Result<Arc<dyn Store>> {
    Ok(tenure::stores::open(url, Arc::new(SystemClock)).await?)
}

/// What became of an operation.
enum Answer<T> {
    Is(T),
    /// The store said that it changed nothing.
    Unchanged,
    Unknown,
}

struct Witness {
    store: Arc<dyn Store>,
    truth: Arc<dyn Store>,
    trouble: Trouble,
    counts: Counts,
    /// Keys on which nothing may have been granted, now or later.
    never: Vec<Key>,
}

#[derive(Default)]
struct Counts {
    answered: usize,
    unchanged: usize,
    unknown: usize,
}

impl Witness {
    fn new(store: Arc<dyn Store>, truth: Arc<dyn Store>, trouble: Trouble) -> Self {
        Self { store, truth, trouble, counts: Counts::default(), never: Vec::new() }
    }

    async fn question(mut self, breaks: &[Break]) -> Result<Outcome> {
        for how in breaks {
            for n in 0..how.keys() {
                let key = Key::new(&format!("t1/honesty/{how:?}-{n}"))?;
                self.one(*how, &key).await.with_context(|| format!("{how:?}, {}", key.as_str()))?;
            }
        }
        sleep(LATER).await;
        for key in &self.never {
            let landed = self.truth.inspect(key).await?;
            ensure!(landed.is_none(), "{}: granted after all, and later", key.as_str());
        }
        let Counts { answered, unchanged, unknown } = self.counts;
        ensure!(unknown > 0, "no reply was lost");
        Ok(Outcome::Passed(format!(
            "{answered} answered, {unchanged} said unchanged, {unknown} said unknown: all true"
        )))
    }

    /// Every operation once, each in the same trouble.
    async fn one(&mut self, how: Break, key: &Key) -> Result<()> {
        let owner = Owner::parse(&format!("owner of {}", key.as_str()))?;
        let holder = Holder::this_process();
        let claim = Claim {
            key: key.clone(),
            owner: owner.clone(),
            ttl: TTL,
            holder,
            reentry: Reentry::Adopt,
        };
        self.acquire(how, &claim).await?;
        // Sure of it from here on, whatever became of the attempt.
        let apart = Claim { key: Key::new(&format!("{}-held", key.as_str()))?, ..claim };
        let Attempt::Granted(lease) = self.truth.try_acquire(&apart).await? else {
            bail!("a fresh key is held");
        };
        let grant = Grant { key: apart.key, owner, fence: Some(lease.fence) };
        self.inspect(how, &lease).await?;
        self.renew(how, &grant).await?;
        self.release(how, &grant).await
    }

    async fn acquire(&mut self, how: Break, claim: &Claim) -> Result<()> {
        let store = Arc::clone(&self.store);
        let answer =
            self.ask(how, Operation::Acquire, &claim.key, store.try_acquire(claim)).await?;
        let seen = self.truth.inspect(&claim.key).await?;
        match answer {
            Answer::Is(Attempt::Granted(lease)) => {
                let stands = seen.is_some_and(|seen| seen.fence == lease.fence);
                ensure!(stands, "granted, and not there");
            }
            Answer::Is(Attempt::Held(status)) => bail!("a fresh key is held: {status:?}"),
            Answer::Unchanged => {
                ensure!(seen.is_none(), "acquire changed nothing, it said: {seen:?}");
                self.never.push(claim.key.clone());
            }
            Answer::Unknown => {}
        }
        Ok(())
    }

    async fn inspect(&mut self, how: Break, lease: &Lease) -> Result<()> {
        let store = Arc::clone(&self.store);
        match self.ask(how, Operation::Inspect, &lease.key, store.inspect(&lease.key)).await? {
            Answer::Is(seen) => ensure!(
                seen.as_ref().is_some_and(|seen| seen.fence == lease.fence),
                "it is held, and was seen as {seen:?}"
            ),
            Answer::Unchanged | Answer::Unknown => {}
        }
        Ok(())
    }

    async fn renew(&mut self, how: Break, grant: &Grant) -> Result<()> {
        let renewal = Renewal { grant: grant.clone(), ttl: LONGER };
        let store = Arc::clone(&self.store);
        let answer = self.ask(how, Operation::Renew, &grant.key, store.renew(&renewal)).await?;
        let seen = self.truth.inspect(&grant.key).await?.context("a renewal ended a lease")?;
        let is_longer = seen.remaining > TTL;
        match answer {
            Answer::Is(Renewed::Renewed(_)) => ensure!(is_longer, "renewed, and not longer"),
            Answer::Is(Renewed::Lost(by)) => bail!("a live lease is lost: {by:?}"),
            Answer::Unchanged => ensure!(!is_longer, "renew changed nothing, it said"),
            Answer::Unknown => {}
        }
        Ok(())
    }

    async fn release(&mut self, how: Break, grant: &Grant) -> Result<()> {
        let store = Arc::clone(&self.store);
        let answer = self.ask(how, Operation::Release, &grant.key, store.release(grant)).await?;
        let is_held = self.truth.inspect(&grant.key).await?.is_some();
        match answer {
            Answer::Is(Released::Released(_)) => ensure!(!is_held, "released, and still held"),
            Answer::Is(Released::NotHeld(by)) => bail!("a live lease is not held: {by:?}"),
            Answer::Unchanged => ensure!(is_held, "release changed nothing, it said"),
            Answer::Unknown => {}
        }
        Ok(())
    }

    /// Waits until the store answers again, by itself: what is broken next is a connection that
    /// works.
    async fn recover(&self, key: &Key) -> Result<()> {
        until("the store to answer again", RECOVERY_MAX, || async {
            let answer = bounded("an answer", ANSWER_MAX, self.store.inspect(key)).await;
            Ok(answer.is_ok_and(|answer| answer.is_ok()))
        })
        .await
    }

    /// Runs one operation in trouble.
    async fn ask<T>(
        &mut self,
        how: Break,
        operation: Operation,
        key: &Key,
        work: impl Future<Output = tenure::Result<T>>,
    ) -> Result<Answer<T>> {
        self.recover(key).await?;
        self.trouble.begin(how, operation);
        let answer = bounded("an answer", how.answer_max(), work).await;
        self.trouble.end();
        let error = match answer {
            Ok(Ok(value)) => {
                self.counts.answered += 1;
                return Ok(Answer::Is(value));
            }
            Ok(Err(error)) => error,
            Err(_) => {
                self.counts.unknown += 1;
                return Ok(Answer::Unknown);
            }
        };
        match error.retry() {
            Retry::Never => bail!("{operation}: no use to try again, it said: {}", Chain(&error)),
            Retry::Safe => {
                self.counts.unchanged += 1;
                Ok(Answer::Unchanged)
            }
            Retry::Unknown => {
                self.counts.unknown += 1;
                Ok(Answer::Unknown)
            }
        }
    }
}
