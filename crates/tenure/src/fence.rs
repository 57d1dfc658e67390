//! The number that only grows.

use std::fmt;

/// The fence of one grant: greater than that of every earlier grant of the same key, across
/// release, expiry, crash, restart and force-release.
///
/// Hand it to the protected resource with every write and let the resource refuse a smaller one
/// than it has seen: that is what stops a paused process whose lease has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The fence with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, to pass on to the resource.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}
