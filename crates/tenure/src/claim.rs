//! What a store is asked, and what it answers.

use std::time::Duration;

use crate::error::{Error, Operation, Result};
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::{Key, Namespace};
use crate::lease::{Lease, Status};
use crate::owner::Owner;

const REASON_BYTES_MAX: usize = 1024;

/// What happens when the claim's own owner already holds the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reentry {
    /// The same grant is given again, under the same fence: a repeated request is harmless.
    #[default]
    Adopt,
    /// The claim is refused as if another held the key.
    Refuse,
}

/// Asking for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What to hold.
    pub key: Key,
    /// The secret that will prove it.
    pub owner: Owner,
    /// For how long, at the least.
    pub ttl: Duration,
    /// Who asks, for people.
    pub holder: Holder,
    /// What to do when this owner already holds it.
    pub reentry: Reentry,
}

/// The answer to a [`Claim`]. Contention is a value, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The key is the claim's.
    Granted(Lease),
    /// The key is another's.
    Held(Status),
}

/// Which grant a renewal or release is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is held.
    pub key: Key,
    /// The secret that proves it.
    pub owner: Owner,
    /// The grant's fence. `None` means whichever grant this owner has now.
    pub fence: Option<Fence>,
}

/// Asking to prolong a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The grant to prolong.
    pub grant: Grant,
    /// For how long from now, at the least. A renewal never shortens a lease.
    pub ttl: Duration,
}

/// The answer to a [`Renewal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease goes on.
    Renewed(Lease),
    /// The lease is no longer that owner's; whose it is, if anyone's.
    Lost(Option<Status>),
}

/// The answer to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The key is free; what was given back.
    Released(Status),
    /// It was not that owner's; whose it is, if anyone's.
    NotHeld(Option<Status>),
}

/// Asking to end whichever lease stands on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// What is held.
    pub key: Key,
    /// Why, for people.
    pub reason: String,
}

impl Eviction {
    /// An eviction for this reason, of 1 to 1024 bytes without control characters.
    ///
    /// # Errors
    /// `Invalid` for a reason that is blank, too long or has control characters.
    pub fn new(key: Key, reason: &str) -> Result<Self> {
        if reason.trim().is_empty()
            || reason.len() > REASON_BYTES_MAX
            || reason.chars().any(char::is_control)
        {
            return Err(Error::invalid(format!(
                "reason must have 1 to {REASON_BYTES_MAX} bytes without control characters, this \
                 one has {}",
                reason.len()
            ))
            .during(Operation::ForceRelease));
        }
        Ok(Self { key, reason: reason.to_owned() })
    }
}

/// Asking for one page of a namespace's leases, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only keys after this one: [`Page::next`] of the page before.
    pub after: Option<Key>,
    /// How many at the most.
    pub limit: usize,
}

/// One page of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The leases, in the order of their keys.
    pub items: Vec<Status>,
    /// Where the next page begins: after this key. `None` when this was the last page. A page may
    /// be empty and yet not the last, where a store keeps released keys among the live ones.
    pub next: Option<Key>,
}

impl Page {
    /// A page that the next one follows right after its last lease, if there are `more`.
    #[must_use]
    pub fn new(items: Vec<Status>, more: bool) -> Self {
        let next = items.last().filter(|_| more).map(|status| status.key.clone());
        Self { items, next }
    }
}

/// What a process says about how it uses a namespace, so that one that differs is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pledge {
    /// The namespace it is about.
    pub namespace: Namespace,
    /// Scheme and secret, as a digest that tells neither.
    pub fingerprint: String,
}
