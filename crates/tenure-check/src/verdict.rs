//! What was found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::history::History;
use crate::{beliefs, fences, linear, sink, waiters};

/// Which checker found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Checker {
    /// [`fences`]
    Fences,
    /// [`beliefs`]
    Beliefs,
    /// [`sink`]
    Sink,
    /// [`linear`]
    Linear,
    /// [`waiters`]
    Waiters,
}

impl Checker {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 5] =
        [Self::Fences, Self::Beliefs, Self::Sink, Self::Linear, Self::Waiters];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fences => "fences",
            Self::Beliefs => "beliefs",
            Self::Sink => "sink",
            Self::Linear => "linear",
            Self::Waiters => "waiters",
        }
    }

    /// What holds where it finds nothing, for people.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            Self::Fences => "fences only grow",
            Self::Beliefs => "no two believe in one key at once",
            Self::Sink => {
                "a resource that checks fences takes nothing stale, and refuses nobody who believes"
            }
            Self::Linear => "every answer fits one order of events",
            Self::Waiters => {
                "nobody waits too long, the key of a holder that is dead or stands still is free \
                 in time, and every claim is answered"
            }
        }
    }
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Checker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What a lock must never do, and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Who found it.
    pub checker: Checker,
    /// On which key.
    pub key: String,
    /// What it is, for people: one sentence.
    pub text: String,
    /// When, in nanoseconds on the boot clock.
    pub at: u64,
}

/// When answers are lost on their way, other than those that the history tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// Never: a try that was not answered is a claim of its own, which failed.
    Never,
    /// At any time.
    AtAnyTime,
}

/// How strict to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much later than it must an answer may come, and a dead worker's key be free: 1 s.
    pub slack: Duration,
    /// How much faster than the workers' clock the store's may run, in thousandths: 20.
    pub drift_permille: u64,
    /// When a claim that waits may have been granted for a moment before its answer, by a try whose
    /// own was lost on the way: never.
    pub losses: Losses,
    /// Whether those who ask time the leases themselves: no. It is so on some stores, and there one
    /// that has just begun to ask may be told that a key is held although its lease has ended.
    pub is_observed: bool,
    /// When the store was away, if its leases begin anew after that, in order: those that there
    /// were then last for another ttl. Never, by default.
    pub rearms: Vec<(u64, u64)>,
    /// When each worker stood still that was stopped, where its way to the store was well until
    /// then: it can have prolonged nothing meanwhile. Never, by default.
    pub stops: BTreeMap<u64, Vec<(u64, u64)>>,
    /// When the machine was late, and by how much: those who work on it are late as well. Never,
    /// by default.
    pub lags: Vec<(u64, u64)>,
    /// After how many steps on one key [`linear`] gives up: ten million.
    pub steps_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slack: Duration::from_secs(1),
            drift_permille: 20,
            losses: Losses::Never,
            is_observed: false,
            rearms: Vec::new(),
            stops: BTreeMap::new(),
            lags: Vec::new(),
            steps_max: 10_000_000,
        }
    }
}

impl Options {
    /// The slack in nanoseconds.
    pub(crate) fn slack_nanos(&self) -> u64 {
        u64::try_from(self.slack.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What all checkers found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What a lock must never do.
    pub violations: Vec<Violation>,
    /// What would be one, had nobody ended a lease by force.
    pub forced: Vec<Violation>,
    /// Keys that [`linear`] gave up on: nothing was proved about their order.
    pub undecided: Vec<String>,
    /// Writes that a resource without a fence check would have taken, and a fenced one refused.
    pub stale_refused: usize,
    /// Stale writes that a resource without a fence check did take.
    pub stale_unfenced: usize,
}

impl Verdict {
    /// Whether nothing was violated.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// What one checker found.
    pub fn of(&self, checker: Checker) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(move |violation| violation.checker == checker)
    }
}

/// Runs all checkers.
#[must_use]
pub fn check(history: &History, options: &Options) -> Verdict {
    let mut verdict = Verdict::default();
    fences::check(history, &mut verdict);
    beliefs::check(history, &mut verdict);
    sink::check(history, &mut verdict);
    linear::check(history, options, &mut verdict);
    waiters::check(history, options, &mut verdict);
    verdict.violations.sort_by_key(|violation| (violation.checker, violation.at));
    verdict
}
