//! Distributed locks with fencing, on the store you already run.
//!
//! ```
//! # async fn charge(order: u32, fence: tenure::Fence) -> u32 { order }
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! use std::time::Duration;
//!
//! let locks = tenure::Locks::open("memory:").await?;
//! let charged = locks
//!     .lock("order:42")
//!     .wait(Duration::from_secs(5))
//!     .run(async |guard| charge(42, guard.fence()).await) // stopped before the lease can end
//!     .await?;
//! # assert_eq!(charged, 42);
//! # Ok(()) }
//! ```
//!
//! # What is promised
//! 1. Fences only grow: across release, expiry, crash, restart and force-release.
//! 2. A guard stops believing before the store may grant the key to anyone else, as long as clocks
//!    run at the same rate within the margin. No two clocks have to agree on the time.
//! 3. Nothing is granted without the store's word.
//! 4. A lost lock is told, and work under it is stopped, before the lease can end.
//! 5. Every store says its [`Class`](store::Class), with the reason.
//!
//! A process can be paused between any check and any use. What then protects a resource is that it
//! refuses a [`Fence`] smaller than one it has seen.
//!
//! # Layout
//! | | |
//! |---|---|
//! | [`Locks`], [`LockRequest`], [`Guard`] | what callers use |
//! | [`Key`], [`Owner`], [`Holder`], [`Fence`], [`Lease`], [`Status`] | small values |
//! | [`Error`], [`ErrorKind`], [`Retry`] | what went wrong and whether to try again |
//! | [`Store`], [`claim`], [`watch`] | the contract of a store |
//! | [`rule`] | the one rule of a lock, pure |
//! | [`layers`], [`stores`] | stores around stores, and the stores themselves |
//! | [`clock`], [`random`] | the only places that read time and randomness |
//!
//! # Features
//! | feature | what it adds |
//! |---|---|
//! | `file` (default) | [`stores::file`]: SQLite, shared by all processes of one machine |
//! | `redis` | `stores::redis`: one script per operation; Sentinel and Cluster too |
//! | `postgres` | `stores::postgres`: one statement per operation, on a table of its own |
//! | `nats` | `stores::nats`: a key-value bucket of JetStream |
//! | `etcd` | `stores::etcd`: keys on etcd's own leases |
//! | `object` | `stores::object`: S3, Google Cloud Storage, Azure, or a local folder |
//! | `remote` | `stores::remote`: a tenure server, whatever store it has |
//! | `planted-bugs` | known bugs that can be switched on, to test tests; never for production |
//! | `fuzzing` | decoders for the fuzz targets of this repository; no part of the API |

pub mod claim;
pub mod clock;
mod degraded;
mod doctor;
mod effect;
pub mod error;
mod fence;
mod finding;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod holder;
mod key;
mod key_policy;
pub mod layers;
mod lease;
mod locks;
mod owned;
mod owner;
#[cfg(feature = "planted-bugs")]
pub mod planted;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
pub mod random;
pub mod rule;
pub mod store;
pub mod stores;
pub mod watch;

pub use degraded::DegradedPolicy;
pub use doctor::{Report, doctor, examine};
pub use error::{Error, ErrorKind, Operation, Overrun, Result, Retry};
pub use fence::Fence;
pub use finding::{Finding, Severity};
pub use holder::Holder;
pub use key::{KEY_BYTES_MAX, Key, Namespace};
pub use key_policy::KeyPolicy;
pub use lease::{Lease, Status};
pub use locks::{
    Backoff, Event, EventKind, Events, Excess, Guard, GuardView, Limits, LockRequest, LockedFn,
    Locks, LocksBuilder, LostReason, Observer, QueueLengths, Waiting,
};
pub use owner::Owner;
pub use store::Store;
