//! The request document: read, and checked as far as the protocol itself goes.

use semver::Version;
use serde_json::{Map, Value};
use tenure_api::ForrstCode;

use crate::fault::Fault;
use crate::protocol::{NAME, VERSION};

/// The most bytes of an id, a function's name or an extension's URN.
const NAME_BYTES_MAX: usize = 255;

/// The most extensions of a request.
const EXTENSIONS_MAX: usize = 50;

/// A request that keeps the rules of the protocol.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) function: String,
    pub(crate) version: Option<Version>,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) context: Map<String, Value>,
    pub(crate) extensions: Vec<Asked>,
}

/// An extension that a request asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) urn: String,
    pub(crate) options: Map<String, Value>,
}

/// A request that does not: what is wrong with it, and its id if that could be told.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<String>,
    pub(crate) faults: Vec<Fault>,
}

impl Request {
    /// Reads a body.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Malformed> {
        let document = parse(body).map_err(|fault| Malformed { id: None, faults: vec![fault] })?;
        let Value::Object(mut document) = document else {
            let text = match document {
                Value::Array(_) => "a request is one object: batches are not supported",
                _ => "a request must be an object",
            };
            return Err(Malformed { id: None, faults: vec![Fault::request("", text)] });
        };
        let mut faults = Faults::default();
        let id = faults.keep(name(document.remove("id"), "/id", "id"));
        faults.keep(protocol(document.get("protocol")));
        let call = faults.keep(object(document.remove("call"), "/call", "call"));
        let context = faults.keep(optional(document.remove("context"), "/context", "context"));
        let extensions = faults.keep(extensions(document.remove("extensions")));
        let call = call.and_then(|call| faults.call(call));
        let (Some(id), Some(context), Some(extensions), Some(call)) =
            (id.clone(), context, extensions, call)
        else {
            return Err(Malformed { id, faults: faults.0 });
        };
        if !faults.0.is_empty() {
            return Err(Malformed { id: Some(id), faults: faults.0 });
        }
        let Call { function, version, arguments } = call;
        Ok(Self { id, function, version, arguments, context, extensions })
    }
}

struct Call {
    function: String,
    version: Option<Version>,
    arguments: Map<String, Value>,
}

/// All that is wrong, so that it is told at once.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn keep<T>(&mut self, outcome: Result<T, Fault>) -> Option<T> {
        outcome.map_err(|fault| self.0.push(fault)).ok()
    }

    fn call(&mut self, mut call: Map<String, Value>) -> Option<Call> {
        let function = self.keep(name(call.remove("function"), "/call/function", "function"));
        let version = self.keep(version(call.remove("version").as_ref()));
        let arguments = optional(call.remove("arguments"), "/call/arguments", "arguments");
        let arguments = self.keep(arguments);
        Some(Call { function: function?, version: version?, arguments: arguments? })
    }
}

/// A body as JSON, or the byte at which it is none.
fn parse(body: &[u8]) -> Result<Value, Fault> {
    serde_json::from_slice(body).map_err(|error| {
        let before = body.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
        let line_start: usize = before.map(|line| line.len() + 1).sum();
        let position = line_start + error.column().saturating_sub(1);
        Fault::new(ForrstCode::ParseError, "Parse error").at_byte(position.min(body.len()))
    })
}

fn protocol(json: Option<&Value>) -> Result<(), Fault> {
    let Some(Value::Object(protocol)) = json else {
        let text = "protocol must be an object with name and version";
        return Err(Fault::request("/protocol", text));
    };
    if protocol.get("name").and_then(Value::as_str) != Some(NAME) {
        return Err(Fault::request("/protocol/name", format!("protocol name must be {NAME:?}")));
    }
    let version = protocol.get("version").and_then(Value::as_str);
    let parsed = version.and_then(|version| Version::parse(version).ok());
    let (Some(text), Some(version)) = (version, parsed) else {
        let text = "protocol version must be a semantic version, like 0.1.0";
        return Err(Fault::request("/protocol/version", text));
    };
    if version.major != 0 {
        let details = serde_json::json!({"requested": text, "supported": [VERSION]});
        let text = format!("Unsupported protocol version: {text}");
        return Err(Fault::new(ForrstCode::InvalidProtocolVersion, text).with(details));
    }
    Ok(())
}

fn version(json: Option<&Value>) -> Result<Option<Version>, Fault> {
    let Some(json) = json else { return Ok(None) };
    let version = json.as_str().and_then(|text| Version::parse(text).ok());
    let text = "version must be a semantic version, like 1.0.0";
    version.map(Some).ok_or_else(|| Fault::request("/call/version", text))
}

fn extensions(json: Option<Value>) -> Result<Vec<Asked>, Fault> {
    let extensions = match json {
        None => return Ok(Vec::new()),
        Some(Value::Array(extensions)) => extensions,
        Some(_) => return Err(Fault::request("/extensions", "extensions must be an array")),
    };
    if extensions.len() > EXTENSIONS_MAX {
        let many = extensions.len();
        let text = format!("there may be {EXTENSIONS_MAX} extensions, this request has {many}");
        return Err(Fault::request("/extensions", text));
    }
    let numbered = extensions.into_iter().enumerate();
    numbered.map(|(at, extension)| extension_at(&format!("/extensions/{at}"), extension)).collect()
}

fn extension_at(pointer: &str, json: Value) -> Result<Asked, Fault> {
    let mut extension = object(Some(json), pointer, "an extension")?;
    let urn = name(extension.remove("urn"), &format!("{pointer}/urn"), "urn")?;
    let options = optional(extension.remove("options"), &format!("{pointer}/options"), "options")?;
    Ok(Asked { urn, options })
}

fn name(json: Option<Value>, pointer: &str, what: &str) -> Result<String, Fault> {
    match json {
        Some(Value::String(text)) if (1..=NAME_BYTES_MAX).contains(&text.len()) => Ok(text),
        Some(Value::String(text)) => {
            let bytes = text.len();
            let text =
                format!("{what} must have 1 to {NAME_BYTES_MAX} bytes, this one has {bytes}");
            Err(Fault::request(pointer, text))
        }
        _ => Err(Fault::request(pointer, format!("{what} must be a string"))),
    }
}

fn object(json: Option<Value>, pointer: &str, what: &str) -> Result<Map<String, Value>, Fault> {
    match json {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(Fault::request(pointer, format!("{what} must be an object"))),
    }
}

fn optional(json: Option<Value>, pointer: &str, what: &str) -> Result<Map<String, Value>, Fault> {
    match json {
        None => Ok(Map::new()),
        some => object(some, pointer, what),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "protocol": {"name": "forrst", "version": "0.1.0"},
            "id": "req_001",
            "call": {"function": "payments.charge"},
        })
    }

    fn refused(document: &Value) -> (Option<String>, Value) {
        let malformed = Request::read(document.to_string().as_bytes()).unwrap_err();
        (malformed.id, serde_json::to_value(&malformed.faults).unwrap())
    }

    #[test]
    fn what_is_left_out_is_empty() {
        let request = Request::read(good().to_string().as_bytes()).unwrap();
        assert_eq!(
            (request.id.as_str(), request.function.as_str()),
            ("req_001", "payments.charge")
        );
        assert!(request.version.is_none() && request.arguments.is_empty());
        assert!(request.context.is_empty() && request.extensions.is_empty());
    }

    #[test]
    fn every_wrong_member_is_pointed_at() {
        for (pointer, value, at) in [
            ("/id", json!(null), "/id"),
            ("/id", json!(""), "/id"),
            ("/id", json!(7), "/id"),
            ("/protocol", json!("forrst/0.1"), "/protocol"),
            ("/protocol/name", json!("jsonrpc"), "/protocol/name"),
            ("/protocol/version", json!("one"), "/protocol/version"),
            ("/call", json!([]), "/call"),
            ("/call/function", json!(""), "/call/function"),
            ("/call/function", json!("x".repeat(256)), "/call/function"),
            ("/call/version", json!("1"), "/call/version"),
            ("/call/arguments", json!([1]), "/call/arguments"),
            ("/call/arguments", json!(null), "/call/arguments"),
            ("/context", json!("x"), "/context"),
            ("/extensions", json!({}), "/extensions"),
            ("/extensions", json!([{}]), "/extensions/0/urn"),
            ("/extensions", json!([{"urn": "a"}, 7]), "/extensions/1"),
            ("/extensions", json!([{"urn": "a", "options": []}]), "/extensions/0/options"),
            ("/extensions", json!(vec![json!({"urn": "a"}); 51]), "/extensions"),
        ] {
            let mut document = good();
            let (parent, member) = pointer.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[member] = value.clone();
            let (id, faults) = refused(&document);
            assert_eq!(id.is_some(), pointer != "/id");
            assert_eq!(faults[0]["code"], "INVALID_REQUEST", "{pointer} {value}");
            assert_eq!(faults[0]["source"]["pointer"], at, "{pointer} {value}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let (_, faults) = refused(&json!({"id": "x", "extensions": 7}));
        let pointers: Vec<_> =
            faults.as_array().unwrap().iter().map(|f| f["source"]["pointer"].clone()).collect();
        assert_eq!(pointers, ["/protocol", "/call", "/extensions"]);
    }

    #[test]
    fn another_major_version_is_refused_and_another_minor_is_not() {
        let mut document = good();
        document["protocol"]["version"] = json!("99.0.0");
        let (id, faults) = refused(&document);
        assert_eq!(id.as_deref(), Some("req_001"));
        assert_eq!(
            faults,
            json!([{
                "code": "INVALID_PROTOCOL_VERSION",
                "message": "Unsupported protocol version: 99.0.0",
                "details": {"requested": "99.0.0", "supported": ["0.1.0"]},
            }])
        );
        document["protocol"]["version"] = json!("0.7.3");
        assert!(Request::read(document.to_string().as_bytes()).is_ok());
    }

    #[test]
    fn no_json_is_pointed_at_by_its_byte() {
        for (body, position) in [
            (&b"{\"id\": nope}"[..], 8),
            (b"{\n  \"id\": }", 10),
            (b"", 0),
            (b"{\"id\"", 5),
            (b"\xff", 0),
        ] {
            let malformed = Request::read(body).unwrap_err();
            let faults = serde_json::to_value(&malformed.faults).unwrap();
            assert_eq!(malformed.id, None);
            assert_eq!(faults[0]["code"], "PARSE_ERROR");
            let found = faults[0]["source"]["position"].as_u64().unwrap();
            assert!(found.abs_diff(position) <= 1, "{body:?}: {found} is not {position}");
        }
    }

    #[test]
    fn a_batch_is_refused() {
        let (id, faults) = refused(&json!([good(), good()]));
        assert_eq!(id, None);
        assert!(faults[0]["message"].as_str().unwrap().contains("batches"));
    }
}
