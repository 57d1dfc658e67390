//! A request as it is handed on under its lock.

use std::time::Duration;

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::extension::Kind;
use crate::extension::deadline::{DeadlineOptions, Shorter};
use crate::object::Object;
use crate::request::{LOCK, Request};

/// What is told about the lock in the context of a call.
#[derive(Serialize)]
pub(crate) struct AboutLock<'a> {
    pub(crate) key: &'a str,
    pub(crate) fence: u64,
}

/// What is left of a deadline.
pub(crate) struct Left<'a> {
    pub(crate) options: &'a DeadlineOptions,
    pub(crate) remaining: Duration,
}

struct UnderLock<'a> {
    document: &'a Object<'a>,
    context: Context<'a>,
    extensions: Vec<Extension<'a>>,
}

struct Context<'a> {
    theirs: &'a Object<'a>,
    lock: &'a AboutLock<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Extension<'a> {
    AsItCame(&'a RawValue),
    Deadline { urn: &'a str, options: Shorter },
}

/// The document to hand on: with the lock in its context, without what is done here, and with what
/// is left of its deadline. All else is as it came.
pub(crate) fn under_lock(
    request: &Request<'_>,
    lock: &AboutLock<'_>,
    left: Option<Left<'_>>,
) -> serde_json::Result<Bytes> {
    let (document, context) = (&request.document, Context { theirs: &request.context, lock });
    let mut extensions = Vec::with_capacity(request.extensions.len());
    for asked in &request.extensions {
        let shorter = |left: &Left<'_>| left.options.shorter(left.remaining);
        extensions.push(match (asked.kind, left.as_ref().and_then(shorter)) {
            (Some(Kind::AtomicLock | Kind::Cancellation), _) => continue,
            (Some(Kind::Deadline), Some(options)) => {
                Extension::Deadline { urn: &asked.urn, options }
            }
            _ => Extension::AsItCame(asked.text),
        });
    }
    serde_json::to_vec(&UnderLock { document, context, extensions }).map(Bytes::from)
}

impl Serialize for UnderLock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let is_written_here = |name: &str| matches!(name, "context" | "extensions");
        for (name, value) in self.document.members().filter(|(name, _)| !is_written_here(name)) {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("context", &self.context)?;
        if !self.extensions.is_empty() {
            map.serialize_entry("extensions", &self.extensions)?;
        }
        map.end()
    }
}

impl Serialize for Context<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.theirs.members() {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry(LOCK, self.lock)?;
        map.end()
    }
}
