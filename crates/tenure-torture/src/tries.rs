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
    /// Of how many it is written down already that nobody was answered.
    written: u32,
}

impl Count {
    /// How many may have been granted, and nobody was told that yet.
    const fn open(self) -> u32 {
        (self.under_way + self.granted).saturating_sub(self.written)
    }
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

    /// A claim was told that it is granted: by one of its questions, and what became of the others
    /// is written down as unknown.
    pub(crate) fn granted(&self, claim: u64) -> io::Result<()> {
        let open = self.end(claim).open();
        self.doubt(claim, open.saturating_sub(1))
    }

    /// A claim was told of a grant that its owner had before. A question that is under way may yet
    /// be granted another.
    pub(crate) fn granted_again(&self, claim: u64) -> io::Result<()> {
        let Count { under_way, .. } = self.end(claim);
        self.doubt(claim, under_way)
    }

    /// A claim was told that it has nothing: maybe because others of this process stood before it,
    /// and not by the store.
    pub(crate) fn refused(&self, claim: u64) -> io::Result<()> {
        let count = self.end(claim);
        if count.held == 0 {
            self.log.did(claim, "", Done::Unasked)?;
        }
        self.doubt(claim, count.open())
    }

    /// Nobody waits for what becomes of a claim.
    pub(crate) fn abandoned(&self, claim: u64) -> io::Result<()> {
        let open = self.end(claim).open();
        self.doubt(claim, open)
    }

    fn end(&self, claim: u64) -> Count {
        self.open().remove(&claim).unwrap_or_default()
    }

    fn doubt(&self, claim: u64, questions: u32) -> io::Result<()> {
        (0..questions).try_for_each(|_| self.log.did(claim, "", Done::Unheard))
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
        let mut all = tries.open();
        let count = all.entry(claim).or_default();
        // One of them is known by its claim, should the worker be killed.
        let before = count.open();
        count.under_way += 1;
        count.written += before;
        drop(all);
        // A disk that takes nothing more ends the worker with its next line.
        let _ = tries.doubt(claim, before);
        Self { tries, claim, fate: Fate::Unheard }
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        // What its claim was told in the end was told with this one under way.
        let mut all = self.tries.open();
        let Some(count) = all.get_mut(&self.claim) else { return };
        let open = count.open();
        count.under_way -= 1;
        match self.fate {
            Fate::Granted => count.granted += 1,
            Fate::Held => count.held += 1,
            Fate::Failed | Fate::Unheard => {}
        }
        count.written = count.written.min(count.under_way + count.granted);
        let is_unheard = self.fate == Fate::Unheard && count.open() < open;
        drop(all);
        if is_unheard {
            let _ = self.tries.doubt(self.claim, 1);
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
    fn each_that_is_under_way_is_in_doubt_by_itself() {
        let found = |end: fn(&Tries) -> io::Result<()>| {
            written(|tries| {
                asked(tries, 8, Fate::Held);
                let _first = Try::begin(tries, 8);
                let _second = Try::begin(tries, 8);
                end(tries).unwrap();
            })
        };
        assert_eq!(found(|tries| tries.refused(8)), [(8, Done::Unheard), (8, Done::Unheard)]);
        assert_eq!(found(|tries| tries.abandoned(8)).len(), 2);
        assert_eq!(found(|tries| tries.granted(8)).len(), 1);
    }

    #[test]
    fn all_but_one_are_in_doubt_where_nobody_lives_to_tell() {
        let found = written(|tries| {
            std::mem::forget(Try::begin(tries, 8));
            std::mem::forget(Try::begin(tries, 8));
        });
        assert_eq!(found, [(8, Done::Unheard)]);
    }

    #[test]
    fn what_is_written_down_once_is_not_again() {
        let found = written(|tries| {
            let first = Try::begin(tries, 8);
            let second = Try::begin(tries, 8);
            drop(first);
            drop(second);
            asked(tries, 8, Fate::Held);
            tries.refused(8).unwrap();
        });
        assert_eq!(found.len(), 2);
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
