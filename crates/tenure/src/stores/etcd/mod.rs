//! Locks on etcd, by its v3 API.
//!
//! # Guarantees
//! A held key is a key of etcd that hangs on an etcd lease, made and deleted by transactions. The
//! fence is the key's `create_revision`: etcd numbers all changes of the cluster upwards, so it
//! grows across release, expiry and restart. The clock of etcd's leader ends a lease; a new leader
//! gives every lease its full ttl again. A renewal is a keep-alive, which etcd does not write to
//! its log, and is believed only together with a read that a quorum confirmed.
//!
//! The class is F, because etcd syncs to disk before it answers, with one member as with several.
//! It is E where the version has a bug that breaks the promise, which is found out at open:
//! - 3.5.0 to 3.5.2: a crash under load may lose writes;
//! - before 3.4.21 and 3.5.5, one member: the answer may come before the sync;
//! - before 3.4.31 and 3.5.13, several members: a leader that stalled may end live leases.
//!
//! Two things cannot be seen from here. A cluster that runs with `--unsafe-no-fsync` is not durable
//! and is E in truth. And a snapshot that is restored takes the revisions back, and with them the
//! fences: restore with `--bump-revision 1000000000 --mark-compacted` (3.5.10 and later).
//!
//! # Times
//! etcd counts whole seconds and looks for ended leases twice a second: a ttl is rounded up to the
//! next second, and a dead holder's key is free up to half a second after that. No lease is shorter
//! than one and a half election timeouts: two seconds with etcd's usual settings.
//!
//! # Set-up
//! etcd 3.4 or later; nothing has to be made in advance. Turn on automatic compaction
//! (`--auto-compaction-retention=1h`), as for every use of etcd: each lock and unlock is a
//! revision.
//!
//! # URL
//! `etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]`, or `etcds://…` with TLS.
//!
//! | part | default | |
//! |---|---|---|
//! | `HOST:PORT` | port 2379 | members; the next is used when one fails |
//! | `PREFIX` | `tenure` | what all keys begin with |
//! | `USER`, `PASSWORD` | `ETCDCTL_USER` (which may be `user:password`), `ETCDCTL_PASSWORD` | |
//! | `?ca=FILE` | `ETCDCTL_CACERT`, else the system's | PEM, the authorities to trust |
//! | `?cert=FILE`, `?key=FILE` | `ETCDCTL_CERT`, `ETCDCTL_KEY` | PEM, what to show to the server |
//! | `?server_name=NAME` | the host | the name in the server's certificate |
//!
//! [`EtcdOptions`] offers the same in code.
//!
//! # Permissions
//! Where etcd's authentication is on, the user needs a role that reads and writes the prefix:
//!
//! ```sh
//! etcdctl role add tenure
//! etcdctl role grant-permission tenure --prefix=true readwrite tenure/
//! etcdctl user add app
//! etcdctl user grant-role app tenure
//! ```
//!
//! # Keys
//! `PREFIX/t1/NAMESPACE/KEY`, with a JSON value that names holder, ttl and time of the grant, and
//! the owner, who is a secret: whoever may read the prefix can release the locks in it.
//!
//! ```sh
//! etcdctl get --prefix tenure/t1/ --keys-only
//! ```
//!
//! An etcd lease whose key was released is kept for the next grant of the same ttl (64 at the
//! most), so `etcdctl lease list` may show some without a key. They end by themselves.

mod change;
mod client;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod known;
mod options;
mod probe;
mod spares;
mod store;
mod watcher;
mod wire;

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::Result;
use crate::store::Store;

pub use options::EtcdOptions;
pub use store::EtcdStore;

/// What URLs of this store begin with.
pub const SCHEMES: &[&str] = &["etcd", "etcds"];

/// Opens the store that `url` names: connects, logs in, and probes the cluster.
///
/// # Errors
/// `Invalid` for a wrong URL or unreadable files; `Denied` for a wrong login or a missing role;
/// `Unavailable` when no member can be reached, there is no leader or no space; `Unsupported` for
/// an etcd before 3.4.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(EtcdOptions::new(url)?.open(clock).await?))
}
