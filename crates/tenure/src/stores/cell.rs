//! The body of an entry in a register: who holds the key, or that no one does.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::holder::Holder;
use crate::owner::Owner;
use crate::rule::Record;

const FORMAT: u8 = 1;

/// What is written under a key. JSON, so that an operator can read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    v: u8,
    /// Differs in every write: to some registers equal bodies are the same write.
    nonce: String,
    /// The fence of the grant. Absent while it is the revision of this very write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// Absent when no one holds the key and the entry only keeps the counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Held>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    owner: String,
    holder: String,
    ttl_ms: u64,
    granted_at_ms: u64,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("holder", &self.holder).finish_non_exhaustive()
    }
}

impl Cell {
    /// A held key. Without a fence, that is the revision of the write.
    pub(crate) fn held(record: &Record, fence: Option<Fence>, nonce: String) -> Self {
        let granted_at = record.granted_at.duration_since(SystemTime::UNIX_EPOCH);
        let lease = Held {
            owner: record.owner.expose(),
            holder: record.holder.as_str().to_owned(),
            ttl_ms: millis(record.ttl),
            granted_at_ms: granted_at.map_or(0, millis),
        };
        Self { v: FORMAT, nonce, fence: fence.map(Fence::get), lease: Some(lease) }
    }

    /// A free key that keeps its counter.
    #[cfg(any(test, feature = "_register"))]
    pub(crate) fn free(fence: Fence, nonce: String) -> Self {
        Self { v: FORMAT, nonce, fence: Some(fence.get()), lease: None }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| Error::invalid("the lease cannot be written as JSON").caused_by(error))
    }

    /// Reads a body. One that is not ours is `Damaged`, and never means "free".
    pub(crate) fn decode(body: &[u8]) -> Result<Self> {
        let foreign = "what stands under this key was not written by tenure: force-release the key \
                       to replace it";
        let cell: Self = serde_json::from_slice(body)
            .map_err(|error| Error::new(ErrorKind::Damaged, foreign).caused_by(error))?;
        if cell.v != FORMAT {
            let text = format!("the entry has format {}, this build reads {FORMAT}", cell.v);
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        Ok(cell)
    }

    /// The fence in the body; absent while it is the revision of the write.
    #[cfg(any(test, feature = "_register"))]
    pub(crate) fn fence(&self) -> Option<Fence> {
        self.fence.map(Fence::new)
    }

    /// The ttl of the lease; `None` when no one holds the key.
    #[cfg(feature = "_register")]
    pub(crate) fn ttl(&self) -> Option<Duration> {
        self.lease.as_ref().map(|held| Duration::from_millis(held.ttl_ms))
    }

    /// The record of a held key, with the deadline that `deadline` gives to its ttl.
    pub(crate) fn record(
        &self,
        fence: Fence,
        deadline: impl FnOnce(Duration) -> Moment,
    ) -> Result<Option<Record>> {
        let Some(held) = &self.lease else { return Ok(None) };
        let ttl = Duration::from_millis(held.ttl_ms);
        // Nothing that this library wrote breaks its own rules.
        let text = "the entry under this key is broken: force-release the key to replace it";
        let broken = |error| Error::new(ErrorKind::Damaged, text).caused_by(error);
        Ok(Some(Record {
            owner: Owner::parse(&held.owner).map_err(broken)?,
            holder: Holder::new(&held.holder).map_err(broken)?,
            fence,
            ttl,
            deadline: deadline(ttl),
            granted_at: SystemTime::UNIX_EPOCH + Duration::from_millis(held.granted_at_ms),
        }))
    }
}

/// Whole milliseconds, rounded up: a ttl is a lower bound.
fn millis(duration: Duration) -> u64 {
    let up = duration.saturating_add(Duration::from_nanos(999_999));
    u64::try_from(up.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing {
    use super::{Cell, Fence, Moment, Record, Result};

    /// A body that was read.
    #[derive(Debug)]
    pub struct ReadCell {
        /// The same, written again.
        pub written: Vec<u8>,
        /// The lease in it, whose deadline is its ttl after the clock's zero.
        pub record: Result<Option<Record>>,
    }

    /// Reads the body of an entry.
    ///
    /// # Errors
    /// As the stores get them.
    pub fn read_cell(body: &[u8], fence: Fence) -> Result<ReadCell> {
        let cell = Cell::decode(body)?;
        let record = cell.record(fence, |ttl| Moment::from_nanos(0) + ttl);
        Ok(ReadCell { written: cell.encode()?, record })
    }

    /// The body of an entry.
    ///
    /// # Errors
    /// As the stores get them.
    pub fn write_cell(record: &Record, nonce: &str) -> Result<Vec<u8>> {
        Cell::held(record, Some(record.fence), nonce.to_owned()).encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            owner: Owner::parse("a secret owner").unwrap(),
            holder: Holder::new("host/1").unwrap(),
            fence: Fence::new(7),
            ttl: Duration::from_micros(1500),
            deadline: Moment::from_nanos(5),
            granted_at: SystemTime::UNIX_EPOCH + Duration::from_secs(9),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let cell = Cell::held(&record(), Some(Fence::new(7)), "n".into());
        let read = Cell::decode(&cell.encode().unwrap()).unwrap();
        let back = read.record(Fence::new(7), |_| Moment::from_nanos(5)).unwrap().unwrap();
        assert_eq!(back, Record { ttl: Duration::from_millis(2), ..record() });
        assert!(!format!("{read:?}").contains("secret"));
    }

    #[test]
    fn a_free_key_keeps_its_counter() {
        let read = Cell::decode(&Cell::free(Fence::new(7), "n".into()).encode().unwrap()).unwrap();
        assert_eq!(read.fence(), Some(Fence::new(7)));
        assert!(read.record(Fence::new(7), |_| Moment::from_nanos(0)).unwrap().is_none());
    }

    #[test]
    fn what_is_not_ours_is_never_free() {
        for body in ["", "null", "{}", "hello", "[1]", "{\"v\":1}", "{\"v\":1,\"nonce\":1}"] {
            assert_eq!(Cell::decode(body.as_bytes()).unwrap_err().kind(), ErrorKind::Damaged);
        }
        let later = Cell::decode(b"{\"v\":2,\"nonce\":\"n\"}").unwrap_err();
        assert_eq!(later.kind(), ErrorKind::Unsupported);
        let lease = r#"{"owner":"","holder":"h","ttl_ms":1,"granted_at_ms":1}"#;
        let bad = format!(r#"{{"v":1,"nonce":"n","lease":{lease}}}"#);
        let bad =
            Cell::decode(bad.as_bytes()).unwrap().record(Fence::new(1), |_| Moment::from_nanos(0));
        assert_eq!(bad.unwrap_err().kind(), ErrorKind::Damaged);
    }
}
