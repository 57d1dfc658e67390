//! The store under test, and the ways to reach it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tenure::store::Capabilities;
use tenure::{Backoff, Locks, LocksBuilder, Store};

use super::stopwatch::Stopwatch;
use crate::faults::Faults;
use crate::mutants::{Mutant, StoreBug};

type Making<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type Connect = Box<dyn Fn() -> Making<Arc<dyn Store>> + Send + Sync>;

/// Makes a fresh, empty store for every case.
pub struct Maker {
    name: &'static str,
    make: Box<dyn Fn() -> Making<Subject> + Send + Sync>,
}

impl Maker {
    /// Stores named `name` are made by `make`.
    pub fn new(
        name: &'static str,
        make: impl Fn() -> Making<Subject> + Send + Sync + 'static,
    ) -> Self {
        Self { name, make: Box::new(make) }
    }

    /// The store's name in the matrix.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) async fn make(&self) -> Result<Subject> {
        (self.make)().await
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("name", &self.name).finish_non_exhaustive()
    }
}

/// One fresh store.
pub struct Subject {
    connect: Connect,
    url: Option<String>,
    bug: Option<StoreBug>,
    stopwatch: Stopwatch,
    _keep: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Subject {
    /// A store that `connect` connects to, as often as it is called, as another process would. A
    /// store that is shared between processes also has a URL. `keep` is dropped with the subject:
    /// the server that was started, the folder that it works in.
    pub fn new(
        connect: impl Fn() -> Making<Arc<dyn Store>> + Send + Sync + 'static,
        url: Option<String>,
        keep: impl Any + Send + Sync,
    ) -> Self {
        let (connect, stopwatch) = (Box::new(connect), Stopwatch::default());
        Self { connect, url, bug: None, stopwatch, _keep: Box::new(keep) }
    }

    /// This store with a bug: the suite must find it.
    #[must_use]
    pub fn with_bug(mut self, bug: StoreBug) -> Self {
        self.bug = Some(bug);
        self
    }

    pub(super) fn stopwatch(&self) -> Stopwatch {
        self.stopwatch.clone()
    }

    async fn connect(&self) -> Result<Arc<dyn Store>> {
        Ok(self.stopwatch.around((self.connect)().await?))
    }

    fn dressed(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        match self.bug {
            Some(bug) => Arc::new(Mutant::new(store, bug)),
            None => store,
        }
    }

    /// Where another process finds it.
    pub(super) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// A connection of its own.
    pub(super) async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(self.dressed(self.connect().await?))
    }

    pub(super) async fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.store().await?.info().capabilities.clone())
    }

    /// Locks over a connection of their own, which look often.
    pub(super) async fn locks(&self) -> Result<Locks> {
        self.locks_with(quick()).await
    }

    pub(super) async fn locks_with(&self, builder: LocksBuilder) -> Result<Locks> {
        Ok(builder.open_on(self.store().await?).await?)
    }

    /// Locks whose store fails on command.
    pub(super) async fn faulty(&self) -> Result<(Locks, Faults)> {
        self.faulty_with(quick()).await
    }

    pub(super) async fn faulty_with(&self, builder: LocksBuilder) -> Result<(Locks, Faults)> {
        let faults = Faults::new(self.connect().await?);
        let locks = builder.open_on(self.dressed(Arc::new(faults.clone()))).await?;
        Ok((locks, faults))
    }
}

/// Settings for tests: look often, give up on an answer soon.
pub(super) fn quick() -> LocksBuilder {
    let poll =
        Backoff { base: Duration::from_millis(20), cap: Duration::from_millis(100), jitter: 0.5 };
    let builder = Locks::builder().poll(poll).operation_timeout(Duration::from_secs(2));
    match crate::mutants::planted() {
        Some(bug) => builder.plant(bug),
        None => builder,
    }
}

/// Settings for cases in which only a notification or a timer may wake: no look for an hour.
pub(super) fn never_looks() -> LocksBuilder {
    let hour = Duration::from_secs(3600);
    quick().poll(Backoff { base: hour, cap: hour, jitter: 0.0 })
}
