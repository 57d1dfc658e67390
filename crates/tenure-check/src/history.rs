//! The lines of all workers, put together into claims.

use std::collections::BTreeMap;

use crate::record::{Record, What};

/// How a claim was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not at all: the worker was killed, or is stuck.
    None,
    /// Granted.
    Granted {
        /// When the answer was there.
        at: u64,
        /// Under which fence.
        fence: u64,
    },
    /// Held by another.
    Held {
        /// When the answer was there.
        at: u64,
    },
    /// With an error.
    Failed {
        /// When the answer was there.
        at: u64,
        /// Whether the key may have been granted all the same.
        unknown: bool,
    },
}

impl Answer {
    /// When the answer was there.
    #[must_use]
    pub const fn at(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Granted { at, .. } | Self::Held { at } | Self::Failed { at, .. } => Some(at),
        }
    }
}

/// What came of asking to give a lease back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Nobody knows: no answer, an error, or nobody waited for it.
    Unknown,
    /// It was given back.
    Released {
        /// When the answer was there.
        at: u64,
    },
    /// It was not the worker's any more.
    Lost {
        /// When the answer was there.
        at: u64,
    },
}

/// One claim, from the question to the end of what was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who asked.
    pub worker: u64,
    /// For what.
    pub key: String,
    /// When.
    pub asked: u64,
    /// The ttl of the lease.
    pub ttl: u64,
    /// How long it would wait; without end, if there is none.
    pub wait: Option<u64>,
    /// What came of it.
    pub answer: Answer,
    /// The last moment at which the guard was asked and said that it holds.
    pub believed: Option<u64>,
    /// When the lease was given back, and what came of that.
    pub release: Option<(u64, Returned)>,
}

impl Claim {
    /// When it was granted, and under which fence.
    #[must_use]
    pub const fn grant(&self) -> Option<(u64, u64)> {
        match self.answer {
            Answer::Granted { at, fence } => Some((at, fence)),
            Answer::None | Answer::Held { .. } | Answer::Failed { .. } => None,
        }
    }
}

/// A write to a sink, in whichever way it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Who wrote.
    pub worker: u64,
    /// Which key's sink.
    pub key: String,
    /// When.
    pub at: u64,
    /// Under which fence.
    pub fence: u64,
    /// Whether the sink took it.
    pub accepted: bool,
}

/// When a lease was ended by force: between the first and the last line that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// From when on it may have been.
    pub from: u64,
    /// When it was, at the latest.
    pub by: u64,
}

impl Forced {
    /// Until when the guard of such a lease may go on to believe in it, if it is not told: nothing
    /// prolongs it any more.
    #[must_use]
    pub const fn unnoticed(self, ttl: u64) -> u64 {
        self.by.saturating_add(ttl)
    }
}

/// What the store said of who holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Which key.
    pub key: String,
    /// When it was asked.
    pub asked: u64,
    /// When the answer was there.
    pub answered: u64,
    /// The fence of whoever holds it; nobody, if there is none.
    pub fence: Option<u64>,
    /// Whether the question took the key from whoever held it.
    pub forces: bool,
}

/// What was done to a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// When it was killed.
    pub killed: Option<u64>,
    /// From when until when it was stopped; until the end of time, if nobody told it to go on.
    pub pauses: Vec<(u64, u64)>,
}

impl Faults {
    /// How much of the time from `from` until `until` the worker was stopped.
    #[must_use]
    pub fn paused(&self, from: u64, until: u64) -> u64 {
        let within = |(a, b): &(u64, u64)| (*b).min(until).saturating_sub((*a).max(from));
        self.pauses.iter().map(within).sum()
    }

    /// When the worker has been awake for so long since `from`.
    #[must_use]
    pub fn awake_for(&self, from: u64, length: u64) -> u64 {
        let mut until = from.saturating_add(length);
        for (begin, end) in self.pauses.iter().filter(|(_, end)| *end > from) {
            let begin = (*begin).max(from);
            if begin >= until {
                break;
            }
            until = until.saturating_add(end.saturating_sub(begin));
        }
        until
    }

    /// When the worker was awake again, if it was stopped at `at`; `at` itself otherwise.
    #[must_use]
    pub fn awake_by(&self, at: u64) -> u64 {
        let around = self.pauses.iter().filter(|(begin, end)| *begin <= at && *end > at);
        around.map(|(_, end)| *end).max().unwrap_or(at)
    }
}

/// All that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All claims, in the order in which they were asked.
    pub claims: Vec<Claim>,
    /// All writes to fenced sinks, in order.
    pub writes: Vec<Write>,
    /// Writes to what does not check, in order: the fence, and that of the write before.
    pub unfenced: Vec<(u64, u64)>,
    /// Leases that were ended by force.
    pub forced: BTreeMap<(String, u64), Forced>,
    /// What the store said of a key to those who did not ask for it.
    pub looks: Vec<Look>,
    /// What was done to whom.
    pub faults: BTreeMap<u64, Faults>,
}

impl History {
    /// Puts the records of all workers together, in whatever order they come.
    #[must_use]
    pub fn new(mut records: Vec<Record>) -> Self {
        // Of two at one moment the one that was written first stays first.
        records.sort_by_key(|record| record.at);
        let mut history = Self::default();
        let mut claims = BTreeMap::<(u64, u64), Claim>::new();
        for record in records {
            if let What::Asked { ttl, wait } = record.what {
                let Record { worker, claim, ref key, at, .. } = record;
                let key = key.clone();
                let (answer, believed, release) = (Answer::None, None, None);
                let asked = Claim { worker, key, asked: at, ttl, wait, answer, believed, release };
                claims.insert((worker, claim), asked);
            } else if let Some(claim) = claims.get_mut(&(record.worker, record.claim)) {
                claim.take(&record);
            }
            history.take(record);
        }
        history.claims = claims.into_values().collect();
        history.claims.sort_by_key(|claim| claim.asked);
        history
    }

    /// The claims of each key, in the order in which they were asked.
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<&str, Vec<&Claim>> {
        let mut keys = BTreeMap::<&str, Vec<&Claim>>::new();
        for claim in &self.claims {
            keys.entry(&claim.key).or_default().push(claim);
        }
        keys
    }

    /// Whether a lease was ended by force.
    #[must_use]
    pub fn is_forced(&self, key: &str, fence: u64) -> bool {
        self.forced.contains_key(&(key.to_owned(), fence))
    }

    /// The last moment that is known of.
    #[must_use]
    pub fn end(&self) -> u64 {
        let of_claim = |claim: &Claim| {
            let returned = claim.release.map(|(asked, returned)| match returned {
                Returned::Unknown => asked,
                Returned::Released { at } | Returned::Lost { at } => at,
            });
            claim.answer.at().max(claim.believed).max(returned).max(Some(claim.asked))
        };
        let killed = self.faults.values().filter_map(|faults| faults.killed).max();
        self.claims.iter().map(of_claim).max().flatten().max(killed).unwrap_or(0)
    }

    /// How much of the time from `from` until `until` a worker was stopped.
    #[must_use]
    pub fn paused(&self, worker: u64, from: u64, until: u64) -> u64 {
        self.faults.get(&worker).map_or(0, |faults| faults.paused(from, until))
    }

    /// When a worker has been awake for so long since `from`.
    #[must_use]
    pub fn awake_for(&self, worker: u64, from: u64, length: u64) -> u64 {
        let faults = self.faults.get(&worker);
        faults.map_or(from.saturating_add(length), |faults| faults.awake_for(from, length))
    }

    /// When a worker was awake again, if it was stopped at `at`; `at` itself otherwise.
    #[must_use]
    pub fn awake_by(&self, worker: u64, at: u64) -> u64 {
        self.faults.get(&worker).map_or(at, |faults| faults.awake_by(at))
    }

    /// When a worker was killed, if it was.
    #[must_use]
    pub fn killed(&self, worker: u64) -> Option<u64> {
        self.faults.get(&worker).and_then(|faults| faults.killed)
    }

    /// When a worker was gone, or the history ended.
    #[must_use]
    pub fn gone(&self, worker: u64) -> u64 {
        self.killed(worker).unwrap_or_else(|| self.end())
    }

    fn take(&mut self, record: Record) {
        let Record { worker, key, at, what, .. } = record;
        match what {
            What::Accepted { fence } => {
                self.writes.push(Write { worker, key, at, fence, accepted: true });
            }
            What::Refused { fence } => {
                self.writes.push(Write { worker, key, at, fence, accepted: false });
            }
            What::Unfenced { fence, over } => self.unfenced.push((fence, over)),
            What::Forced { fence } => {
                let forced = self.forced.entry((key, fence)).or_insert(Forced { from: at, by: at });
                forced.by = at.max(forced.by);
            }
            What::Killed => {
                self.faults.entry(worker).or_default().killed.get_or_insert(at);
            }
            What::Paused => self.faults.entry(worker).or_default().pauses.push((at, u64::MAX)),
            What::Resumed => {
                if let Some((_, until)) = self.faults.entry(worker).or_default().pauses.last_mut() {
                    *until = (*until).min(at);
                }
            }
            _ => {}
        }
    }
}

impl Claim {
    fn take(&mut self, record: &Record) {
        let at = record.at;
        match &record.what {
            What::Granted { fence } => self.answer = Answer::Granted { at, fence: *fence },
            What::Held => self.answer = Answer::Held { at },
            What::Failed { unknown, .. } => self.answer = Answer::Failed { at, unknown: *unknown },
            What::Believed => self.believed = self.believed.max(Some(at)),
            What::ReleaseAsked | What::Dropped => self.release = Some((at, Returned::Unknown)),
            What::Released => self.returned(at, Returned::Released { at }),
            What::Lost => self.returned(at, Returned::Lost { at }),
            _ => {}
        }
    }

    fn returned(&mut self, at: u64, what: Returned) {
        let asked = self.release.map_or(at, |(asked, _)| asked);
        self.release = Some((asked, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(worker: u64, claim: u64, at: u64, what: What) -> Record {
        Record { worker, claim, key: "k".into(), at, what }
    }

    #[test]
    fn lines_become_claims_in_whatever_order_they_come() {
        let history = History::new(vec![
            record(1, 1, 90, What::Released),
            record(1, 1, 20, What::Granted { fence: 4 }),
            record(2, 1, 15, What::Asked { ttl: 100, wait: Some(0) }),
            record(1, 1, 80, What::ReleaseAsked),
            record(1, 1, 10, What::Asked { ttl: 100, wait: None }),
            record(1, 1, 30, What::Believed),
            record(1, 1, 70, What::Believed),
            record(2, 1, 25, What::Held),
        ]);
        let [first, second] = &history.claims[..] else { panic!("{history:?}") };
        assert_eq!(first.grant(), Some((20, 4)));
        assert_eq!(first.believed, Some(70));
        assert_eq!(first.release, Some((80, Returned::Released { at: 90 })));
        assert_eq!(second.answer, Answer::Held { at: 25 });
        assert_eq!(history.end(), 90);
    }

    #[test]
    fn pauses_are_added_up() {
        let paused = |at, what| Record { worker: 1, claim: 0, key: String::new(), at, what };
        let history = History::new(vec![
            paused(10, What::Paused),
            paused(30, What::Resumed),
            paused(50, What::Paused),
        ]);
        let faults = &history.faults[&1];
        assert_eq!(faults.paused(0, 100), 20 + 50);
        assert_eq!(faults.paused(20, 25), 5);
        assert_eq!(faults.paused(31, 49), 0);
        assert_eq!(faults.awake_for(5, 10), 5 + 10 + 20);
        assert_eq!(faults.awake_for(31, 10), 41);
        assert_eq!((faults.awake_by(9), faults.awake_by(10), faults.awake_by(30)), (9, 30, 30));
    }
}
