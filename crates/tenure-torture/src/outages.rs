//! When the store was not to be relied on, for whom: what the faults of a run come to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_check::history::Faults;
use tenure_check::{Record, What};

use crate::clockwork::NOTICED_WITHIN;
use crate::fault::{Aim, Kind, Struck};
use crate::job::nanos;
use crate::subject::Subject;
use crate::turn::ABANDONED;

/// How long after a fault its consequences may last: connections are made anew.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// How long a request may be late.
const LATE: Duration = Duration::from_secs(4);

/// What an answer takes at the least when something keeps it back.
const KEPT_BACK: Duration = Duration::from_millis(300);

/// From when until when, in order and without overlap.
pub(crate) type Windows = Vec<(u64, u64)>;

/// How far the consequences of a fault reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// To its own end, and until a connection can be made.
    Bare,
    /// Until nothing is left of it in any connection.
    Connections,
    /// The same, and until a worker that was stopped has made its connections anew: the server may
    /// have given them up.
    Failures,
}

impl Extent {
    fn after(self, kind: Kind, patience: Duration) -> Duration {
        let noticed = if kind == Kind::ClockStep { NOTICED_WITHIN } else { Duration::ZERO };
        match self {
            Self::Bare => noticed + GRACE / 3,
            // Some connections are of no use before they have been given up.
            Self::Connections | Self::Failures if kind.spoils_connections() => {
                GRACE + LATE.max(patience)
            }
            Self::Connections | Self::Failures => GRACE + noticed,
        }
    }

    /// How far the consequences of a worker's own stop reach.
    const fn after_stop(self) -> Duration {
        match self {
            Self::Bare | Self::Connections => Duration::ZERO,
            Self::Failures => GRACE,
        }
    }
}

/// What the faults were directed at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) subject: Subject,
    /// How long an answer is waited for, before a connection that is silent is given up.
    pub(crate) patience: Duration,
}

/// A fault of the server or the network.
#[derive(Clone, Copy, Debug)]
struct Breach {
    begin: u64,
    end: u64,
    /// For how long its consequences last then, for one that is awake to find them.
    after: u64,
}

impl Breach {
    /// When it could be felt by a worker with these stops.
    fn window(self, stops: &Faults) -> (u64, u64) {
        (self.begin, stops.awake_for(self.end, self.after))
    }
}

/// When the store was not to be relied on, for whom.
#[derive(Debug)]
pub(crate) struct Outages {
    /// For all.
    everyone: Vec<Breach>,
    /// For those on one part of the network.
    links: BTreeMap<usize, Vec<Breach>>,
    /// For single workers, whose wall clock was wrong where requests are signed with it.
    astray: BTreeMap<u64, Windows>,
    extent: Extent,
}

impl Outages {
    /// What the faults of a run on this store come to.
    pub(crate) fn new(struck: &[Struck], place: Place, extent: Extent, records: &[Record]) -> Self {
        let (signs, killed) = (place.subject.signs, killed(records));
        let (links, astray) = (BTreeMap::new(), BTreeMap::new());
        let mut outages = Self { everyone: Vec::new(), links, astray, extent };
        for fault in struck.iter().filter(|fault| fault.kind.is_outage()) {
            let (begin, after) = (fault.begin, nanos(extent.after(fault.kind, place.patience)));
            let breach = Breach { begin, end: fault.end, after };
            match (fault.kind.aim(), fault.link, fault.worker()) {
                (Aim::Server, ..) => outages.everyone.push(breach),
                (Aim::Network, Some(link), _) => {
                    outages.links.entry(link).or_default().push(breach);
                }
                (Aim::Worker, _, Some(worker)) if signs && fault.kind == Kind::ClockStep => {
                    // What it had signed was refused, and none of it comes later.
                    let end = fault.end.saturating_add(after);
                    let end = end.min(killed.get(&worker).copied().unwrap_or(u64::MAX));
                    if end > begin {
                        outages.astray.entry(worker).or_default().push((begin, end));
                    }
                }
                _ => {}
            }
        }
        if place.subject.is_files {
            let after = nanos(extent.after(Kind::WorkerPause, place.patience));
            let blocked = blocked(records, struck).into_iter();
            outages.everyone.extend(blocked.map(|(begin, end)| Breach { begin, end, after }));
        }
        outages
    }

    /// When each worker could not rely on the store, or stood still.
    pub(crate) fn away(
        &self,
        records: &[Record],
        links: &BTreeMap<u64, usize>,
    ) -> BTreeMap<u64, Windows> {
        let pauses = pauses(records);
        let own = pauses.keys().chain(self.astray.keys());
        let workers: BTreeSet<u64> = links.keys().chain(own).copied().collect();
        let after_stop = nanos(self.extent.after_stop());
        let of = |worker: &u64| {
            let pauses = pauses.get(worker).cloned().unwrap_or_default();
            let stops = Faults { pauses, killed: None };
            let stopped =
                stops.pauses.iter().map(|(from, until)| (*from, until.saturating_add(after_stop)));
            let astray = self.astray.get(worker).into_iter().flatten().copied();
            let of_link = links.get(worker).and_then(|link| self.links.get(link));
            let breaches = self.everyone.iter().chain(of_link.into_iter().flatten());
            let broken = breaches.map(|breach| breach.window(&stops));
            joined(stopped.chain(astray).chain(broken).collect())
        };
        workers.iter().map(|worker| (*worker, of(worker))).collect()
    }
}

/// The same windows in order, and those that overlap as one.
pub(crate) fn joined(mut windows: Windows) -> Windows {
    windows.sort_unstable();
    let mut joined = Windows::new();
    for (from, until) in windows {
        match joined.last_mut() {
            Some((_, last)) if *last >= from => *last = until.max(*last),
            _ => joined.push((from, until)),
        }
    }
    joined
}

/// Whether anything of the time from `from` until `until` is in a window.
pub(crate) fn overlaps(windows: &[(u64, u64)], from: u64, until: u64) -> bool {
    begun(windows, from, until).is_some()
}

/// The beginning of the first window that has anything of the time from `from` until `until`.
pub(crate) fn begun(windows: &[(u64, u64)], from: u64, until: u64) -> Option<u64> {
    let next = windows.partition_point(|(_, end)| *end <= from);
    windows.get(next).map(|(begin, _)| *begin).filter(|begin| *begin < until)
}

/// The end of the window that `at` is in; `at` itself, if it is in none.
pub(crate) fn well_by(windows: &[(u64, u64)], at: u64) -> u64 {
    let next = windows.partition_point(|(_, end)| *end <= at);
    windows.get(next).filter(|(begin, _)| *begin <= at).map_or(at, |(_, end)| *end)
}

/// When each worker was killed that was.
fn killed(records: &[Record]) -> BTreeMap<u64, u64> {
    let is_killed = |record: &&Record| record.what == What::Killed;
    records.iter().filter(is_killed).map(|record| (record.worker, record.at)).collect()
}

/// When each worker was stopped.
pub(crate) fn pauses(records: &[Record]) -> BTreeMap<u64, Windows> {
    let mut pauses = BTreeMap::<u64, Windows>::new();
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
    pauses
}

/// When a worker that was stopped kept all others from a file: by how long they were not answered.
/// One that is stopped in the middle of a write does, and any other does not: whatever was granted
/// or given back meanwhile was written.
fn blocked(records: &[Record], struck: &[Struck]) -> Windows {
    let paused = struck.iter().filter(|fault| fault.kind == Kind::WorkerPause);
    let paused = joined(paused.map(|fault| (fault.begin, fault.end + nanos(GRACE))).collect());
    let own = pauses(records);
    let mut in_order: Vec<&Record> = records.iter().filter(|record| record.claim != 0).collect();
    in_order.sort_by_key(|record| record.at);
    let mut asked = BTreeMap::<(u64, u64), u64>::new();
    let (mut blocked, mut written) = (Windows::new(), Windows::new());
    for record in in_order {
        let claim = (record.worker, record.claim);
        let writes = match record.what {
            What::Asked { wait: Some(0), .. } | What::ReleaseAsked => {
                asked.insert(claim, record.at);
                continue;
            }
            // Whoever changed its mind was not kept back.
            What::Failed { ref kind, .. } if kind == ABANDONED => continue,
            What::Granted { .. } | What::Released => true,
            What::Failed { .. } | What::Held => false,
            _ => continue,
        };
        let Some(from) = asked.remove(&claim) else { continue };
        if writes {
            written.push((from, record.at));
        }
        let is_own = own.get(&record.worker).is_some_and(|own| overlaps(own, from, record.at));
        let is_kept_back = record.at - from >= nanos(KEPT_BACK);
        if is_kept_back && !is_own && overlaps(&paused, from, record.at) {
            blocked.push((from, record.at));
        }
    }
    written.sort_unstable();
    blocked.retain(|window| stood_still(&written, *window));
    joined(blocked)
}

/// Whether there was a time within `from` and `until` in which nothing was written, long enough to
/// keep somebody back. Each write was done at some moment between its question and its answer.
fn stood_still(written: &[(u64, u64)], (from, until): (u64, u64)) -> bool {
    let begun = written.partition_point(|(asked, _)| *asked <= from);
    let within = written[begun..].iter().take_while(|(asked, _)| *asked < until);
    let within: Windows = within.filter(|(_, done)| *done < until).copied().collect();
    let mut next = until;
    for (asked, done) in within.into_iter().rev() {
        if next >= asked.saturating_add(nanos(KEPT_BACK)) {
            return true;
        }
        next = next.min(done);
    }
    next >= from.saturating_add(nanos(KEPT_BACK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::AGAIN;

    const SECOND: u64 = 1_000_000_000;

    fn record(worker: u64, claim: u64, at: u64, what: What) -> Record {
        Record { worker, claim, key: "k".into(), at, what }
    }

    #[test]
    fn a_stopped_worker_is_an_outage_of_a_file_only_where_it_kept_others_back() {
        let fault = |begin, end| {
            let (begin, end) = (begin * SECOND, end * SECOND);
            let target = "worker 1".to_owned();
            Struck { kind: Kind::WorkerPause, target, link: None, begin, end }
        };
        let struck = [fault(10, 20), fault(30, 40)];
        let claim = |claim, from: u64, until: u64, what| {
            let asked = What::Asked { ttl: SECOND, wait: Some(0) };
            [record(2, claim, from, asked), record(2, claim, until, what)]
        };
        let of_kind = |kind: &str| What::Failed { kind: kind.into(), unknown: false };
        let failed = || of_kind("Unavailable");
        let records = [
            claim(1, 11 * SECOND, 13 * SECOND, failed()),
            claim(2, 14 * SECOND, 14 * SECOND + 5, What::Held),
            claim(3, 15 * SECOND, 16 * SECOND, What::Held),
            claim(4, 31 * SECOND, 31 * SECOND + 5, What::Held),
            claim(5, 50 * SECOND, 52 * SECOND, failed()),
            claim(6, 32 * SECOND, 34 * SECOND, of_kind(ABANDONED)),
            claim(7, 35 * SECOND, 35 * SECOND + 5, of_kind(AGAIN)),
        ]
        .concat();
        assert_eq!(
            blocked(&records, &struck),
            [(11 * SECOND, 13 * SECOND), (15 * SECOND, 16 * SECOND)]
        );
    }

    #[test]
    fn a_question_may_fail_for_a_while_after_its_worker_was_stopped() {
        let records = [record(1, 0, SECOND, What::Paused), record(1, 0, 2 * SECOND, What::Resumed)];
        let place = Place { subject: crate::subject::VOLATILE, patience: Duration::ZERO };
        let end = |extent| {
            let away = Outages::new(&[], place, extent, &records).away(&records, &BTreeMap::new());
            away[&1][0].1
        };
        assert_eq!((end(Extent::Bare), end(Extent::Connections)), (2 * SECOND, 2 * SECOND));
        assert_eq!(end(Extent::Failures), 2 * SECOND + nanos(GRACE));
    }

    #[test]
    fn one_that_was_stopped_finds_a_silent_connection_when_it_goes_on() {
        let struck = |kind, begin: u64, end: u64| {
            let (begin, end) = (begin * SECOND, end * SECOND);
            Struck { kind, target: String::new(), link: Some(0), begin, end }
        };
        let server = Struck { link: None, ..struck(Kind::ServerKill, 70, 71) };
        let struck = [struck(Kind::HalfOpen, 10, 11), struck(Kind::HalfOpen, 40, 41), server];
        let records =
            [(9, What::Paused), (15, What::Resumed), (69, What::Paused), (75, What::Resumed)];
        let records = records.map(|(at, what)| record(1, 0, at * SECOND, what));
        let place = Place { subject: crate::subject::VOLATILE, patience: Duration::ZERO };
        let outages = Outages::new(&struck, place, Extent::Connections, &records);
        let away = outages.away(&records, &BTreeMap::from([(1, 0), (2, 0)]));
        let after = nanos(GRACE + LATE);
        let again = (40 * SECOND, 41 * SECOND + after);
        let server = |from, until| (from * SECOND, until * SECOND + nanos(GRACE));
        assert_eq!(away[&1], [(9 * SECOND, 15 * SECOND + after), again, server(69, 75)]);
        assert_eq!(away[&2], [(10 * SECOND, 11 * SECOND + after), again, server(70, 71)]);
    }

    #[test]
    fn a_wrong_clock_is_an_outage_of_its_worker_where_requests_are_signed_with_it() {
        let (kind, target) = (Kind::ClockStep, "worker 2".to_owned());
        let struck = [Struck { kind, target, link: None, begin: SECOND, end: 3 * SECOND }];
        let away = |store, records: &[Record]| {
            let subject = crate::subject::named(store).unwrap();
            let place = Place { subject, patience: Duration::ZERO };
            let outages = Outages::new(&struck, place, Extent::Bare, records);
            outages.away(records, &BTreeMap::from([(1, 0), (2, 0)]))
        };
        let of_two = |windows| BTreeMap::from([(1, Windows::new()), (2, windows)]);
        assert_eq!(away("redis", &[]), of_two(vec![]));
        let end = 3 * SECOND + nanos(NOTICED_WITHIN + GRACE / 3);
        assert_eq!(away("object/seaweedfs", &[]), of_two(vec![(SECOND, end)]));
        // Whoever is dead has no clock.
        let killed = |at| away("object/seaweedfs", &[record(2, 0, at, What::Killed)]);
        assert_eq!(killed(2 * SECOND), of_two(vec![(SECOND, 2 * SECOND)]));
        assert_eq!(killed(SECOND), of_two(vec![]));
    }

    #[test]
    fn a_file_that_was_written_all_the_time_stood_not_still() {
        let ms = |at: u64| at * 1_000_000;
        let written = |step: u64| -> Windows {
            (0..=20).map(|place| (ms(place * step), ms(place * step + 5))).collect()
        };
        assert!(!stood_still(&written(100), (ms(0), ms(2_000))));
        assert!(stood_still(&written(400), (ms(0), ms(2_000))));
        assert!(stood_still(&[], (ms(0), ms(300))));
        // Whoever waited itself says nothing of when it could write.
        assert!(stood_still(&[(ms(100), ms(900)), (ms(200), ms(950))], (ms(0), ms(1_000))));
    }

    #[test]
    fn one_that_was_stopped_itself_was_kept_back_by_nobody() {
        let (kind, target) = (Kind::WorkerPause, "worker 2".to_owned());
        let struck = [Struck { kind, target, link: None, begin: SECOND, end: 9 * SECOND }];
        let records = [
            record(2, 1, SECOND - 1, What::Asked { ttl: SECOND, wait: Some(0) }),
            record(2, 0, SECOND, What::Paused),
            record(2, 0, 9 * SECOND, What::Resumed),
            record(2, 1, 9 * SECOND + 1, What::Held),
        ];
        assert_eq!(blocked(&records, &struck), []);
    }
}
