//! While nothing is wrong no question fails, and each is answered whatever is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_check::stay::Stay;
use tenure_check::{History, Options};

use crate::job::nanos;
use crate::outages::{GRACE, Windows, joined, overlaps};
use crate::questions::{Act, Question, Reply};
use crate::turn::UNKNOWN;

/// How many times the time that an answer is waited for a question may take that is not a claim:
/// before a lease is given back, its renewal has to end.
const PATIENCES: u64 = 4;

/// By how much this process has to be late for workers to have missed an answer by that.
const LATE_MIN: Duration = Duration::from_millis(100);

/// How far that reaches.
const NEAR: u64 = 1_000_000_000;

/// What excuses workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excuses<'a> {
    /// When each worker could not rely on the store, or stood still.
    pub(crate) broken: &'a BTreeMap<u64, Windows>,
    /// How long an answer is waited for.
    pub(crate) patience: Duration,
    /// Those who had to be ended.
    pub(crate) stuck: &'a [u64],
}

/// Finds questions that failed although their worker's way to the store was well, and the machine;
/// those that were not answered, or far too late; and workers that did not end. That a claim waits
/// too long is for another checker.
pub(crate) fn check(
    history: &History,
    options: &Options,
    questions: &[Question],
    excuses: Excuses<'_>,
) -> Vec<String> {
    let stay = Stay::new(history, options);
    let slow = slow(history, questions, excuses);
    let late = late(options);
    let mut found = Vec::new();
    for question in questions {
        let Question { worker, act, key, asked, .. } = question;
        let (act, took) = (act.text(), |at: u64| Duration::from_nanos(at.saturating_sub(*asked)));
        if let Reply::Failed { at, kind } = &question.reply
            && !overlaps(&late, *asked, *at)
            && !excuses.cover(question, *at, kind, &slow)
        {
            let took = took(*at);
            found.push(format!(
                "worker {worker}: {act} of {key} failed ({kind}) after {took:?}, and nothing was \
                 wrong"
            ));
        } else if let Some(until) = overdue(history, question, &stay, excuses.patience) {
            let took = took(until);
            found.push(format!("worker {worker}: {act} of {key} was not answered for {took:?}"));
        }
    }
    let ended = "did not end when its time was over, and had to be killed";
    found.extend(excuses.stuck.iter().map(|worker| format!("worker {worker} {ended}")));
    found
}

impl Excuses<'_> {
    /// When a failure of each worker is not held against the store.
    pub(crate) fn windows(&self, options: &Options) -> BTreeMap<u64, Windows> {
        let late = late(options);
        let of = |windows: &Windows| {
            let lasting =
                windows.iter().map(|(from, end)| (*from, end.saturating_add(nanos(GRACE))));
            joined(lasting.chain(late.iter().copied()).collect())
        };
        self.broken.iter().map(|(worker, windows)| (*worker, of(windows))).collect()
    }

    /// Whether something was wrong that a failure can have come from. A connection may have been
    /// given up by the server while its worker stood still. A wait that is over may end with a try
    /// whose answer is on its way, so that the outcome is not known, and its timer may run a
    /// quarter fast.
    fn cover(&self, question: &Question, at: u64, kind: &str, slow: &[(u64, u64)]) -> bool {
        let is_over = at.saturating_sub(question.asked) >= question.wait / 4 * 3;
        if question.wait > 0 && is_over && kind == UNKNOWN {
            return true;
        }
        let Question { worker, asked, .. } = question;
        let windows = self.broken.get(worker).map_or(&[][..], Vec::as_slice);
        let is_slow = self.is_slow(at.saturating_sub(*asked)) && overlaps(slow, *asked, at);
        is_slow || overlaps(windows, asked.saturating_sub(nanos(GRACE)), at)
    }

    /// Whether an answer that took so long nearly did not come in time.
    fn is_slow(&self, took: u64) -> bool {
        took >= nanos(self.patience) / 2
    }
}

/// When the store answered, but hardly in time: it was slow then, for others too.
fn slow(history: &History, questions: &[Question], excuses: Excuses<'_>) -> Windows {
    let slow = |question: &Question| {
        let (asked, Reply::Told { at }) = (question.asked, &question.reply) else { return None };
        let took = at.saturating_sub(asked);
        let own = took.saturating_sub(history.paused(question.worker, asked, *at));
        (question.wait == 0 && excuses.is_slow(own)).then_some((asked, *at))
    };
    joined(questions.iter().filter_map(slow).collect())
}

/// When this process was so late that workers may have been.
fn late(options: &Options) -> Windows {
    let late = options.lags.iter().filter(|(_, late)| *late >= nanos(LATE_MIN));
    let near = |(at, late): &(u64, u64)| {
        (at.saturating_sub(late.saturating_add(NEAR)), at.saturating_add(NEAR))
    };
    joined(late.map(near).collect())
}

/// Until when a question was not answered, if that is too long. One that was killed has to be
/// answered no more.
fn overdue(
    history: &History,
    question: &Question,
    stay: &Stay<'_>,
    patience: Duration,
) -> Option<u64> {
    let Question { worker, asked, .. } = *question;
    let until = match (&question.reply, history.killed(worker)) {
        (Reply::Told { at } | Reply::Failed { at, .. }, _) => *at,
        (Reply::None, Some(killed)) => killed,
        (Reply::None, None) if question.act == Act::Acquire => return None,
        (Reply::None, None) => return Some(history.end().max(asked)),
    };
    let took = until.saturating_sub(asked);
    let took = took.saturating_sub(history.paused(worker, asked, until));
    let most = nanos(patience).saturating_mul(PATIENCES).saturating_add(stay.slack(asked, until));
    (question.act != Act::Acquire && took > most).then_some(until)
}

#[cfg(test)]
mod tests {
    use tenure_check::{Record, What};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const PATIENCE: Duration = Duration::from_millis(1500);

    /// A question of worker 1 at 100 s; times are in milliseconds after that.
    fn question(act: Act, reply: Reply) -> Question {
        Question { worker: 1, act, key: "k".into(), asked: 100 * SECOND, wait: 0, reply }
    }

    fn after(ms: u64) -> u64 {
        100 * SECOND + ms * 1_000_000
    }

    fn failed(act: Act, ms: u64) -> Question {
        question(act, Reply::Failed { at: after(ms), kind: "Unavailable".into() })
    }

    #[derive(Default)]
    struct Scene {
        broken: Windows,
        lags: Windows,
        stuck: Vec<u64>,
        records: Vec<Record>,
    }

    impl Scene {
        fn found(&self, questions: &[Question]) -> usize {
            let broken = BTreeMap::from([(1, self.broken.clone())]);
            let options = Options { lags: self.lags.clone(), ..Options::default() };
            let (patience, stuck) = (PATIENCE, &self.stuck[..]);
            let excuses = Excuses { broken: &broken, patience, stuck };
            check(&History::new(self.records.clone()), &options, questions, excuses).len()
        }
    }

    #[test]
    fn a_failure_while_all_is_well_is_found() {
        for act in [Act::Acquire, Act::Release, Act::Status, Act::Force] {
            assert_eq!(Scene::default().found(&[failed(act, 3)]), 1);
            let told = question(act, Reply::Told { at: after(3) });
            assert_eq!(Scene::default().found(&[told]), 0);
        }
    }

    #[test]
    fn a_failure_near_an_outage_is_none() {
        let broken = |from, until| Scene { broken: vec![(from, until)], ..Scene::default() };
        let failure = [failed(Act::Acquire, 300)];
        assert_eq!(broken(after(200), after(400)).found(&failure), 0);
        assert_eq!(broken(98 * SECOND, 99 * SECOND).found(&failure), 0);
        assert_eq!(broken(90 * SECOND, 98 * SECOND).found(&failure), 1);
        assert_eq!(broken(after(400), after(500)).found(&failure), 1);
    }

    #[test]
    fn a_wait_may_end_with_a_try_under_way() {
        let waited = |wait, kind: &str| {
            let reply = Reply::Failed { at: after(1_000), kind: kind.into() };
            Question { wait, ..question(Act::Acquire, reply) }
        };
        let found = |wait, kind| Scene::default().found(&[waited(wait, kind)]);
        assert_eq!((found(SECOND, UNKNOWN), found(9 * SECOND, UNKNOWN)), (0, 1));
        assert_eq!(found(SECOND, "Unavailable"), 1);
    }

    #[test]
    fn a_machine_that_is_late_is_excused() {
        let late = |at, by| Scene { lags: vec![(at, by)], ..Scene::default() };
        assert_eq!(late(after(5), SECOND / 2).found(&[failed(Act::Release, 3)]), 0);
        assert_eq!(late(after(5), SECOND / 50).found(&[failed(Act::Release, 3)]), 1);
        assert_eq!(late(50 * SECOND, SECOND / 2).found(&[failed(Act::Release, 3)]), 1);
    }

    #[test]
    fn a_store_that_is_slow_for_others_too_may_be_given_up_on_but_not_refuse() {
        let slow = question(Act::Acquire, Reply::Told { at: after(1_200) });
        let found = |ms| Scene::default().found(&[slow.clone(), failed(Act::Acquire, ms)]);
        assert_eq!((found(1_500), found(3)), (0, 1));
        assert_eq!(Scene::default().found(&[failed(Act::Acquire, 1_500)]), 1);
    }

    #[test]
    fn a_question_without_an_answer_is_found_unless_the_worker_was_killed() {
        for act in [Act::Release, Act::Status, Act::Force] {
            assert_eq!(Scene::default().found(&[question(act, Reply::None)]), 1);
        }
        let killed = |at| {
            let (key, what) = (String::new(), What::Killed);
            let records = vec![Record { worker: 1, claim: 0, key, at, what }];
            Scene { records, ..Scene::default() }.found(&[question(Act::Release, Reply::None)])
        };
        assert_eq!((killed(after(5_000)), killed(after(9_000))), (0, 1));
    }

    #[test]
    fn a_worker_that_does_not_end_is_found() {
        assert_eq!(Scene { stuck: vec![7], ..Scene::default() }.found(&[]), 1);
    }
}
