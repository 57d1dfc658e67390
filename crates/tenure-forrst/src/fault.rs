//! One error of a response.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;
use tenure_api::{FORRST_HTTP_OTHER, ForrstCode};

/// An error as a response tells it: a code, words for people, where in the request it lies, and
/// details for programs.
///
/// A function returns one to fail. What it says goes to the caller as it is: no secrets.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    code: Cow<'static, str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<RawValue>>,
    #[serde(skip)]
    http: u16,
    #[serde(skip)]
    known: Option<ForrstCode>,
}

/// Where in the request an error lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Source {
    /// A JSON pointer into the document.
    Pointer(String),
    /// A byte of a body that is no JSON.
    Position(usize),
}

impl Fault {
    /// An error with a code of the protocol.
    pub fn new(code: ForrstCode, message: impl Into<String>) -> Self {
        let row = code.fault();
        let (http, known) = (row.http, Some(code));
        let code = Cow::Borrowed(row.name);
        Self { code, message: message.into(), source: None, details: None, http, known }
    }

    /// An error with a code of the application's own, like `CARD_DECLINED`. Its status is 400.
    pub fn custom(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (code, message, http) = (code.into(), message.into(), FORRST_HTTP_OTHER);
        Self { code, message, source: None, details: None, http, known: None }
    }

    /// A request that is wrong at this pointer.
    pub(crate) fn request(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ForrstCode::InvalidRequest, message).at(pointer)
    }

    /// An argument or option that is wrong at this pointer.
    pub(crate) fn argument(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ForrstCode::InvalidArguments, message).at(pointer)
    }

    /// A fault of the server, of which the caller is told nothing.
    pub(crate) fn internal() -> Self {
        Self::new(ForrstCode::InternalError, "Internal error")
    }

    /// With details for programs: whatever serializes to JSON.
    #[must_use]
    pub fn with(mut self, details: impl Serialize) -> Self {
        self.details = serde_json::value::to_raw_value(&details).ok();
        self
    }

    /// With where in the request it lies: a JSON pointer, like `/call/arguments/amount`.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.source = Some(Source::Pointer(pointer.into()));
        self
    }

    pub(crate) fn at_byte(mut self, position: usize) -> Self {
        self.source = Some(Source::Position(position));
        self
    }

    /// Its code in words.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Its code, if it is one of the protocol.
    #[must_use]
    pub fn known(&self) -> Option<ForrstCode> {
        self.known
    }

    /// What it says to people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn http(&self) -> u16 {
        self.http
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Fault {}
