//! NATS's answers, and keys as it spells them, for the fuzz targets.

use async_nats::jetstream::publish::PublishAck;

pub use super::bucket::fuzzing::{nats_bucket, nats_expires};
use super::link::answer;
use super::register::{entry, found};
use super::subject;
use crate::error::Result;

/// Reads the answer to a look at a key: its sequence, and what stands there; empty, where that says
/// that nobody holds the key.
///
/// # Errors
/// As the store gets them.
pub fn nats_entry(payload: &[u8]) -> Result<Option<(Option<u64>, Vec<u8>)>> {
    let entry = found(answer(payload))?.map(|message| entry(message, 0));
    Ok(entry.map(|entry| (entry.version.revision, entry.body)))
}

/// Reads the answer to a write: its stream and sequence, or the code of an error. `None` when it
/// cannot be read.
#[must_use]
pub fn nats_ack(payload: &[u8]) -> Option<std::result::Result<(String, u64), u64>> {
    let ack = answer::<PublishAck>(payload).ok()?;
    let ack = ack.map(|ack| (ack.stream, ack.sequence));
    Some(ack.map_err(|error| error.error_code().0))
}

/// The subject of a key.
#[must_use]
pub fn nats_subject(key: &str) -> String {
    subject::encode(key)
}

/// The key of a subject, if it is of one.
#[must_use]
pub fn nats_key(subject: &str) -> Option<String> {
    subject::decode(subject)
}
