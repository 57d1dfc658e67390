//! While nothing is wrong no question fails, and each is answered whatever is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_check::stay::Stay;
use tenure_check::{History, Options};

use crate::job::nanos;
use crate::outages::{Windows, joined, overlaps};
use crate::questions::{Act, Question, Reply};
use crate::turn::UNKNOWN;
use crate::woken::usual_answer;

/// How many times the time that an answer is waited for a question may take that is neither a claim
/// nor a renewal: before a lease is given back, its renewal has to end.
const PATIENCES: u64 = 4;

/// For how long a line goes by a failure that its head was told of: it asks again after 0.75 s, on
/// a timer that may be a quarter slow.
const TOLD: Duration = Duration::from_secs(1);

/// By how much this process has to be late for workers to have missed an answer by that.
const LATE_MIN: Duration = Duration::from_millis(100);

/// How far that reaches.
const NEAR: u64 = 1_000_000_000;

/// Fewer waits that ended without an answer say nothing.
const UNKNOWN_MIN: usize = 20;

/// For so many waits that ended with an answer, one may have ended without.
const UNKNOWN_PART: usize = 4;

/// For how many answers a wait has to be long enough to count there.
const ANSWERS: u64 = 8;

/// What excuses workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excuses<'a> {
    /// When a question of each worker may fail.
    pub(crate) failing: &'a BTreeMap<u64, Windows>,
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
    let slow = slow(history, questions, excuses.hardly());
    let late = late(options);
    let mut waits = Waits::new(usual_answer(history).saturating_mul(ANSWERS));
    let mut found = Vec::new();
    for question in questions {
        let Question { worker, act, key, asked, .. } = question;
        let (act, took) = (act.text(), |at: u64| Duration::from_nanos(at.saturating_sub(*asked)));
        let is_well = question
            .answered()
            .is_some_and(|at| !overlaps(&late, *asked, at) && !excuses.cover(question, at, &slow));
        let is_counted = is_well && waits.count(question);
        if let Reply::Failed { at, kind } = &question.reply
            && is_well
            && !is_counted
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
    found.extend(waits.complaint());
    let ended = "did not end when its time was over, and had to be killed";
    found.extend(excuses.stuck.iter().map(|worker| format!("worker {worker} {ended}")));
    found
}

/// Waits that were over while nothing was wrong. One may end with a try under way, so that its
/// outcome is not known, but not many do of those that are long enough for several answers.
#[derive(Debug)]
struct Waits {
    long: u64,
    told: usize,
    unknown: usize,
}

impl Waits {
    fn new(long: u64) -> Self {
        Self { long, told: 0, unknown: 0 }
    }

    /// Whether this is one of them.
    fn count(&mut self, question: &Question) -> bool {
        let Question { asked, wait, .. } = *question;
        let is_over = question.answered().is_some_and(|at| is_over(at.saturating_sub(asked), wait));
        if wait == 0 || !is_over {
            return false;
        }
        let counts = match &question.reply {
            Reply::Told { .. } => &mut self.told,
            Reply::Failed { kind, .. } if kind == UNKNOWN => &mut self.unknown,
            Reply::Failed { .. } | Reply::None => return false,
        };
        *counts += usize::from(wait >= self.long);
        true
    }

    fn complaint(&self) -> Option<String> {
        let Self { told, unknown, .. } = *self;
        (unknown >= UNKNOWN_MIN && unknown > told / UNKNOWN_PART).then(|| {
            format!(
                "{unknown} waits ended without an answer, and {told} with one, while nothing was \
                 wrong"
            )
        })
    }
}

/// Whether a wait was over that took so long. A timer may run a quarter fast.
const fn is_over(took: u64, wait: u64) -> bool {
    took >= wait / 4 * 3
}

impl Excuses<'_> {
    /// When a failure of each worker is not held against the store.
    pub(crate) fn windows(&self, options: &Options) -> BTreeMap<u64, Windows> {
        let late = late(options);
        let of = |windows: &Windows| joined(windows.iter().chain(&late).copied().collect());
        self.failing.iter().map(|(worker, windows)| (*worker, of(windows))).collect()
    }

    /// Whether something was wrong that a failure can have come from. Who waits may stand in line,
    /// and be told then what the head of it was told, a little while before.
    fn cover(&self, question: &Question, at: u64, slow: &[(u64, u64)]) -> bool {
        let Question { worker, asked, wait, .. } = *question;
        let windows = self.failing.get(&worker).map_or(&[][..], Vec::as_slice);
        let took = at.saturating_sub(asked);
        let stands = wait > 0 && is_over(took, wait);
        let is_slow = stands || took >= nanos(self.hardly());
        let from = if stands { asked.saturating_sub(nanos(TOLD)) } else { asked };
        is_slow && overlaps(slow, from, at) || overlaps(windows, from, at)
    }

    /// From when on an answer nearly did not come in time.
    fn hardly(&self) -> Duration {
        self.patience / 2
    }
}

/// When the store answered, but took so long at the least: it was slow then, for others too.
pub(crate) fn slow(history: &History, questions: &[Question], least: Duration) -> Windows {
    let slow = |question: &Question| {
        let asked = question.asked;
        let Reply::Told { at } = question.reply else { return None };
        let took = at.saturating_sub(asked);
        let own = took.saturating_sub(history.paused(question.worker, asked, at));
        (question.wait == 0 && own >= nanos(least)).then_some((asked, at))
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
/// answered no more. For how long a claim waits is for another checker, and nobody waits for a
/// renewal as long as a store may take to give it up.
fn overdue(
    history: &History,
    question: &Question,
    stay: &Stay<'_>,
    patience: Duration,
) -> Option<u64> {
    let Question { worker, act, asked, .. } = *question;
    if matches!(act, Act::Acquire | Act::Renew) {
        return None;
    }
    let until = match (&question.reply, history.killed(worker)) {
        (Reply::Told { at } | Reply::Failed { at, .. }, _) => *at,
        (Reply::None, Some(killed)) => killed,
        (Reply::None, None) => return Some(history.end().max(asked)),
    };
    let took = until.saturating_sub(asked);
    let took = took.saturating_sub(history.paused(worker, asked, until));
    let most = nanos(patience).saturating_mul(PATIENCES).saturating_add(stay.slack(asked, until));
    (took > most).then_some(until)
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
        failing: Windows,
        lags: Windows,
        stuck: Vec<u64>,
        records: Vec<Record>,
    }

    impl Scene {
        fn found(&self, questions: &[Question]) -> usize {
            let failing = BTreeMap::from([(1, self.failing.clone())]);
            let options = Options { lags: self.lags.clone(), ..Options::default() };
            let (patience, stuck) = (PATIENCE, &self.stuck[..]);
            let excuses = Excuses { failing: &failing, patience, stuck };
            check(&History::new(self.records.clone()), &options, questions, excuses).len()
        }
    }

    #[test]
    fn a_failure_while_all_is_well_is_found() {
        for act in [Act::Acquire, Act::Release, Act::Renew, Act::Status, Act::Force] {
            assert_eq!(Scene::default().found(&[failed(act, 3)]), 1);
            let told = question(act, Reply::Told { at: after(3) });
            assert_eq!(Scene::default().found(&[told]), 0);
        }
    }

    #[test]
    fn a_failure_near_an_outage_is_none() {
        let failing = |from, until| Scene { failing: vec![(from, until)], ..Scene::default() };
        let failure = [failed(Act::Acquire, 300)];
        assert_eq!(failing(after(200), after(400)).found(&failure), 0);
        assert_eq!(failing(90 * SECOND, after(1)).found(&failure), 0);
        assert_eq!(failing(90 * SECOND, after(0)).found(&failure), 1);
        assert_eq!(failing(after(400), after(500)).found(&failure), 1);
    }

    #[test]
    fn who_stands_in_line_is_told_what_its_head_was_told_before() {
        let scene = |until| Scene { failing: vec![(90 * SECOND, until)], ..Scene::default() };
        let waited = |wait| Question { wait, ..failed(Act::Acquire, 100) };
        let (lately, before) = (99 * SECOND + SECOND / 2, 98 * SECOND);
        assert_eq!(scene(lately).found(&[waited(SECOND / 10)]), 0);
        assert_eq!(scene(before).found(&[waited(SECOND / 10)]), 1);
        assert_eq!(scene(lately).found(&[waited(SECOND)]), 1);
        assert_eq!(scene(lately).found(&[waited(0)]), 1);
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
        // But not one in four.
        let told =
            Question { wait: SECOND, ..question(Act::Acquire, Reply::Told { at: after(1_000) }) };
        let most = |unknown, tolds| {
            let all = [vec![waited(SECOND, UNKNOWN); unknown], vec![told.clone(); tolds]];
            Scene::default().found(&all.concat())
        };
        assert_eq!((most(19, 0), most(20, 79), most(20, 80)), (0, 1, 0));
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
