//! Reading the answers of the statements.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::{Lease, Status};
use crate::owner::Owner;

/// One row of an answer.
pub(super) struct Answer<R = Row> {
    /// Whether what was asked for was done.
    pub(super) done: bool,
    /// Whether the row is of the grant that was asked about.
    pub(super) mine: bool,
    row: R,
}

/// Values by the names of their columns: a row is this, and so is what a fuzzer makes up.
pub(super) trait Columns {
    fn get<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T>;
}

impl Columns for Row {
    fn get<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T> {
        self.try_get(name).map_err(broken)
    }
}

impl Answer {
    /// The only row, if there is one.
    pub(super) fn only(rows: Vec<Row>) -> Result<Option<Self>> {
        rows.into_iter().next().map(Self::new).transpose()
    }
}

impl<R: Columns> Answer<R> {
    pub(super) fn new(row: R) -> Result<Self> {
        Ok(Self { done: row.get("done")?, mine: row.get("mine")?, row })
    }

    pub(super) fn status(&self, key: &Key) -> Result<Status> {
        let number = |name| unsigned(self.row.get(name)?);
        let deadline: SystemTime = self.row.get("deadline")?;
        let now: SystemTime = self.row.get("now")?;
        Ok(Status {
            key: key.clone(),
            fence: Fence::new(number("fence")?),
            ttl: Duration::from_millis(number("ttl_ms")?),
            holder: Holder::new(self.row.get("holder")?).map_err(broken)?,
            granted_at: self.row.get("granted_at")?,
            remaining: deadline.duration_since(now).unwrap_or_default(),
        })
    }

    /// As its owner sees it, where that is known.
    pub(super) fn lease(&self, key: &Key, owner: Owner) -> Result<Lease> {
        let Status { key, fence, ttl, holder, granted_at, remaining } = self.status(key)?;
        Ok(Lease { key, owner, fence, ttl, holder, granted_at, remaining })
    }

    pub(super) fn owner(&self) -> Result<Owner> {
        Owner::parse(self.row.get("owner")?).map_err(broken)
    }

    pub(super) fn key(&self) -> Result<Key> {
        Ok(Key::stored(self.row.get("key")?))
    }
}

fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(broken)
}

/// Nothing that this library wrote breaks its own rules.
pub(super) fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = "a row of the table was not written by tenure: move it away";
    Error::new(ErrorKind::Damaged, text).caused_by(error)
}

/// Whole milliseconds, rounded up: a ttl is a lower bound.
pub(super) fn millis(ttl: Duration) -> i64 {
    let up = ttl.saturating_add(Duration::from_nanos(999_999));
    i64::try_from(up.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up() {
        assert_eq!(millis(Duration::from_micros(1500)), 2);
        assert_eq!(millis(Duration::from_millis(2)), 2);
        assert_eq!(millis(Duration::MAX), i64::MAX);
    }
}
