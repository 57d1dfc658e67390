//! All lines of a run, put together so that the checkers understand what the nemesis did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tenure_check::{Record, What};

use crate::deed::{Deed, Done};
use crate::fault::{Aim, Kind, Struck};
use crate::job::{TTL_LONG, nanos};
use crate::journal;
use crate::subject::Subject;

/// How long after a fault its consequences may last: connections are made anew.
const GRACE: Duration = Duration::from_millis(1500);

/// How long a request may be late, or a connection silent before it is given up.
const LATE: Duration = Duration::from_secs(4);

/// How long a force whose outcome is unknown may still land.
const LANDS: Duration = Duration::from_secs(30);

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

/// How far the consequences of a fault reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// To its own end, and until a connection can be made.
    Bare,
    /// Until nothing is left of it in any connection.
    Connections,
    /// Until the leases that begin anew after an outage have ended too.
    Leases,
}

impl Extent {
    fn after(self, kind: Kind, subject: Subject) -> Duration {
        let is_server = kind.aim() == Aim::Server;
        let recovers = if is_server { subject.recovers } else { Duration::ZERO };
        let is_slow = matches!(kind, Kind::LateRequests | Kind::HalfOpen);
        let rearms = self == Self::Leases && is_server && subject.rearms;
        match self {
            Self::Bare => recovers + GRACE / 3,
            // Some connections are of no use before they have been given up.
            Self::Connections | Self::Leases if is_slow => GRACE + LATE,
            Self::Connections | Self::Leases if rearms => GRACE + recovers + TTL_LONG,
            Self::Connections | Self::Leases => GRACE + recovers,
        }
    }
}

/// When the store was not to be relied on, for whom.
#[derive(Debug)]
struct Outages {
    /// For all.
    everyone: Vec<(u64, u64)>,
    /// For those on one part of the network.
    links: BTreeMap<usize, Vec<(u64, u64)>>,
}

impl Outages {
    /// What the faults of a run on this store come to.
    fn new(struck: &[Struck], subject: Subject, extent: Extent) -> Self {
        let mut outages = Self { everyone: Vec::new(), links: BTreeMap::new() };
        for fault in struck {
            let after = extent.after(fault.kind, subject);
            let window = (fault.begin, fault.end.saturating_add(nanos(after)));
            match (fault.kind.aim(), fault.link) {
                (Aim::Server, _) => outages.everyone.push(window),
                (Aim::Network, Some(link)) => outages.links.entry(link).or_default().push(window),
                _ if subject.is_files && fault.kind == Kind::WorkerPause => {
                    outages.everyone.push(window)
                }
                _ => {}
            }
        }
        outages
    }

    /// When a worker on this part of the network could not rely on the store, in order and without
    /// overlap; with these pauses of its own.
    fn of(&self, link: Option<usize>, own: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let of_link = link.and_then(|link| self.links.get(&link));
        let mut all = [&self.everyone[..], of_link.map_or(&[], Vec::as_slice), own].concat();
        all.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, until) in all {
            match joined.last_mut() {
                Some((_, last)) if *last >= from => *last = until.max(*last),
                _ => joined.push((from, until)),
            }
        }
        joined
    }
}

/// What the checkers get to see.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) records: Vec<Record>,
    /// When each worker could not reach the store, or stood still, and not a moment longer.
    pub(crate) away: BTreeMap<u64, Vec<(u64, u64)>>,
}

/// Puts the lines together.
///
/// - A time in which the store was away counts as a pause of those for whom it was.
/// - A claim that waited is many questions: where it failed, one of them may have been granted.
/// - So may be one that was told "held" while its network was broken.
/// - A force without an answer may have ended any lease of the next half minute.
pub(crate) fn merge(
    lines: Lines,
    struck: &[Struck],
    subject: Subject,
    links: &BTreeMap<u64, usize>,
) -> Merged {
    let reaching = |extent| away(&lines.records, &Outages::new(struck, subject, extent), links);
    let (away, broken) = (reaching(Extent::Bare), reaching(Extent::Connections));
    let stuck = reaching(Extent::Leases);
    let mut records = lines.records;
    records.sort_by_key(|record| record.at);
    records.retain(|record| !matches!(record.what, What::Paused | What::Resumed));
    let doubts = doubts(&mut records, &broken);
    records.extend(doubts);
    let forced = forced(&records, &lines.deeds);
    records.extend(forced);
    for (worker, windows) in &stuck {
        let record = |at, what| Record { worker: *worker, claim: 0, key: String::new(), at, what };
        for (from, until) in windows {
            records.push(record(*from, What::Paused));
            records.push(record(*until, What::Resumed));
        }
    }
    Merged { records, away }
}

fn away(
    records: &[Record],
    outages: &Outages,
    links: &BTreeMap<u64, usize>,
) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut pauses = BTreeMap::<u64, Vec<(u64, u64)>>::new();
    let mut changes: Vec<&Record> = records
        .iter()
        .filter(|record| matches!(record.what, What::Paused | What::Resumed))
        .collect();
    changes.sort_by_key(|record| record.at);
    for record in changes {
        let own = pauses.entry(record.worker).or_default();
        match (&record.what, own.last_mut()) {
            (What::Paused, _) => own.push((record.at, u64::MAX)),
            (_, Some((_, until))) => *until = record.at,
            _ => {}
        }
    }
    let workers: BTreeSet<u64> = links.keys().chain(pauses.keys()).copied().collect();
    let none = Vec::new();
    let of =
        |worker: &u64| outages.of(links.get(worker).copied(), pauses.get(worker).unwrap_or(&none));
    workers.iter().map(|worker| (*worker, of(worker))).collect()
}

fn overlaps(windows: &[(u64, u64)], from: u64, until: u64) -> bool {
    let next = windows.partition_point(|(_, end)| *end <= from);
    windows.get(next).is_some_and(|(begin, _)| *begin < until)
}

/// Makes failures of claims that waited unknown, and finds the refusals behind which a grant may
/// be hidden: a question without an answer for each. `records` are in the order of time.
fn doubts(records: &mut [Record], away: &BTreeMap<u64, Vec<(u64, u64)>>) -> Vec<Record> {
    let mut asked = BTreeMap::<(u64, u64), (u64, u64, bool)>::new();
    let mut doubts = Vec::new();
    for record in records {
        let claim = (record.worker, record.claim);
        match &mut record.what {
            What::Asked { ttl, wait } => {
                asked.insert(claim, (record.at, *ttl, *wait != Some(0)));
            }
            What::Failed { unknown, .. } => {
                if let Some((_, _, waits)) = asked.remove(&claim) {
                    *unknown |= waits;
                }
            }
            What::Held => {
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

/// The leases that a force without an answer may have ended.
fn forced(records: &[Record], deeds: &[Deed]) -> Vec<Record> {
    let mut open = BTreeMap::<(u64, &str), Vec<u64>>::new();
    let mut in_order: Vec<&Deed> = deeds.iter().collect();
    in_order.sort_by_key(|deed| deed.at);
    for deed in in_order {
        let place = (deed.worker, deed.key.as_str());
        match deed.what {
            Done::ForceAsked => open.entry(place).or_default().push(deed.at),
            // Of two at once on one key, that the later one failed is on the safe side.
            Done::Forced => drop(open.entry(place).or_default().pop()),
            _ => {}
        }
    }
    let mut windows = BTreeMap::<&str, Vec<(u64, u64)>>::new();
    for ((_, key), times) in open {
        let window = |at: u64| (at, at.saturating_add(nanos(LANDS)));
        windows.entry(key).or_default().extend(times.into_iter().map(window));
    }
    let ended = |record: &Record| {
        let What::Granted { fence } = record.what else { return None };
        // One that was granted long before may have been renewed until then.
        let within = |(from, until): &&(u64, u64)| {
            record.at <= *until && record.at.saturating_add(nanos(LANDS)) >= *from
        };
        let (from, _) = windows.get(record.key.as_str())?.iter().find(within)?;
        Some(Record { at: (*from).max(record.at), what: What::Forced { fence }, ..record.clone() })
    };
    records.iter().filter_map(ended).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn record(worker: u64, claim: u64, at: u64, what: What) -> Record {
        Record { worker, claim, key: "k".into(), at, what }
    }

    fn struck(kind: Kind, link: Option<usize>, begin: u64, end: u64) -> Struck {
        Struck { kind, target: String::new(), link, begin, end }
    }

    fn merged(records: Vec<Record>, faults: &[Struck], deeds: Vec<Deed>) -> Merged {
        let links = BTreeMap::from([(1, 0), (2, 1)]);
        merge(Lines { records, deeds, torn: 0 }, faults, crate::subject::VOLATILE, &links)
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
        let claim = |claim, at| {
            [
                record(2, claim, at, What::Asked { ttl: 9, wait: Some(0) }),
                record(2, claim, at + 1, What::Held),
            ]
        };
        let records = [claim(1, 5 * SECOND), claim(2, 50 * SECOND)].concat();
        let cut = struck(Kind::Cut, Some(1), 4 * SECOND, 6 * SECOND);
        let merged = merged(records, &[cut], Vec::new());
        let asked = |record: &&Record| matches!(record.what, What::Asked { .. });
        assert_eq!(merged.records.iter().filter(asked).count(), 3);
    }

    #[test]
    fn a_force_without_an_answer_may_have_ended_what_came_after() {
        let deed = |at, what| Deed { worker: 1, claim: 0, key: "k".into(), at, what };
        let records = vec![
            record(2, 1, 10 * SECOND, What::Granted { fence: 7 }),
            record(2, 2, 90 * SECOND, What::Granted { fence: 8 }),
        ];
        let deeds = vec![
            deed(5 * SECOND, Done::ForceAsked),
            deed(89 * SECOND, Done::ForceAsked),
            deed(89 * SECOND + 1, Done::Forced),
        ];
        let merged = merged(records, &[], deeds);
        let forced: Vec<&Record> = merged
            .records
            .iter()
            .filter(|record| matches!(record.what, What::Forced { .. }))
            .collect();
        assert_eq!(forced.len(), 1, "{forced:?}");
        assert_eq!(forced[0].what, What::Forced { fence: 7 });
    }
}
