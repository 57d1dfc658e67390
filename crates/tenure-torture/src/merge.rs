//! All lines of a run, put together so that the checkers understand what the nemesis did.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use tenure_check::{Record, What};

use crate::deed::Deed;
use crate::fault::{Aim, Struck};
use crate::job::nanos;
use crate::outages::{Extent, GRACE, Outages, Place, Windows, overlaps, pauses};
use crate::subject::Subject;
use crate::turn::AGAIN;
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
/// - A claim that waited is many questions: where it failed, one of them may have been granted.
/// - So may be one that was told "held" while its network was broken.
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
    let doubts = doubts(&mut records, &broken);
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

/// Makes failures of claims that waited unknown, and finds the refusals behind which a grant may
/// be hidden: a question without an answer for each. `records` are in the order of time.
fn doubts(records: &mut [Record], away: &BTreeMap<u64, Windows>) -> Vec<Record> {
    let mut asked = BTreeMap::<(u64, u64), (u64, u64, bool)>::new();
    let mut doubts = Vec::new();
    for record in records {
        let claim = (record.worker, record.claim);
        match &mut record.what {
            What::Asked { ttl, wait } => {
                asked.insert(claim, (record.at, *ttl, *wait != Some(0)));
            }
            What::Failed { kind, unknown } if kind != AGAIN => {
                if let Some((_, _, waits)) = asked.remove(&claim) {
                    *unknown |= waits;
                }
            }
            What::Held | What::Failed { .. } => {
                let Some((at, ttl, waits)) = asked.remove(&claim) else { continue };
                let windows = away.get(&record.worker).map_or(&[][..], Vec::as_slice);
                if !waits && overlaps(windows, at, record.at) {
                    let (worker, key) = (record.worker, record.key.clone());
                    // No claim of the worker has such a number.
                    let claim = u64::MAX - record.claim;
                    let failed = What::Failed { kind: "Doubt".to_owned(), unknown: true };
                    let what = What::Asked { ttl, wait: Some(0) };
                    doubts.push(Record { worker, claim, key: key.clone(), at, what });
                    doubts.push(Record { worker, claim, key, at: record.at, what: failed });
                }
            }
            What::Granted { .. } => {
                asked.remove(&claim);
            }
            _ => {}
        }
    }
    doubts
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
    fn a_claim_that_waited_and_failed_may_have_been_granted() {
        let failed = || What::Failed { kind: "Unavailable".into(), unknown: false };
        let records = vec![
            record(1, 1, 5, What::Asked { ttl: 9, wait: Some(3) }),
            record(1, 1, 6, failed()),
            record(1, 2, 7, What::Asked { ttl: 9, wait: Some(0) }),
            record(1, 2, 8, failed()),
        ];
        let merged = merged(records, &[], Vec::new());
        let unknown = |record: &Record| matches!(record.what, What::Failed { unknown: true, .. });
        let places: Vec<u64> =
            merged.records.iter().filter(|record| unknown(record)).map(|r| r.claim).collect();
        assert_eq!(places, [1]);
    }

    #[test]
    fn a_refusal_over_a_broken_network_is_doubted() {
        let claim = |claim, at, answer| {
            let asked = What::Asked { ttl: 9, wait: Some(0) };
            [record(2, claim, at, asked), record(2, claim, at + 1, answer)]
        };
        let again = || What::Failed { kind: AGAIN.into(), unknown: false };
        let records = [
            claim(1, 5 * SECOND, What::Held),
            claim(2, 50 * SECOND, What::Held),
            claim(3, 5 * SECOND, again()),
            claim(4, 50 * SECOND, again()),
        ]
        .concat();
        let cut = struck(Kind::Cut, Some(1), 4 * SECOND, 6 * SECOND);
        let merged = merged(records, &[cut], Vec::new());
        let asked = |record: &&Record| matches!(record.what, What::Asked { .. });
        assert_eq!(merged.records.iter().filter(asked).count(), 4 + 2);
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
