//! The stores, one folder or file each, and the one place that turns a URL into one.

use std::sync::Arc;

use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::store::Store;

#[cfg(any(feature = "etcd", feature = "nats", feature = "redis", feature = "remote"))]
mod address;
#[cfg(any(
    feature = "etcd",
    feature = "nats",
    feature = "object",
    feature = "postgres",
    feature = "redis"
))]
mod cause;
#[cfg(feature = "_json")]
pub(crate) mod cell;
#[cfg(any(feature = "etcd", feature = "remote"))]
mod channel_tls;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "file")]
pub mod file;
#[cfg(all(target_os = "linux", any(feature = "file", feature = "object")))]
mod file_system;
pub mod memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "object")]
pub mod object;
#[cfg(feature = "_url")]
mod options;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "_register")]
pub mod register;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "_tls")]
mod tls;

/// A store that this build can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreKind {
    /// Its name, as [`StoreInfo`](crate::store::StoreInfo) gives it.
    pub name: &'static str,
    /// What its URLs begin with.
    pub schemes: &'static [&'static str],
}

/// The stores that this build can open. The conformance suite runs every one of them.
pub const KINDS: &[StoreKind] = &[
    StoreKind { name: "memory", schemes: &["memory"] },
    #[cfg(feature = "file")]
    StoreKind { name: "file", schemes: &["file"] },
    #[cfg(feature = "redis")]
    StoreKind { name: "redis", schemes: redis::SCHEMES },
    #[cfg(feature = "postgres")]
    StoreKind { name: "postgres", schemes: postgres::SCHEMES },
    #[cfg(feature = "nats")]
    StoreKind { name: "nats", schemes: nats::SCHEMES },
    #[cfg(feature = "etcd")]
    StoreKind { name: "etcd", schemes: etcd::SCHEMES },
    #[cfg(feature = "object")]
    StoreKind { name: "object", schemes: object::SCHEMES },
    #[cfg(feature = "remote")]
    StoreKind { name: "remote", schemes: remote::SCHEMES },
];

/// The store that URLs with this scheme are for, if this build has it.
#[must_use]
pub fn kind_of(scheme: &str) -> Option<StoreKind> {
    KINDS.iter().find(|kind| kind.schemes.contains(&scheme)).copied()
}

/// Every scheme that this build can open.
#[must_use]
pub fn schemes() -> Vec<&'static str> {
    KINDS.iter().flat_map(|kind| kind.schemes).copied().collect()
}

/// Opens the store that a URL names, such as `file:PATH` or `redis://HOST`; see [`KINDS`].
///
/// A remote store is connected to and probed: that it answers, that it takes the credentials, and
/// what its configuration is worth.
///
/// # Errors
/// `Invalid` when the URL is none; `Unsupported` when its scheme is not in this build; otherwise
/// what the store itself says. No error repeats the URL, which may carry a password.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    // Boxed, because it is as large as the largest of the clients, and rarely called.
    Box::pin(dispatch(url, clock)).await.map_err(|error| error.during(Operation::Open))
}

async fn dispatch(url: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Error::invalid("store must be a URL such as file:/var/lib/app/locks.db"));
    };
    match kind_of(scheme).map(|kind| kind.name) {
        Some("memory") if rest.is_empty() => Ok(Arc::new(memory::MemoryStore::new(clock))),
        Some("memory") => Err(Error::invalid("memory: takes no path")),
        #[cfg(feature = "file")]
        Some("file") => Ok(Arc::new(file::FileStore::open(rest).await?)),
        #[cfg(feature = "redis")]
        Some("redis") => redis::open(url, clock).await,
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres::open(url, clock).await,
        #[cfg(feature = "nats")]
        Some("nats") => nats::open(url, clock).await,
        #[cfg(feature = "etcd")]
        Some("etcd") => etcd::open(url, clock).await,
        #[cfg(feature = "object")]
        Some("object") => object::open(url, clock).await,
        #[cfg(feature = "remote")]
        Some("remote") => remote::open(url, clock).await,
        _ => {
            let text =
                format!("store scheme is none of those in this build: {}", schemes().join(", "));
            Err(Error::new(ErrorKind::Unsupported, text))
        }
    }
}
