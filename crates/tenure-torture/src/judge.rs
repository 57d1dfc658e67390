//! The verdict on a run, from all that was written down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure_check::{Checker, History, Options, Record, Verdict, Violation, What, check};

use crate::answered::Excuses;
use crate::case::Case;
use crate::demand::Reached;
use crate::excused::{Excused, quiet};
use crate::job::{TTL_LONG, key};
use crate::kept::{Claims, Reasons};
use crate::looks::looks;
use crate::merge::{Merged, merge, read, read_faults, unsay};
use crate::outages::Windows;
use crate::questions::questions;
use crate::tally::Tally;
use crate::{answered, kept, panicked, said, same, undone, woken};

/// How much longer than its ttl a dead worker may keep its key.
pub(crate) const ORPHAN_MAX: Duration = Duration::from_secs(1);

/// What is told in place of a checker's name where the order of events was not decided.
pub(crate) const UNDECIDED: &str = "undecided";

/// The same where a server of ours panicked.
pub(crate) const PANICKED: &str = "panicked";

/// How long a store may take until it is well again in the end.
const RECOVERS_MAX: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(100);

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// Guards that lost their lease for no reason.
    pub(crate) kept: Vec<String>,
    /// Keys that were held by nobody, where that can be told.
    pub(crate) undone: Option<Vec<String>>,
    /// Panics of a server of ours.
    pub(crate) panicked: Vec<String>,
    /// Claims that were told what nobody had said.
    pub(crate) said: Vec<String>,
    /// Holders that asked again, and were not given the same grant.
    pub(crate) same: Vec<String>,
    /// That releases woke nobody, where that can be told.
    pub(crate) woken: Option<Vec<String>>,
    /// Questions that failed for no reason, or were not answered.
    pub(crate) answered: Vec<String>,
    pub(crate) tally: Tally,
    pub(crate) reached: Reached,
    /// For how much of the time something was wrong, or may have been.
    pub(crate) excused: Excused,
    pub(crate) torn: usize,
}

impl Judgement {
    /// The checkers that found something, and how much.
    pub(crate) fn broken(&self) -> Vec<(&'static str, usize)> {
        let all = Checker::ALL.map(|checker| (checker.name(), self.verdict.of(checker).count()));
        let own = self.own().map(|(name, _, found)| (name, found.map_or(0, <[String]>::len)));
        all.into_iter().chain(own).filter(|(_, count)| *count > 0).collect()
    }

    /// The checkers that are not those of `tenure-check`: name, what holds where they find nothing,
    /// and what they found; nothing where that could not be judged.
    pub(crate) fn own(&self) -> [(&'static str, &'static str, Option<&[String]>); 8] {
        let goes_on = "a guard that is kept alive goes on, unless there was a reason not to";
        let said = "nobody is told that a key is held without having heard that from the store";
        let given_back = "what nobody was told of is given back";
        let same = "who asks again with its owner is given the same grant";
        let mostly = "of those who wait, three in four at the least are woken by the release";
        let answered = "no question fails while nothing is wrong, and each is answered in time";
        // What was not decided was not shown to be well.
        let decided = "there is no key whose order of events was too much to decide";
        [
            ("kept", goes_on, Some(&self.kept)),
            ("undone", given_back, self.undone.as_deref()),
            ("said", said, Some(&self.said)),
            ("same", same, Some(&self.same)),
            ("woken", mostly, self.woken.as_deref()),
            ("answered", answered, Some(&self.answered)),
            (UNDECIDED, decided, Some(&self.verdict.undecided)),
            (PANICKED, "no server of ours panics", Some(&self.panicked)),
        ]
    }

    /// What was found, one line for each.
    pub(crate) fn texts(&self) -> Vec<String> {
        let of = |found: &Violation| format!("{} {}: {}", found.checker, found.key, found.text);
        let mut texts: Vec<String> = self.verdict.violations.iter().map(of).collect();
        for (name, _, found) in self.own() {
            texts.extend(found.into_iter().flatten().map(|text| format!("{name}: {text}")));
        }
        texts
    }
}

/// Judges the run whose history is in `folder`.
pub(crate) fn judge(case: &Case, folder: &Path) -> Result<Judgement> {
    let place = case.place()?;
    let mut lines = read(folder).context("the histories cannot be read")?;
    let struck = read_faults(folder).context("the faults cannot be read")?;
    let deeds = std::mem::take(&mut lines.deeds);
    let tally = Tally::new(&lines.records, &deeds);
    let torn = lines.torn;
    let mut reached = Reached::new(&lines.records, &tally, struck.len());
    let questions = questions(&lines.records, &deeds);
    lines.deeds = deeds.clone();
    let Merged { mut records, away, failing, stopped, rearms } =
        merge(lines, &struck, place, &case.links);
    let options = Options { stops: sudden(&stopped, &records), ..options(case, rearms) };
    let patience = case.patience;
    let excuses = Excuses { failing: &failing, patience, stuck: &case.stuck };
    let windows = excuses.windows(&options);
    let excused = Excused::new(&records, &windows);
    reached.quiet = Some(quiet(&questions, &windows));
    let claims = grants(&records);
    // Whoever stands in line waits for a release too.
    let woken = case.wakes.then(|| woken::check(&History::new(records.clone()))).flatten();
    reached.slept = case.wakes && woken.is_none();
    unsay(&mut records, &deeds);
    let history = History { looks: looks(&deeds, &stopped), ..History::new(records) };
    let mut verdict = check(&history, &options);
    verdict.violations.extend(case.left.iter().map(|key| overdue(key)));
    let slow = answered::slow(&history, &questions, kept::SLOW);
    let (spoiled, links) = (kept::spoiled(&struck), &case.links);
    let reasons = Reasons { away: &away, wrong: &windows, slow: &slow, spoiled: &spoiled, links };
    let kept = kept::check(&history, &deeds, &claims, reasons);
    let undone = (!case.is_observed).then(|| undone::check(&history, &options));
    let (panicked, said) = (panicked::check(folder)?, said::check(&deeds));
    let same = same::check(&history, &deeds, &claims);
    let answered = answered::check(&history, &options, &questions, excuses);
    Ok(Judgement {
        verdict,
        kept,
        undone,
        panicked,
        said,
        same,
        woken,
        answered,
        tally,
        reached,
        excused,
        torn,
    })
}

fn options(case: &Case, rearms: Windows) -> Options {
    Options {
        slack: ORPHAN_MAX,
        // Workers on a machine that is busy are late, and that is no fault of the store.
        lags: case.lags.clone(),
        rearms,
        is_observed: case.is_observed,
        // Who times leases by looking stops to believe a tenth earlier.
        drift_permille: if case.is_observed { 120 } else { 20 },
        ..Options::default()
    }
}

/// The stops of workers whose way to the store was well until then.
fn sudden(stopped: &BTreeMap<u64, Windows>, records: &[Record]) -> BTreeMap<u64, Windows> {
    let begun = records.iter().filter(|record| record.what == What::Paused);
    let begun: BTreeSet<(u64, u64)> = begun.map(|record| (record.worker, record.at)).collect();
    let of = |(worker, windows): (&u64, &Windows)| {
        let is_sudden = |(from, _): &&(u64, u64)| begun.contains(&(*worker, *from));
        (*worker, windows.iter().filter(is_sudden).copied().collect())
    };
    stopped.iter().map(of).collect()
}

/// The ttl and the fence of every claim that was granted.
fn grants(records: &[Record]) -> Claims {
    let mut ttls = BTreeMap::new();
    for record in records {
        if let What::Asked { ttl, .. } = record.what {
            ttls.insert((record.worker, record.claim), ttl);
        }
    }
    let of = |record: &Record| {
        let What::Granted { fence } = record.what else { return None };
        let claim = (record.worker, record.claim);
        Some((claim, (*ttls.get(&claim)?, fence)))
    };
    records.iter().filter_map(of).collect()
}

fn overdue(key: &str) -> Violation {
    let longest = TTL_LONG + ORPHAN_MAX;
    let text = format!("it is still held {longest:?} after the last worker ended");
    let at = SystemClock.now().as_nanos();
    Violation { checker: Checker::Waiters, key: key.to_owned(), text, at }
}

/// The keys that are held although every lease must have ended. A store that is not well yet after
/// its last fault is waited for.
pub(crate) async fn left_over(locks: &Locks, keys: u64) -> Result<Vec<String>> {
    let gone = SystemClock.now() + RECOVERS_MAX;
    while let Err(error) = locks.is_locked(&key(0)).await {
        ensure!(SystemClock.now() < gone, "it does not recover: {}", Chain(&error));
        SystemClock.sleep_until(SystemClock.now() + LOOK).await;
    }
    let latest = SystemClock.now() + TTL_LONG + ORPHAN_MAX;
    let mut left: Vec<String> = (0..keys).map(key).collect();
    loop {
        let is_last = SystemClock.now() >= latest;
        let mut held = Vec::new();
        for key in left {
            // What cannot be asked now can be asked again, but for the last time.
            let is_free = match locks.is_locked(&key).await {
                Err(error) if is_last => return Err(error.into()),
                answer => answer.is_ok_and(|held| !held),
            };
            if !is_free {
                held.push(key);
            }
        }
        left = held;
        if left.is_empty() || is_last {
            return Ok(left);
        }
        SystemClock.sleep_until(SystemClock.now() + LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_in_the_middle_of_something_else_is_none() {
        let record = |worker, at, what| Record { worker, claim: 0, key: String::new(), at, what };
        let stopped = BTreeMap::from([(1, vec![(10, 20), (50, 60)]), (2, vec![(10, 20)])]);
        let records = [
            record(1, 10, What::Paused),
            record(1, 30, What::Resumed),
            record(1, 45, What::Paused),
            record(1, 60, What::Resumed),
            record(2, 9, What::Paused),
        ];
        let found = sudden(&stopped, &records);
        assert_eq!(found, BTreeMap::from([(1, vec![(10, 20)]), (2, vec![])]));
    }
}
