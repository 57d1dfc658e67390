//! Distributed locks with fencing, on the store you already run.

pub mod claim;
pub mod clock;
mod degraded;
pub mod error;
mod fence;
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
pub use error::{Error, ErrorKind, Operation, Overrun, Result, Retry};
pub use fence::Fence;
pub use holder::Holder;
pub use key::{KEY_BYTES_MAX, Key, Namespace};
pub use key_policy::KeyPolicy;
pub use lease::{Lease, Status};
pub use locks::{
    Backoff, Event, EventKind, Excess, Guard, Limits, LockRequest, LockedFn, Locks, LocksBuilder,
    LostReason, Waiting,
};
pub use owner::Owner;
pub use store::Store;
