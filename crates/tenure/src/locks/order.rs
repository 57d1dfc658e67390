//! What is asked for, with everything settled, and what whoever waits for it can see.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, Reentry};
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::Status;

/// What a waiter can see.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The key; under keyed hashing a short digest of it.
    pub key: Key,
    /// How many of this process stand before this waiter.
    pub ahead: usize,
    /// Who holds the key, once the head of the line knows: from the store, or because it is a
    /// guard of the same process.
    pub held_by: Option<Status>,
}

pub(crate) type OnWait = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// A request with everything settled.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) claim: Claim,
    /// The caller chose the owner, and may have used it before.
    pub(crate) owner_is_chosen: bool,
    /// `None`: without end.
    pub(crate) wait: Option<Duration>,
    pub(crate) interval: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_wait: Option<OnWait>,
}

impl Order {
    /// The label that no other acquire has. Without reentry a lease of this owner is another's,
    /// unless it carries this.
    pub(crate) fn mark(&self) -> Option<&Holder> {
        let Claim { reentry, holder, .. } = &self.claim;
        (self.owner_is_chosen && *reentry == Reentry::Refuse).then_some(holder)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("wait", &self.wait).finish_non_exhaustive()
    }
}
