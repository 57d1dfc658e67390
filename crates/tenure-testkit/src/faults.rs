//! Faults as a store around a store: what networks and servers do, on command.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::clock::{Clock, SystemClock};
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Error, Key, Lease, Operation, Result, Status, Store};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What happens to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is carried out after this time.
    Delay(Duration),
    /// It is not carried out, and the caller is told so.
    ErrorBefore,
    /// It is carried out, and the reply is lost: the caller cannot know.
    ErrorAfter,
    /// The caller is told at once that the outcome is unknown; it is carried out when
    /// [`Faults::arrive`] says so.
    Late,
    /// It is not carried out and never answered.
    Hang,
    /// It is carried out and never answered.
    HangAfter,
    /// It is carried out at once, and the reply takes this time.
    SlowReply(Duration),
    /// It is carried out twice; the second reply is the caller's.
    Duplicate,
}

/// A store whose operations fail as they are told to.
///
/// Clones share their orders, so a test keeps one clone and gives the other to
/// [`LocksBuilder::open_on`](tenure::LocksBuilder::open_on).
#[derive(Clone, Debug)]
pub struct Faults {
    inner: Arc<dyn Store>,
    orders: Arc<Mutex<Orders>>,
}

#[derive(Debug, Default)]
struct Orders {
    next: BTreeMap<&'static str, VecDeque<Fault>>,
    always: BTreeMap<&'static str, Fault>,
    struck: BTreeMap<&'static str, u64>,
    calls: BTreeMap<&'static str, u64>,
    answers: BTreeMap<&'static str, u64>,
    late: Vec<Late>,
}

/// An operation that is still on its way.
#[derive(Debug)]
struct Late {
    go: oneshot::Sender<()>,
    done: JoinHandle<Result<()>>,
}

impl Faults {
    /// A faultless layer over `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, orders: Arc::default() }
    }

    /// The next such operation without an order of its own gets this fault.
    pub fn next(&self, operation: Operation, fault: Fault) {
        self.orders().next.entry(name(operation)).or_default().push_back(fault);
    }

    /// Every such operation gets this fault until [`heal`](Self::heal).
    pub fn always(&self, operation: Operation, fault: Fault) {
        self.orders().always.insert(name(operation), fault);
    }

    /// No more faults.
    pub fn heal(&self) {
        let mut orders = self.orders();
        orders.next.clear();
        orders.always.clear();
    }

    /// Lets everything that is late be carried out, and returns when it was.
    ///
    /// # Errors
    /// What the store said to it, where that is no answer.
    pub async fn arrive(&self) -> anyhow::Result<()> {
        let late = std::mem::take(&mut self.orders().late);
        for Late { go, done } in late {
            anyhow::ensure!(go.send(()).is_ok(), "what was late is gone");
            done.await??;
        }
        Ok(())
    }

    /// How many operations of this kind a fault has struck.
    #[must_use]
    pub fn struck(&self, operation: Operation) -> u64 {
        self.orders().struck.get(name(operation)).copied().unwrap_or(0)
    }

    /// How many operations of this kind there were.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.orders().calls.get(name(operation)).copied().unwrap_or(0)
    }

    /// How many operations of this kind were answered.
    #[must_use]
    pub fn answers(&self, operation: Operation) -> u64 {
        self.orders().answers.get(name(operation)).copied().unwrap_or(0)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault_for(&self, operation: Operation) -> Option<Fault> {
        let name = name(operation);
        let mut orders = self.orders();
        *orders.calls.entry(name).or_default() += 1;
        let fault = orders.next.get_mut(name).and_then(VecDeque::pop_front);
        let fault = fault.or_else(|| orders.always.get(name).copied())?;
        *orders.struck.entry(name).or_default() += 1;
        Some(fault)
    }

    async fn strike<T, F>(
        &self,
        operation: Operation,
        call: impl Fn() -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let lost = || Error::unknown("the reply was lost").during(operation);
        match self.fault_for(operation) {
            None => {
                let answer = call().await;
                *self.orders().answers.entry(name(operation)).or_default() += 1;
                answer
            }
            Some(Fault::Delay(by)) => {
                sleep(by).await;
                call().await
            }
            Some(Fault::ErrorBefore) => {
                Err(Error::unavailable("the store is away").during(operation))
            }
            Some(Fault::ErrorAfter) => {
                // The outcome is what the caller must not learn.
                let _ = call().await;
                Err(lost())
            }
            Some(Fault::Late) => {
                let (go, may_go) = oneshot::channel();
                let done = tokio::spawn(async move {
                    if may_go.await.is_err() {
                        return Ok(());
                    }
                    call().await.map(drop)
                });
                self.orders().late.push(Late { go, done });
                Err(lost())
            }
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::HangAfter) => {
                let _ = call().await;
                std::future::pending().await
            }
            Some(Fault::SlowReply(by)) => {
                let answer = call().await;
                sleep(by).await;
                answer
            }
            Some(Fault::Duplicate) => {
                let _ = call().await;
                call().await
            }
        }
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Acquire => "acquire",
        Operation::Renew => "renew",
        Operation::Release => "release",
        Operation::ForceRelease => "force-release",
        Operation::Inspect => "inspect",
        Operation::List => "list",
        Operation::Watch => "watch",
        _ => "other",
    }
}

async fn sleep(by: Duration) {
    SystemClock.sleep_until(SystemClock.now() + by).await;
}

macro_rules! strike {
    ($self:ident, $operation:ident, $method:ident($argument:ident)) => {{
        let (inner, argument) = (Arc::clone(&$self.inner), $argument.clone());
        let call = move || {
            let (inner, argument) = (Arc::clone(&inner), argument.clone());
            async move { inner.$method(&argument).await }
        };
        $self.strike(Operation::$operation, call).await
    }};
}

#[async_trait]
impl Store for Faults {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        strike!(self, Acquire, try_acquire(claim))
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        strike!(self, Renew, renew(renewal))
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        strike!(self, Release, release(grant))
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        strike!(self, ForceRelease, force_release(eviction))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        strike!(self, Inspect, inspect(key))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        strike!(self, List, list(query))
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        strike!(self, Watch, watch(key))
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.inner.agree(pledge).await
    }
}
