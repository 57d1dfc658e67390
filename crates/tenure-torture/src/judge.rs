//! The verdict on a run, from all that was written down.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tenure::Locks;
use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure::store::Timing;
use tenure_check::{Checker, History, Losses, Options, Record, Verdict, Violation, What, check};

use crate::answered::Excuses;
use crate::demand::Reached;
use crate::excused::{Excused, quiet};
use crate::fault::Struck;
use crate::job::{TTL_LONG, key};
use crate::looks::looks;
use crate::merge::{Merged, merge, read};
use crate::outages::{Place, Windows};
use crate::questions::questions;
use crate::tally::Tally;
use crate::{answered, kept, same, undone, woken};

/// How much longer than its ttl a dead worker may keep its key.
pub(crate) const ORPHAN_MAX: Duration = Duration::from_secs(1);

/// What is told in place of a checker's name where the order of events was not decided.
pub(crate) const UNDECIDED: &str = "undecided";

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
        let own = self.own().map(|(name, _, count)| (name, count.unwrap_or(0)));
        all.into_iter().chain(own).filter(|(_, count)| *count > 0).collect()
    }

    /// The checkers that are not those of `tenure-check`: name, what holds where they find nothing,
    /// and how much they found; nothing is told of what could not be judged.
    pub(crate) fn own(&self) -> [(&'static str, &'static str, Option<usize>); 6] {
        let goes_on = "a guard that keeps 10 s alive goes on, unless there was a reason not to";
        // What was not decided was not shown to be well.
        let decided = "there is no key whose order of events was too much to decide";
        let same = "who asks again with its owner is given the same grant";
        let mostly = "of those who wait, three in four at the least are woken by the release";
        let answered = "no question fails while nothing is wrong, and each is answered in time";
        let (undone, woken) = (self.undone.as_ref(), self.woken.as_ref());
        [
            ("kept", goes_on, Some(self.kept.len())),
            ("undone", "what nobody was told of is given back", undone.map(Vec::len)),
            ("same", same, Some(self.same.len())),
            ("woken", mostly, woken.map(Vec::len)),
            ("answered", answered, Some(self.answered.len())),
            (UNDECIDED, decided, Some(self.verdict.undecided.len())),
        ]
    }

    /// What was found, one line for each.
    pub(crate) fn texts(&self) -> Vec<String> {
        let of = |found: &Violation| format!("{} {}: {}", found.checker, found.key, found.text);
        let kept = self.kept.iter().map(|text| format!("kept: {text}"));
        let undone = self.undone.iter().flatten().map(|text| format!("undone: {text}"));
        let same = self.same.iter().map(|text| format!("same: {text}"));
        let woken = self.woken.iter().flatten().map(|text| format!("woken: {text}"));
        let answered = self.answered.iter().map(|text| format!("answered: {text}"));
        let undecided = self.verdict.undecided.iter();
        let undecided = undecided.map(|key| format!("undecided: the order of events on {key}"));
        let violations = self.verdict.violations.iter().map(of);
        let own = kept.chain(undone).chain(same).chain(woken).chain(answered);
        violations.chain(own).chain(undecided).collect()
    }
}

/// What the judge has to know besides what the workers wrote.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) place: Place,
    pub(crate) folder: &'a Path,
    pub(crate) struck: &'a [Struck],
    pub(crate) links: &'a BTreeMap<u64, usize>,
    pub(crate) timing: Timing,
    /// Whether a release wakes who waits.
    pub(crate) wakes: bool,
    /// When this process was late, and by how much.
    pub(crate) lags: &'a [(u64, u64)],
    /// Keys that are still held.
    pub(crate) left: &'a [String],
    /// Workers that did not end when their time was over.
    pub(crate) stuck: &'a [u64],
}

/// Judges a run.
pub(crate) fn judge(case: &Case<'_>) -> Result<Judgement> {
    let mut lines = read(case.folder).context("the histories cannot be read")?;
    let deeds = std::mem::take(&mut lines.deeds);
    let tally = Tally::new(&lines.records, &deeds);
    let torn = lines.torn;
    let mut reached = Reached::new(&lines.records, &tally, case.struck.len());
    let questions = questions(&lines.records, &deeds);
    lines.deeds = deeds.clone();
    let Merged { records, away, broken, rearms } =
        merge(lines, case.struck, case.place, case.links);
    let is_observed = case.timing == Timing::Observer;
    let options = options(case, is_observed, rearms);
    let patience = case.place.patience;
    let excuses = Excuses { broken: &broken, patience, stuck: case.stuck };
    let windows = excuses.windows(&options);
    let excused = Excused::new(&records, &windows);
    reached.quiet = Some(quiet(&questions, &windows));
    let claims = grants(&records);
    let history = History { looks: looks(&deeds), ..History::new(records) };
    let mut verdict = check(&history, &options);
    verdict.violations.extend(case.left.iter().map(|key| overdue(key)));
    let kept = kept::check(&history, &deeds, &claims, &away);
    let undone = (!is_observed).then(|| undone::check(&history, &options));
    let same = same::check(&history, &deeds, &claims);
    let woken = case.wakes.then(|| woken::check(&history)).flatten();
    let answered = answered::check(&history, &options, &questions, excuses);
    Ok(Judgement { verdict, kept, undone, same, woken, answered, tally, reached, excused, torn })
}

fn options(case: &Case<'_>, is_observed: bool, rearms: Windows) -> Options {
    Options {
        slack: ORPHAN_MAX,
        // Workers on a machine that is busy are late, and that is no fault of the store.
        lags: case.lags.to_vec(),
        rearms,
        losses: Losses::WhileStopped,
        is_observed,
        // Who times leases by looking stops to believe a tenth earlier.
        drift_permille: if is_observed { 120 } else { 20 },
        ..Options::default()
    }
}

/// The ttl and the fence of every claim that was granted.
fn grants(records: &[Record]) -> BTreeMap<(u64, u64), (u64, u64)> {
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
