//! Known bugs, switched on in the workers one at a time: a harness that does not find them proves
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure::clock::Clock;
use tenure::planted::Bug;
use tenure::{LocksBuilder, Store};
use tenure_testkit::mutants::{Mutant, StoreBug};

use crate::fault::Kind;
use crate::job::Style;
use crate::run::Order;
use crate::skew::SkewedClock;
use crate::standing::StandingClock;
use crate::subject;
use crate::tries::Tries;

/// A bug of the client, or of the store; one that stands in the store's place and is the client's,
/// because what it makes up the store has not said; or one of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Client(Bug),
    Store(StoreBug),
    Between(StoreBug),
    Clock(ClockBug),
}

/// A clock that leases must not be measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockBug {
    /// It runs at so many thousandths of its rate, far out of the bound that is promised.
    Slow(u64),
    /// It stands still while its process is stopped.
    Stands,
}

/// A bug, and the set-up in which it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planted {
    pub(crate) name: &'static str,
    what: What,
    /// The checker that has to find it.
    pub(crate) finder: &'static str,
    pub(crate) store: &'static str,
    style: Style,
    kinds: &'static [Kind],
    operation_timeout: Duration,
    /// How long it must be tried out at the least.
    length_min: Duration,
}

const PATIENT: Duration = Duration::from_secs(9);

/// For what shows only when several things fall together.
const LONG: Duration = Duration::from_secs(70);

const CLIENT: Planted = Planted {
    name: "",
    what: What::Client(Bug::CachedBelief),
    finder: "beliefs",
    store: "redis",
    style: Style::Mixed,
    kinds: &[Kind::WorkerPause, Kind::WorkerKill],
    operation_timeout: Duration::from_millis(1500),
    length_min: Duration::ZERO,
};

/// All of them. Each is tried out on one store: some with every fault, and each with those that
/// bring it to light.
pub(crate) const ALL: &[Planted] = &[
    Planted { name: "release-does-nothing, all faults", ..BESET },
    Planted {
        name: "expires-late, all faults",
        what: What::Store(StoreBug::ExpiresLate),
        finder: "waiters",
        store: "postgres",
        ..BESET
    },
    Planted {
        name: "never-reconnects, all faults",
        what: What::Store(StoreBug::NeverReconnects),
        finder: "answered",
        store: "remote",
        ..BESET
    },
    Planted {
        name: "no-wake-up, all faults",
        what: What::Store(StoreBug::NoWakeUp),
        finder: "woken",
        store: "etcd",
        ..BESET
    },
    Planted {
        name: "forgotten-reply, all faults",
        what: What::Client(Bug::ForgottenReply),
        finder: "undone",
        store: "nats",
        ..BESET
    },
    Planted {
        name: "renew-fails, all faults",
        what: What::Store(StoreBug::RenewFails),
        finder: "kept",
        store: "redis",
        ..BESET
    },
    Planted { name: "cached-belief", style: Style::Long, ..CLIENT },
    Planted {
        name: "forgotten-reply",
        what: What::Client(Bug::ForgottenReply),
        finder: "undone",
        style: Style::AtOnce,
        kinds: &[Kind::LostReply],
        ..CLIENT
    },
    Planted {
        name: "assumed-grant",
        what: What::Client(Bug::AssumedGrant),
        finder: "linear",
        store: "postgres",
        kinds: &[Kind::LostReply, Kind::LostReplies],
        ..CLIENT
    },
    Planted {
        name: "absent-is-final",
        what: What::Client(Bug::AbsentIsFinal),
        finder: "undone",
        store: "postgres",
        style: Style::AtOnce,
        kinds: &[Kind::LateRequests],
        length_min: LONG,
        // What is late comes after the look that follows the answer's being given up.
        operation_timeout: Duration::from_millis(600),
    },
    Planted {
        name: "silent-loss",
        what: What::Client(Bug::SilentLoss),
        finder: "beliefs",
        store: "etcd",
        style: Style::Long,
        kinds: &[Kind::Cut, Kind::Sinking],
        length_min: Duration::from_secs(40),
        ..CLIENT
    },
    Planted {
        name: "unstopped-work",
        what: What::Client(Bug::UnstoppedWork),
        finder: "beliefs",
        style: Style::Run,
        kinds: &[Kind::Cut, Kind::Sinking],
        length_min: Duration::from_secs(40),
        ..CLIENT
    },
    Planted {
        name: "unbounded-renewal",
        what: What::Client(Bug::UnboundedRenewal),
        finder: "kept",
        style: Style::Longest,
        kinds: &[Kind::HalfOpen],
        length_min: Duration::from_secs(40),
        operation_timeout: PATIENT,
        ..CLIENT
    },
    Planted {
        name: "belief-from-reply",
        what: What::Client(Bug::BeliefFromReply),
        finder: "beliefs",
        style: Style::Long,
        kinds: &[Kind::Sinking],
        length_min: LONG,
        ..CLIENT
    },
    Planted {
        name: "slow-clock",
        what: What::Clock(ClockBug::Slow(700)),
        finder: "beliefs",
        style: Style::Long,
        kinds: &[Kind::Cut, Kind::Sinking],
        length_min: Duration::from_secs(40),
        ..CLIENT
    },
    Planted {
        name: "clock-stops-with-process",
        what: What::Clock(ClockBug::Stands),
        finder: "beliefs",
        style: Style::Long,
        ..CLIENT
    },
    Planted {
        name: "expires-early",
        what: What::Store(StoreBug::ExpiresEarly),
        finder: "linear",
        ..HELD_LONG
    },
    Planted {
        name: "release-takes-any",
        what: What::Store(StoreBug::ReleaseTakesAny),
        finder: "linear",
        ..CLIENT
    },
    Planted {
        name: "release-does-nothing",
        what: What::Store(StoreBug::ReleaseDoesNothing),
        finder: "linear",
        ..CLIENT
    },
    Planted {
        name: "ignores-condition",
        what: What::Store(StoreBug::IgnoresCondition),
        finder: "sink",
        store: "file",
        ..CLIENT
    },
    Planted {
        name: "fence-restarts",
        what: What::Store(StoreBug::FenceRestarts),
        finder: "fences",
        store: "file",
        ..CLIENT
    },
    Planted {
        name: "renew-fails",
        what: What::Store(StoreBug::RenewFails),
        finder: "answered",
        ..CLIENT
    },
    Planted {
        name: "renew-fails, held long",
        what: What::Store(StoreBug::RenewFails),
        finder: "kept",
        style: Style::Brief,
        ..CLIENT
    },
    Planted {
        name: "renew-revives",
        what: What::Store(StoreBug::RenewRevives),
        finder: "linear",
        kinds: &[Kind::LateRequests],
        length_min: Duration::from_secs(40),
        ..HELD_LONG
    },
    Planted {
        name: "failure-is-held",
        what: What::Store(StoreBug::FailureIsHeld),
        finder: "linear",
        style: Style::AtOnce,
        kinds: &[Kind::Cut],
        ..CLIENT
    },
    Planted {
        name: "failure-is-held, by the client",
        what: What::Between(StoreBug::FailureIsHeld),
        finder: "said",
        style: Style::AtOnce,
        kinds: &[Kind::Cut],
        ..CLIENT
    },
    Planted {
        name: "not-idempotent",
        what: What::Store(StoreBug::NotIdempotent),
        finder: "same",
        ..CLIENT
    },
    Planted {
        name: "no-wake-up",
        what: What::Store(StoreBug::NoWakeUp),
        finder: "woken",
        kinds: &[Kind::WorkerKill],
        ..CLIENT
    },
    Planted {
        name: "expires-late",
        what: What::Store(StoreBug::ExpiresLate),
        finder: "waiters",
        kinds: &[Kind::WorkerKill],
        ..CLIENT
    },
    Planted {
        name: "expires-late, stopped",
        what: What::Store(StoreBug::ExpiresLate),
        finder: "waiters",
        kinds: &[Kind::WorkerPause],
        length_min: Duration::from_secs(40),
        ..CLIENT
    },
    Planted {
        name: "never-reconnects",
        what: What::Store(StoreBug::NeverReconnects),
        finder: "answered",
        kinds: &[Kind::Cut],
        ..CLIENT
    },
    Planted {
        name: "force-does-nothing",
        what: What::Store(StoreBug::ForceDoesNothing),
        finder: "linear",
        store: "postgres",
        ..CLIENT
    },
    Planted {
        name: "stale-status",
        what: What::Store(StoreBug::StaleStatus),
        finder: "linear",
        store: "etcd",
        ..CLIENT
    },
];

/// Everything that can go wrong does, as for a card: what is excused there must not hide a bug.
const BESET: Planted = Planted {
    name: "",
    what: What::Store(StoreBug::ReleaseDoesNothing),
    finder: "linear",
    store: "object/seaweedfs",
    style: Style::Mixed,
    kinds: &Kind::ALL,
    operation_timeout: CLIENT.operation_timeout,
    length_min: Duration::from_secs(45),
};

const HELD_LONG: Planted = Planted { style: Style::Long, ..CLIENT };

impl Planted {
    /// The bug of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|planted| planted.name == name)
    }

    /// The clock that a worker has for its own, where that is the bug.
    pub(crate) fn clock(self) -> Option<Arc<dyn Clock>> {
        match self.what {
            What::Clock(ClockBug::Slow(rate)) => Some(Arc::new(SkewedClock::new(rate))),
            What::Clock(ClockBug::Stands) => Some(Arc::new(StandingClock::start())),
            What::Client(_) | What::Store(_) | What::Between(_) => None,
        }
    }

    /// Switches it on: in the store, or on either side of those who count what it is asked.
    pub(crate) fn plant(
        self,
        builder: LocksBuilder,
        store: Arc<dyn Store>,
        tries: &Arc<Tries>,
    ) -> (LocksBuilder, Arc<dyn Store>) {
        match self.what {
            What::Client(bug) => (builder.plant(bug), tries.around(store)),
            What::Clock(_) => (builder, tries.around(store)),
            What::Store(bug) => (builder, tries.around(Arc::new(Mutant::new(store, bug)))),
            What::Between(bug) => (builder, Arc::new(Mutant::new(tries.around(store), bug))),
        }
    }

    /// The run in which it shows, of this length at the least.
    pub(crate) fn order(self, length: Duration, seed: u64) -> Result<Order> {
        let subject = subject::named(self.store).context("no such store")?;
        let order = Order::new(subject, length.max(self.length_min), seed);
        Ok(Order {
            kinds: self.kinds.to_vec(),
            style: self.style,
            planted: Some(self.name.to_owned()),
            operation_timeout: self.operation_timeout,
            ..order
        })
    }
}

#[cfg(test)]
mod tests {
    use tenure_check::Checker;

    use super::*;
    use crate::judge::{Judgement, PANICKED, UNDECIDED};

    #[test]
    fn checkers_have_something_that_they_must_find() {
        let own = Judgement::default();
        let own = own.own().into_iter().map(|(name, ..)| name);
        let own = own.filter(|name| ![UNDECIDED, PANICKED].contains(name));
        for finder in Checker::ALL.map(Checker::name).into_iter().chain(own) {
            assert!(ALL.iter().any(|planted| planted.finder == finder), "{finder}");
        }
    }

    #[test]
    fn every_bug_is_there_and_on_a_store() {
        let mut names: Vec<&str> = ALL.iter().map(|planted| planted.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        let bugs = Bug::ALL.map(What::Client).into_iter().chain(StoreBug::ALL.map(What::Store));
        for bug in bugs {
            assert!(ALL.iter().any(|planted| planted.what == bug), "{bug:?}");
        }
        assert!(ALL.iter().all(|planted| subject::named(planted.store).is_some()));
    }
}
