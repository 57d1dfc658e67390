//! Locks on a tenure server: whatever store it has, over one connection protocol.
//!
//! # Guarantees
//! Those of the store behind the server, which are told when this one is opened: its class, its
//! findings, its limits, and whose clock ends a lease. Every operation is one call, decided there
//! in one atomic step. What the server is asked and does not answer is `Unknown`, and nothing is
//! sent twice that may have changed something.
//!
//! A lock that is taken here and one that is taken by the server's own API (HTTP, gRPC) on the
//! same store, namespace and key exclude each other: they are the same lock.
//!
//! # Owners
//! The server tells nobody the owner of a lease. [`Store::inspect`] says whether it is an owner
//! that this store has named in a claim or a renewal; any other is a placeholder that is equal to
//! none.
//!
//! # Set-up
//! `tenure serve`, with any store. Nothing else has to be made.
//!
//! # URL
//! `tenure://HOST[:PORT][/STORE]`, or `tenures://…` with TLS.
//!
//! | part | default | |
//! |---|---|---|
//! | `HOST:PORT` | port 7117 | |
//! | `STORE` | the server's default one | a store by its name in the server's configuration |
//! | `?token=TEXT` | `TENURE_TOKEN` | who this is; without one, whatever anyone may do there |
//! | `?connections=N` | 2 | requests are spread over so many, 1 to 64 |
//! | `?ca=FILE` | the system's | PEM, the authorities to trust |
//! | `?cert=FILE`, `?key=FILE` | none | PEM, what to show to the server |
//! | `?server_name=NAME` | the host | the name in the server's certificate |
//!
//! [`RemoteOptions`] offers the same in code.
//!
//! # Permissions
//! The verbs of the token or certificate in the namespace: `acquire` to lock, renew, release and
//! wait; `read` to look at a key; `list` to list; `force` to take a lock away. Keys that are
//! written by [`KeyPolicy::raw`](crate::KeyPolicy::raw) belong to no namespace and need the verb
//! on `*`.
//!
//! # Connections
//! Claims, renewals, releases and looks of all callers share one stream on each connection, which
//! is opened with the first of them: whatever waits by then travels in one message. A server that
//! has no such streams, or none left for this client (`streams_per_client`), gets a request for
//! each. A store has at most one more stream than it has connections.
//!
//! # Waiting
//! The server wakes whoever waits: one stream tells this process of changes to all keys that it
//! waits for. When it breaks, all waiters look, and again when their keys are watched on the next
//! one.
//!
//! The line is not the server's. Each process has its own, whose head tries when it is woken, and
//! of several processes any may be the first: as with every store. A line in the server would take
//! tries that wait there, for as long as a connection lasts, and then a claim would be in doubt for
//! that long. Whoever needs one line for all takes the locks by the server's own API, which has it.

mod client;
mod error;
mod exchange;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod options;
mod owners;
mod store;
mod watcher;
mod wire;

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Result;
use crate::store::Store;

pub use options::RemoteOptions;
pub use store::RemoteStore;

/// What URLs of this store begin with.
pub const SCHEMES: &[&str] = &["tenure", "tenures"];

/// Opens the store that `url` names: connects, and asks what the store behind the server is.
///
/// # Errors
/// `Invalid` for a wrong URL, unreadable files or a store that the server does not have; `Denied`
/// for a token that is wrong or may do nothing; `Unavailable` when the server cannot be reached;
/// `Unsupported` when what answers is none.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(RemoteOptions::new(url)?.open(clock).await?))
}
