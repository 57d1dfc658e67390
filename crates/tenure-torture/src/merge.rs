//! All lines of a run, put together so that the checkers understand what the nemesis did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use tenure_check::{Record, What};

use crate::deed::{Deed, Done};
use crate::fault::{Aim, Struck};
use crate::job::nanos;
use crate::outages::{Extent, GRACE, Outages, Place, Windows, pauses};
use crate::subject::Subject;
use crate::{force, journal};

/// What was done to workers, network and server, beside the histories.
pub(crate) const FAULTS: &str = "faults.jsonl";

/// Everything that was written down.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) records: Vec<Record>,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) torn: usize,
}

/// Reads the files of a run.
pub(crate) fn read(folder: &Path) -> io::Result<Lines> {
    let mut lines = Lines::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("history-") {
            let found = tenure_check::record::read(&fs::read(&path)?)?;
            lines.records.extend(found.records);
            lines.torn += found.torn;
        } else if name.starts_with("deeds-") {
            lines.deeds.extend(journal::read::<Deed>(&path)?);
        }
    }
    Ok(lines)
}

/// Reads what went wrong in a run.
pub(crate) fn read_faults(folder: &Path) -> io::Result<Vec<Struck>> {
    journal::read(&folder.join(FAULTS))
}

/// What the checkers get to see.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) records: Vec<Record>,
    /// When each worker could not reach the store, or stood still, and not a moment longer.
    pub(crate) away: BTreeMap<u64, Windows>,
    /// The same, for as long as a question may fail because of it.
    pub(crate) failing: BTreeMap<u64, Windows>,
    /// When each worker stood still.
    pub(crate) stopped: BTreeMap<u64, Windows>,
    /// When the server was away, if leases begin anew after that.
    pub(crate) rearms: Windows,
}

/// Puts the lines together.
///
/// - A time in which the store was away counts as a pause of those for whom it was.
/// - A claim is one question or many: each that nobody was answered may have been granted, and
///   what the claim was told in the end says nothing about it.
/// - A force without an answer may have ended any lease that there was when it could land.
pub(crate) fn merge(
    lines: Lines,
    struck: &[Struck],
    place: Place,
    links: &BTreeMap<u64, usize>,
) -> Merged {
    let Lines { mut records, deeds, .. } = lines;
    let reaching = |extent| Outages::new(struck, place, extent, &records).away(&records, links);
    let (away, broken) = (reaching(Extent::Bare), reaching(Extent::Connections));
    let (failing, stopped) = (reaching(Extent::Failures), pauses(&records));
    records.sort_by_key(|record| record.at);
    records.retain(|record| !matches!(record.what, What::Paused | What::Resumed));
    let doubts = doubts(&records, &deeds);
    settle(&mut records);
    let forced = force::unanswered(&records, &deeds, &broken);
    records.extend(doubts);
    records.extend(forced);
    for (worker, windows) in &broken {
        let record = |at, what| Record { worker: *worker, claim: 0, key: String::new(), at, what };
        for (from, until) in windows {
            records.push(record(*from, What::Paused));
            records.push(record(*until, What::Resumed));
        }
    }
    Merged { records, away, failing, stopped, rearms: rearms(struck, place.subject) }
}

fn rearms(struck: &[Struck], subject: Subject) -> Windows {
    let is_away = |fault: &&Struck| subject.rearms && fault.kind.aim() == Aim::Server;
    let window = |fault: &Struck| (fault.begin, fault.end.saturating_add(nanos(GRACE)));
    let mut rearms: Windows = struck.iter().filter(is_away).map(window).collect();
    rearms.sort_unstable();
    rearms
}

/// The questions that nobody was answered, of claims that were told something: for each of them a
/// claim of its own, which failed and may have been granted the key. Whoever made the claim looks
/// after them when that has ended.
fn doubts(records: &[Record], deeds: &[Deed]) -> Vec<Record> {
    let mut asked = BTreeMap::<(u64, u64), &Record>::new();
    let mut ended = BTreeMap::<(u64, u64), u64>::new();
    for record in records {
        let claim = (record.worker, record.claim);
        match record.what {
            What::Asked { .. } => drop(asked.insert(claim, record)),
            What::Granted { .. } | What::Held | What::Failed { .. } => {
                ended.insert(claim, record.at);
            }
            _ => {}
        }
    }
    let unheard = deeds.iter().filter(|deed| deed.what == Done::Unheard);
    // No claim of a worker has such a number.
    let doubts = unheard.zip((0..u64::MAX).rev()).filter_map(|(deed, number)| {
        let claim = (deed.worker, deed.claim);
        let question = *asked.get(&claim)?;
        let What::Asked { ttl, .. } = question.what else { return None };
        let at = ended.get(&claim).copied().unwrap_or(0).max(deed.at);
        // It waits for nothing that could be late.
        let what = What::Asked { ttl, wait: None };
        let question = Record { claim: number, what, ..question.clone() };
        let what = What::Failed { kind: "Doubt".to_owned(), unknown: true };
        let failed = Record { at, what, ..question.clone() };
        Some([question, failed])
    });
    doubts.flatten().collect()
}

/// A claim that failed has nothing by itself: what it may have got is told question by question.
fn settle(records: &mut [Record]) {
    for record in records {
        if let What::Failed { unknown, .. } = &mut record.what {
            *unknown = false;
        }
    }
}

/// What the store was not asked it has not said: that a key is held, to one in the line of its own
/// process, or to one who made it up.
pub(crate) fn unsay(records: &mut [Record], deeds: &[Deed]) {
    let unasked = deeds.iter().filter(|deed| matches!(deed.what, Done::Unasked | Done::Unsaid));
    let unasked: BTreeSet<(u64, u64)> = unasked.map(|deed| (deed.worker, deed.claim)).collect();
    for record in records {
        if record.what == What::Held && unasked.contains(&(record.worker, record.claim)) {
            record.what = What::Failed { kind: "Unasked".to_owned(), unknown: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Kind;

    const SECOND: u64 = 1_000_000_000;

    fn record(worker: u64, claim: u64, at: u64, what: What) -> Record {
        Record { worker, claim, key: "k".into(), at, what }
    }

    fn struck(kind: Kind, link: Option<usize>, begin: u64, end: u64) -> Struck {
        Struck { kind, target: String::new(), link, begin, end }
    }

    fn merged(records: Vec<Record>, faults: &[Struck], deeds: Vec<Deed>) -> Merged {
        let links = BTreeMap::from([(1, 0), (2, 1)]);
        let (subject, patience) = (crate::subject::VOLATILE, std::time::Duration::ZERO);
        let place = Place { subject, patience };
        merge(Lines { records, deeds, torn: 0 }, faults, place, &links)
    }

    #[test]
    fn outages_and_pauses_become_one() {
        let faults = [
            struck(Kind::ServerKill, None, 10 * SECOND, 11 * SECOND),
            struck(Kind::Cut, Some(1), 20 * SECOND, 21 * SECOND),
        ];
        let records =
            vec![record(1, 0, 12 * SECOND, What::Paused), record(1, 0, 15 * SECOND, What::Resumed)];
        let merged = merged(records, &faults, Vec::new());
        let half = SECOND / 2;
        let first = [(10 * SECOND, 11 * SECOND + half), (12 * SECOND, 15 * SECOND)];
        assert_eq!(merged.away[&1], first);
        let second = [(10 * SECOND, 11 * SECOND + half), (20 * SECOND, 21 * SECOND + half)];
        assert_eq!(merged.away[&2], second);
        // What the checkers see lasts for longer: one pause of the first, two of the second.
        assert_eq!(merged.records.len(), 2 + 4);
    }

    #[test]
    fn a_question_without_an_answer_may_have_been_granted() {
        let claim = |worker, claim, at, answer| {
            let asked = What::Asked { ttl: 9, wait: Some(3) };
            [record(worker, claim, at, asked), record(worker, claim, at + 4, answer)]
        };
        let failed = What::Failed { kind: "Unavailable".into(), unknown: false };
        let records = [
            claim(1, 1, 5, What::Held),
            claim(1, 2, 15, failed),
            claim(2, 1, 25, What::Granted { fence: 1 }),
        ]
        .concat();
        let unheard =
            |worker, claim, at| Deed { worker, claim, key: "".into(), at, what: Done::Unheard };
        let deeds = vec![unheard(1, 1, 7), unheard(2, 1, 30), unheard(2, 1, 27), unheard(2, 9, 28)];
        let merged = merged(records.clone(), &[], deeds);
        let doubts = &merged.records[records.len()..];
        let asked = What::Asked { ttl: 9, wait: None };
        let failed = What::Failed { kind: "Doubt".into(), unknown: true };
        let expected = [(1, 0, 5, 9), (2, 1, 25, 30), (2, 2, 25, 29)];
        let expected = expected.map(|(worker, place, from, until)| {
            let number = u64::MAX - 1 - place;
            [
                record(worker, number, from, asked.clone()),
                record(worker, number, until, failed.clone()),
            ]
        });
        assert_eq!(doubts, expected.concat());
    }

    #[test]
    fn who_stood_in_line_was_told_nothing_by_the_store() {
        let unasked = Deed { worker: 1, claim: 1, key: "".into(), at: 5, what: Done::Unasked };
        let mut records = vec![record(1, 1, 6, What::Held), record(1, 2, 7, What::Held)];
        unsay(&mut records, &[unasked]);
        let held = records.iter().filter(|record| record.what == What::Held);
        assert_eq!(held.map(|record| record.claim).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_failure_leaves_nothing_in_doubt_but_its_questions() {
        let failed = |unknown| What::Failed { kind: "Unknown".into(), unknown };
        let merged = merged(vec![record(1, 1, 6, failed(true))], &[], Vec::new());
        assert_eq!(merged.records, [record(1, 1, 6, failed(false))]);
    }

    #[test]
    fn leases_begin_anew_only_where_they_do() {
        let faults = [
            struck(Kind::ServerPause, None, 10 * SECOND, 11 * SECOND),
            struck(Kind::Cut, Some(1), 20 * SECOND, 21 * SECOND),
        ];
        let etcd = crate::subject::named("etcd").unwrap();
        assert_eq!(rearms(&faults, etcd), [(10 * SECOND, 11 * SECOND + nanos(GRACE))]);
        assert_eq!(rearms(&faults, crate::subject::VOLATILE), []);
    }
}
