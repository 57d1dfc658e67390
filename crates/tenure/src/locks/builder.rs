//! Settings, checked against each other when the store is opened.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::claim::Pledge;
use crate::clock::{Clock, SystemClock};
use crate::degraded::DegradedPolicy;
use crate::error::{Chain, Error, ErrorKind, Operation, Result};
use crate::holder::Holder;
use crate::key::Namespace;
use crate::key_policy::KeyPolicy;
use crate::layers::{FallbackLayer, KeyLayer, TimeoutLayer};
use crate::locks::Locks;
use crate::locks::backoff::Backoff;
use crate::locks::context::Context;
use crate::locks::events::{Events, Observer};
use crate::locks::options::{Limits, Options};
use crate::planted::Planted;
use crate::random::{Random, SystemRandom};
use crate::store::Store;
use crate::stores::{self, memory::MemoryStore};

/// Settings of a [`Locks`]; made by [`Locks::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it opens a store"]
pub struct LocksBuilder {
    namespace: Option<String>,
    holder: Option<String>,
    default_ttl: Duration,
    keep_alive: bool,
    keep_alive_factor: u32,
    operation_timeout: Option<Duration>,
    outage_max: Duration,
    poll: Option<Backoff>,
    limits: Limits,
    key_policy: KeyPolicy,
    degraded: DegradedPolicy,
    shared: bool,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    observer: Option<Arc<dyn Observer>>,
    planted: Planted,
}

impl Default for LocksBuilder {
    fn default() -> Self {
        Self {
            namespace: None,
            holder: None,
            default_ttl: Duration::from_secs(30),
            keep_alive: true,
            keep_alive_factor: 3,
            operation_timeout: None,
            outage_max: Duration::from_secs(30),
            poll: None,
            limits: Limits::default(),
            key_policy: KeyPolicy::plain(),
            degraded: DegradedPolicy::Refuse,
            shared: false,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            observer: None,
            planted: Planted::default(),
        }
    }
}

impl LocksBuilder {
    /// The room for the keys: `default`, if not set.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The label that others see: `host/pid`, if not set.
    pub fn holder(mut self, label: &str) -> Self {
        self.holder = Some(label.to_owned());
        self
    }

    /// The ttl of requests that name none: 30 s.
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = ttl;
        self
    }

    /// Whether guards renew their leases: yes, if not set.
    pub fn keep_alive(mut self, on: bool) -> Self {
        self.keep_alive = on;
        self
    }

    /// Leases are renewed when their ttl divided by this has passed: 3, at least 2.
    pub fn keep_alive_factor(mut self, factor: u32) -> Self {
        self.keep_alive_factor = factor;
        self
    }

    /// How long the store may take to answer: 5 s or a third of the default ttl, whichever is
    /// less.
    pub fn operation_timeout(mut self, limit: Duration) -> Self {
        self.operation_timeout = Some(limit);
        self
    }

    /// For how long on end the store may fail before an acquire without a wait limit gives up:
    /// 30 s.
    pub fn outage_max(mut self, longest: Duration) -> Self {
        self.outage_max = longest;
        self
    }

    /// How often a waiter looks at the store without being called. If not set: after 250 ms and
    /// then ever later, up to 7.5 s; up to 0.6 s on a store that calls nobody and where waiters
    /// time the leases, because there a dead holder's key is taken over that much later.
    pub fn poll(mut self, poll: Backoff) -> Self {
        self.poll = Some(poll);
        self
    }

    /// The bounds of what callers may ask for.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How keys are written into the store: plainly, if not set.
    pub fn key_policy(mut self, policy: KeyPolicy) -> Self {
        self.key_policy = policy;
        self
    }

    /// What to do when the store cannot be reached at start, or is local although
    /// [`shared`](Self::shared) was asked for.
    pub fn degraded(mut self, policy: DegradedPolicy) -> Self {
        self.degraded = policy;
        self
    }

    /// Asks for a store that other processes share; one that is local to this process is then
    /// treated as the [`degraded`](Self::degraded) policy says.
    pub fn shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }

    /// Takes time from here: for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes randomness from here: for tests.
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// Shows every event to this, as it happens.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Switches a known bug on: for tests of tests.
    #[cfg(feature = "planted-bugs")]
    pub fn plant(mut self, bug: crate::planted::Bug) -> Self {
        self.planted = Planted::new(bug);
        self
    }

    /// Opens the store that `url` names, and checks that it can be used as these settings say.
    ///
    /// # Errors
    /// `Invalid` for settings that contradict each other, `Mismatch` when other processes use the
    /// namespace with another key policy, otherwise what the store says. Must be called within a
    /// tokio runtime.
    pub async fn open(self, url: &str) -> Result<Locks> {
        self.options()?.check()?;
        let opened = match stores::open(url, Arc::clone(&self.clock)).await {
            Ok(store) => self.clone().open_on(store).await,
            Err(error) => Err(error.during(Operation::Open)),
        };
        match opened {
            Err(error) if self.may_degrade(&error) => {
                let local = Arc::new(MemoryStore::new(Arc::clone(&self.clock)));
                let local = self.degrade(local, Chain(&error).to_string());
                Self { shared: false, ..self }.open_on(local).await
            }
            opened => opened,
        }
    }

    /// Uses a store that is already open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_on(self, store: Arc<dyn Store>) -> Result<Locks> {
        let mut options = self.options()?;
        options.check()?;
        let runtime = Handle::try_current().map_err(|error| {
            Error::invalid("locks must be opened within a tokio runtime")
                .during(Operation::Open)
                .caused_by(error)
        })?;
        let store = self.shared_or_degraded(store)?;
        options.limits = options.limits.within(&store.info().capabilities);
        options.poll = self.poll.unwrap_or_else(|| Backoff::suited_to(store.info()));
        options.check()?;
        let clock = Arc::clone(&self.clock);
        let limit = options.operation_timeout;
        let store = Arc::new(TimeoutLayer::new(store, clock, limit, runtime.clone()));
        let (policy, namespace) = (options.key_policy.clone(), options.namespace.clone());
        let store: Arc<dyn Store> = Arc::new(KeyLayer::new(store, policy, namespace));
        agree(&*store, &options).await?;
        let Self { clock, random, planted, observer, .. } = self;
        let events = Events::seen_by(observer);
        Ok(Locks::start(Context { store, clock, random, runtime, options, events, planted }))
    }

    fn options(&self) -> Result<Options> {
        let namespace = match &self.namespace {
            Some(namespace) => Namespace::new(namespace)?,
            None => Namespace::default(),
        };
        let holder = match &self.holder {
            Some(label) => Holder::new(label)?,
            None => Holder::this_process(),
        };
        let usual = Duration::from_secs(5).min(self.default_ttl / 3);
        Ok(Options {
            namespace,
            holder,
            default_ttl: self.default_ttl,
            keep_alive: self.keep_alive,
            keep_alive_factor: self.keep_alive_factor,
            operation_timeout: self.operation_timeout.unwrap_or(usual),
            outage_max: self.outage_max,
            poll: self.poll.unwrap_or_default(),
            limits: self.limits.clone(),
            key_policy: self.key_policy.clone(),
        })
    }

    fn may_degrade(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Unavailable && self.degraded != DegradedPolicy::Refuse
    }

    fn degrade(&self, local: Arc<dyn Store>, reason: String) -> Arc<dyn Store> {
        let clock = Arc::clone(&self.clock);
        Arc::new(FallbackLayer::new(local, clock, self.degraded, reason))
    }

    fn shared_or_degraded(&self, store: Arc<dyn Store>) -> Result<Arc<dyn Store>> {
        let info = store.info();
        if !self.shared || info.capabilities.shared {
            return Ok(store);
        }
        let reason = format!("{} is local to this process, but sharing was asked for", info.name);
        if self.degraded == DegradedPolicy::Refuse {
            return Err(Error::new(ErrorKind::Unsupported, reason).during(Operation::Open));
        }
        Ok(self.degrade(store, reason))
    }
}

/// Fails closed when the namespace is in use with another key scheme or secret: keys would be
/// written differently, and nobody would exclude anybody.
async fn agree(store: &dyn Store, options: &Options) -> Result<()> {
    let namespace = options.namespace.clone();
    let fingerprint = options.key_policy.fingerprint(&namespace);
    let pledge = Pledge { namespace, fingerprint };
    let standing = store.agree(&pledge).await.map_err(|error| error.during(Operation::Open))?;
    if standing == pledge.fingerprint {
        return Ok(());
    }
    let text = format!(
        "namespace {} is in use with another key scheme or secret; use the same, or another \
         namespace",
        pledge.namespace
    );
    Err(Error::new(ErrorKind::Mismatch, text).during(Operation::Open))
}
