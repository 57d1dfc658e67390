//! How often each kind of fault and each outcome came up.
//!
//! A run in which a fault never struck or a branch was never taken proves nothing about it, so the
//! test demands that every counter has moved.

use std::fmt;

macro_rules! counts {
    ($($name:ident = $text:literal,)*) => {
        /// Something worth counting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Count {
            $(#[doc = $text] $name,)*
        }

        impl Count {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it counts.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

counts! {
    RequestLost = "net: request lost",
    RequestDuplicated = "net: request applied twice",
    RequestReordered = "net: request overtaken",
    RequestRefused = "net: request refused",
    ReplyLost = "net: reply lost, silence",
    ReplyReset = "net: reply lost, connection reset",
    ReplyLate = "net: reply after half a second",
    Partition = "fault: partition",
    WakeUpLost = "fault: wake-up lost",
    ClientStop = "fault: client stopped",
    ClientCrash = "fault: client crashed",
    ServerStop = "fault: server stopped",
    ServerCrash = "fault: server crashed",
    ServerTailLost = "fault: server lost renewals",
    LeaseRearmed = "server: lease re-armed",
    LeaseTakenOver = "server: expired lease taken over",
    GrantAdopted = "server: grant given again",
    GrantUnwanted = "server: grant nobody waits for",
    CleanupReleased = "server: cleanup gave back",
    AcquireGranted = "acquire: granted",
    AcquireHeld = "acquire: held",
    AcquireTimedOut = "acquire: timed out",
    AcquireUnavailable = "acquire: unavailable",
    AcquireUnknown = "acquire: unknown",
    AcquireFoundMine = "acquire: unanswered, found mine",
    AcquireTooLate = "acquire: too little left",
    AcquireCancelled = "acquire: cancelled",
    RenewConfirmed = "renew: confirmed",
    RenewRefused = "renew: refused",
    RenewUnanswered = "renew: unanswered",
    LostExpired = "guard: lost, expired",
    LostRefused = "guard: lost, refused",
    LostMaxHold = "guard: lost, longest hold",
    UseFenced = "sink: stale use refused",
    UseAccepted = "sink: use accepted",
    ReleaseOk = "release: ok",
    ReleaseLost = "release: lost",
    ReleaseUnavailable = "release: unavailable",
    ReleaseUnknown = "release: unknown",
    ReleaseCancelled = "release: cancelled",
    GuardDropped = "guard: dropped",
    GuardForgotten = "guard: forgotten",
    HandedOver = "detached: left alone",
    DetachedReleased = "detached: released by owner",
    DetachedRenewed = "detached: renewed by owner",
    DetachedRefused = "detached: no longer its owner's",
    RunFinished = "run: finished",
    RunStopped = "run: work stopped",
    Forced = "force-release: evicted",
    ForcedUnderGuard = "force-release: from a guard that believed",
    Flushed = "flush: returned, nothing left",
    StatusRead = "status: read",
    Listed = "list: read",
}

/// A number for every [`Count`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; Count::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Count::ALL.len()])
    }
}

impl Counters {
    /// One more.
    pub fn add(&mut self, count: Count) {
        self.0[count as usize] += 1;
    }

    /// How many.
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Takes the numbers of another run in.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Those that never moved.
    #[must_use]
    pub fn never(&self) -> Vec<&'static str> {
        Count::ALL.iter().filter(|count| self.get(**count) == 0).map(|count| count.text()).collect()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for count in Count::ALL {
            writeln!(f, "{:>12}  {}", self.get(*count), count.text())?;
        }
        Ok(())
    }
}
