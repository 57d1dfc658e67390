//! The locks that the command line names.

use std::sync::Arc;
use std::time::Duration;

use tenure::clock::{SystemClock, within};
use tenure::{Limits, Locks, Operation, Store, stores};

use crate::cli::{PlaceArgs, StoreArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::{say, store_url};

/// Longer than any ttl that the command line takes: what is kept for a whole period, or for a
/// minimum time, is a lease of that length.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// For how long on end a store may fail while a lock is waited for without a limit.
const OUTAGE_MAX: Duration = Duration::from_secs(30);

/// The ttl that operations are timed by where a command has none of its own.
pub(crate) const USUAL_TTL: Duration = Duration::from_secs(30);

/// How long the end of this process may wait for what is still to be given back.
pub(crate) const FLUSH_MAX: Duration = Duration::from_secs(2);

/// What locks are opened for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The ttl of their leases, which also says how long an operation may take.
    pub(crate) ttl: Duration,
    /// For how long on end the store may fail while a lock is waited for without a limit.
    pub(crate) outage_max: Duration,
}

impl From<Duration> for Terms {
    fn from(ttl: Duration) -> Self {
        Self { ttl, outage_max: OUTAGE_MAX }
    }
}

/// Opens the locks as [`locks`] does, has them used, and leaves nothing behind; a signal to end
/// that comes before they are open ends it.
pub(crate) async fn using(
    args: &StoreArgs,
    verbose: bool,
    terms: impl Into<Terms>,
    work: impl AsyncFnOnce(&Locks, &mut Signals) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    // Before anything is asked of the store: a signal must not leave a lock behind.
    let mut signals = Signals::listen()?;
    let locks = tokio::select! {
        biased;
        locks = locks(args, verbose, terms) => locks?,
        signal = signals.end() => return Ok(Exit::of_signal(signal)),
    };
    let outcome = work(&locks, &mut signals).await;
    flush(&locks).await;
    outcome
}

/// Waits, for a little while, until everything that is to be given back is. What that does not
/// manage, the ttl does.
pub(crate) async fn flush(locks: &Locks) {
    let _ = within(&SystemClock, FLUSH_MAX, locks.flush()).await;
}

/// Opens the store: each time over a connection of its own.
pub(crate) async fn store(place: &PlaceArgs, verbose: bool) -> Result<Arc<dyn Store>, Failure> {
    let url = store_url::resolve(place.url.as_deref())?;
    if verbose {
        say::progress(&format_args!("store {}", url.label()));
    }
    stores::open(url.as_str(), Arc::new(SystemClock))
        .await
        .map_err(|error| Failure::advised(&error.during(Operation::Open)))
}

/// Opens the locks of the namespace that is named, on these terms. A store that is local to
/// one process is no lock between commands, and refused.
pub(crate) async fn locks(
    args: &StoreArgs,
    verbose: bool,
    terms: impl Into<Terms>,
) -> Result<Locks, Failure> {
    let Terms { ttl, outage_max } = terms.into();
    let store = store(&args.place, verbose).await?;
    let limits = Limits { ttl_max: TTL_MAX, ..Limits::default() };
    let mut builder = Locks::builder().shared(true).limits(limits).default_ttl(ttl);
    builder = builder.outage_max(outage_max);
    if let Some(namespace) = &args.namespace {
        builder = builder.namespace(namespace.as_str());
    }
    builder.open_on(store).await.map_err(|error| Failure::advised(&error))
}
