//! The bucket as a register: each write names the sequence that it wants to replace.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::RawMessage;
use async_nats::jetstream::{self, ErrorCode};
use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde_json::json;

use super::bells::Bells;
use super::bucket::{Bucket, MARKER_TTL};
use super::error::{Silence, is_conflict, refused, silent};
use super::link::{Link, answer};
use super::making::Makings;
use super::marks::{Marks, Written};
use super::subject;
use crate::effect::Effect;
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;
use crate::store::{Capabilities, StoreInfo, Timing};
use crate::stores::register::{
    Entries, Entry, Expiry, Fences, Purpose, Register, Swap, Version, Write,
};
use crate::watch::Watch;

/// A server takes lines of up to 4096 bytes. Three times this, and the longest other parts of the
/// longest line, are less.
const KEY_BYTES_MAX: usize = 1148;

/// How many messages of a page are asked for at once.
const READS_AT_ONCE: usize = 32;

const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
const TTL: &str = "Nats-TTL";
const OPERATION: &str = "KV-Operation";
const MARKER: &str = "Nats-Marker-Reason";

#[derive(Debug)]
pub(super) struct NatsRegister {
    info: StoreInfo,
    link: Arc<Link>,
    bucket: Bucket,
    /// What the bucket's subjects begin with.
    subjects: String,
    /// What they begin with for whoever publishes to them.
    targets: String,
    bells: Bells,
    makings: Arc<Makings>,
    marks: Marks,
}

#[derive(Deserialize)]
pub(super) struct Found {
    message: RawMessage,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    total: usize,
    state: ListedState,
}

#[derive(Deserialize)]
struct ListedState {
    #[serde(default)]
    subjects: Option<HashMap<String, u64>>,
}

impl NatsRegister {
    pub(super) fn new(link: Arc<Link>, bucket: Bucket) -> Self {
        let capabilities = Capabilities {
            shared: true,
            durable: bucket.is_durable,
            wakes: true,
            lists: true,
            key_bytes_max: KEY_BYTES_MAX,
            ..Capabilities::default()
        };
        let findings = bucket.findings.clone();
        let info = StoreInfo::new("nats", bucket.timing, capabilities, findings);
        let subjects = format!("$KV.{}.", bucket.name);
        let targets = match link.api_prefix() {
            "$JS.API" => subjects.clone(),
            domain => format!("{domain}.{subjects}"),
        };
        let bells = Bells::new(Arc::clone(&link), &bucket, &subjects);
        let made = bucket.made.clone();
        let makings = Arc::new(Makings::new(Arc::clone(&link), &bucket.stream, made));
        let marks = Marks::new(Arc::clone(&link), Arc::clone(&makings), &bucket.stream, &subjects);
        if !bucket.takes_ttl {
            marks.start();
        }
        Self { info, link, bucket, subjects, targets, bells, makings, marks }
    }

    /// The call of the API with this name, about this bucket's stream.
    fn verb(&self, name: &str) -> String {
        format!("{name}.{}", self.bucket.stream)
    }

    /// The last message of a subject, whatever it is. The stream's leader is asked: others may be
    /// behind.
    async fn last(&self, subject: &str) -> Result<Option<StreamMessage>> {
        let body = json!({ "last_by_subj": subject });
        found(self.link.api(&self.verb("STREAM.MSG.GET"), &body).await)
    }

    fn headers(&self, write: &Write<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let expected = write.expected.and_then(|version| version.revision).unwrap_or(0);
        headers.insert(EXPECTED, expected.to_string());
        let ttl = match write.purpose {
            Purpose::Lease(ttl) => Some(ttl),
            Purpose::Free(ttl) => {
                // Not DEL: when that ends, the server puts a mark of its own in its place.
                headers.insert(OPERATION, "PURGE");
                // A server that crashes when the mark has ended may bring back what stood before
                // it: that must have ended by then, too.
                Some(ttl.max(MARKER_TTL))
            }
            Purpose::Note => None,
        };
        if let Some(ttl) = ttl.filter(|_| self.bucket.takes_ttl) {
            headers.insert(TTL, seconds(ttl).to_string());
        }
        headers
    }

    /// The subjects of all keys.
    async fn all(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        loop {
            let filter = format!("{}>", self.subjects);
            let body = json!({ "subjects_filter": filter, "offset": all.len() });
            let listed = self.link.api::<Listed>(&self.verb("STREAM.INFO"), &body).await;
            let listed = listed.map_err(|silence| silent(silence, Effect::Read))?;
            let listed = listed.map_err(|error| refused(&error))?;
            let subjects = listed.state.subjects.unwrap_or_default();
            let is_last = subjects.is_empty() || all.len() + subjects.len() >= listed.total;
            all.extend(subjects.into_keys());
            if is_last {
                return Ok(all);
            }
        }
    }
}

/// The message that was asked for, if there is one.
pub(super) fn found(
    answer: Result<Result<Found, jetstream::Error>, Silence>,
) -> Result<Option<StreamMessage>> {
    match answer {
        Ok(Ok(found)) => StreamMessage::try_from(found.message)
            .map(Some)
            .map_err(|_| Error::new(ErrorKind::Damaged, "NATS gave a message that cannot be read")),
        Ok(Err(error)) if error.error_code() == ErrorCode::NO_MESSAGE_FOUND => Ok(None),
        Ok(Err(error)) => Err(refused(&error)),
        Err(silence) => Err(silent(silence, Effect::Read)),
    }
}

/// Whole seconds, rounded up: a ttl is a lower bound, and the server takes no others.
fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

/// Whether a message with these headers says that nobody holds the key.
pub(super) fn frees(headers: &HeaderMap) -> bool {
    headers.get(MARKER).is_some()
        || headers.get(OPERATION).is_some_and(|value| matches!(value.as_str(), "DEL" | "PURGE"))
}

pub(super) fn entry(message: StreamMessage, making: u64) -> Entry {
    let body = if frees(&message.headers) { Vec::new() } else { message.payload.to_vec() };
    Entry { version: version(message.sequence, making), body }
}

/// The version that a sequence is in this making of the bucket.
fn version(sequence: u64, making: u64) -> Version {
    Version { tag: format!("{sequence} of {making}"), revision: Some(sequence) }
}

/// Whether a version is one of this making.
fn is_of(expected: &Version, making: u64) -> bool {
    expected.revision.is_some_and(|sequence| version(sequence, making) == *expected)
}

#[async_trait]
impl Register for NatsRegister {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn fences(&self) -> Fences {
        Fences::Revision
    }

    fn expiry(&self) -> Expiry {
        match self.bucket.timing {
            Timing::Store => Expiry::Register,
            Timing::Observer => Expiry::Observer,
        }
    }

    async fn read(&self, key: &Key) -> Result<Option<Entry>> {
        let subject = format!("{}{}", self.subjects, subject::encode(key.as_str()));
        let making = self.makings.now().await?;
        Ok(self.last(&subject).await?.map(|message| entry(message, making)))
    }

    async fn swap(&self, write: Write<'_>) -> Result<Swap> {
        let name = subject::encode(write.key.as_str());
        let target = format!("{}{name}", self.targets);
        let making = self.makings.now().await?;
        if write.expected.is_some_and(|expected| !is_of(expected, making)) {
            return Ok(Swap::Conflict);
        }
        let sent = self.link.request(target, self.headers(&write), write.body.to_vec()).await;
        let ack = match sent.and_then(|reply| answer::<PublishAck>(&reply.payload)) {
            Ok(Ok(ack)) if ack.stream == self.bucket.stream && ack.sequence > 0 => ack,
            Ok(Ok(_)) => return Err(Error::unknown("another stream took the write")),
            Ok(Err(error)) if is_conflict(&error) => return Ok(Swap::Conflict),
            Ok(Err(error)) => return Err(refused(&error)),
            Err(silence) => return Err(silent(silence, Effect::Write)),
        };
        if !self.bucket.takes_ttl {
            let subject = format!("{}{name}", self.subjects);
            let written = Written { making, sequence: ack.sequence };
            match write.purpose {
                Purpose::Free(_) => self.marks.made(subject, written),
                Purpose::Lease(_) | Purpose::Note => self.marks.replaced(&subject, written),
            }
        }
        Ok(Swap::Done(version(ack.sequence, making)))
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Entries> {
        let mut keys: Vec<_> = self
            .all()
            .await?
            .iter()
            .filter_map(|subject| subject::decode(subject.strip_prefix(&self.subjects)?))
            .filter(|key| key.starts_with(prefix))
            .filter(|key| after.is_none_or(|after| key.as_str() > after.as_str()))
            .map(Key::stored)
            .collect();
        keys.sort_unstable();
        let more = keys.len() > limit;
        keys.truncate(limit);
        let next = keys.last().filter(|_| more).cloned();
        let reads = keys.into_iter().map(|key| async move {
            let entry = self.read(&key).await?;
            Ok::<_, Error>(entry.map(|entry| (key, entry)))
        });
        let read = futures_util::stream::iter(reads).buffered(READS_AT_ONCE);
        let read: Vec<_> = read.try_collect().await?;
        Ok(Entries { entries: read.into_iter().flatten().collect(), next })
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.bells.watch(key).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up_to_seconds() {
        for (ms, s) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(seconds(Duration::from_millis(ms)), s);
        }
    }

    #[test]
    fn a_sequence_of_another_making_is_another_version() {
        assert_ne!(version(2, 0), version(2, 1));
        assert!(is_of(&version(2, 1), 1) && !is_of(&version(2, 0), 1));
    }

    #[test]
    fn marks_of_the_client_and_of_the_server_free_a_key() {
        let with = |name: &str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value);
            headers
        };
        for (name, value) in [(OPERATION, "DEL"), (OPERATION, "PURGE"), (MARKER, "MaxAge")] {
            assert!(frees(&with(name, value)), "{name}: {value}");
        }
        assert!(!frees(&with(TTL, "5")) && !frees(&with(OPERATION, "PUT")));
    }
}
