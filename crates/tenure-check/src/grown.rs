//! Histories grown at random from a lock that works, and ways to spoil them.

// One type for all that spoil: some take a record away, and need the vector.
#![allow(clippy::ptr_arg)]

use crate::record::{Record, What};
use crate::sample::{Sample, TTL};
use crate::verdict::Checker;

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % sides
    }
}

struct Worker {
    number: u64,
    /// Until when it is busy: its next question comes later.
    busy: u64,
    holds: bool,
}

/// A lock that works, and those who use it. What takes effect at `now` was asked for a little
/// earlier and is answered a little later.
pub(crate) struct Garden {
    dice: Dice,
    pub(crate) sample: Sample,
    workers: Vec<Worker>,
    /// Who holds the key, and until when it does at the least, if it was killed.
    holder: Option<(u64, Option<u64>)>,
    fence: u64,
    now: u64,
}

impl Garden {
    pub(crate) fn new(seed: u64, workers: u64) -> Self {
        let worker = |number| Worker { number, busy: 0, holds: false };
        Self {
            dice: Dice::new(seed),
            sample: Sample::default(),
            workers: (1..=workers).map(worker).collect(),
            holder: None,
            fence: 0,
            now: 1_000,
        }
    }

    /// Lets this many things happen.
    pub(crate) fn grow(mut self, steps: usize) -> Sample {
        for _ in 0..steps {
            self.now += 1 + self.dice.roll(40);
            let place = self.dice.roll(self.workers.len() as u64) as usize;
            if self.workers[place].busy < self.now {
                self.act(place);
            }
        }
        // Nobody is left in the middle of anything.
        for place in 0..self.workers.len() {
            self.now = self.now.max(self.workers[place].busy) + 1;
            if self.workers[place].holds {
                self.release(place);
            }
        }
        self.sample
    }

    /// When the question was put and when the answer is there, for what takes effect now.
    fn around(&mut self, place: usize) -> (u64, u64) {
        let earliest = self.workers[place].busy + 1;
        let asked = self.now.saturating_sub(self.dice.roll(60)).max(earliest).min(self.now);
        let answered = self.now + self.dice.roll(60);
        self.workers[place].busy = answered;
        (asked, answered)
    }

    fn act(&mut self, place: usize) {
        match (self.workers[place].holds, self.dice.roll(20)) {
            (true, 0) => self.kill(place),
            (true, _) => self.release(place),
            (false, 0) => self.vanish(place),
            (false, _) => self.claim(place),
        }
    }

    fn claim(&mut self, place: usize) {
        let worker = self.workers[place].number;
        if let Some((_, Some(ends))) = self.holder
            && ends < self.now
        {
            self.holder = None;
        }
        let (asked, answered) = self.around(place);
        if self.holder.is_some() {
            self.sample.held(worker, "k", asked, answered);
            return;
        }
        self.fence += 1 + self.dice.roll(3);
        self.holder = Some((worker, None));
        self.workers[place].holds = true;
        self.sample.granted(worker, "k", asked, answered, self.fence);
        self.sample.believed(worker, answered);
    }

    fn release(&mut self, place: usize) {
        let granted = self.workers[place].busy;
        let worker = self.workers[place].number;
        let (asked, answered) = self.around(place);
        let believed = granted + self.dice.roll(asked - granted);
        self.sample.believed(worker, believed).released(worker, asked, answered);
        self.holder = None;
        self.workers[place].holds = false;
    }

    /// The holder is killed: its lease ends by itself, a ttl later or after that.
    fn kill(&mut self, place: usize) {
        let late = self.dice.roll(TTL / 10);
        let worker = self.workers[place].number;
        self.sample.killed(worker, self.now);
        self.holder = Some((worker, Some(self.now + TTL + late)));
        self.replace(place);
    }

    /// One that asks is killed before the answer; it may have been granted the key.
    fn vanish(&mut self, place: usize) {
        let worker = self.workers[place].number;
        self.sample.asked(worker, "k", self.now, 0).killed(worker, self.now + 1);
        if self.holder.is_none() && self.dice.roll(2) == 0 {
            self.fence += 1;
            self.holder = Some((worker, Some(self.now + TTL)));
        }
        self.replace(place);
    }

    fn replace(&mut self, place: usize) {
        let number = self.workers.iter().map(|worker| worker.number).max().unwrap_or(0) + 1;
        let highest = self.sample.records.iter().map(|record| record.worker).max().unwrap_or(0);
        let number = number.max(highest + 1);
        self.workers[place] = Worker { number, busy: self.now, holds: false };
    }
}

/// A way to spoil a history: which checkers must see it, if it was possible at all.
pub(crate) type Spoiler = fn(&mut Vec<Record>, &mut Dice) -> bool;

/// All ways.
pub(crate) const SPOILERS: &[(&str, Spoiler, &[Checker])] = &[
    ("swapped fences", swap_fences, &[Checker::Fences, Checker::Linear]),
    ("a fence twice", repeat_fence, &[Checker::Fences, Checker::Linear]),
    ("a longer belief", stretch_belief, &[Checker::Beliefs]),
    ("a refusal that was a grant", grant_refusal, &[Checker::Linear]),
    ("a lost answer", drop_answer, &[Checker::Waiters]),
];

fn grants(records: &[Record]) -> Vec<usize> {
    let is_grant = |place: &usize| matches!(records[*place].what, What::Granted { .. });
    (0..records.len()).filter(is_grant).collect()
}

fn fence_of(record: &Record) -> u64 {
    match record.what {
        What::Granted { fence } => fence,
        _ => 0,
    }
}

/// Two grants that are far apart: the later one was asked for after the earlier was answered.
fn two_grants(records: &[Record], dice: &mut Dice) -> Option<(usize, usize)> {
    let grants = grants(records);
    let apart = 12;
    let first = dice.roll((grants.len().checked_sub(apart + 1)?) as u64 + 1) as usize;
    Some((grants[first], *grants.get(first + apart)?))
}

fn swap_fences(records: &mut Vec<Record>, dice: &mut Dice) -> bool {
    let Some((a, b)) = two_grants(records, dice) else { return false };
    let (first, second) = (fence_of(&records[a]), fence_of(&records[b]));
    records[a].what = What::Granted { fence: second };
    records[b].what = What::Granted { fence: first };
    true
}

fn repeat_fence(records: &mut Vec<Record>, dice: &mut Dice) -> bool {
    let Some((a, b)) = two_grants(records, dice) else { return false };
    records[b].what = What::Granted { fence: fence_of(&records[a]) };
    true
}

fn stretch_belief(records: &mut Vec<Record>, dice: &mut Dice) -> bool {
    let Some((a, b)) = two_grants(records, dice) else { return false };
    let (worker, claim) = (records[a].worker, records[a].claim);
    let until = records[b].at + 1;
    let next = Record { worker: worker + 1000, claim, ..records[b].clone() };
    let believed = Record { worker, claim, at: until, what: What::Believed, ..next };
    records.push(believed);
    // Whoever was granted it then believed in it for a moment.
    let (worker, claim) = (records[b].worker, records[b].claim);
    let at = until + 5;
    let believed = Record { worker, claim, key: records[b].key.clone(), at, what: What::Believed };
    records.push(believed);
    true
}

/// A claim that was refused while another held the key for sure is answered with a grant.
fn grant_refusal(records: &mut Vec<Record>, dice: &mut Dice) -> bool {
    let fence = records.iter().map(fence_of).max().unwrap_or(0) + 1;
    let sure = |place: &usize| {
        let refused = &records[*place];
        if refused.what != What::Held {
            return false;
        }
        let asked = records.iter().find(|other| {
            (other.worker, other.claim) == (refused.worker, refused.claim)
                && matches!(other.what, What::Asked { .. })
        });
        // Nobody else was granted it later on, so the fence can be told from no other.
        let is_last = !records
            .iter()
            .any(|other| matches!(other.what, What::Granted { .. }) && other.at > refused.at);
        let asked = asked.map_or(u64::MAX, |asked| asked.at);
        is_last && is_held_throughout(records, asked, refused.at)
    };
    let places: Vec<usize> = (0..records.len()).filter(sure).collect();
    if places.is_empty() {
        return false;
    }
    let place = places[dice.roll(places.len() as u64) as usize];
    records[place].what = What::Granted { fence };
    true
}

/// Whether one worker's grant was answered before and its release asked for after that time.
fn is_held_throughout(records: &[Record], from: u64, until: u64) -> bool {
    records.iter().any(|grant| {
        matches!(grant.what, What::Granted { .. })
            && grant.at < from
            && records.iter().any(|release| {
                (release.worker, release.claim) == (grant.worker, grant.claim)
                    && release.what == What::ReleaseAsked
                    && release.at > until
            })
    })
}

fn drop_answer(records: &mut Vec<Record>, dice: &mut Dice) -> bool {
    let killed: Vec<u64> =
        records.iter().filter(|r| r.what == What::Killed).map(|r| r.worker).collect();
    let is_answer = |place: &usize| {
        records[*place].what == What::Held && !killed.contains(&records[*place].worker)
    };
    let places: Vec<usize> = (0..records.len()).filter(is_answer).collect();
    if places.is_empty() {
        return false;
    }
    records.remove(places[dice.roll(places.len() as u64) as usize]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::History;
    use crate::sample::options;
    use crate::verdict::check;

    const SEEDS: u64 = 200;

    #[test]
    fn whatever_a_lock_that_works_does_is_well() {
        for seed in 1..=SEEDS {
            let sample = Garden::new(seed, 2 + seed % 5).grow(150);
            let verdict = sample.verdict();
            assert!(verdict.is_good(), "seed {seed}: {:?}", verdict.violations);
            assert!(verdict.undecided.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn whatever_is_spoiled_is_found() {
        for (name, spoil, checkers) in SPOILERS {
            let mut spoiled = 0;
            for seed in 1..=SEEDS {
                let mut records = Garden::new(seed, 2 + seed % 5).grow(300).records;
                let mut dice = Dice::new(seed);
                if !spoil(&mut records, &mut dice) {
                    continue;
                }
                spoiled += 1;
                let verdict = check(&History::new(records), &options());
                for checker in *checkers {
                    let found = verdict.of(*checker).count();
                    assert_ne!(found, 0, "{name}, seed {seed}: {checker} found nothing");
                }
            }
            assert!(spoiled > SEEDS / 10, "{name}: only {spoiled} histories could be spoiled");
        }
    }

    #[test]
    fn ten_thousand_answers_of_one_key_are_checked_in_no_time() {
        let sample = Garden::new(7, 8).grow(30_000);
        let history = sample.history();
        assert!(history.claims.len() > 10_000, "{}", history.claims.len());
        let verdict = sample.verdict();
        assert!(verdict.is_good() && verdict.undecided.is_empty(), "{:?}", verdict.violations);
    }
}
