//! The locks that the command line names.

use std::sync::Arc;
use std::time::Duration;

use tenure::clock::{SystemClock, within};
use tenure::{Limits, Locks, Operation, Store, stores};

use crate::cli::{PlaceArgs, StoreArgs};
use crate::failure::Failure;
use crate::say;
use crate::store_url;

/// Longer than any ttl that the command line takes: what is kept for a whole period, or for a
/// minimum time, is a lease of that length.
const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The ttl that operations are timed by where a command has none of its own.
pub(crate) const USUAL_TTL: Duration = Duration::from_secs(30);

/// How long the end of this process may wait for what is still to be given back.
pub(crate) const FLUSH_MAX: Duration = Duration::from_secs(2);

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
        .map_err(|error| Failure::of_error(&error.during(Operation::Open)))
}

/// Opens the locks of the namespace that is named, for leases of this ttl. A store that is local to
/// one process is no lock between commands, and refused.
pub(crate) async fn locks(
    args: &StoreArgs,
    verbose: bool,
    ttl: Duration,
) -> Result<Locks, Failure> {
    let store = store(&args.place, verbose).await?;
    let limits = Limits { ttl_max: TTL_MAX, ..Limits::default() };
    let mut builder = Locks::builder().shared(true).limits(limits).default_ttl(ttl);
    if let Some(namespace) = &args.namespace {
        builder = builder.namespace(namespace.as_str());
    }
    builder.open_on(store).await.map_err(|error| Failure::of_error(&error))
}
