//! Which questions for a lock nobody was answered: each of them may have been granted.
//!
//! A claim is one question or many, and what it is told in the end does not say what became of
//! each. So they are counted here, between the locks and the store; and what a claim is told
//! without the store's word is found out.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tenure::claim::{
    Attempt, Claim, Eviction, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed,
};
use tenure::clock::{Clock, Moment, SystemClock};
use tenure::store::StoreInfo;
use tenure::watch::Watch;
use tenure::{Key, KeyPolicy, Lease, Result, Retry, Status, Store};

use crate::deed::Done;
use crate::job::nanos;
use crate::log::Log;
use crate::words::Words;

const LABEL: &str = "claim-";

/// An answer that took longer may have been given up before, as it is after a third of the ttl.
const HEARD_MAX: Duration = Duration::from_millis(500);

/// The questions of all claims of a worker.
#[derive(Debug)]
pub(crate) struct Tries {
    log: Arc<Log>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The questions of each claim that goes on.
    claims: BTreeMap<u64, Count>,
    words: Words,
}

/// The questions of one claim that are of consequence.
#[derive(Clone, Debug, Default)]
struct Count {
    /// When it began, if that was said.
    begun: Option<Moment>,
    /// Whether it waits: then it may stand in line and be refused without a question.
    waits: bool,
    /// What it asked for, if it came to ask.
    key: Option<Key>,
    under_way: u32,
    granted: u32,
    held: u32,
    /// Of how many it is written down already that nobody was answered.
    written: u32,
}

impl Count {
    /// How many may have been granted, and nobody was told that yet.
    const fn open(&self) -> u32 {
        (self.under_way + self.granted).saturating_sub(self.written)
    }
}

impl Tries {
    /// None so far.
    pub(crate) fn new(log: Arc<Log>) -> Arc<Self> {
        Arc::new(Self { log, known: Mutex::default() })
    }

    /// A store that counts what it is asked.
    pub(crate) fn around(self: &Arc<Self>, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Counted { inner, tries: Arc::clone(self) })
    }

    /// A claim begins. It has to say this in its holder's label, so that its questions are known.
    pub(crate) fn begin(&self, claim: u64, waits: bool) -> String {
        let count = Count { begun: Some(SystemClock.now()), waits, ..Count::default() };
        self.known().claims.insert(claim, count);
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

    /// A claim was told that it has nothing, and maybe that the key is held: which this process can
    /// know without its asking, or without an answer, from others of its tasks.
    pub(crate) fn refused(&self, claim: u64, is_held: bool) -> io::Result<()> {
        let count = self.end(claim);
        if is_held && count.held == 0 {
            let is_known = self.knows(&count);
            self.log.did(claim, "", if is_known { Done::Unasked } else { Done::Unsaid })?;
        }
        self.doubt(claim, count.open())
    }

    /// Whether a claim can have heard that its key is held although that was no answer to it.
    fn knows(&self, count: &Count) -> bool {
        match (&count.key, count.begun) {
            (Some(key), Some(begun)) => self.known().words.tell(key, begun),
            _ => count.waits,
        }
    }

    /// Nobody waits for what becomes of a claim.
    pub(crate) fn abandoned(&self, claim: u64) -> io::Result<()> {
        let open = self.end(claim).open();
        self.doubt(claim, open)
    }

    fn end(&self, claim: u64) -> Count {
        self.known().claims.remove(&claim).unwrap_or_default()
    }

    fn doubt(&self, claim: u64, questions: u32) -> io::Result<()> {
        (0..questions).try_for_each(|_| self.log.did(claim, "", Done::Unheard))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn begin(tries: &'a Tries, claim: u64, key: &Key) -> Self {
        let mut known = tries.known();
        let count = known.claims.entry(claim).or_default();
        count.key = Some(key.clone());
        // One of them is known by its claim, should the worker be killed.
        let before = count.open();
        count.under_way += 1;
        count.written += before;
        drop(known);
        // A disk that takes nothing more ends the worker with its next line.
        let _ = tries.doubt(claim, before);
        Self { tries, claim, fate: Fate::Unheard }
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        // What its claim was told in the end was told with this one under way.
        let mut known = self.tries.known();
        let Some(count) = known.claims.get_mut(&self.claim) else { return };
        let open = count.open();
        count.under_way -= 1;
        match self.fate {
            Fate::Granted => count.granted += 1,
            Fate::Held => count.held += 1,
            Fate::Failed | Fate::Unheard => {}
        }
        count.written = count.written.min(count.under_way + count.granted);
        let is_unheard = self.fate == Fate::Unheard && count.open() < open;
        drop(known);
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
        let mut question = Try::begin(&self.tries, number, &claim.key);
        let answer = self.inner.try_acquire(claim).await;
        question.fate = Fate::of(&answer);
        match &answer {
            Ok(Attempt::Granted(lease)) => self.tries.known().words.granted(&claim.key, lease),
            Ok(Attempt::Held(_)) => self.tries.known().words.held(&claim.key),
            Err(_) => {}
        }
        answer
    }

    async fn renew(&self, renewal: &Renewal) -> Result<Renewed> {
        let (key, sent) = (&renewal.grant.key, SystemClock.now());
        let answer = self.inner.renew(renewal).await;
        match &answer {
            Ok(Renewed::Renewed(lease)) => self.tries.known().words.granted(key, lease),
            Ok(Renewed::Lost(_)) => {}
            Err(error) => {
                let (kind, took) = (format!("{:?}", error.kind()), SystemClock.now().since(sent));
                let done = Done::RenewFailed { kind, took: nanos(took) };
                // A disk that takes nothing more ends the worker with its next line.
                let _ = self.tries.log.did(0, KeyPolicy::label_of(key).as_str(), done);
            }
        }
        answer
    }

    async fn release(&self, grant: &Grant) -> Result<Released> {
        // Until that is answered its guard is still there for others of this process; and also
        // where the answer was given up before it came.
        let sent = SystemClock.now();
        let answer = self.inner.release(grant).await;
        if answer.is_ok() && SystemClock.now().since(sent) < HEARD_MAX {
            self.tries.known().words.returned(&grant.key, grant.fence);
        }
        answer
    }

    async fn force_release(&self, eviction: &Eviction) -> Result<Option<Status>> {
        self.inner.force_release(eviction).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<Lease>> {
        let answer = self.inner.inspect(key).await;
        if let Ok(Some(_)) = &answer {
            self.tries.known().words.held(key);
        }
        answer
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
    use tenure::claim::Reentry;
    use tenure::error::ErrorKind;
    use tenure::stores::memory::MemoryStore;
    use tenure::{Error, Holder, Operation, Owner};
    use tenure_testkit::faults::{Fault, Faults};

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

    fn key() -> Key {
        Key::new("k").unwrap()
    }

    fn asked(tries: &Tries, claim: u64, fate: Fate) {
        under_way(tries, claim).fate = fate;
    }

    fn under_way(tries: &Tries, claim: u64) -> Try<'_> {
        Try::begin(tries, claim, &key())
    }

    #[test]
    fn a_refusal_without_a_word_on_one_question_is_in_doubt() {
        let refused = |fates: &'static [Fate]| {
            written(|tries| {
                tries.begin(7, true);
                fates.iter().for_each(|fate| asked(tries, 7, *fate));
                tries.refused(7, true).unwrap();
            })
        };
        assert_eq!(refused(&[Fate::Held, Fate::Failed]), []);
        assert_eq!(refused(&[Fate::Held, Fate::Unheard]), [(7, Done::Unheard)]);
        // One that was granted, and the claim was not told in time.
        assert_eq!(refused(&[Fate::Held, Fate::Granted]), [(7, Done::Unheard)]);
        // Whoever did not come to ask was not told by the store.
        assert_eq!(refused(&[]), [(7, Done::Unasked)]);
        let at_once = written(|tries| {
            tries.begin(7, false);
            tries.refused(7, true).unwrap();
        });
        assert_eq!(at_once, [(7, Done::Unsaid)], "whoever does not wait stands in no line");
    }

    #[test]
    fn what_is_told_without_an_answer_was_heard_by_another_or_made_up() {
        let told = |is_held, hear: fn(&Tries)| {
            written(|tries| {
                tries.begin(7, true);
                asked(tries, 7, Fate::Failed);
                hear(tries);
                tries.refused(7, is_held).unwrap();
            })
        };
        assert_eq!(told(true, |_| ()), [(7, Done::Unsaid)]);
        assert_eq!(told(true, |tries| tries.known().words.held(&key())), [(7, Done::Unasked)]);
        assert_eq!(told(false, |_| ()), []);
    }

    #[tokio::test]
    async fn a_lease_is_known_until_its_release_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let tries = Tries::new(Arc::new(Log::open(folder.path(), WORKER).unwrap()));
        let faults = Faults::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))));
        let store = tries.around(Arc::new(faults.clone()));
        let (owner, holder) = (Owner::parse("o").unwrap(), Holder::new("claim-4").unwrap());
        let (ttl, reentry) = (Duration::from_secs(60), Reentry::Adopt);
        let claim = Claim { key: key(), owner: owner.clone(), ttl, holder, reentry };
        let Attempt::Granted(lease) = store.try_acquire(&claim).await.unwrap() else { panic!() };
        let grant = Grant { key: key(), owner, fence: Some(lease.fence) };
        let is_known = || tries.known().words.tell(&key(), SystemClock.now());
        faults.next(Operation::Release, Fault::ErrorBefore);
        assert!(store.release(&grant).await.is_err() && is_known());
        faults.next(Operation::Release, Fault::Delay(Duration::from_millis(10)));
        let (answer, was_known) = tokio::join!(store.release(&grant), async { is_known() });
        assert!(answer.is_ok() && was_known && !is_known());
        let Attempt::Granted(lease) = store.try_acquire(&claim).await.unwrap() else { panic!() };
        let grant = Grant { fence: Some(lease.fence), ..grant };
        faults.next(Operation::Release, Fault::SlowReply(HEARD_MAX));
        assert!(store.release(&grant).await.is_ok() && is_known(), "it may have been given up");
    }

    #[test]
    fn what_is_under_way_when_its_claim_ends_is_in_doubt_once() {
        let found = written(|tries| {
            asked(tries, 8, Fate::Held);
            let last = under_way(tries, 8);
            tries.refused(8, true).unwrap();
            drop(last);
        });
        assert_eq!(found, [(8, Done::Unheard)]);
    }

    #[test]
    fn each_that_is_under_way_is_in_doubt_by_itself() {
        let found = |end: fn(&Tries) -> io::Result<()>| {
            written(|tries| {
                asked(tries, 8, Fate::Held);
                let _first = under_way(tries, 8);
                let _second = under_way(tries, 8);
                end(tries).unwrap();
            })
        };
        assert_eq!(found(|tries| tries.refused(8, true)), [(8, Done::Unheard), (8, Done::Unheard)]);
        assert_eq!(found(|tries| tries.abandoned(8)).len(), 2);
        assert_eq!(found(|tries| tries.granted(8)).len(), 1);
    }

    #[test]
    fn all_but_one_are_in_doubt_where_nobody_lives_to_tell() {
        let found = written(|tries| {
            std::mem::forget(under_way(tries, 8));
            std::mem::forget(under_way(tries, 8));
        });
        assert_eq!(found, [(8, Done::Unheard)]);
    }

    #[test]
    fn what_is_written_down_once_is_not_again() {
        let found = written(|tries| {
            let first = under_way(tries, 8);
            let second = under_way(tries, 8);
            drop(first);
            drop(second);
            asked(tries, 8, Fate::Held);
            tries.refused(8, true).unwrap();
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
                let _last = under_way(tries, 9);
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
