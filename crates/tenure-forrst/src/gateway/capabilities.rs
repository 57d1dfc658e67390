//! What the server behind can do, and that its functions can be called under a lock.

use serde::Serialize;
use serde_json::value::RawValue;

use super::place::{Place, urn_of};
use crate::extension::Kind;
use crate::object::{Object, offset};
use crate::system::VERSION;

#[derive(Serialize)]
#[serde(untagged)]
enum Extension<'a> {
    Theirs(&'a RawValue),
    Ours { urn: &'static str, version: &'static str },
}

/// The answer of the other server with the lock among its extensions; `None` when it tells nothing
/// of what it can do.
pub(crate) fn with_lock(document: &[u8]) -> Option<Vec<u8>> {
    let members: Object<'_> = serde_json::from_slice(document).ok()?;
    let result = members.get("result")?.get();
    let capabilities: Object<'_> = serde_json::from_str(result).ok()?;
    let place = Place::of(&capabilities, result.as_bytes())?.behind(offset(document, result));
    let theirs = capabilities.get("extensions").map(|told| serde_json::from_str(told.get()));
    let theirs: Vec<&RawValue> = theirs.transpose().ok()?.unwrap_or_default();
    let told: Vec<_> = theirs.iter().filter_map(|told| urn_of(told)).collect();
    let ours = Kind::AtomicLock.urns().into_iter().filter(|urn| !told.iter().any(|t| t == urn));
    let ours = ours.map(|urn| Extension::Ours { urn, version: VERSION });
    let all: Vec<_> = theirs.iter().map(|told| Extension::Theirs(told)).chain(ours).collect();
    place.filled(document, &all).ok()
}
