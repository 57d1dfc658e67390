//! Answers and keys of Redis, for the fuzz targets.

use ::redis::Value;

use super::error::Fault;
use super::nodes;
use super::options::Address;
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

/// The last slot of each stretch with the host and port of its primary, as a Cluster says them to
/// whoever asked the node `asked`; `None` where that makes no sense.
#[must_use]
pub fn redis_slots(stretches: Vec<(i64, Option<Vec<u8>>, i64)>) -> Option<Vec<(u16, String, u16)>> {
    let stretch = |(last, host, port): (i64, Option<Vec<u8>>, i64)| {
        let host = host.map_or(Value::Nil, Value::BulkString);
        let primary = Value::Array(vec![host, Value::Int(port)]);
        Value::Array(vec![Value::Int(0), Value::Int(last), primary])
    };
    let all = stretches.into_iter().map(stretch).collect();
    nodes::fuzzing::slots(Value::Array(all), &asked())
}

/// Where one is sent that asked the node `asked` and was refused with this line.
#[must_use]
pub fn redis_redirection(line: &str) -> Option<(String, u16)> {
    let line = format!("-{}\r\n", line.replace(['\r', '\n'], " "));
    let error = ::redis::parse_redis_value(line.as_bytes()).and_then(Value::extract_error).err()?;
    nodes::fuzzing::redirected(&Fault::new(error), &asked())
}

fn asked() -> Address {
    Address { host: "asked".to_owned(), port: 1 }
}
