//! How long a lease may stay on its key when nobody gives it back, and how slow everything was.

use std::collections::BTreeMap;

use crate::history::{Answer, Claim, History};
use crate::verdict::{Losses, Options};

const SECOND: u64 = 1_000_000_000;

/// How long an answer may take and still excuse others.
const SLOWNESS_MAX: u64 = 5 * SECOND;

/// What can be said of leases that nobody gave back.
#[derive(Debug)]
pub struct Stay<'a> {
    history: &'a History,
    options: &'a Options,
    pace: Pace,
}

impl<'a> Stay<'a> {
    /// Of the leases of this history.
    #[must_use]
    pub fn new(history: &'a History, options: &'a Options) -> Self {
        Self { history, options, pace: Pace::new(history, options) }
    }

    /// How much later than it must something may happen between `from` and `until`. A store that
    /// is slow is slow for all: the longest that an answer without a wait took about then is added,
    /// up to a bound past which the store itself is to blame; and so is twice the time by which
    /// the machine was late.
    #[must_use]
    pub fn slack(&self, from: u64, until: u64) -> u64 {
        self.options.slack_nanos().saturating_add(self.pace.slowest(from, until, None))
    }

    /// The same for the answer to a claim, which is no excuse for itself.
    #[must_use]
    pub fn slack_for(&self, claim: &Claim, answered: u64) -> u64 {
        let slowest = self.pace.slowest(claim.asked, answered, Some(Whose::of(claim)));
        self.options.slack_nanos().saturating_add(slowest)
    }

    /// When a lease has ended for sure that nobody prolonged later than `landed`, as far as
    /// `witness` can tell. A store that times leases goes on to do so whoever is away; it is only
    /// found out later. Where those who ask time a lease, they have to be there for as long.
    #[must_use]
    pub fn lapse(&self, landed: u64, length: u64, witness: u64) -> u64 {
        let end = if self.options.is_observed {
            self.history.awake_for(witness, landed, length)
        } else {
            self.history.awake_by(witness, landed.saturating_add(length))
        };
        self.rearmed(end, length)
    }

    /// When a lease is over for one that waits, if nobody prolonged it later than `landed`.
    #[must_use]
    pub fn over(&self, landed: u64, ttl: u64, waiter: &Claim) -> u64 {
        if self.options.is_observed {
            return self.timed(landed, ttl, waiter);
        }
        self.rearmed(landed.saturating_add(ttl), ttl)
    }

    /// When one that waits has found out at the latest that a key is free since `free`. Whoever
    /// has timed the lease itself knows.
    #[must_use]
    pub fn noticed(&self, free: u64, waiter: &Claim) -> u64 {
        if self.options.is_observed {
            return free;
        }
        let from = free.max(waiter.asked);
        self.history.awake_for(waiter.worker, from, self.slack(from, from))
    }

    /// When one that waits has timed a lease of which nothing comes after `last`: it begins when it
    /// begins to wait.
    fn timed(&self, last: u64, ttl: u64, waiter: &Claim) -> u64 {
        let from = last.max(waiter.asked);
        let length = ttl.saturating_add(self.slack(from, from.saturating_add(ttl)));
        self.rearmed(self.history.awake_for(waiter.worker, from, length), length)
    }

    /// When nothing is under way any more that a worker sent no later than `last`: it may land for
    /// as long as its way to the store is not well.
    #[must_use]
    pub fn landed(&self, worker: u64, last: u64) -> u64 {
        self.history.awake_by(worker, last)
    }

    /// The end of a lease that would end at `end`, on a store whose leases begin anew when it was
    /// away: those that there were then.
    #[must_use]
    pub fn rearmed(&self, end: u64, length: u64) -> u64 {
        let mut end = end;
        for (begin, over) in &self.options.rearms {
            if *begin <= end {
                end = end.max(over.saturating_add(length));
            }
        }
        end
    }

    /// Until when a claim may hold its key although nobody was told of a grant; `None` where it
    /// was answered.
    #[must_use]
    pub fn doubt(&self, claim: &Claim) -> Option<u64> {
        Some(self.lasts(claim, self.unheard(claim)?))
    }

    /// When a claim was given up on that was never answered; `None` where it was.
    fn unheard(&self, claim: &Claim) -> Option<u64> {
        match claim.answer {
            Answer::None => Some(self.history.gone(claim.worker)),
            Answer::Failed { at, unknown: true } => Some(at),
            Answer::Granted { .. } | Answer::Held { .. } | Answer::Failed { .. } => None,
        }
    }

    /// When a claim can have been granted its key at the latest although nobody was told; `None`
    /// where that cannot have been.
    #[must_use]
    pub fn landing(&self, claim: &Claim) -> Option<u64> {
        let last = match claim.answer {
            // One of its tries may have been granted, and it did not live to undo that.
            Answer::Held { at } if self.loses(claim) => {
                let undone = self.history.awake_for(claim.worker, at, 2 * self.slack(at, at));
                let killed = self.history.killed(claim.worker)?;
                (killed <= undone).then_some(at)?
            }
            _ => self.unheard(claim)?,
        };
        Some(self.landed(claim.worker, last))
    }

    /// Until when a claim that was granted its key no later than `landing`, and never told, may
    /// keep it from one that waits. Where those who ask time a lease, this one does.
    #[must_use]
    pub fn outlasts(&self, claim: &Claim, landing: u64, waiter: &Claim) -> u64 {
        if self.options.is_observed {
            return self.timed(landing, claim.ttl, waiter);
        }
        self.lasts(claim, landing)
    }

    /// Whether a claim waited and the answer to one of its tries may have been lost.
    #[must_use]
    pub fn loses(&self, claim: &Claim) -> bool {
        claim.wait != Some(0) && self.options.losses == Losses::AtAnyTime
    }

    /// Whether a failure took so long that it may be a grant of which too little was left, and
    /// which was given back.
    #[must_use]
    pub fn came_late(&self, claim: &Claim, failed: u64) -> bool {
        let took = failed.saturating_sub(claim.asked);
        took >= claim.ttl / 5 * 4 && self.options.losses == Losses::AtAnyTime
    }

    /// Until when a claim may hold its key that waited in vain: one of its tries may have been
    /// granted when nobody listened any more, and is undone, unless the worker was killed before.
    #[must_use]
    pub fn afterthought(&self, claim: &Claim, answered: u64) -> u64 {
        let length = self.slack(answered, answered).saturating_mul(2);
        let undone = self.history.awake_for(claim.worker, answered, length);
        match self.history.killed(claim.worker) {
            Some(killed) if killed <= undone => self.lasts(claim, answered),
            _ => undone,
        }
    }

    /// The end of a lease that was granted no later than `last`, as far as its worker can tell.
    fn lasts(&self, claim: &Claim, last: u64) -> u64 {
        let Claim { worker, ttl, .. } = *claim;
        let slack = self.slack(last, last.saturating_add(ttl));
        let landed = self.landed(worker, last);
        let end = self.lapse(landed, ttl.saturating_add(slack), worker);
        // Where those who ask time a lease, one that nobody gave back stays until someone has. Its
        // worker looks for it during a ttl, and has to be well for a while of that.
        let found = self.history.awake_for(worker, last, slack);
        let is_given_back = self.history.killed(worker).is_none_or(|killed| killed > end)
            && found <= last.saturating_add(ttl);
        if self.options.is_observed && !is_given_back { u64::MAX } else { end }
    }
}

/// Which claim: no worker asks twice in the same nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whose {
    worker: u64,
    asked: u64,
}

impl Whose {
    const fn of(claim: &Claim) -> Self {
        Self { worker: claim.worker, asked: claim.asked }
    }
}

/// How slow a second was.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    slowest: u64,
    whose: Option<Whose>,
    /// The slowest of all others.
    next: u64,
}

impl Second {
    fn add(&mut self, by: u64, whose: Option<Whose>) {
        if by > self.slowest {
            *self = Self { slowest: by, whose, next: self.slowest };
        } else {
            self.next = self.next.max(by);
        }
    }

    fn but_for(&self, whose: Option<Whose>) -> u64 {
        if whose.is_some() && self.whose == whose { self.next } else { self.slowest }
    }
}

/// How slow everything was, second by second.
#[derive(Debug, Default)]
struct Pace(BTreeMap<u64, Second>);

impl Pace {
    fn new(history: &History, options: &Options) -> Self {
        let mut pace = Self::default();
        for claim in history.claims.iter().filter(|claim| claim.wait == Some(0)) {
            let (asked, Some(at)) = (claim.asked, claim.answer.at()) else { continue };
            let took = at.saturating_sub(asked);
            let took = took.saturating_sub(history.paused(claim.worker, asked, at));
            pace.add(asked, at, took.min(SLOWNESS_MAX), Some(Whose::of(claim)));
        }
        for (at, late) in &options.lags {
            pace.add(at.saturating_sub(*late), *at, late.saturating_mul(2), None);
        }
        pace
    }

    fn add(&mut self, from: u64, until: u64, by: u64, whose: Option<Whose>) {
        // Whatever lasted longer was not slow but stopped.
        let until = until.min(from.saturating_add(12 * SLOWNESS_MAX));
        for second in from / SECOND..=until / SECOND {
            self.0.entry(second).or_default().add(by, whose);
        }
    }

    /// The slowest of what went on between a second before `from` and a second after `until`, but
    /// for one claim.
    fn slowest(&self, from: u64, until: u64, but_for: Option<Whose>) -> u64 {
        let (first, last) = ((from / SECOND).saturating_sub(1), (until / SECOND).saturating_add(1));
        let seconds = self.0.range(first..=last.max(first));
        seconds.map(|(_, second)| second.but_for(but_for)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::What;
    use crate::sample::{Sample, TTL, options};

    #[test]
    fn slowness_excuses_what_is_near_and_nothing_else() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 100 * SECOND, 102 * SECOND, 1);
        let (history, options) = (sample.history(), options());
        let stay = Stay::new(&history, &options);
        assert_eq!(stay.slack(104 * SECOND, 105 * SECOND), TTL / 2);
        assert_eq!(stay.slack(101 * SECOND, 105 * SECOND), TTL / 2 + 2 * SECOND);
        assert_eq!(stay.slack(103 * SECOND, 105 * SECOND), TTL / 2 + 2 * SECOND);
        assert_eq!(stay.slack(10 * SECOND, 98 * SECOND), TTL / 2);
    }

    #[test]
    fn nobody_is_slow_because_of_itself() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 100 * SECOND, 103 * SECOND, 1);
        sample.granted(2, "j", 101 * SECOND, 103 * SECOND, 1);
        let (history, options) = (sample.history(), options());
        let stay = Stay::new(&history, &options);
        let slack = |worker| {
            let claim = history.claims.iter().find(|claim| claim.worker == worker).unwrap();
            stay.slack_for(claim, 103 * SECOND)
        };
        assert_eq!((slack(1), slack(2)), (TTL / 2 + 2 * SECOND, TTL / 2 + 3 * SECOND));
    }

    #[test]
    fn a_late_machine_excuses_what_is_near() {
        let options = Options { lags: vec![(50 * SECOND, SECOND)], ..options() };
        let history = History::default();
        let stay = Stay::new(&history, &options);
        assert_eq!(stay.slack(50 * SECOND, 51 * SECOND), TTL / 2 + 2 * SECOND);
        assert_eq!(stay.slack(70 * SECOND, 71 * SECOND), TTL / 2);
    }

    #[test]
    fn what_was_under_way_lands_and_what_was_there_begins_anew() {
        let mut sample = Sample::default();
        sample.killed(1, 100);
        sample.note(1, 0, "", 50, What::Paused);
        sample.note(1, 0, "", 400, What::Resumed);
        let rearms = vec![(900, 1_000), (90_000, 91_000)];
        let history = sample.history();
        let plain = options();
        let stay = Stay::new(&history, &plain);
        assert_eq!((stay.landed(1, 100), stay.landed(2, 100)), (400, 100));
        assert_eq!(stay.lapse(400, TTL, 2), 400 + TTL);
        assert_eq!(stay.lapse(100, TTL, 1), 100 + TTL);
        assert_eq!(stay.lapse(100, 200, 1), 400);
        let plain = Options { rearms, ..plain };
        let stay = Stay::new(&history, &plain);
        assert_eq!(stay.lapse(400, TTL, 2), 1_000 + TTL);
        assert_eq!(stay.lapse(5_000, TTL, 2), 5_000 + TTL);
    }

    /// Worker 1 is killed, and worker 2 waits, of which it is stopped for some time.
    #[test]
    fn only_who_times_a_lease_needs_to_be_awake_for_it() {
        let freed = |is_observed, asked, (from, until)| {
            let mut sample = Sample::default();
            sample.killed(1, 100).asked(2, "k", asked, 9 * TTL);
            sample.note(2, 0, "", from, What::Paused);
            sample.note(2, 0, "", until, What::Resumed);
            let (history, options) = (sample.history(), Options { is_observed, ..options() });
            let waiter = history.claims.iter().find(|claim| claim.worker == 2).unwrap();
            let stay = Stay::new(&history, &options);
            stay.noticed(stay.over(100, TTL, waiter), waiter)
        };
        let length = TTL + TTL / 2;
        assert_eq!(freed(false, 50, (200, 500)), 100 + length);
        assert_eq!(freed(false, 800, (200, 500)), 100 + length);
        assert_eq!(freed(false, 50, (200, 9_000)), 9_000 + TTL / 2);
        // Whoever asks only then, or was stopped until just before, has as much time.
        assert_eq!(freed(false, 90 + length, (200, 500)), 90 + length + TTL / 2);
        assert_eq!(freed(false, 50, (200, 90 + length)), 90 + length + TTL / 2);
        assert_eq!(freed(true, 50, (200, 500)), 100 + length + 300);
        assert_eq!(freed(true, 800, (200, 500)), 800 + length);
    }

    /// Worker 1 was not answered and may give back what it got, unless it is killed or away.
    #[test]
    fn where_leases_are_timed_only_what_nobody_gives_back_stays() {
        let doubt = |killed: Option<u64>, (from, until)| {
            let mut sample = Sample::default();
            sample.asked(1, "k", 10, 1);
            sample.next(1, 100, What::Failed { kind: "Unknown".into(), unknown: true });
            sample.note(1, 0, "", from, What::Paused);
            sample.note(1, 0, "", until, What::Resumed);
            if let Some(at) = killed {
                sample.killed(1, at);
            }
            let history = sample.history();
            let options = Options { is_observed: true, ..options() };
            Stay::new(&history, &options).doubt(&history.claims[0])
        };
        let length = TTL + TTL / 2;
        assert_eq!(doubt(None, (1, 2)), Some(100 + length));
        assert_eq!(doubt(None, (50, 400)), Some(400 + length));
        assert_eq!(doubt(None, (50, 9_000)), Some(u64::MAX));
        assert_eq!(doubt(Some(200), (1, 2)), Some(u64::MAX));
    }
}
