//! What was granted, and what others may see of it.

use std::time::{Duration, SystemTime};

use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::owner::Owner;

/// A grant: who holds a key, under which fence, and for how long.
///
/// It can be carried to another process, which renews or releases it by key and owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is held.
    pub key: Key,
    /// The secret that proves it.
    pub owner: Owner,
    /// The number of this grant; see [`Fence`].
    pub fence: Fence,
    /// For how long each grant or renewal holds, at the least.
    pub ttl: Duration,
    /// Who holds it, for people.
    pub holder: Holder,
    /// When it was granted, by the store's wall clock. For people; never compared.
    pub granted_at: SystemTime,
    /// What was left of it on the store's clock when the store answered.
    pub remaining: Duration,
}

impl Lease {
    /// What others may see of this lease.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            key: self.key.clone(),
            fence: self.fence,
            ttl: self.ttl,
            holder: self.holder.clone(),
            granted_at: self.granted_at,
            remaining: self.remaining,
        }
    }
}

/// A lease as anyone may see it: all but the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What is held.
    pub key: Key,
    /// The number of this grant.
    pub fence: Fence,
    /// For how long each grant or renewal holds, at the least.
    pub ttl: Duration,
    /// Who holds it, for people.
    pub holder: Holder,
    /// When it was granted, by the store's wall clock. For people; never compared.
    pub granted_at: SystemTime,
    /// What was left of it on the store's clock when the store answered.
    pub remaining: Duration,
}
