//! Every answer fits one order of events on a fenced mutex.
//!
//! Just-in-time linearization, after Wing and Gong, and Lowe: the history of a key is read in the
//! order of time, with all the states that its lock could be in. Each answer is given its place no
//! later than it came; where there is none in any state, the history has no order.
//!
//! What makes it fast is that fences order the grants, that an answer which changes nothing can
//! always take the first place that fits, and that a state forgets each answer once it is settled:
//! a key that was idle for a moment begins anew.

#[cfg(test)]
mod brute;
mod ghost;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use ghost::{Ghost, thrifty};

use crate::history::{Answer, Claim, History, Look, Returned};
use crate::stay::Stay;
use crate::verdict::{Checker, Options, Verdict, Violation};

/// Finds keys whose answers fit no order in which a fenced mutex could have given them.
///
/// # The model
/// - A key is free or held. It is granted when it is free, with a fence greater than all before.
/// - It is found held only while it is held, given back only by whoever holds it, and found lost
///   only by one that holds it no more.
/// - Where those who ask time a lease, one that its holder lost may stay until somebody has.
/// - Whoever looks or renews is told who holds it, and a force ends the lease of the one that it
///   names. One that nobody was told of has a fence of its own, greater than all before.
/// - A lease may end by itself a ttl after it was asked for, and after the last moment at which its
///   guard believed; later too, because a ttl is a lower bound.
/// - A question without an answer may have had its effect, or not, and for no longer than what it
///   may have been granted can last ([`Stay::doubt`]).
pub fn check(history: &History, options: &Options, verdict: &mut Verdict) {
    let stay = Stay::new(history, options);
    for (key, claims) in history.by_key() {
        match Search::new(history, key, &claims, options, &stay).run() {
            Outcome::Fits => {}
            Outcome::Undecided => verdict.undecided.push(key.to_owned()),
            Outcome::Broken { text, at } => {
                let checker = Checker::Linear;
                verdict.violations.push(Violation { checker, key: key.to_owned(), text, at });
            }
        }
    }
}

enum Outcome {
    Fits,
    Undecided,
    Broken { text: String, at: u64 },
}

#[derive(Clone, Copy)]
enum Kind {
    Grant,
    Refusal,
    Release,
    Loss,
    /// Whoever holds the key was told to one that looked, or prolonged its lease.
    Look,
    /// It was taken from whoever held it.
    Force,
    /// One that nobody was told of was said to hold it, under this fence; by force or not: it may
    /// vanish anyway.
    Stranger(u64),
    /// Nobody was found to hold it.
    Vacancy,
}

/// Of an answer that is about no lease.
const NO_LEASE: usize = usize::MAX;

/// An answer, and when the question was put. `lease` is the claim's place among all of the key.
struct Op {
    kind: Kind,
    lease: usize,
    asked: u64,
    answered: u64,
}

/// Which lease stands on the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hold {
    Nobody,
    /// Someone who was never told.
    Ghost(usize),
    Lease(usize),
}

/// A state that the lock could be in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    hold: Hold,
    fence: u64,
    /// Which ghosts have had the key already, in order.
    ghosts: Vec<usize>,
    /// Which of the open questions have their place already, in order.
    placed: Vec<usize>,
}

struct Search<'a> {
    claims: &'a [&'a Claim],
    ops: Vec<Op>,
    /// From when on each lease may have ended without a word.
    ends: Vec<u64>,
    /// Those who may have held the key and were never told, by the end of that.
    ghosts: Vec<Ghost>,
    steps_left: usize,
    /// Where those who ask time a lease: from when on they may have, each by itself. It stays
    /// until one of them takes it.
    timed: Option<Vec<u64>>,
}

impl<'a> Search<'a> {
    fn new(
        history: &History,
        key: &str,
        claims: &'a [&'a Claim],
        options: &Options,
        stay: &Stay<'_>,
    ) -> Self {
        let mut search = Self {
            claims,
            ops: Vec::new(),
            ends: Vec::with_capacity(claims.len()),
            ghosts: Vec::new(),
            steps_left: options.steps_max,
            timed: options
                .is_observed
                .then(|| claims.iter().map(|claim| expires(claim, options)).collect()),
        };
        for (lease, claim) in claims.iter().enumerate() {
            let forced =
                claim.grant().and_then(|(_, fence)| history.forced.get(&(key.to_owned(), fence)));
            search.ends.push(end(claim, options).min(forced.map_or(u64::MAX, |at| at.from)));
            search.take(lease, claim);
            search.ghosts.extend(Ghost::of(lease, claim, stay));
        }
        search.ghosts.sort_unstable_by_key(|ghost| (ghost.until, ghost.asked));
        search.look(history.looks.iter().filter(|look| look.key == key));
        search
    }

    /// Takes what was said of the key to those who did not ask for it.
    fn look<'l>(&mut self, looks: impl Iterator<Item = &'l Look>) {
        let fences = self.claims.iter().enumerate();
        let fences = fences.filter_map(|(lease, claim)| Some((claim.grant()?.1, lease)));
        let leases: HashMap<u64, usize> = fences.collect();
        for Look { asked, answered, fence, forces, .. } in looks {
            let (kind, lease) = match (fence, forces) {
                (None, _) => (Kind::Vacancy, NO_LEASE),
                (Some(fence), forces) => match leases.get(fence) {
                    Some(lease) if *forces => (Kind::Force, *lease),
                    Some(lease) => (Kind::Look, *lease),
                    None => (Kind::Stranger(*fence), NO_LEASE),
                },
            };
            self.ops.push(Op { kind, lease, asked: *asked, answered: *answered });
        }
    }

    fn take(&mut self, lease: usize, claim: &Claim) {
        let asked = claim.asked;
        match claim.answer {
            Answer::Granted { at, .. } => {
                self.ops.push(Op { kind: Kind::Grant, lease, asked, answered: at });
            }
            Answer::Held { at } => {
                self.ops.push(Op { kind: Kind::Refusal, lease, asked, answered: at });
            }
            Answer::None | Answer::Failed { .. } => {}
        }
        match claim.release {
            Some((asked, Returned::Released { at })) => {
                self.ops.push(Op { kind: Kind::Release, lease, asked, answered: at });
            }
            Some((asked, Returned::Lost { at })) => {
                self.ops.push(Op { kind: Kind::Loss, lease, asked, answered: at });
            }
            Some((_, Returned::Unknown)) | None => {}
        }
    }

    fn run(mut self) -> Outcome {
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(self.ops.len() * 2);
        for (op, Op { asked, answered, .. }) in self.ops.iter().enumerate() {
            events.push((*asked, false, op));
            events.push((*answered, true, op));
        }
        events.sort_unstable();
        let start = State { hold: Hold::Nobody, fence: 0, ghosts: Vec::new(), placed: Vec::new() };
        let (mut states, mut open) = (HashSet::from([start]), Vec::new());
        for (at, is_answer, op) in events {
            if !is_answer {
                open.push(op);
                continue;
            }
            let Some(next) = self.answer(&states, &open, op, at) else {
                return Outcome::Undecided;
            };
            if next.is_empty() {
                return Outcome::Broken { text: self.explain(&states, op), at };
            }
            open.retain(|other| *other != op);
            let earliest = open.iter().map(|op| self.ops[*op].asked).min().unwrap_or(at);
            states = thrifty(next, &self.ghosts, earliest);
        }
        Outcome::Fits
    }

    /// The states in which `op` has its place at the moment of its answer; `None` when it takes
    /// too long to say.
    fn answer(
        &mut self,
        states: &HashSet<State>,
        open: &[usize],
        op: usize,
        now: u64,
    ) -> Option<HashSet<State>> {
        let mut settled = HashSet::new();
        let mut seen: HashSet<State> = states.clone();
        let mut waiting: Vec<State> = states.iter().cloned().collect();
        while let Some(mut state) = waiting.pop() {
            self.steps_left = self.steps_left.checked_sub(1)?;
            if let Some(place) = state.placed.iter().position(|placed| *placed == op) {
                state.placed.remove(place);
                settled.insert(state);
                continue;
            }
            for next in self.steps(&state, open, now) {
                if seen.insert(next.clone()) {
                    waiting.push(next);
                }
            }
        }
        Some(settled)
    }

    /// The states after one more open question has got its place.
    fn steps(&self, state: &State, open: &[usize], now: u64) -> Vec<State> {
        let mut steps = Vec::new();
        for op in open.iter().filter(|op| !state.placed.contains(op)) {
            let Some((hold, fence)) = self.apply(state, &self.ops[*op], now) else {
                continue;
            };
            let mut placed = state.placed.clone();
            placed.insert(placed.partition_point(|other| other < op), *op);
            let mut ghosts = state.ghosts.clone();
            if let Hold::Ghost(ghost) = hold
                && let Err(place) = ghosts.binary_search(&ghost)
            {
                ghosts.insert(place, ghost);
            }
            let next = State { hold, fence, ghosts, placed };
            if (hold, fence) == (state.hold, state.fence) {
                // What changes nothing takes nothing away from the others: no other way is better.
                return vec![next];
            }
            steps.push(next);
        }
        steps
    }

    fn apply(&self, state: &State, op: &Op, now: u64) -> Option<(Hold, u64)> {
        let has_ended = |lease: usize| self.ends[lease] <= now;
        let (hold, fence) = (state.hold, state.fence);
        let mine = Hold::Lease(op.lease);
        match (op.kind, hold) {
            (Kind::Grant, Hold::Lease(other)) if !has_ended(other) => None,
            (Kind::Grant, _) => {
                let (_, granted) = self.claims[op.lease].grant()?;
                (granted > fence).then_some((mine, granted))
            }
            (Kind::Refusal, Hold::Lease(_)) => Some((hold, fence)),
            (Kind::Refusal, Hold::Nobody | Hold::Ghost(_)) => {
                Some((self.haunted(state, op, now)?, fence))
            }
            (Kind::Release, _) => (hold == mine).then_some((Hold::Nobody, fence)),
            (Kind::Loss, _) if hold != mine => Some((hold, fence)),
            (Kind::Loss, _) => {
                let left = if self.timed.is_some() { hold } else { Hold::Nobody };
                has_ended(op.lease).then_some((left, fence))
            }
            (Kind::Look, _) => (hold == mine).then_some((hold, fence)),
            (Kind::Force, _) => (hold == mine).then_some((Hold::Nobody, fence)),
            (Kind::Stranger(_), Hold::Lease(other)) if !has_ended(other) => None,
            (Kind::Stranger(own), _) if own < fence => None,
            (Kind::Stranger(own), _) => Some((self.haunted(state, op, now)?, own)),
            (Kind::Vacancy, _) => Some((self.vacated(hold, now)?, fence)),
        }
    }

    /// The ghost that has the key, where it is said to be held and no lease stands on it.
    fn haunted(&self, state: &State, op: &Op, now: u64) -> Option<Hold> {
        match state.hold {
            Hold::Ghost(ghost) if self.haunts(ghost, op) => Some(state.hold),
            _ => self.next_ghost(state, op, now).map(Hold::Ghost),
        }
    }

    /// What is left after somebody was told that the key is free. Whoever has timed a lease knows
    /// that for itself: to others it still stands.
    fn vacated(&self, hold: Hold, now: u64) -> Option<Hold> {
        match (hold, &self.timed) {
            (Hold::Lease(lease), Some(timed)) if timed[lease] <= now => Some(hold),
            (Hold::Ghost(_), Some(_)) => Some(hold),
            (Hold::Lease(lease), _) if self.ends[lease] > now => None,
            (Hold::Nobody | Hold::Ghost(_) | Hold::Lease(_), _) => Some(Hold::Nobody),
        }
    }

    /// Whether a ghost may have had the key when this was answered.
    fn haunts(&self, ghost: usize, op: &Op) -> bool {
        self.ghosts[ghost].until >= op.asked && !self.is_twin(ghost, op)
    }

    /// Whether a ghost is the doubt about this very answer: one is told that a key is held by
    /// another, and not because of what it may get itself.
    fn is_twin(&self, ghost: usize, op: &Op) -> bool {
        if op.lease == NO_LEASE {
            return false;
        }
        let (ghost, claim) = (self.ghosts[ghost].lease, self.claims[op.lease]);
        let twin = self.claims[ghost];
        ghost != op.lease && (twin.worker, twin.asked) == (claim.worker, claim.asked)
    }

    /// Of those ghosts that may have the key by now and had it not yet, the one that vanishes
    /// first: the others can still be of use.
    fn next_ghost(&self, state: &State, op: &Op, now: u64) -> Option<usize> {
        let first = self.ghosts.partition_point(|ghost| ghost.until < op.asked);
        (first..self.ghosts.len()).find(|ghost| {
            self.ghosts[*ghost].asked <= now
                && state.ghosts.binary_search(ghost).is_err()
                && !self.is_twin(*ghost, op)
        })
    }

    fn explain(&self, states: &HashSet<State>, op: usize) -> String {
        let Op { kind, lease, .. } = &self.ops[op];
        let describe = |lease: usize| {
            if lease == NO_LEASE {
                return "nobody".to_owned();
            }
            let fence = self.claims[lease].grant().map_or(0, |(_, fence)| fence);
            format!("worker {} (fence {fence})", self.claims[lease].worker)
        };
        let held = states.iter().find_map(|state| match state.hold {
            Hold::Lease(hold) if hold != *lease => Some(describe(hold)),
            Hold::Nobody | Hold::Ghost(_) | Hold::Lease(_) => None,
        });
        let who = describe(*lease);
        let held = held.map_or_else(|| "nobody held it".to_owned(), |who| format!("{who} held it"));
        match kind {
            Kind::Grant => {
                let fence = states.iter().map(|state| state.fence).min().unwrap_or(0);
                format!("it was granted to {who} while {held}, and the last fence was {fence}")
            }
            Kind::Refusal => {
                let worker = self.claims[*lease].worker;
                format!("worker {worker} was told that it is held, and {held}")
            }
            Kind::Release => format!("{who} gave it back, but {held}"),
            Kind::Loss => format!("{who} was told that it is lost before the lease could end"),
            Kind::Look => format!("one that looked was told that {who} holds it, and {held}"),
            Kind::Force => format!("it was taken by force from {who}, and {held}"),
            Kind::Stranger(fence) => {
                format!("fence {fence} was said to hold it, which nobody had, and {held}")
            }
            Kind::Vacancy => format!("nobody was found to hold it, and {held}"),
        }
    }
}

/// From when on a lease may have ended, other than by a release that was answered.
fn end(claim: &Claim, options: &Options) -> u64 {
    let expires = expires(claim, options);
    match claim.release {
        Some((_, Returned::Released { .. })) => u64::MAX,
        Some((asked, Returned::Unknown)) => expires.min(asked),
        Some((_, Returned::Lost { .. })) | None => expires,
    }
}

/// From when on a lease may have ended by itself.
fn expires(claim: &Claim, options: &Options) -> u64 {
    let ttl = claim.ttl - claim.ttl / 1000 * options.drift_permille.min(1000);
    claim.asked.saturating_add(ttl).max(claim.believed.unwrap_or(0))
}
