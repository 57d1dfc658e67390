//! Documents and the functions of the protocol, for the targets in `fuzz/`. No part of the API.

use serde_json::{Map, Value, json};

use crate::extension::{Setting, Unknown, Wishes};
use crate::fault::Fault;
#[cfg(feature = "gateway")]
pub use crate::gateway::fuzzing::{handed_on, passed_on};
use crate::protocol::{NAME, VERSION};
use crate::request::{Asked, Given, Malformed, Request};
pub use crate::system::fuzzing::{Errand, SystemFunctions};

/// A request that was read.
#[derive(Debug)]
pub struct ReadRequest {
    /// The same, written again.
    pub written: Value,
    /// What is wrong with its extensions, if anything is.
    pub refused: Option<Fault>,
}

/// A request that could not be read.
#[derive(Debug)]
pub struct Refused {
    /// Its id, if that could be told.
    pub id: Option<String>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

/// Reads a body. `is_system` says whether its function is one of the protocol itself.
///
/// # Errors
/// As callers of the service get them.
pub fn read_request(body: &[u8], is_system: bool) -> Result<ReadRequest, Refused> {
    let request = Request::read(body).map_err(|Malformed { id, faults }| Refused { id, faults })?;
    let setting = Setting { function: &request.function, is_system, unknown: Unknown::Refuse };
    let refused = Wishes::read(&request.extensions, setting).err();
    let given = request.given().map_err(|Malformed { id, faults }| Refused { id, faults })?;
    Ok(ReadRequest { written: written(request, given), refused })
}

fn written(request: Request<'_>, given: Given) -> Value {
    let Request { id, function, version, extensions, .. } = request;
    let Given { arguments, context } = given;
    let mut call = Map::new();
    call.insert("function".to_owned(), function.into());
    if let Some(version) = version {
        call.insert("version".to_owned(), version.to_string().into());
    }
    call.insert("arguments".to_owned(), arguments.into());
    let extension = |Asked { urn, options, .. }| json!({"urn": urn, "options": options});
    let extensions: Vec<Value> = extensions.into_iter().map(extension).collect();
    let protocol = json!({"name": NAME, "version": VERSION});
    json!({
        "protocol": protocol,
        "id": id,
        "call": call,
        "context": context,
        "extensions": extensions,
    })
}
