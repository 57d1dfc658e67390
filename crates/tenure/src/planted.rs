//! Known lock bugs that a test can switch on, to prove that the tests find them.
//!
//! Without the feature `planted-bugs` the switch cannot be set and every question about it is a
//! constant `false`.

use std::time::SystemTime;

use crate::claim::Claim;
use crate::fence::Fence;
use crate::lease::Lease;

/// A bug of lock clients that was seen in the wild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(not(feature = "planted-bugs"), allow(dead_code, unreachable_pub))]
pub enum Bug {
    /// `is_held` reads a flag that a timer sets, instead of the clock.
    CachedBelief,
    /// An acquire whose reply was lost is taken for a failure and forgotten.
    ForgottenReply,
    /// An acquire whose reply was lost is taken for a grant.
    AssumedGrant,
    /// After a lost reply, one look that finds nothing counts as final.
    AbsentIsFinal,
    /// A renewal that fails ends the keep-alive and tells no one.
    SilentLoss,
    /// Work under a lock is not stopped when the lock is lost.
    UnstoppedWork,
    /// A renewal may take as long as it likes, and the keeper waits for it.
    UnboundedRenewal,
    /// A renewal counts from the moment its reply came, not from when it was sent.
    BeliefFromReply,
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::CachedBelief,
        Self::ForgottenReply,
        Self::AssumedGrant,
        Self::AbsentIsFinal,
        Self::SilentLoss,
        Self::UnstoppedWork,
        Self::UnboundedRenewal,
        Self::BeliefFromReply,
    ];
}

/// Which bug is switched on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planted {
    #[cfg(feature = "planted-bugs")]
    bug: Option<Bug>,
}

impl Planted {
    #[cfg(feature = "planted-bugs")]
    pub(crate) const fn new(bug: Bug) -> Self {
        Self { bug: Some(bug) }
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[allow(clippy::unused_self)]
    pub(crate) const fn has(self, _bug: Bug) -> bool {
        false
    }
}

/// The lease of [`Bug::AssumedGrant`].
pub(crate) fn assumed(claim: &Claim) -> Lease {
    Lease {
        key: claim.key.clone(),
        owner: claim.owner.clone(),
        fence: Fence::new(0),
        ttl: claim.ttl,
        holder: claim.holder.clone(),
        granted_at: SystemTime::UNIX_EPOCH,
        remaining: claim.ttl,
    }
}
