//! Answers and keys of Redis, for the fuzz targets.

pub use ::redis::Value as RedisValue;
use ::redis::{RedisResult, parse_redis_value};

use super::error::Fault;
use super::nodes;
use super::options::Address;
pub use super::probe::fuzzing::redis_info;
use super::reply::Reply;
use super::slot::{Names, key_of, slot_of};
use crate::error::Result;
use crate::key::Key;
use crate::lease::Lease;

/// What a server's bytes say; `None` where they cannot be read, or say that something went wrong.
#[must_use]
pub fn redis_value(bytes: &[u8]) -> Option<RedisValue> {
    parsed(bytes).ok()
}

/// Reads the answer of a script: the verdict, and the lease on the key.
///
/// # Errors
/// As the store gets them.
pub fn redis_reply(key: &Key, answer: RedisValue) -> Result<(String, Option<Lease>)> {
    let Reply { verdict, lease } = Reply::read(key, answer)?;
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

/// The last slot of each stretch with the host and port of its primary, as a Cluster says them to
/// whoever asked the node `asked`; `None` where that makes no sense.
#[must_use]
pub fn redis_slots(answer: RedisValue) -> Option<Vec<(u16, String, u16)>> {
    nodes::fuzzing::slots(answer, &asked())
}

/// Where one is sent that asked the node `asked` and was refused with this line.
#[must_use]
pub fn redis_redirection(line: &str) -> Option<(String, u16)> {
    let line = format!("-{}\r\n", line.replace(['\r', '\n'], " "));
    let error = parsed(line.as_bytes()).err()?;
    nodes::fuzzing::redirected(&Fault::new(error), &asked())
}

fn parsed(bytes: &[u8]) -> RedisResult<RedisValue> {
    parse_redis_value(bytes).and_then(RedisValue::extract_error)
}

fn asked() -> Address {
    Address { host: "asked".to_owned(), port: 1 }
}
