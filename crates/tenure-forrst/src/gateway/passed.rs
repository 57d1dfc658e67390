//! The answer of another server, as it came.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tenure_api::ForrstCode;

use super::capabilities;
use super::place::{Place, urn_of};
use crate::extension::Kind;
use crate::object::Object;
use crate::protocol::NAME;
use crate::request::Request;
use crate::response::Told;
use crate::system::{CAPABILITIES, DESCRIBE};

/// Codes that say that no function ran.
const NOT_DONE: [ForrstCode; 10] = [
    ForrstCode::ParseError,
    ForrstCode::InvalidRequest,
    ForrstCode::InvalidProtocolVersion,
    ForrstCode::FunctionNotFound,
    ForrstCode::VersionNotFound,
    ForrstCode::FunctionDisabled,
    ForrstCode::InvalidArguments,
    ForrstCode::SchemaValidationFailed,
    ForrstCode::ExtensionNotSupported,
    ForrstCode::ExtensionNotApplicable,
];

#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) status: u16,
    document: Bytes,
    extensions: Place,
    /// Whether the function may have run.
    pub(crate) was_done: bool,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Coded<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
}

/// An extension of the answer.
#[derive(Serialize)]
#[serde(untagged)]
enum Either<'a> {
    Theirs(&'a RawValue),
    Ours(&'a Told),
}

impl Passed {
    /// Reads an answer to this request; none, if it is that of something else that happens to speak
    /// JSON.
    pub(crate) fn read(status: u16, document: Bytes, request: &Request<'_>) -> Option<Self> {
        let document = match CAPABILITIES.contains(&&*request.function) {
            true => capabilities::with_lock(&document).map_or(document, Bytes::from),
            false => document,
        };
        let members: Object<'_> = serde_json::from_slice(&document).ok()?;
        let is_bare = DESCRIBE.contains(&&*request.function);
        let is_bare = is_bare && request.argument("function").is_none();
        let is_answer = is_bare || is_answer_to(&members, &request.id);
        if members.repeated().is_some() || !is_answer {
            return None;
        }
        let errors: Vec<Coded<'_>> = member(&members, "errors").unwrap_or_default();
        let says_not = |error: &Coded<'_>| NOT_DONE.iter().any(|code| code.name() == error.code);
        let was_done = errors.is_empty() || !errors.iter().all(says_not);
        let extensions = Place::of(&members, &document)?;
        Some(Self { status, extensions, was_done, document })
    }

    /// The other server's document, with what is told here added to its extensions. What it tells
    /// itself is not told again, but for the lock: that is known here and not there.
    pub(crate) fn write(&self, told: &[Told]) -> serde_json::Result<Bytes> {
        if told.is_empty() {
            return Ok(self.document.clone());
        }
        let Self { document, extensions, .. } = self;
        let all = merged(extensions.read(document), told);
        extensions.filled(document, &all).map(Bytes::from)
    }
}

fn is_answer_to(members: &Object<'_>, request: &str) -> bool {
    let protocol: Option<Named<'_>> = member(members, "protocol");
    // A request that could not be read is answered without its id.
    let id: Option<Option<Cow<'_, str>>> = member(members, "id");
    protocol.is_some_and(|protocol| protocol.name == NAME)
        && id.is_some_and(|id| id.is_none_or(|id| id == request))
}

fn member<'a, T: Deserialize<'a>>(members: &Object<'a>, name: &str) -> Option<T> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

fn merged<'a>(theirs: Vec<&'a RawValue>, told: &'a [Told]) -> Vec<Either<'a>> {
    let is_lock = |urn: &str| Kind::of(urn) == Some(Kind::AtomicLock);
    let ours_is_lock = told.iter().any(|told| is_lock(&told.urn));
    let (mut all, mut urns) = (Vec::with_capacity(theirs.len() + told.len()), Vec::new());
    for text in theirs {
        let urn = urn_of(text);
        if !(ours_is_lock && urn.as_deref().is_some_and(is_lock)) {
            all.push(Either::Theirs(text));
            urns.extend(urn);
        }
    }
    let is_told = |told: &&Told| !urns.iter().any(|urn| *urn == told.urn);
    all.extend(told.iter().filter(is_told).map(Either::Ours));
    all
}
