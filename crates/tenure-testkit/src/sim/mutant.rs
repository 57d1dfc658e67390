//! Bugs to plant, each seen in the wild: the simulation must find every one of them.

use tenure::planted::Bug;

/// A bug in the engine, the store, the network or a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A bug of the engine itself.
    Engine(Bug),
    /// A client's clock stands still while the process is stopped (V2).
    ClockStopsWithProcess,
    /// A client's clock is slower than the bound allows.
    SlowClock,
    /// The store expires leases by a wall clock that is set forward (V3).
    WallClockExpiry,
    /// A renewal revives a lease that has expired or was released (V7).
    RevivingRenewal,
    /// A release deletes whatever stands on the key (V8).
    CarelessRelease,
    /// A release compares at once and deletes later (V8).
    ReleaseInTwoSteps,
    /// A fail-over brings back an older state (V9).
    StaleFailover,
    /// Grants are acknowledged before they are durable (V10).
    GrantBeforeSync,
    /// The condition of a claim is ignored once in a while (V12).
    IgnoredCondition,
    /// Waiters are never woken and do not look for themselves (V14).
    NoFallbackPoll,
    /// The fence counter begins anew after a crash.
    FenceRestart,
    /// Leases end a twentieth before their ttl.
    EarlyExpiry,
    /// After a crash, leases go on with the deadline that was last written.
    NoRearm,
}

impl Mutant {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Engine(Bug::CachedBelief),
        Self::Engine(Bug::ForgottenReply),
        Self::Engine(Bug::AssumedGrant),
        Self::Engine(Bug::AbsentIsFinal),
        Self::Engine(Bug::SilentLoss),
        Self::Engine(Bug::UnstoppedWork),
        Self::Engine(Bug::BeliefFromReply),
        Self::ClockStopsWithProcess,
        Self::SlowClock,
        Self::WallClockExpiry,
        Self::RevivingRenewal,
        Self::CarelessRelease,
        Self::ReleaseInTwoSteps,
        Self::StaleFailover,
        Self::GrantBeforeSync,
        Self::IgnoredCondition,
        Self::NoFallbackPoll,
        Self::FenceRestart,
        Self::EarlyExpiry,
        Self::NoRearm,
    ];
}
