//! Answers and keys of Redis, for the fuzz targets.

use ::redis::Value;

pub use super::probe::fuzzing::redis_info;
use super::reply::Reply;
use super::slot::{Names, key_of, slot_of};
use crate::error::Result;
use crate::key::Key;
use crate::lease::Lease;

/// What a script answers.
#[derive(Clone, Debug)]
pub struct RedisFields {
    /// What was decided.
    pub verdict: Vec<u8>,
    /// What stands on the key.
    pub owner: Option<Vec<u8>>,
    /// What stands beside it.
    pub record: Option<Vec<u8>>,
    /// How many milliseconds are left.
    pub left: i64,
}

/// Reads an answer: the verdict, and the lease on the key.
///
/// # Errors
/// As the store gets them.
pub fn redis_reply(key: &Key, fields: RedisFields) -> Result<(String, Option<Lease>)> {
    let text = |bytes: Option<Vec<u8>>| bytes.map_or(Value::Nil, Value::BulkString);
    let RedisFields { verdict, owner, record, left } = fields;
    let fields = vec![text(Some(verdict)), text(owner), text(record), Value::Int(left)];
    let Reply { verdict, lease } = Reply::read(key, Value::Array(fields))?;
    Ok((verdict, lease))
}

/// What belongs to a key, each with its slot.
#[derive(Clone, Debug)]
pub struct RedisNames {
    /// The slot of the key itself.
    pub slot: u16,
    /// The record beside the lock.
    pub record: (String, u16),
    /// The fence counter.
    pub counter: (String, u16),
}

/// What belongs to a key.
#[must_use]
pub fn redis_names(key: &str) -> RedisNames {
    let Names { slot, record, counter } = Names::of(key);
    let with_slot = |name: String| {
        let slot = slot_of(name.as_bytes());
        (name, slot)
    };
    RedisNames { slot, record: with_slot(record), counter: with_slot(counter) }
}

/// The key that a record belongs to, if it is one.
#[must_use]
pub fn redis_key(record: &str) -> Option<&str> {
    key_of(record)
}
