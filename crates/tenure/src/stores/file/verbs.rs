//! Each verb of the store: read what stands, ask the rule, make its change.

use super::batch::Batch;
use super::error::Fault;
use super::job::{Kind, Question};
use crate::claim::{Attempt, Claim, Grant, ListQuery, Page, Pledge, Released, Renewal, Renewed};
use crate::error::Operation;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::rule::{self, Change};

impl Question for Claim {
    type Answer = Attempt;
    const OPERATION: Operation = Operation::Acquire;
    const KIND: Kind = Kind::Write;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Attempt, Fault> {
        let next = batch.next_fence()?;
        // Most keys that are asked for are free: then one statement finds that out and grants it.
        if let (Change::Put(record), reply) = rule::acquire(None, self, next, batch.now)
            && batch.put_if_free(&self.key, &record)?
        {
            return Ok(reply);
        }
        let standing = batch.standing(&self.key)?;
        let (change, reply) = rule::acquire(standing.as_ref(), self, next, batch.now);
        // A repeated claim may be the first one whose grant its caller hears of.
        batch.must_sync |= change != Change::Keep;
        batch.apply(&self.key, standing.as_ref(), change)?;
        Ok(reply)
    }
}

impl Question for Renewal {
    type Answer = Renewed;
    const OPERATION: Operation = Operation::Renew;
    const KIND: Kind = Kind::Write;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Renewed, Fault> {
        let key = &self.grant.key;
        let standing = batch.standing(key)?;
        let (change, reply) = rule::renew(standing.as_ref(), self, batch.now);
        batch.apply(key, standing.as_ref(), change)?;
        Ok(reply)
    }
}

impl Question for Grant {
    type Answer = Released;
    const OPERATION: Operation = Operation::Release;
    const KIND: Kind = Kind::Release;

    /// A release that a crash of the machine undoes is a lease that ends with its ttl: the answer
    /// need not wait for the disk.
    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Released, Fault> {
        let standing = batch.standing(&self.key)?;
        let (change, reply) = rule::release(standing.as_ref(), self, batch.now);
        batch.apply(&self.key, standing.as_ref(), change)?;
        Ok(reply)
    }
}

/// Ending whichever lease stands on a key.
#[derive(Debug)]
pub(super) struct Force(pub Key);

impl Question for Force {
    type Answer = Option<Status>;
    const OPERATION: Operation = Operation::ForceRelease;
    const KIND: Kind = Kind::Release;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Option<Status>, Fault> {
        let standing = batch.standing(&self.0)?;
        let (change, reply) = rule::force_release(standing.as_ref(), &self.0, batch.now);
        batch.must_sync |= change != Change::Keep;
        batch.apply(&self.0, standing.as_ref(), change)?;
        Ok(reply)
    }
}

/// Looking at one key.
#[derive(Debug)]
pub(super) struct Look(pub Key);

impl Question for Look {
    type Answer = Option<Lease>;
    const OPERATION: Operation = Operation::Inspect;
    const KIND: Kind = Kind::Read;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Option<Lease>, Fault> {
        let now = batch.now.at;
        let live = batch.standing(&self.0)?.filter(|record| record.is_live(now));
        Ok(live.map(|record| record.lease(&self.0, now)))
    }
}

impl Question for ListQuery {
    type Answer = Page;
    const OPERATION: Operation = Operation::List;
    const KIND: Kind = Kind::Read;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<Page, Fault> {
        batch.list(self)
    }
}

impl Question for Pledge {
    type Answer = String;
    const OPERATION: Operation = Operation::Open;
    const KIND: Kind = Kind::Write;

    fn decide(&self, batch: &mut Batch<'_, '_>) -> Result<String, Fault> {
        batch.agree(self)
    }
}
