//! Which questions for a lock nobody was answered: each of them may have been granted.
//!
//! A claim is one question or many, and what it is told in the end does not say what became of
//! each. So they are counted here, between the locks and the store.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Key, Lease, Result, Retry, Status, Store};

use crate::deed::Done;
use crate::log::Log;

const LABEL: &str = "claim-";

/// The questions of all claims of a worker.
#[derive(Debug)]
pub(crate) struct Tries {
    log: Arc<Log>,
    /// Those of each claim that goes on.
    open: Mutex<BTreeMap<u64, Count>>,
}

/// The questions of one claim that are of consequence.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    under_way: u32,
    granted: u32,
    held: u32,
}

impl Tries {
    /// None so far.
    pub(crate) fn new(log: Arc<Log>) -> Arc<Self> {
        Arc::new(Self { log, open: Mutex::default() })
    }

    /// A store that counts what it is asked.
    pub(crate) fn around(self: &Arc<Self>, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Counted { inner, tries: Arc::clone(self) })
    }

    /// What a claim has to say in its holder's label, so that its questions are known.
    pub(crate) fn label(claim: u64) -> String {
        format!("{LABEL}{claim}")
    }

    /// A claim was told that it is granted: by one of its questions, and what became of others is
    /// written down as unknown.
    pub(crate) fn granted(&self, claim: u64) -> io::Result<()> {
        let Count { under_way, granted, .. } = self.end(claim);
        self.write_if(under_way + granted > 1, claim, Done::Unheard)
    }

    /// A claim was told of a grant that its owner had before. A question that is under way may yet
    /// be granted another.
    pub(crate) fn granted_again(&self, claim: u64) -> io::Result<()> {
        self.write_if(self.end(claim).under_way > 0, claim, Done::Unheard)
    }

    /// A claim was told that it has nothing: maybe because others of this process stood before it,
    /// and not by the store.
    pub(crate) fn refused(&self, claim: u64) -> io::Result<()> {
        let Count { under_way, granted, held } = self.end(claim);
        self.write_if(held == 0, claim, Done::Unasked)?;
        self.write_if(under_way + granted > 0, claim, Done::Unheard)
    }

    /// Nobody waits for what becomes of a claim.
    pub(crate) fn abandoned(&self, claim: u64) {
        self.end(claim);
    }

    fn end(&self, claim: u64) -> Count {
        self.open().remove(&claim).unwrap_or_default()
    }

    fn write_if(&self, is_so: bool, claim: u64, done: Done) -> io::Result<()> {
        if is_so { self.log.did(claim, "", done) } else { Ok(()) }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Count>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The claim that a question is of.
fn claim_of(claim: &Claim) -> Option<u64> {
    let note = claim.holder.as_str().rsplit(' ').next()?;
    // A mark may stand behind it.
    note.split('#').next()?.strip_prefix(LABEL)?.parse().ok()
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nobody was told: it was dropped, or its answer was lost.
    Unheard,
    Failed,
    Held,
    Granted,
}

impl Fate {
    fn of(answer: &Result<Attempt>) -> Self {
        match answer {
            Ok(Attempt::Granted(_)) => Self::Granted,
            Ok(Attempt::Held(_)) => Self::Held,
            Err(error) if error.retry() == Retry::Unknown => Self::Unheard,
            Err(_) => Self::Failed,
        }
    }
}

/// One question, until it has ended.
struct Try<'a> {
    tries: &'a Tries,
    claim: u64,
    fate: Fate,
}

impl<'a> Try<'a> {
    fn begin(tries: &'a Tries, claim: u64) -> Self {
        tries.open().entry(claim).or_default().under_way += 1;
        Self { tries, claim, fate: Fate::Unheard }
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        // What its claim was told in the end was told with this one under way.
        let mut open = self.tries.open();
        let Some(count) = open.get_mut(&self.claim) else { return };
        count.under_way -= 1;
        match self.fate {
            Fate::Granted => count.granted += 1,
            Fate::Held => count.held += 1,
            Fate::Failed | Fate::Unheard => {}
        }
        drop(open);
        if self.fate == Fate::Unheard {
            // A disk that takes nothing more ends the worker with its next line.
            let _ = self.tries.log.did(self.claim, "", Done::Unheard);
        }
    }
}

#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Store>,
    tries: Arc<Tries>,
}

#[async_trait]
impl Store for Counted {
    fn info(&self) -> &StoreInfo {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let Some(number) = claim_of(claim) else { return self.inner.try_acquire(claim).await };
        let mut question = Try::begin(&self.tries, number);
        let answer = self.inner.try_acquire(claim).await;
        question.fate = Fate::of(&answer);
        answer
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        self.inner.renew(renewal).await
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        self.inner.release(grant).await
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.inner.force_release(eviction).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        self.inner.inspect(key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page> {
        self.inner.list(query).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.inner.watch(key).await
    }

    async fn agree(&self, pledge: &Pledge) -> Result<String> {
        self.inner.agree(pledge).await
    }
}

#[cfg(test)]
mod tests {
    use tenure::Error;
    use tenure::error::ErrorKind;

    use super::*;
    use crate::deed::Deed;
    use crate::{job, journal};

    const WORKER: u64 = 3;

    /// What is written down of this, besides claims whose every question had an answer.
    fn written(work: impl FnOnce(&Tries)) -> Vec<(u64, Done)> {
        let folder = tempfile::tempdir().unwrap();
        let tries = Tries::new(Arc::new(Log::open(folder.path(), WORKER).unwrap()));
        work(&tries);
        let deeds = journal::read::<Deed>(&job::deeds(folder.path(), WORKER)).unwrap();
        deeds.into_iter().map(|deed| (deed.claim, deed.what)).collect()
    }

    fn asked(tries: &Tries, claim: u64, fate: Fate) {
        Try::begin(tries, claim).fate = fate;
    }

    #[test]
    fn a_refusal_without_a_word_on_one_question_is_in_doubt() {
        let refused = |fates: &'static [Fate]| {
            written(|tries| {
                fates.iter().for_each(|fate| asked(tries, 7, *fate));
                tries.refused(7).unwrap();
            })
        };
        assert_eq!(refused(&[Fate::Held, Fate::Failed]), []);
        assert_eq!(refused(&[Fate::Held, Fate::Unheard]), [(7, Done::Unheard)]);
        // One that was granted, and the claim was not told in time.
        assert_eq!(refused(&[Fate::Held, Fate::Granted]), [(7, Done::Unheard)]);
        // Whoever did not come to ask was not told by the store.
        assert_eq!(refused(&[]), [(7, Done::Unasked)]);
    }

    #[test]
    fn what_is_under_way_when_its_claim_ends_is_in_doubt_once() {
        let found = written(|tries| {
            asked(tries, 8, Fate::Held);
            let under_way = Try::begin(tries, 8);
            tries.refused(8).unwrap();
            drop(under_way);
        });
        assert_eq!(found, [(8, Done::Unheard)]);
    }

    #[test]
    fn a_grant_is_that_of_one_question_and_leaves_the_others_in_doubt() {
        let granted = |others: &'static [Fate]| {
            written(|tries| {
                others.iter().for_each(|fate| asked(tries, 9, *fate));
                asked(tries, 9, Fate::Granted);
                tries.granted(9).unwrap();
            })
        };
        assert_eq!(granted(&[Fate::Held, Fate::Failed]), []);
        assert_eq!(granted(&[Fate::Granted]), [(9, Done::Unheard)]);
    }

    #[test]
    fn a_grant_that_is_found_by_a_look_is_that_of_the_question_without_an_answer() {
        let found = |told: fn(&Tries) -> io::Result<()>| {
            written(|tries| {
                let _under_way = Try::begin(tries, 9);
                told(tries).unwrap();
            })
        };
        assert_eq!(found(|tries| tries.granted(9)), []);
        // But not where its owner had it before.
        assert_eq!(found(|tries| tries.granted_again(9)), [(9, Done::Unheard)]);
    }

    #[test]
    fn only_an_answer_says_that_nothing_was_granted() {
        let fate = |kind| Fate::of(&Err(Error::new(kind, "")));
        assert_eq!(fate(ErrorKind::Unknown), Fate::Unheard);
        assert_eq!(fate(ErrorKind::Unavailable), Fate::Failed);
        assert_eq!(fate(ErrorKind::Denied), Fate::Failed);
    }
}
