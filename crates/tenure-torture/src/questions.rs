//! All that workers asked of the store, each with what came of it.

use std::collections::BTreeMap;

use tenure_check::{Record, What};

use crate::deed::{Deed, Done};
use crate::turn::{ABANDONED, AGAIN, UNTOLD};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Acquire,
    Release,
    Renew,
    Status,
    Force,
}

impl Act {
    /// What it is, for people.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Renew => "renewal",
            Self::Status => "status",
            Self::Force => "force-release",
        }
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Nothing: the worker was killed, or is stuck.
    None,
    /// The store's word, which may be that another holds the key.
    Told {
        /// When it was there.
        at: u64,
    },
    /// An error.
    Failed {
        /// When it was there.
        at: u64,
        /// Its kind.
        kind: String,
    },
}

/// One question. Those whose answer nobody waits for are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) worker: u64,
    pub(crate) act: Act,
    pub(crate) key: String,
    pub(crate) asked: u64,
    /// How long it would wait for a key to be free; `u64::MAX` for ever.
    pub(crate) wait: u64,
    pub(crate) reply: Reply,
}

impl Question {
    /// When it was answered, in whichever way.
    pub(crate) const fn answered(&self) -> Option<u64> {
        match self.reply {
            Reply::Told { at } | Reply::Failed { at, .. } => Some(at),
            Reply::None => None,
        }
    }
}

/// A step of a question.
enum Step<'a> {
    Asked {
        wait: u64,
    },
    Told,
    Failed(&'a str),
    /// Nobody waits for the answer any more.
    Dropped,
}

/// All questions. The lines of each worker are in the order in which it wrote them.
pub(crate) fn questions(records: &[Record], deeds: &[Deed]) -> Vec<Question> {
    let mut open = BTreeMap::<(u64, u64, Act), Question>::new();
    let mut all = Vec::new();
    let mut take = |worker, claim, key: &String, at, (act, step): (Act, Step<'_>)| {
        let place = (worker, claim, act);
        let reply = match step {
            Step::Asked { wait } => {
                let (key, asked, reply) = (key.clone(), at, Reply::None);
                let question = Question { worker, act, key, asked, wait, reply };
                open.insert(place, question);
                return;
            }
            Step::Told => Reply::Told { at },
            Step::Failed(kind) => Reply::Failed { at, kind: kind.to_owned() },
            Step::Dropped => {
                open.remove(&place);
                return;
            }
        };
        all.extend(open.remove(&place).map(|question| Question { reply, ..question }));
    };
    for Record { worker, claim, key, at, what } in records {
        if let Some(step) = of_claim(what) {
            take(*worker, *claim, key, *at, step);
        }
    }
    for Deed { worker, claim, key, at, what } in deeds {
        if let Some(step) = of_deed(what) {
            take(*worker, *claim, key, *at, step);
        }
    }
    all.extend(open.into_values());
    all.extend(deeds.iter().filter_map(renewal));
    all
}

/// A renewal that failed: nothing is written when it is asked for.
fn renewal(deed: &Deed) -> Option<Question> {
    let Deed { worker, key, at, what: Done::RenewFailed { kind, took }, .. } = deed else {
        return None;
    };
    Some(Question {
        worker: *worker,
        act: Act::Renew,
        key: key.clone(),
        asked: at.saturating_sub(*took),
        wait: 0,
        reply: Reply::Failed { at: *at, kind: kind.clone() },
    })
}

fn of_claim(what: &What) -> Option<(Act, Step<'_>)> {
    match what {
        What::Asked { wait, .. } => {
            Some((Act::Acquire, Step::Asked { wait: wait.unwrap_or(u64::MAX) }))
        }
        What::Granted { .. } | What::Held => Some((Act::Acquire, Step::Told)),
        What::Failed { kind, .. } if kind == AGAIN => Some((Act::Acquire, Step::Told)),
        What::Failed { kind, .. } if kind == ABANDONED => Some((Act::Acquire, Step::Dropped)),
        What::Failed { kind, .. } => Some((Act::Acquire, Step::Failed(kind))),
        What::ReleaseAsked => Some((Act::Release, Step::Asked { wait: 0 })),
        What::Released | What::Lost => Some((Act::Release, Step::Told)),
        What::ReleaseFailed { kind } if kind == UNTOLD => Some((Act::Release, Step::Dropped)),
        What::ReleaseFailed { kind } => Some((Act::Release, Step::Failed(kind))),
        What::Dropped => Some((Act::Release, Step::Dropped)),
        _ => None,
    }
}

fn of_deed(done: &Done) -> Option<(Act, Step<'_>)> {
    match done {
        Done::LookAsked => Some((Act::Status, Step::Asked { wait: 0 })),
        Done::Looked { .. } => Some((Act::Status, Step::Told)),
        Done::LookFailed { kind } => Some((Act::Status, Step::Failed(kind))),
        Done::ForceAsked => Some((Act::Force, Step::Asked { wait: 0 })),
        Done::Forced { .. } => Some((Act::Force, Step::Told)),
        Done::ForceFailed { kind } => Some((Act::Force, Step::Failed(kind))),
        Done::Renewed { .. }
        | Done::RenewFailed { .. }
        | Done::Gone
        | Done::Again { .. }
        | Done::Unheard
        | Done::Unasked
        | Done::Unsaid => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(claim: u64, at: u64, what: What) -> Record {
        Record { worker: 1, claim, key: "k".into(), at, what }
    }

    fn asked() -> What {
        What::Asked { ttl: 9, wait: Some(0) }
    }

    #[test]
    fn questions_meet_their_answers() {
        let failed = |kind: &str| What::Failed { kind: kind.into(), unknown: true };
        let records = [
            record(1, 1, asked()),
            record(2, 2, What::Asked { ttl: 9, wait: Some(5) }),
            record(2, 3, failed("Unknown")),
            record(1, 4, What::Granted { fence: 1 }),
            record(1, 5, What::ReleaseAsked),
        ];
        let deed = |claim, at, what| Deed { worker: 1, claim, key: "k".into(), at, what };
        let deeds = [deed(3, 6, Done::LookAsked), deed(3, 8, Done::Looked { fence: None })];
        let found = questions(&records, &deeds);
        let short = |question: &Question| {
            let Question { act, asked, wait, reply, .. } = question;
            (act.text(), *asked, *wait, reply.clone())
        };
        let unknown = Reply::Failed { at: 3, kind: "Unknown".into() };
        let expected = [
            ("acquire", 2, 5, unknown),
            ("acquire", 1, 0, Reply::Told { at: 4 }),
            ("status", 6, 0, Reply::Told { at: 8 }),
            ("release", 5, 0, Reply::None),
        ];
        assert_eq!(found.iter().map(short).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_renewal_that_failed_was_asked_for_before() {
        let what = Done::RenewFailed { kind: "Unavailable".into(), took: 5 };
        let deed = Deed { worker: 1, claim: 0, key: "k".into(), at: 9, what };
        let found = questions(&[], &[deed]);
        let reply = Reply::Failed { at: 9, kind: "Unavailable".into() };
        let key = "k".to_owned();
        assert_eq!(found, [Question { worker: 1, act: Act::Renew, key, asked: 4, wait: 0, reply }]);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_not_missed() {
        let abandoned = What::Failed { kind: ABANDONED.into(), unknown: true };
        let untold = What::ReleaseFailed { kind: UNTOLD.into() };
        let records = [
            record(1, 1, asked()),
            record(1, 2, abandoned),
            record(2, 3, What::ReleaseAsked),
            record(2, 4, untold),
            record(3, 5, What::ReleaseAsked),
            record(3, 6, What::Dropped),
        ];
        assert_eq!(questions(&records, &[]), []);
    }
}
