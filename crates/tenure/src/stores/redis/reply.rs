//! What a script answers: a verdict, and what stood on the key.

use std::time::{Duration, SystemTime};

use ::redis::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::fence::Fence;
use crate::holder::Holder;
use crate::key::Key;
use crate::lease::Lease;
use crate::owner::Owner;

/// How long a lock without end is said to last, so that whoever waits looks again.
const ENDLESS: Duration = Duration::from_secs(60 * 60);

/// The holder of a lock that another kind of client has set.
const STRANGER: &str = "a client of the plain convention";

/// The answer of a script.
#[derive(Debug)]
pub(super) struct Reply {
    /// In one word, what was decided.
    pub(super) verdict: String,
    /// What stood on the key, or stands there now.
    pub(super) lease: Option<Lease>,
}

impl Reply {
    pub(super) fn read(key: &Key, value: Value) -> Result<Self> {
        read(key, value).ok_or_else(|| {
            let text = "what stands beside the lock is not what this store writes: it was changed \
                        by other means";
            Error::new(ErrorKind::Damaged, text)
        })
    }
}

fn read(key: &Key, value: Value) -> Option<Reply> {
    let Value::Array(fields) = value else { return None };
    let [verdict, owner, record, left] = <[Value; 4]>::try_from(fields).ok()?;
    let verdict = String::from_utf8(text(verdict)?).ok()?;
    let owner = match owner {
        Value::Nil => return Some(Reply { verdict, lease: None }),
        // Whatever else is no text does not say that the key is free.
        owner => text(owner)?,
    };
    let Value::Int(left) = left else { return None };
    // Less than nothing means that it has no end.
    let remaining = u64::try_from(left).map_or(ENDLESS, Duration::from_millis);
    let record =
        text(record).filter(|record| record.split(|&byte| byte == b'\n').next() == Some(&owner));
    let (fence, ttl, granted_at, holder) = match record {
        Some(record) => read_record(&record)?,
        None => (0, remaining, SystemTime::UNIX_EPOCH, Holder::new(STRANGER).ok()?),
    };
    let (owner, fence) = (read_owner(&owner)?, Fence::new(fence));
    let lease = Lease { key: key.clone(), owner, fence, ttl, holder, granted_at, remaining };
    Some(Reply { verdict, lease: Some(lease) })
}

/// The five lines of a record: owner, fence, ttl, when it was granted, holder.
fn read_record(record: &[u8]) -> Option<(u64, Duration, SystemTime, Holder)> {
    let mut lines = std::str::from_utf8(record).ok()?.splitn(5, '\n').skip(1);
    let fence = lines.next()?.parse().ok()?;
    let ttl = Duration::from_millis(lines.next()?.parse().ok()?);
    let granted = Duration::from_micros(lines.next()?.parse().ok()?);
    let granted_at = SystemTime::UNIX_EPOCH.checked_add(granted)?;
    Some((fence, ttl, granted_at, Holder::new(lines.next()?).ok()?))
}

fn text(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// Other clients may have written what is no owner of ours: that is shown as a digest of itself,
/// which is nobody's.
fn read_owner(bytes: &[u8]) -> Option<Owner> {
    use sha2::{Digest, Sha256};

    let known = std::str::from_utf8(bytes).ok().and_then(|text| Owner::parse(text).ok());
    known.or_else(|| {
        let digest: String =
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Owner::parse(&format!("sha256:{digest}")).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn reply(owner: Value, record: Value, left: i64) -> Result<Reply> {
        let fields = vec![bulk("held"), owner, record, Value::Int(left)];
        Reply::read(&Key::new("k")?, Value::Array(fields))
    }

    #[test]
    fn a_lease_is_read() {
        let read = reply(bulk("o"), bulk("o\n7\n500\n2000000\nh"), 400).unwrap();
        let lease = read.lease.unwrap();
        assert_eq!((lease.fence.get(), lease.holder.as_str()), (7, "h"));
        assert_eq!(lease.ttl, Duration::from_millis(500));
        assert_eq!(lease.remaining, Duration::from_millis(400));
        assert_eq!(lease.granted_at, SystemTime::UNIX_EPOCH + Duration::from_secs(2));
        assert_eq!(lease.owner, Owner::parse("o").unwrap());
    }

    #[test]
    fn what_another_client_wrote_is_a_lock_too() {
        for value in [&b"plain"[..], b"", b"\xff\x00", b"o\n7", &[b'x'; 1000]] {
            let owner = Value::BulkString(value.into());
            // A record of another grant is none of this one.
            for record in [Value::Nil, bulk("o\n7\n500\n2000000\nh")] {
                let lease = reply(owner.clone(), record, -1).unwrap().lease.unwrap();
                assert_eq!((lease.fence.get(), lease.remaining), (0, ENDLESS));
                assert_eq!(lease.holder.as_str(), STRANGER);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_damage_and_shows_no_value() {
        for record in [
            "secret",
            "secret\nx\n1\n1\nh",
            "secret\n1\n-1\n1\nh",
            "secret\n1\n1\n\nh",
            "secret\n1\n1\n1\nh\n",
            "secret\n1\n1\n99999999999999999999\nh",
            "secret\n1\n1\n1",
        ] {
            let error = reply(bulk("secret"), bulk(record), 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{record}");
            assert!(!format!("{error:?}").contains("secret"));
        }
        assert!(Reply::read(&Key::new("k").unwrap(), Value::Okay).is_err());
    }
}
