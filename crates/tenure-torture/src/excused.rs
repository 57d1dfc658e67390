//! How much of the time the store was not to be relied on, or its worker stood still, and what was
//! done in the rest.

use std::collections::BTreeMap;

use tenure_check::Record;

use crate::outages::{Windows, overlaps};
use crate::questions::{Question, Reply};

/// A share of the time of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Excused {
    time: u64,
    of: u64,
}

impl Excused {
    /// The share of the time, from the first to the last line of each worker, that is in its
    /// windows.
    pub(crate) fn new(records: &[Record], windows: &BTreeMap<u64, Windows>) -> Self {
        let mut lives = BTreeMap::<u64, (u64, u64)>::new();
        for record in records.iter().filter(|record| record.claim != 0) {
            let (first, last) = lives.entry(record.worker).or_insert((record.at, record.at));
            *first = record.at.min(*first);
            *last = record.at.max(*last);
        }
        let mut excused = Self::default();
        for (worker, (first, last)) in lives {
            let within =
                |(from, until): &(u64, u64)| (*until).min(last).saturating_sub((*from).max(first));
            excused.of += last - first;
            excused.time += windows.get(&worker).into_iter().flatten().map(within).sum::<u64>();
        }
        excused
    }

    /// In hundredths.
    pub(crate) const fn percent(self) -> u64 {
        let of = if self.of == 0 { 1 } else { self.of };
        (self.time as u128 * 100 / of as u128) as u64
    }
}

/// How many questions were asked and answered while nothing was wrong.
pub(crate) fn quiet(questions: &[Question], windows: &BTreeMap<u64, Windows>) -> usize {
    let is_quiet = |question: &&Question| {
        let windows = windows.get(&question.worker).map_or(&[][..], Vec::as_slice);
        matches!(question.reply, Reply::Told { at } if !overlaps(windows, question.asked, at))
    };
    questions.iter().filter(is_quiet).count()
}

#[cfg(test)]
mod tests {
    use tenure_check::What;

    use super::*;
    use crate::questions::Act;

    #[test]
    fn only_what_was_answered_in_a_quiet_moment_is_quiet() {
        let question = |asked, reply| Question {
            worker: 1,
            act: Act::Status,
            key: "k".into(),
            asked,
            wait: 0,
            reply,
        };
        let questions = [
            question(10, Reply::Told { at: 20 }),
            question(10, Reply::Told { at: 40 }),
            question(60, Reply::Failed { at: 70, kind: "Unavailable".into() }),
            question(60, Reply::None),
        ];
        assert_eq!(quiet(&questions, &BTreeMap::from([(1, vec![(30, 50)])])), 1);
        assert_eq!(quiet(&questions, &BTreeMap::new()), 2);
    }

    #[test]
    fn only_the_time_that_a_worker_lived_counts() {
        let record = |worker, claim, at| {
            let what = What::Believed;
            Record { worker, claim, key: "k".into(), at, what }
        };
        let records = [record(1, 1, 200), record(1, 2, 100), record(2, 1, 0), record(2, 2, 100)];
        let windows = BTreeMap::from([(1, vec![(50, 110), (190, 900)]), (3, vec![(0, 100)])]);
        assert_eq!(Excused::new(&records, &windows).percent(), 10);
        assert_eq!(Excused::default().percent(), 0);
        // A line of the sink is no sign of life.
        assert_eq!(Excused::new(&[record(4, 0, 9)], &windows), Excused::default());
    }
}
