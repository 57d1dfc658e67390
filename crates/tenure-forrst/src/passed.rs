//! The answer of another server, as it came.

use std::collections::BTreeMap;

use serde::Deserialize;
use tenure_api::ForrstCode;

use crate::protocol::NAME;
use crate::request::Request;
use crate::response::{Json, Told, json};
use crate::system::is_bare;

/// The members of a document, none of them touched.
pub(crate) type Members = BTreeMap<String, Json>;

const EXTENSIONS: &str = "extensions";

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
    pub(crate) members: Members,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Coded {
    code: String,
}

#[derive(Deserialize)]
struct Extension {
    urn: String,
}

impl Passed {
    /// Whether this is an answer of the protocol to this request, and not of something else that
    /// happens to speak JSON.
    pub(crate) fn is_answer_to(&self, request: &Request) -> bool {
        if is_bare(&request.function, &request.arguments) {
            return true;
        }
        let protocol: Option<Named> = self.member("protocol");
        // A request that could not be read is answered without its id.
        let id: Option<Option<String>> = self.member("id");
        protocol.is_some_and(|protocol| protocol.name == NAME)
            && id.is_some_and(|id| id.is_none_or(|id| id == request.id))
    }

    /// Whether the function may have run.
    pub(crate) fn was_done(&self) -> bool {
        let errors: Vec<Coded> = self.member("errors").unwrap_or_default();
        let says_not = |error: &Coded| NOT_DONE.iter().any(|code| code.name() == error.code);
        errors.is_empty() || !errors.iter().all(says_not)
    }

    /// The other server's document, with what is told here added to its extensions. What it tells
    /// itself is not told again.
    pub(crate) fn write(&self, told: &[Told]) -> serde_json::Result<Vec<u8>> {
        if told.is_empty() {
            return serde_json::to_vec(&self.members);
        }
        let theirs: Vec<Extension> = self.member(EXTENSIONS).unwrap_or_default();
        let mut all: Vec<Json> = self.member(EXTENSIONS).unwrap_or_default();
        for told in told {
            if !theirs.iter().any(|their| their.urn == told.urn) {
                all.push(json(told)?);
            }
        }
        let mut members = self.members.clone();
        members.insert(EXTENSIONS.to_owned(), json(&all)?);
        serde_json::to_vec(&members)
    }

    fn member<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        self.members.get(name).and_then(|member| serde_json::from_str(member.get()).ok())
    }
}
