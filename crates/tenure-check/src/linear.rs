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

use std::collections::{HashMap, HashSet};

use crate::history::{Answer, Claim, History, Returned};
use crate::verdict::{Checker, Options, Verdict, Violation};

/// Finds keys whose answers fit no order in which a fenced mutex could have given them.
///
/// # The model
/// - A key is free or held. It is granted when it is free, with a fence greater than all before.
/// - It is found held only while it is held, given back only by its owner, and found lost only by
///   one that holds it no more.
/// - A lease may end by itself a ttl after it was asked for, and after the last moment at which its
///   guard believed; later too, because a ttl is a lower bound.
/// - A question without an answer may have had its effect, or not, at any later time.
pub fn check(history: &History, options: &Options, verdict: &mut Verdict) {
    for (key, claims) in history.by_key() {
        match Search::new(history, key, &claims, options).run() {
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
}

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
    Ghost,
    Lease(usize),
}

/// A state that the lock could be in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    hold: Hold,
    fence: u64,
    ghosts: usize,
    /// Which of the open questions have their place already, in order.
    placed: Vec<usize>,
}

struct Search<'a> {
    claims: &'a [&'a Claim],
    ops: Vec<Op>,
    /// From when on each lease may have ended without a word.
    ends: Vec<u64>,
    /// When questions without an answer were put.
    ghosts: Vec<u64>,
    steps_left: usize,
}

impl<'a> Search<'a> {
    fn new(history: &History, key: &str, claims: &'a [&'a Claim], options: &Options) -> Self {
        let mut search = Self {
            claims,
            ops: Vec::new(),
            ends: Vec::with_capacity(claims.len()),
            ghosts: Vec::new(),
            steps_left: options.steps_max,
        };
        for (lease, claim) in claims.iter().enumerate() {
            let forced = claim
                .grant()
                .and_then(|(_, fence)| history.forced.get(&(key.to_owned(), fence)).copied());
            search.ends.push(end(claim, options).min(forced.unwrap_or(u64::MAX)));
            search.take(lease, claim, options.is_lossy);
        }
        search.ghosts.sort_unstable();
        search
    }

    fn take(&mut self, lease: usize, claim: &Claim, is_lossy: bool) {
        let asked = claim.asked;
        match claim.answer {
            Answer::Granted { at, .. } => {
                self.ops.push(Op { kind: Kind::Grant, lease, asked, answered: at });
            }
            Answer::Held { at } => {
                self.ops.push(Op { kind: Kind::Refusal, lease, asked, answered: at });
                if is_lossy && claim.wait != Some(0) {
                    self.ghosts.push(asked);
                }
            }
            Answer::None | Answer::Failed { unknown: true, .. } => self.ghosts.push(asked),
            Answer::Failed { unknown: false, .. } => {}
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
        let start = State { hold: Hold::Nobody, fence: 0, ghosts: 0, placed: Vec::new() };
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
            states = thrifty(next);
            open.retain(|other| *other != op);
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
            let Some((hold, fence, ghosts)) = self.apply(state, &self.ops[*op], now) else {
                continue;
            };
            let mut placed = state.placed.clone();
            placed.insert(placed.partition_point(|other| other < op), *op);
            let next = State { hold, fence, ghosts, placed };
            if hold == state.hold && ghosts == state.ghosts {
                // What changes nothing takes nothing away from the others: no other way is better.
                return vec![next];
            }
            steps.push(next);
        }
        steps
    }

    fn apply(&self, state: &State, op: &Op, now: u64) -> Option<(Hold, u64, usize)> {
        let has_ended = |lease: usize| self.ends[lease] <= now;
        let (hold, fence, ghosts) = (state.hold, state.fence, state.ghosts);
        let mine = Hold::Lease(op.lease);
        match (op.kind, hold) {
            (Kind::Grant, Hold::Lease(other)) if !has_ended(other) => None,
            (Kind::Grant, _) => {
                let (_, granted) = self.claims[op.lease].grant()?;
                (granted > fence).then_some((mine, granted, ghosts))
            }
            (Kind::Refusal, Hold::Nobody) => {
                let possible = self.ghosts.partition_point(|asked| *asked <= now);
                (possible > ghosts).then_some((Hold::Ghost, fence, ghosts + 1))
            }
            (Kind::Refusal, Hold::Ghost | Hold::Lease(_)) => Some((hold, fence, ghosts)),
            (Kind::Release, _) => (hold == mine).then_some((Hold::Nobody, fence, ghosts)),
            (Kind::Loss, _) if hold != mine => Some((hold, fence, ghosts)),
            (Kind::Loss, _) => has_ended(op.lease).then_some((Hold::Nobody, fence, ghosts)),
        }
    }

    fn explain(&self, states: &HashSet<State>, op: usize) -> String {
        let Op { kind, lease, .. } = &self.ops[op];
        let describe = |lease: usize| {
            let fence = self.claims[lease].grant().map_or(0, |(_, fence)| fence);
            format!("worker {} (fence {fence})", self.claims[lease].worker)
        };
        let held = states.iter().find_map(|state| match state.hold {
            Hold::Lease(other) if other != *lease => Some(describe(other)),
            Hold::Nobody | Hold::Ghost | Hold::Lease(_) => None,
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
        }
    }
}

/// Of states that differ only in how many ghosts they have used, the most thrifty: whatever the
/// others lead to, it leads to as well. One that is free can still become a ghost's.
fn thrifty(states: HashSet<State>) -> HashSet<State> {
    let mut least = HashMap::<(Hold, u64, Vec<usize>), usize>::new();
    for State { hold, fence, ghosts, placed } in states {
        let used = least.entry((hold, fence, placed)).or_insert(ghosts);
        *used = ghosts.min(*used);
    }
    let is_free_for_less = |fence: u64, placed: &Vec<usize>, ghosts: usize| {
        let free = least.get(&(Hold::Nobody, fence, placed.clone()));
        free.is_some_and(|used| *used < ghosts)
    };
    least
        .iter()
        .filter(|((hold, fence, placed), ghosts)| {
            *hold != Hold::Ghost || !is_free_for_less(*fence, placed, **ghosts)
        })
        .map(|((hold, fence, placed), ghosts)| State {
            hold: *hold,
            fence: *fence,
            ghosts: *ghosts,
            placed: placed.clone(),
        })
        .collect()
}

/// From when on a lease may have ended, other than by a release that was answered.
fn end(claim: &Claim, options: &Options) -> u64 {
    let ttl = claim.ttl - claim.ttl / 1000 * options.drift_permille.min(1000);
    let expires = claim.asked.saturating_add(ttl).max(claim.believed.unwrap_or(0));
    match claim.release {
        Some((_, Returned::Released { .. })) => u64::MAX,
        Some((asked, Returned::Unknown)) => expires.min(asked),
        Some((_, Returned::Lost { .. })) | None => expires,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::What;
    use crate::sample::{Sample, TTL, found, options};
    use crate::verdict::Checker::Linear;

    #[track_caller]
    fn fits(sample: &Sample) {
        assert_eq!(found(sample, Linear), [""; 0]);
        assert_eq!(sample.verdict().undecided, [""; 0]);
    }

    #[track_caller]
    fn breaks(sample: &Sample, part: &str) {
        let texts = found(sample, Linear);
        assert!(texts.iter().any(|text| text.contains(part)), "{part:?} is not in {texts:?}");
    }

    #[test]
    fn a_lock_that_works_fits() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).held(2, "k", 15, 30).released(1, 40, 50);
        sample.granted(2, "k", 45, 48, 2).held(3, "k", 46, 60).released(2, 70, 80);
        fits(&sample);
    }

    #[test]
    fn two_that_were_granted_are_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).granted(2, "k", 30, 40, 2);
        breaks(&sample, "granted to worker 2 (fence 2) while worker 1 (fence 1) held it");
    }

    #[test]
    fn a_lease_may_end_by_itself_but_not_before_its_ttl() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).granted(2, "k", 30, 10 + TTL, 2);
        fits(&sample);
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).granted(2, "k", 30, TTL - 100, 2);
        breaks(&sample, "while worker 1");
    }

    #[test]
    fn a_belief_that_was_seen_late_shows_that_the_lease_was_prolonged() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).believed(1, 5 * TTL);
        sample.granted(2, "k", 30, 4 * TTL, 2);
        breaks(&sample, "while worker 1");
    }

    #[test]
    fn a_refusal_needs_someone_who_holds() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).released(1, 30, 40).held(2, "k", 50, 60);
        breaks(&sample, "worker 2 was told that it is held, and nobody held it");
        // Someone who was killed before the answer may have.
        sample.asked(3, "k", 45, 0).killed(3, 46);
        fits(&sample);
        // But not twice, with a grant in between.
        sample.granted(1, "k", 70, 80, 2).released(1, 90, 95).held(2, "k", 100, 110);
        breaks(&sample, "nobody held it");
    }

    #[test]
    fn a_fence_that_goes_back_has_no_place() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 2).released(1, 30, 40).granted(2, "k", 50, 60, 1);
        breaks(&sample, "the last fence was 2");
        // Side by side, the fences say which was first.
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 100, 2).released(1, 120, 130);
        sample.granted(2, "k", 20, 30, 1).released(2, 40, 50);
        fits(&sample);
    }

    #[test]
    fn a_release_of_what_another_holds_is_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1);
        sample.granted(2, "k", 30, 2 * TTL, 2).released(1, 2 * TTL + 10, 2 * TTL + 20);
        breaks(&sample, "granted to worker 2");
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).released(1, 30, 40);
        sample.next(1, 60, What::Released);
        fits(&sample);
    }

    #[test]
    fn a_loss_before_the_lease_could_end_is_found() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).lost(1, 30, 40);
        breaks(&sample, "before the lease could end");
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).lost(1, 30, 2 * TTL);
        fits(&sample);
    }

    #[test]
    fn what_was_let_go_or_forced_may_end_at_any_later_time() {
        let mut sample = Sample::default();
        sample.granted(1, "k", 10, 20, 1).next(1, 30, What::Dropped);
        sample.granted(2, "k", 30, 60, 2);
        sample.note(9, 0, "k", 70, What::Forced { fence: 2 });
        sample.granted(3, "k", 65, 80, 3).lost(2, 90, 95);
        fits(&sample);
    }

    #[test]
    fn too_much_work_is_undecided_and_not_well() {
        let mut sample = Sample::default();
        for n in 0..20 {
            sample.granted(1, "k", 100 * n + 1, 100 * n + 10, n + 1);
            sample.released(1, 100 * n + 20, 100 * n + 30);
        }
        let mut verdict = Verdict::default();
        let options = Options { steps_max: 5, ..options() };
        check(&sample.history(), &options, &mut verdict);
        assert_eq!(verdict.undecided, ["k"]);
    }
}
