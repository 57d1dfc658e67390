//! The leases that a force without an answer may have ended.

use std::collections::BTreeMap;

use tenure_check::{Record, What};

use crate::deed::{Deed, Done};
use crate::job::nanos;
use crate::outages::{GRACE, Windows, well_by};
use crate::turn::UNKNOWN;

/// What is known of one lease.
#[derive(Debug)]
struct Life<'a> {
    grant: &'a Record,
    fence: u64,
    /// When it was asked for: its worker may be told of it long after it was forced.
    asked: u64,
    ttl: u64,
    /// The last that was heard of it.
    last: u64,
    /// When it was known to be given back.
    released: Option<u64>,
}

/// The leases that there may have been when a force landed whose outcome nobody knows: two lines
/// for each, which say that it was forced between them. A force lands no later than it was given up
/// on, or its worker killed, and its way to the store was well again.
pub(crate) fn unanswered(
    records: &[Record],
    deeds: &[Deed],
    broken: &BTreeMap<u64, Windows>,
) -> Vec<Record> {
    let windows = windows(records, deeds, broken);
    let ended = |life: Life<'_>| {
        let within = |(from, until): &&(u64, u64)| {
            life.asked <= *until
                && life.last.saturating_add(life.ttl + nanos(GRACE)) >= *from
                && life.released.is_none_or(|at| at >= *from)
        };
        let windows = windows.get(life.grant.key.as_str())?;
        let within: Vec<&(u64, u64)> = windows.iter().filter(within).collect();
        let from = within.iter().map(|(from, _)| *from).min()?;
        let until = within.iter().map(|(_, until)| *until).max()?;
        let line = |at| {
            let (claim, what) = (0, What::Forced { fence: life.fence });
            Record { at, claim, what, ..life.grant.clone() }
        };
        Some([line(from.max(life.asked)), line(until)])
    };
    lives(records).into_values().filter_map(ended).flatten().collect()
}

/// From when until when each key may have been forced without an answer.
fn windows<'a>(
    records: &[Record],
    deeds: &'a [Deed],
    broken: &BTreeMap<u64, Windows>,
) -> BTreeMap<&'a str, Vec<(u64, u64)>> {
    let killed = records.iter().filter(|record| record.what == What::Killed);
    let killed: BTreeMap<u64, u64> = killed.map(|record| (record.worker, record.at)).collect();
    let lands = |worker: u64, given_up: u64| {
        let well = broken.get(&worker).map_or(given_up, |windows| well_by(windows, given_up));
        well.saturating_add(nanos(GRACE))
    };
    let mut open = BTreeMap::<(u64, u64), &Deed>::new();
    let mut windows = BTreeMap::<&str, Vec<(u64, u64)>>::new();
    for deed in deeds {
        let claim = (deed.worker, deed.claim);
        match &deed.what {
            Done::ForceAsked => drop(open.insert(claim, deed)),
            Done::ForceFailed { kind } if kind == UNKNOWN => {
                let Some(asked) = open.remove(&claim) else { continue };
                let window = (asked.at, lands(deed.worker, deed.at));
                windows.entry(&deed.key).or_default().push(window);
            }
            Done::Forced { .. } | Done::ForceFailed { .. } => drop(open.remove(&claim)),
            _ => {}
        }
    }
    for asked in open.into_values() {
        let until =
            killed.get(&asked.worker).map_or(u64::MAX, |killed| lands(asked.worker, *killed));
        windows.entry(&asked.key).or_default().push((asked.at, until));
    }
    windows
}

/// The leases that were granted, by worker and claim.
fn lives(records: &[Record]) -> BTreeMap<(u64, u64), Life<'_>> {
    let mut questions = BTreeMap::new();
    let mut lives = BTreeMap::<(u64, u64), Life<'_>>::new();
    let mut in_order: Vec<&Record> = records.iter().filter(|record| record.claim != 0).collect();
    in_order.sort_by_key(|record| record.at);
    for record in in_order {
        let claim = (record.worker, record.claim);
        match record.what {
            What::Asked { ttl, .. } => drop(questions.insert(claim, (record.at, ttl))),
            What::Granted { fence } => {
                let (asked, ttl) = questions.get(&claim).copied().unwrap_or((record.at, 0));
                let (last, released) = (record.at, None);
                lives.insert(claim, Life { grant: record, fence, asked, ttl, last, released });
            }
            _ => {
                let Some(life) = lives.get_mut(&claim) else { continue };
                life.last = record.at;
                if record.what == What::Released {
                    life.released = Some(record.at);
                }
            }
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tenure_check::{Checker, History, check};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn lease(claim: u64, at: u64, fence: u64, more: &[(u64, What)]) -> Vec<Record> {
        let mut all = granted(claim, (at * SECOND, at * SECOND), fence).to_vec();
        all.extend(more.iter().map(|(at, what)| record(claim, at * SECOND, what.clone())));
        all
    }

    fn granted(claim: u64, (asked, told): (u64, u64), fence: u64) -> [Record; 2] {
        let question = What::Asked { ttl: 2 * SECOND, wait: Some(0) };
        [record(claim, asked, question), record(claim, told, What::Granted { fence })]
    }

    fn record(claim: u64, at: u64, what: What) -> Record {
        Record { worker: 2, claim, key: "k".into(), at, what }
    }

    /// What is said of leases that may have been ended by a force at 50 s, which was given up on at
    /// 52 s, when the network was broken until 55 s.
    fn found(records: &[Record], more: Option<Done>) -> Vec<Record> {
        unanswered(records, &force(50, more), &broken())
    }

    fn force(at: u64, more: Option<Done>) -> Vec<Deed> {
        let (at, what) = (at * SECOND, Done::ForceAsked);
        let asked = Deed { worker: 1, claim: at, key: "k".into(), at, what };
        let more = more.map(|what| Deed { at: asked.at + 2 * SECOND, what, ..asked.clone() });
        [asked].into_iter().chain(more).collect()
    }

    fn broken() -> BTreeMap<u64, Windows> {
        BTreeMap::from([(1, vec![(51 * SECOND, 55 * SECOND)])])
    }

    /// The fences of these leases.
    fn ended(records: &[Record], more: Option<Done>) -> Vec<u64> {
        let found = found(records, more);
        let fence = |record: &Record| match record.what {
            What::Forced { fence } => fence,
            _ => 0,
        };
        found.iter().map(fence).collect::<BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn a_force_without_an_answer_may_have_ended_what_there_was_when_it_landed() {
        let records = [
            lease(1, 20, 1, &[(45, What::Believed)]),
            lease(2, 20, 2, &[(49, What::Believed)]),
            lease(3, 30, 3, &[(48, What::ReleaseAsked), (49, What::Released)]),
            lease(4, 56, 4, &[]),
            lease(5, 57, 5, &[]),
        ]
        .concat();
        assert_eq!(ended(&records, unknown()), [2, 4]);
        assert_eq!(ended(&records, Some(Done::Forced { fence: None })), [0; 0]);
        let away = Done::ForceFailed { kind: "Unavailable".into() };
        assert_eq!(ended(&records, Some(away)), [0; 0]);
    }

    fn unknown() -> Option<Done> {
        Some(Done::ForceFailed { kind: "Unknown".into() })
    }

    /// A server that stood still grants, loses and grants within a moment, and who comes last is
    /// told first.
    #[test]
    fn a_lease_may_be_ended_before_its_worker_is_told_of_it() {
        let order = |more: Option<Done>| {
            let (first, second) = ((51 * SECOND, 52 * SECOND), (51 * SECOND + 1, 52 * SECOND - 1));
            let mut records = [granted(1, first, 1), granted(2, second, 2)].concat();
            records.extend(found(&records, more));
            let (history, options) = (History::new(records), tenure_check::Options::default());
            check(&history, &options).of(Checker::Linear).count()
        };
        assert_eq!((order(unknown()), order(Some(Done::Forced { fence: None }))), (0, 1));
    }

    #[test]
    fn any_of_several_forces_may_have_ended_a_lease() {
        let deeds = [force(60, unknown()), force(50, unknown())].concat();
        let records = lease(1, 45, 1, &[(59, What::Believed)]);
        let found = unanswered(&records, &deeds, &broken());
        let at: Vec<u64> = found.iter().map(|record| record.at).collect();
        assert_eq!(at, [50 * SECOND, 62 * SECOND + nanos(GRACE)]);
    }

    #[test]
    fn one_that_was_killed_may_have_forced_until_then() {
        let mut records = [lease(4, 56, 4, &[]), lease(5, 58, 5, &[])].concat();
        let what = What::Killed;
        records.push(Record { worker: 1, claim: 0, key: String::new(), at: 51 * SECOND, what });
        assert_eq!(ended(&records, None), [4]);
    }
}
