//! Histories for tests: written by hand, or grown at random from a lock that works.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::History;
use crate::record::{Record, What};
use crate::verdict::{Checker, Options, Verdict, check};

/// The ttl of every claim that is written by hand.
pub(crate) const TTL: u64 = 1_000;

/// A history under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) records: Vec<Record>,
    claims: BTreeMap<u64, (u64, String)>,
}

impl Sample {
    pub(crate) fn note(&mut self, worker: u64, claim: u64, key: &str, at: u64, what: What) {
        self.records.push(Record { worker, claim, key: key.to_owned(), at, what });
    }

    /// The worker asks for the key; all that it does next is about that claim.
    pub(crate) fn asked(&mut self, worker: u64, key: &str, at: u64, wait: u64) -> &mut Self {
        let claim = self.claims.get(&worker).map_or(1, |(claim, _)| claim + 1);
        self.claims.insert(worker, (claim, key.to_owned()));
        self.next(worker, at, What::Asked { ttl: TTL, wait: Some(wait) })
    }

    pub(crate) fn next(&mut self, worker: u64, at: u64, what: What) -> &mut Self {
        let (claim, key) = self.claims[&worker].clone();
        self.note(worker, claim, &key, at, what);
        self
    }

    pub(crate) fn granted(
        &mut self,
        worker: u64,
        key: &str,
        asked: u64,
        at: u64,
        fence: u64,
    ) -> &mut Self {
        self.asked(worker, key, asked, 0).next(worker, at, What::Granted { fence })
    }

    pub(crate) fn held(&mut self, worker: u64, key: &str, asked: u64, at: u64) -> &mut Self {
        self.asked(worker, key, asked, 0).next(worker, at, What::Held)
    }

    pub(crate) fn believed(&mut self, worker: u64, at: u64) -> &mut Self {
        self.next(worker, at, What::Believed)
    }

    pub(crate) fn released(&mut self, worker: u64, asked: u64, at: u64) -> &mut Self {
        self.next(worker, asked, What::ReleaseAsked).next(worker, at, What::Released)
    }

    pub(crate) fn lost(&mut self, worker: u64, asked: u64, at: u64) -> &mut Self {
        self.next(worker, asked, What::ReleaseAsked).next(worker, at, What::Lost)
    }

    pub(crate) fn killed(&mut self, worker: u64, at: u64) -> &mut Self {
        self.note(worker, 0, "", at, What::Killed);
        self
    }

    pub(crate) fn history(&self) -> History {
        History::new(self.records.clone())
    }

    /// With a slack that suits [`TTL`].
    pub(crate) fn verdict(&self) -> Verdict {
        check(&self.history(), &options())
    }
}

pub(crate) fn options() -> Options {
    Options { slack: Duration::from_nanos(TTL / 2), ..Options::default() }
}

/// What a checker says of a history.
pub(crate) fn found(sample: &Sample, checker: Checker) -> Vec<String> {
    sample.verdict().of(checker).map(|violation| violation.text.clone()).collect()
}
