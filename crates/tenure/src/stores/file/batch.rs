//! One transaction as its jobs see it: the rule's changes, gathered.

use std::path::Path;

use super::error::{Fault, damaged};
use super::rows::{Rows, Times, Unreadable};
use crate::claim::{ListQuery, Page, Pledge};
use crate::error::{Error, ErrorKind};
use crate::fence::Fence;
use crate::key::Key;
use crate::rule::{Change, Now, Record};

/// What the jobs of one transaction share.
#[derive(Debug)]
pub(super) struct Batch<'b, 'c> {
    rows: &'b mut Rows<'c>,
    path: &'b Path,
    /// The one moment at which all of them are decided.
    pub now: Now,
    /// The greatest fence given so far, by this batch or before it.
    pub fence: i64,
    /// Keys that nobody holds any more.
    pub freed: Vec<Key>,
    /// Whether anything is to be committed.
    pub wrote: bool,
    /// Whether a crash of the machine right after the answer would break it, for the job at hand.
    pub must_sync: bool,
}

impl<'b, 'c> Batch<'b, 'c> {
    pub(super) fn new(rows: &'b mut Rows<'c>, path: &'b Path, now: Now, fence: i64) -> Self {
        Self { rows, path, now, fence, freed: Vec::new(), wrote: false, must_sync: false }
    }

    /// What stands on the key, expired or not.
    pub(super) fn standing(&mut self, key: &Key) -> Result<Option<Record>, Fault> {
        let record = self.rows.get(key)?.transpose().map_err(|row| self.unreadable(row))?;
        // The counter stands above every fence it gave; otherwise the next ones would repeat.
        let within = |fence: Fence| i64::try_from(fence.get()).is_ok_and(|n| n <= self.fence);
        if record.as_ref().is_some_and(|record| !within(record.fence)) {
            return Err(damaged(self.path.display()).into());
        }
        Ok(record)
    }

    /// The fence of the next new grant.
    pub(super) fn next_fence(&self) -> Result<Fence, Fault> {
        let next = self.fence.checked_add(1).and_then(|next| u64::try_from(next).ok());
        next.map(Fence::new).ok_or_else(|| {
            let text = format!("the fences of {} are used up", self.path.display());
            Fault::Told(Error::new(ErrorKind::Damaged, text))
        })
    }

    /// Puts the record of a new grant where there is none, expired or not; whether there was none.
    pub(super) fn put_if_free(&mut self, key: &Key, record: &Record) -> Result<bool, Fault> {
        let put = self.rows.put(key, record, times(record)?)?;
        if put {
            self.wrote = true;
            self.must_sync = true;
            self.fence = i64::try_from(record.fence.get()).unwrap_or(i64::MAX);
        }
        Ok(put)
    }

    /// Makes the rule's change to what stood on the key.
    pub(super) fn apply(
        &mut self,
        key: &Key,
        standing: Option<&Record>,
        change: Change,
    ) -> Result<(), Fault> {
        match change {
            Change::Keep => return Ok(()),
            Change::Put(record) if standing.is_some_and(|before| before.fence == record.fence) => {
                self.must_sync |= standing.is_none_or(|before| before.ttl < record.ttl);
                self.rows.prolong(key, record.fence, times(&record)?)?;
            }
            Change::Put(record) => {
                if standing.is_some() {
                    self.rows.remove(key)?;
                }
                if !self.put_if_free(key, &record)? {
                    return Err(damaged(self.path.display()).into());
                }
            }
            Change::Remove => {
                self.rows.remove(key)?;
                self.freed.push(key.clone());
            }
        }
        self.wrote = true;
        Ok(())
    }

    pub(super) fn list(&mut self, query: &ListQuery) -> Result<Page, Fault> {
        self.rows.list(query, self.now.at)?.map_err(|row| self.unreadable(row))
    }

    pub(super) fn agree(&mut self, pledge: &Pledge) -> Result<String, Fault> {
        let (standing, added) = self.rows.agree(pledge)?;
        self.wrote |= added;
        self.must_sync |= added;
        Ok(standing)
    }

    fn unreadable(&self, _: Unreadable) -> Fault {
        damaged(self.path.display()).into()
    }
}

fn times(record: &Record) -> Result<Times, Fault> {
    Times::of(record).ok_or_else(|| {
        Fault::Told(Error::invalid(format!("ttl is too long for the store: {:?}", record.ttl)))
    })
}
