//! The response document.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tenure_api::FORRST_HTTP_OTHER;

use crate::amount::Amount;
use crate::fault::Fault;
#[cfg(feature = "gateway")]
use crate::gateway::Passed;
use crate::protocol::{PROTOCOL, Protocol};

/// What a function gave, as JSON.
pub(crate) type Json = Box<RawValue>;

/// An answer, before it is written down.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) id: Option<String>,
    pub(crate) outcome: Result<Answer, Vec<Fault>>,
    pub(crate) extensions: Vec<Told>,
}

/// What is answered where nothing went wrong.
#[derive(Debug)]
pub(crate) enum Answer {
    /// What a function gave.
    Result(Json),
    /// What a function gave, to be told without an envelope.
    Bare(Json),
    /// What another server answered, right or wrong.
    #[cfg(feature = "gateway")]
    Passed(Passed),
}

/// What an extension tells, under the URN that it was asked for with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) urn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Json>,
}

impl Told {
    pub(crate) fn new(urn: &str, data: &impl Serialize) -> Self {
        Self { urn: urn.to_owned(), data: json(data).ok() }
    }
}

/// Anything as JSON.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<Json> {
    serde_json::value::to_raw_value(value)
}

/// About the answer itself.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Meta {
    pub(crate) duration: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    protocol: Protocol,
    id: Option<&'a str>,
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<&'a [Fault]>,
    #[serde(skip_serializing_if = "<[Told]>::is_empty")]
    extensions: &'a [Told],
    meta: &'a Meta,
}

impl Response {
    pub(crate) fn new(id: Option<String>, outcome: Result<Answer, Fault>) -> Self {
        let outcome = outcome.map_err(|fault| vec![fault]);
        Self { id, outcome, extensions: Vec::new() }
    }

    /// A request that could not be read.
    pub(crate) fn refused(id: Option<String>, faults: Vec<Fault>) -> Self {
        Self { id, outcome: Err(faults), extensions: Vec::new() }
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> u16 {
        match &self.outcome {
            #[cfg(feature = "gateway")]
            Ok(Answer::Passed(passed)) => passed.status,
            Ok(_) => 200,
            Err(faults) => match faults.as_slice() {
                [fault] => fault.http(),
                _ => FORRST_HTTP_OTHER,
            },
        }
    }

    /// The document.
    pub(crate) fn write(&self, meta: &Meta) -> serde_json::Result<Bytes> {
        let (result, errors) = match &self.outcome {
            Ok(Answer::Bare(result)) => return serde_json::to_vec(result).map(Bytes::from),
            #[cfg(feature = "gateway")]
            Ok(Answer::Passed(passed)) => return passed.write(&self.extensions),
            Ok(Answer::Result(result)) => (Some(&**result), None),
            Err(faults) => (None, Some(faults.as_slice())),
        };
        let (id, extensions) = (self.id.as_deref(), self.extensions.as_slice());
        let document = Document { protocol: PROTOCOL, id, result, errors, extensions, meta };
        serde_json::to_vec(&document).map(Bytes::from)
    }
}
