//! What a guard believes, for others to ask.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::fence::Fence;
use crate::locks::hold::Hold;

/// Asks what a [`Guard`](crate::Guard) believes, from wherever the guard itself cannot go. It keeps
/// nothing alive: once the guard is released, detached or dropped, nothing is held any more.
#[derive(Clone)]
pub struct GuardView {
    hold: Arc<Hold>,
    clock: Arc<dyn Clock>,
    fence: Fence,
}

impl GuardView {
    pub(crate) fn new(hold: &Arc<Hold>, clock: &Arc<dyn Clock>, fence: Fence) -> Self {
        Self { hold: Arc::clone(hold), clock: Arc::clone(clock), fence }
    }

    /// The number of the grant.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// As [`Guard::remaining`](crate::Guard::remaining), and zero when the guard has gone.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.hold.is_given_up() {
            return Duration::ZERO;
        }
        self.hold.remaining(&*self.clock)
    }

    /// As [`Guard::is_held`](crate::Guard::is_held), and false when the guard has gone.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }
}

impl fmt::Debug for GuardView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardView")
            .field("fence", &self.fence)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
