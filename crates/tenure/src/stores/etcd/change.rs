//! Changes of one key: transactions, and keep-alives of the etcd lease that it hangs on.
//!
//! # Why a renewal needs no write
//! A keep-alive moves the deadline of a lease in the memory of etcd's leader and nowhere else. A
//! member that was replaced as leader and has not noticed answers keep-alives too, and those are
//! worth nothing. But a new leader begins with the full ttl for every lease. So a keep-alive counts
//! together with something that a quorum confirmed, a read or a write, which was sent no earlier:
//! if that happened in a term no later than the keep-alive's, then either the keep-alive came to
//! the leader of that term, or whoever leads since then began after both were sent. Either way the
//! lease stands for its ttl from the moment of sending. The terms are in the answers' headers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;

use super::client::Client;
use super::error::Remedy;
use super::known::Standing;
use super::spares::EtcdLease;
use super::store::{EtcdStore, TRIES, numbered};
use super::wire::{
    Compare, DeleteRangeRequest, Header, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, Op, PutRequest, RangeRequest, RequestOp, Target,
    TxnRequest, TxnResponse,
};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::key::Key;
use crate::rule::Record;
use crate::stores::cell::Cell;

/// How a change ended.
pub(super) enum Step {
    Done(Standing),
    /// Someone was faster; what stands now.
    Other(Option<Standing>),
}

impl EtcdStore {
    pub(super) async fn put(
        &self,
        key: &Key,
        old: Option<&Standing>,
        record: Record,
    ) -> Result<Step> {
        let step = match old {
            // The etcd lease is good for this ttl: it is enough to keep it alive.
            Some(old) if old.record.ttl >= record.ttl && old.lease.id != 0 => {
                self.refresh(key, Standing { record, ..old.clone() }).await?
            }
            old => self.write(key, old, record).await?,
        };
        match &step {
            Step::Done(done) => self.known.note(key, done.clone(), self.clock.now()),
            Step::Other(None) => self.known.forget(key),
            // It may well be a lease that this store granted to another owner.
            Step::Other(Some(_)) => {}
        }
        Ok(step)
    }

    /// Writes the record under an etcd lease that is good for its ttl.
    async fn write(&self, key: &Key, old: Option<&Standing>, record: Record) -> Result<Step> {
        let asked = seconds(record.ttl);
        for _ in 0..TRIES {
            let spare = self.spares.take(asked, self.clock.now());
            let mut lease = match spare {
                Some(spare) => spare,
                None => self.grant(asked).await?,
            };
            let (was_until, sent) = (lease.until, self.clock.now());
            let is_enough = was_until >= sent + record.ttl;
            let alive =
                async { if is_enough { None } else { Some(self.keep_alive(lease.id).await) } };
            let txn = self.write_txn(key, old, &record, lease.id)?;
            let (alive, answer) = join(alive, self.client.call(txn)).await;
            let confirmed = answer.as_ref().map_or(u64::MAX, |answer| term(answer.header));
            let is_alive = alive.is_some_and(|alive| counts(&alive, confirmed));
            if is_alive {
                lease.until = sent + lease.granted;
            }
            // The lease goes exactly one way from here: it is gone, it has a key, or it is spare.
            let answer = match answer {
                Ok(answer) => answer,
                Err(failure) if failure.remedy == Remedy::OtherLease => continue,
                Err(failure) => {
                    if failure.error.retry() != Retry::Unknown {
                        self.spare(lease);
                    }
                    return Err(failure.error);
                }
            };
            if !answer.succeeded {
                self.spare(lease);
                return Ok(Step::Other(self.found(key, &answer)?));
            }
            let done = written(&answer, old, record, lease, sent)?;
            let is_sure = is_enough || (is_alive && self.clock.now() < was_until);
            return if is_sure { Ok(Step::Done(done)) } else { self.settle(key, done).await };
        }
        Err(Error::unavailable("etcd's leases end sooner than they can be used"))
    }

    fn write_txn(
        &self,
        key: &Key,
        old: Option<&Standing>,
        record: &Record,
        lease: i64,
    ) -> Result<TxnRequest> {
        let value = Cell::held(record, None, format!("{lease:016x}")).encode()?;
        let put = Op::Put(PutRequest { key: self.name(key.as_str()), value, lease });
        let expected = old.map_or(Target::Create(0), |old| Target::Mod(old.revision));
        Ok(self.txn(key, expected, put))
    }

    /// The key is written, but how long its lease still stands is not clear.
    async fn settle(&self, key: &Key, written: Standing) -> Result<Step> {
        in_doubt(self.refresh(key, written).await)
    }

    /// Keeps the etcd lease of a key alive, and makes sure that the key still hangs on it.
    async fn refresh(&self, key: &Key, mut standing: Standing) -> Result<Step> {
        let id = standing.lease.id;
        for _ in 0..TRIES {
            let sent = self.clock.now();
            let (alive, look) = join(self.keep_alive(id), self.look(key, true)).await;
            let (pair, term) = look?;
            let alive = alive?;
            let is_same = pair.is_some_and(|pair| pair.mod_revision == standing.revision);
            if !is_same || alive.ttl <= 0 {
                return Ok(Step::Other(self.read(key).await?));
            }
            if whole(alive.ttl) < standing.record.ttl {
                let text =
                    "the etcd lease of this key is shorter than its ttl: force-release the key";
                return Err(Error::new(ErrorKind::Damaged, text));
            }
            if !counts(&Ok(alive), term) {
                continue;
            }
            let was_until = standing.lease.until;
            standing.lease.granted = whole(alive.ttl);
            standing.lease.until = sent + standing.lease.granted;
            standing.record.deadline = sent + standing.record.ttl;
            // Some versions confirm a lease that has just ended. Where ours may have ended before
            // this, the confirmation counts only if the key is still there after it.
            if self.clock.now() < was_until {
                return Ok(Step::Done(standing));
            }
        }
        Err(Error::unavailable("etcd changes its leader all the time"))
    }

    pub(super) async fn delete(&self, key: &Key, old: Option<Standing>) -> Result<Step> {
        let Some(old) = old else { return Ok(Step::Other(None)) };
        let op = Op::Delete(DeleteRangeRequest { key: self.name(key.as_str()) });
        let txn = self.txn(key, Target::Mod(old.revision), op);
        let answer = self.client.call(txn).await?;
        self.known.forget(key);
        if !answer.succeeded {
            return Ok(Step::Other(self.found(key, &answer)?));
        }
        self.spare(old.lease);
        Ok(Step::Done(old))
    }

    /// Deletes what stands under a key and is no lock. Fences are revisions: none goes back.
    pub(super) async fn delete_damaged(&self, key: &Key) -> Result<()> {
        let changed = || Error::unavailable("others changed the entry in between");
        let pair = self.look(key, false).await?.0.ok_or_else(changed)?;
        match self.standing(key, &pair) {
            Err(error) if error.kind() == ErrorKind::Damaged => {}
            _ => return Err(changed()),
        }
        let op = Op::Delete(DeleteRangeRequest { key: self.name(key.as_str()) });
        let answer = self.client.call(self.txn(key, Target::Mod(pair.mod_revision), op)).await?;
        if !answer.succeeded {
            return Err(changed());
        }
        tracing::warn!(key = key.as_str(), "an entry that could not be read was deleted");
        Ok(())
    }

    /// One change on condition, or else a look at what stands.
    pub(super) fn txn(&self, key: &Key, expected: Target, op: Op) -> TxnRequest {
        let name = self.name(key.as_str());
        let look = RangeRequest { key: name.clone(), limit: 1, ..RangeRequest::default() };
        TxnRequest {
            compare: vec![Compare::equal(name, expected)],
            success: vec![RequestOp { request: Some(op) }],
            failure: vec![RequestOp { request: Some(Op::Range(look)) }],
        }
    }

    fn found(&self, key: &Key, answer: &TxnResponse) -> Result<Option<Standing>> {
        let range = answer.responses.first().and_then(|response| response.range.as_ref());
        let text = "etcd does not say what stands under the key";
        let range = range.ok_or_else(|| Error::new(ErrorKind::Damaged, text))?;
        range.kvs.first().map(|pair| self.standing(key, pair)).transpose()
    }

    async fn grant(&self, asked: i64) -> Result<EtcdLease> {
        let sent = self.clock.now();
        let answer = self.client.call(LeaseGrantRequest { ttl: asked }).await;
        // An etcd lease without a key holds nothing: whether there is one does not matter.
        let answer = answer.map_err(|failure| failure.error.of_no_matter())?;
        let granted = whole(answer.ttl);
        Ok(EtcdLease { id: answer.id, asked, granted, until: sent + granted, is_ours: true })
    }

    async fn keep_alive(&self, id: i64) -> Result<LeaseKeepAliveResponse> {
        Ok(self.client.call(LeaseKeepAliveRequest { id }).await?)
    }

    /// Keeps an etcd lease on which no key hangs for the next grant.
    fn spare(&self, lease: EtcdLease) {
        if lease.is_ours
            && let Some(excess) = self.spares.give(lease)
        {
            revoke(Arc::clone(&self.client), vec![excess]);
        }
    }
}

/// Ends leases in the background, if there is one: they end by themselves in the end.
pub(super) fn revoke(client: Arc<Client>, leases: Vec<EtcdLease>) {
    if let (Ok(runtime), false) = (tokio::runtime::Handle::try_current(), leases.is_empty()) {
        runtime.spawn(async move {
            for lease in leases {
                if client.call(LeaseRevokeRequest { id: lease.id }).await.is_err() {
                    return;
                }
            }
        });
    }
}

fn written(
    answer: &TxnResponse,
    old: Option<&Standing>,
    record: Record,
    lease: EtcdLease,
    sent: Moment,
) -> Result<Standing> {
    let revision = answer.header.unwrap_or_default().revision;
    let text = "the key was written, and etcd does not say as which change";
    let created = numbered(revision).ok_or_else(|| Error::unknown(text))?;
    let fence = old.map_or(created, |old| old.record.fence);
    let record = Record { fence, deadline: sent + record.ttl, ..record };
    Ok(Standing { record, revision, lease })
}

/// Whatever comes after a write that was made, it is not as if nothing had been changed.
fn in_doubt(refreshed: Result<Step>) -> Result<Step> {
    match refreshed {
        Ok(Step::Done(done)) => Ok(Step::Done(done)),
        Ok(Step::Other(_)) => Err(Error::unknown("the key was written, and did not last")),
        Err(error) => {
            let text = "the key was written, but its lease is in doubt";
            Err(Error::unknown(text).caused_by(error))
        }
    }
}

pub(super) fn term(header: Option<Header>) -> u64 {
    header.unwrap_or_default().raft_term
}

/// Whether a keep-alive counts, given the term of what a quorum confirmed with it or after it.
fn counts(alive: &Result<LeaseKeepAliveResponse>, confirmed: u64) -> bool {
    alive.as_ref().is_ok_and(|alive| alive.ttl > 0 && term(alive.header) >= confirmed)
}

/// Whole seconds, rounded up: a ttl is a lower bound.
fn seconds(ttl: Duration) -> i64 {
    let up = ttl.saturating_add(Duration::from_nanos(999_999_999)).as_secs();
    i64::try_from(up).unwrap_or(i64::MAX)
}

pub(super) fn whole(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing {
    use prost::Message;
    use tokio::runtime::{Builder, Runtime};

    use super::super::store::fuzzing::unopened;
    use super::{
        Error, EtcdLease, EtcdStore, Key, LeaseKeepAliveResponse, Moment, Record, Result, Standing,
        TxnResponse, counts, term, written,
    };

    /// Reads the answers to transactions, without a connection.
    #[derive(Debug)]
    pub struct EtcdReader {
        store: EtcdStore,
        key: Key,
        /// It runs nothing, and must not end before the store.
        _runtime: Runtime,
    }

    /// What stands under a key: a record, its revision and its etcd lease.
    pub type EtcdStanding = (Record, i64, i64);

    impl EtcdReader {
        /// One for a key.
        ///
        /// # Errors
        /// `Unavailable` without a runtime.
        pub fn new(key: &Key) -> Result<Self> {
            let runtime = Builder::new_current_thread().build().map_err(|error| {
                Error::unavailable("there is no runtime to be had").caused_by(error)
            })?;
            let entered = runtime.enter();
            let store = unopened()?;
            drop(entered);
            Ok(Self { store, key: key.clone(), _runtime: runtime })
        }

        /// What an answer says of the key; `None` when it cannot be read.
        #[must_use]
        pub fn found(&self, answer: &[u8]) -> Option<Result<Option<EtcdStanding>>> {
            let answer = TxnResponse::decode(answer).ok()?;
            Some(self.store.found(&self.key, &answer).map(|found| found.map(standing)))
        }
    }

    /// What stands under a key of which a grant was answered so, or a renewal of what stood there;
    /// `None` when it was not made.
    #[must_use]
    pub fn etcd_granted(
        answer: &[u8],
        record: Record,
        old: Option<Record>,
    ) -> Option<Result<EtcdStanding>> {
        let answer = TxnResponse::decode(answer).ok().filter(|answer| answer.succeeded)?;
        let (lease, sent) = (EtcdLease::found(7), Moment::from_nanos(0));
        let old = old.map(|record| Standing { record, revision: 1, lease });
        Some(written(&answer, old.as_ref(), record, lease, sent).map(standing))
    }

    /// Whether a keep-alive counts that was answered so, while a transaction was.
    #[must_use]
    pub fn etcd_counts(alive: &[u8], answer: &[u8]) -> Option<bool> {
        let alive = LeaseKeepAliveResponse::decode(alive).ok()?;
        let answer = TxnResponse::decode(answer).ok()?;
        Some(counts(&Ok(alive), term(answer.header)))
    }

    fn standing(standing: Standing) -> EtcdStanding {
        (standing.record, standing.revision, standing.lease.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(ttl: i64, raft_term: u64) -> Result<LeaseKeepAliveResponse> {
        let header = Some(Header { raft_term, revision: 1 });
        Ok(LeaseKeepAliveResponse { header, ttl })
    }

    #[test]
    fn a_keep_alive_of_an_older_term_is_worth_nothing() {
        assert!(counts(&alive(5, 7), 7));
        assert!(counts(&alive(5, 8), 7), "who leads since then began with the full ttl");
        assert!(!counts(&alive(5, 6), 7), "the old leader has not noticed");
        assert!(!counts(&alive(0, 7), 7), "the lease is gone");
        assert!(!counts(&alive(5, 7), u64::MAX), "nothing was confirmed");
        assert!(!counts(&Err(Error::unavailable("")), 7));
    }

    #[test]
    fn after_a_write_nothing_is_as_if_it_had_not_been_made() {
        let kinds = [ErrorKind::Unavailable, ErrorKind::Denied, ErrorKind::Damaged];
        let failed = kinds.map(|kind| Err(Error::new(kind, "")));
        for refreshed in failed.into_iter().chain([Ok(Step::Other(None))]) {
            let error = in_doubt(refreshed).err().map(|error| error.kind());
            assert_eq!(error, Some(ErrorKind::Unknown));
        }
    }

    #[test]
    fn a_ttl_is_rounded_up() {
        let cases = [(1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)];
        for (millis, wanted) in cases {
            assert_eq!(seconds(Duration::from_millis(millis)), wanted);
        }
        assert!(seconds(Duration::MAX) > 0);
    }
}
