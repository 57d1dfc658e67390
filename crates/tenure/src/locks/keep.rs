//! The state of one kept lease: when to renew, when to stop believing. Pure, like the rule.

use std::fmt;
use std::time::Duration;

use crate::clock::Moment;
use crate::locks::belief::belief_until;
use crate::store::Timing;

/// Why a guard stopped believing in its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The store says that the lease is not this owner's any more: it was released by force, or
    /// ended and went to another.
    Refused,
    /// No renewal came through in time, or keep-alive was off: the lease may have ended.
    Expired,
    /// The longest hold that was asked for is over.
    MaxHold,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "it is not this owner's any more",
            Self::Expired => "it was not renewed in time",
            Self::MaxHold => "the longest hold that was asked for is over",
        })
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this moment.
    Wait(Moment),
    /// Renew.
    Renew,
    /// Stop believing.
    Lost(LostReason),
}

/// How a lease is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// What each renewal asks for.
    pub(crate) ttl: Duration,
    /// How long after a grant or renewal the next one is due; `None` without keep-alive.
    pub(crate) interval: Option<Duration>,
    /// When to stop, however well renewal goes.
    pub(crate) ends_at: Option<Moment>,
    /// Whose clock ends the lease.
    pub(crate) timing: Timing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    terms: Terms,
    belief_until: Moment,
    renew_at: Option<Moment>,
}

impl Keep {
    /// A lease that was granted with `remaining`, asked for at `sent`.
    pub(crate) fn granted(terms: Terms, sent: Moment, remaining: Duration) -> Self {
        let mut keep = Self { terms, belief_until: sent, renew_at: None };
        keep.confirmed(sent, remaining);
        keep
    }

    pub(crate) fn belief_until(&self) -> Moment {
        self.belief_until
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    pub(crate) fn step(&self, now: Moment) -> Step {
        if now >= self.belief_until {
            let over = self.terms.ends_at.is_some_and(|end| now >= end);
            return Step::Lost(if over { LostReason::MaxHold } else { LostReason::Expired });
        }
        match self.renew_at {
            Some(at) if now >= at => Step::Renew,
            Some(at) => Step::Wait(at.min(self.belief_until)),
            None => Step::Wait(self.belief_until),
        }
    }

    /// A renewal is on its way: none other is due until it ends.
    pub(crate) fn renewing(&mut self) {
        self.renew_at = None;
    }

    /// The store confirmed the lease with `remaining`, asked for at `sent`.
    pub(crate) fn confirmed(&mut self, sent: Moment, remaining: Duration) {
        let until = belief_until(sent, remaining, self.terms.timing).max(self.belief_until);
        self.belief_until = self.terms.ends_at.map_or(until, |end| until.min(end));
        let goes_on = self.terms.ends_at.is_none_or(|end| self.belief_until < end);
        self.renew_at = self.terms.interval.filter(|_| goes_on).map(|interval| sent + interval);
    }

    /// A renewal brought no answer: try again soon, within what is left.
    pub(crate) fn unanswered(&mut self, now: Moment) {
        let left = self.belief_until.since(now);
        let pause = self.terms.interval.map_or(left, |interval| (interval / 4).min(left / 4));
        self.renew_at = Some(now + pause.max(Duration::from_millis(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn keep(ends_at: Option<Moment>) -> Keep {
        let terms =
            Terms { ttl: ms(3000), interval: Some(ms(1000)), ends_at, timing: Timing::Store };
        Keep::granted(terms, at(0), ms(3000))
    }

    #[test]
    fn renews_at_a_third_and_believes_until_the_margin() {
        let mut keep = keep(None);
        assert_eq!(keep.step(at(0)), Step::Wait(at(1000)));
        assert_eq!(keep.step(at(1000)), Step::Renew);
        keep.renewing();
        assert_eq!(keep.step(at(1000)), Step::Wait(at(2968)));
        assert_eq!(keep.step(at(2968)), Step::Lost(LostReason::Expired));
        keep.confirmed(at(1000), ms(3000));
        assert_eq!(keep.step(at(1500)), Step::Wait(at(2000)));
        assert_eq!(keep.belief_until(), at(3968));
    }

    #[test]
    fn an_unanswered_renewal_is_tried_again_within_what_is_left() {
        let mut keep = keep(None);
        keep.renewing();
        keep.unanswered(at(1100));
        assert_eq!(keep.step(at(1100)), Step::Wait(at(1350)));
        keep.unanswered(at(2960));
        assert_eq!(keep.step(at(2962)), Step::Renew);
        assert_eq!(keep.step(at(2968)), Step::Lost(LostReason::Expired));
    }

    #[test]
    fn the_longest_hold_ends_belief_and_renewal() {
        let mut keep = keep(Some(at(4000)));
        keep.confirmed(at(2000), ms(3000));
        assert_eq!(keep.step(at(3500)), Step::Wait(at(4000)));
        assert_eq!(keep.step(at(4000)), Step::Lost(LostReason::MaxHold));
    }
}
