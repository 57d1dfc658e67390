//! What the rounds of one lock showed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::contest::{Contest, Held};
use crate::figure::Figure;
use crate::report::short;
use crate::sample::{Pairs, is_unsteady, median, quantile};

/// This passes before all of them stand in line.
const JOINING: Duration = Duration::from_millis(400);
/// Fewer than these in all rounds say nothing.
const HAND_OFFS_MIN: usize = 5;

/// Which hand-off of a round is told.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Share {
    /// What follows the name of its row.
    pub(super) name: &'static str,
    pub(super) figure: Figure,
    /// How many of all were quicker.
    quicker: f64,
    /// How many it takes to tell.
    least: usize,
}

pub(super) const MIDDLE: Share =
    Share { name: "", figure: Figure::HandOff, quicker: 0.5, least: 1 };
pub(super) const LATE: Share =
    Share { name: ", p99", figure: Figure::HandOffLate, quicker: 0.99, least: 100 };
pub(super) const SHARES: [Share; 2] = [MIDDLE, LATE];

/// One round.
pub(super) struct Run {
    /// From the start of a release to the grant of another.
    gaps: Vec<Duration>,
    /// How many of these led to another process.
    elsewhere: usize,
    grants: usize,
    /// How many grants went to the one who had just given it back.
    again: usize,
    /// How many wanted the key, and how many of them never got it.
    tasks: usize,
    starved: usize,
    /// How long one was without it at the longest.
    longest: Duration,
}

impl Run {
    /// What happened while all were there: not at the start, and not when some have left.
    pub(super) fn of(contest: &Contest<'_>, tasks: &[usize]) -> Result<Self> {
        let grants = contest.hold(tasks)?;
        let start = grants.first().context("no grant")?.from;
        let after = |time: Duration| start + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (from, until) = (after(JOINING), after(contest.run));
        let spells: Vec<&[Held]> =
            grants.chunk_by(|one, next| one.contender() == next.contender()).collect();
        // Whoever takes it again itself has handed it to nobody: others wait from when it was first
        // given back.
        let changes = spells.windows(2).map(|pair| (pair[0][0], pair[1][0]));
        let changes: Vec<(Held, Held)> =
            changes.filter(|(one, next)| one.from >= from && next.from < until).collect();
        let gap = |(one, next): &(Held, Held)| next.from.saturating_sub(one.until);
        let waits = waits(&grants, tasks, [from, until]);
        Ok(Self {
            gaps: changes.iter().map(gap).map(Duration::from_nanos).collect(),
            elsewhere: changes.iter().filter(|(one, next)| one.process != next.process).count(),
            grants: grants.len(),
            again: grants.len() - spells.len(),
            tasks: waits.len(),
            starved: waits.iter().filter(|wait| **wait == until - from).count(),
            longest: Duration::from_nanos(waits.into_iter().max().unwrap_or(0)),
        })
    }

    fn time(&self, share: Share) -> Option<Duration> {
        let is_enough = self.gaps.len() >= share.least;
        is_enough.then(|| quantile(&mut self.gaps.clone(), share.quicker)).flatten()
    }
}

/// How long each of the tasks of each process was without the key at the longest, between these
/// moments.
fn waits(grants: &[Held], tasks: &[usize], [from, until]: [u64; 2]) -> Vec<u64> {
    let tasks = tasks.iter().enumerate();
    let contenders =
        tasks.flat_map(|(process, &count)| (0..count as u64).map(move |task| (process, task)));
    let longest = |contender| {
        let is_seen =
            |held: &&Held| held.contender() == contender && held.until > from && held.from < until;
        let mine = grants.iter().filter(is_seen);
        let starts = std::iter::once(from).chain(mine.clone().map(|held| held.until));
        let ends = mine.map(|held| held.from).chain([until]);
        starts.zip(ends).map(|(start, end)| end.saturating_sub(start)).max().unwrap_or(0)
    };
    contenders.map(longest).collect()
}

/// All rounds.
#[derive(Default)]
pub(super) struct Course(Vec<Run>);

impl Course {
    pub(super) fn push(&mut self, run: Run) {
        self.0.push(run);
    }

    pub(super) fn ensure_enough(&self) -> Result<()> {
        let number = self.sum(|run| run.gaps.len());
        ensure!(number >= HAND_OFFS_MIN, "only {number} hand-offs");
        Ok(())
    }

    /// The median of the rounds that showed enough; `None` where none did.
    pub(super) fn time(&self, share: Share) -> Option<Duration> {
        median(&mut self.times(share))
    }

    /// Whether the rounds differ too much, or some of them showed too little.
    pub(super) fn is_unsure(&self, share: Share) -> bool {
        let times = self.times(share);
        times.len() < self.0.len() || is_unsteady(times.iter().map(Duration::as_secs_f64))
    }

    /// Both in each round that showed enough of them; `None` where none did.
    pub(super) fn beside(&self, theirs: &Self, share: Share) -> Option<Pairs> {
        let mut pairs: Option<Pairs> = None;
        for (ours, theirs) in self.0.iter().zip(&theirs.0) {
            if let (Some(ours), Some(theirs)) = (ours.time(share), theirs.time(share)) {
                let pairs = pairs.get_or_insert_default();
                pairs.push(ours.as_secs_f64(), theirs.as_secs_f64());
            }
        }
        pairs
    }

    pub(super) fn note(&self) -> String {
        let late = self.time(LATE).map(|late| format!("p99 {}; ", short(late)));
        let late = late.unwrap_or_default();
        let number = self.sum(|run| run.gaps.len());
        let elsewhere = 100 * self.sum(|run| run.elsewhere) / number.max(1);
        let again = 100 * self.sum(|run| run.again) / self.sum(|run| run.grants).max(1);
        let longest = self.0.iter().map(|run| run.longest).max().unwrap_or_default();
        let (starved, tasks) = (self.sum(|run| run.starved), self.sum(|run| run.tasks));
        format!(
            "{late}of {number}, {elsewhere} % to another process; {again} % of all grants to the \
             one before; longest wait {}, {starved} of {tasks} got nothing",
            short(longest)
        )
    }

    fn times(&self, share: Share) -> Vec<Duration> {
        self.0.iter().filter_map(|run| run.time(share)).collect()
    }

    fn sum(&self, of: impl Fn(&Run) -> usize) -> usize {
        self.0.iter().map(of).sum()
    }
}
