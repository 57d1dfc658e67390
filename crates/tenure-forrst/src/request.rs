//! The request document: read, and checked as far as the protocol itself goes.

use semver::Version;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tenure_api::ForrstCode;

use crate::extension::Kind;
use crate::fault::Fault;
use crate::object::{Object, offset};
use crate::pointer::Pointer;
use crate::protocol::{NAME, VERSION};

/// The most bytes of an id, a function's name or an extension's URN.
const NAME_BYTES_MAX: usize = 255;

/// The most extensions of a request.
const EXTENSIONS_MAX: usize = 50;

/// The member of `context` that tells about the lock of a call that is handed on.
pub(crate) const LOCK: &str = "atomic_lock";

/// A request that keeps the rules of the protocol. What belongs to its function is as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    body: &'a [u8],
    /// All of it.
    #[cfg_attr(not(feature = "gateway"), allow(dead_code, reason = "for handing it on"))]
    pub(crate) document: Object<'a>,
    pub(crate) id: String,
    pub(crate) function: String,
    pub(crate) version: Option<Version>,
    arguments: Option<&'a RawValue>,
    pub(crate) context: Object<'a>,
    pub(crate) extensions: Vec<Asked<'a>>,
}

/// An extension that a request asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) urn: String,
    pub(crate) kind: Option<Kind>,
    /// Read only where the extension is known.
    pub(crate) options: Map<String, Value>,
    /// The whole extension.
    #[cfg_attr(not(feature = "gateway"), allow(dead_code, reason = "for handing it on"))]
    pub(crate) text: &'a RawValue,
}

/// What belongs to the function of a request.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) arguments: Map<String, Value>,
    pub(crate) context: Map<String, Value>,
}

/// A request that does not: what is wrong with it, and its id if that could be told.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<String>,
    pub(crate) faults: Vec<Fault>,
}

impl<'a> Request<'a> {
    /// Reads a body.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let document = document(body).map_err(Malformed::from)?;
        let mut reading = Reading { body, faults: Vec::new() };
        let known = ["protocol", "id", "call", "context", "extensions"];
        reading.keep(document.check(&known, Pointer::Root));
        let id = reading.name(document.get("id"), Pointer::Root.member("id"), "id");
        let id = id.filter(|_| document.repeated() != Some("id"));
        reading.protocol(document.get("protocol"));
        let call = reading.call(document.get("call"));
        let context = reading.context(document.get("context"));
        let extensions = reading.extensions(document.get("extensions"));
        let faults = reading.faults;
        match (id, call, context, extensions) {
            (Some(id), Some(call), Some(context), Some(extensions)) if faults.is_empty() => {
                let Call { function, version, arguments } = call;
                Ok(Self { body, document, id, function, version, arguments, context, extensions })
            }
            (id, ..) => Err(Malformed::new(id, faults)),
        }
    }

    /// Reads what belongs to its function.
    pub(crate) fn given(&self) -> Result<Given, Malformed> {
        let mut reading = Reading { body: self.body, faults: Vec::new() };
        let arguments = self.arguments.map_or_else(Default::default, |text| reading.json(text));
        let mut context = Map::new();
        for (name, text) in self.context.members() {
            context.insert(name.to_owned(), reading.json(text));
        }
        match Malformed::new(Some(self.id.clone()), reading.faults) {
            Malformed { faults, .. } if faults.is_empty() => Ok(Given { arguments, context }),
            malformed => Err(malformed),
        }
    }

    /// One argument, as far as it can be told without reading the others.
    #[cfg(feature = "gateway")]
    pub(crate) fn argument(&self, name: &str) -> Option<&'a RawValue> {
        let arguments: Object<'a> = serde_json::from_str(self.arguments?.get()).ok()?;
        arguments.get(name)
    }
}

impl Malformed {
    /// Of what is no JSON, only that is told: not even its id is sure.
    fn new(id: Option<String>, mut faults: Vec<Fault>) -> Self {
        match faults.iter().position(|fault| fault.known() == Some(ForrstCode::ParseError)) {
            Some(at) => faults.swap_remove(at).into(),
            None => Self { id, faults },
        }
    }
}

impl From<Fault> for Malformed {
    fn from(fault: Fault) -> Self {
        Self { id: None, faults: vec![fault] }
    }
}

struct Call<'a> {
    function: String,
    version: Option<Version>,
    arguments: Option<&'a RawValue>,
}

/// A body that is read, and all that is wrong with it, so that it is told at once.
struct Reading<'a> {
    body: &'a [u8],
    faults: Vec<Fault>,
}

impl<'a> Reading<'a> {
    fn keep<T>(&mut self, outcome: Result<T, Fault>) -> Option<T> {
        outcome.map_err(|fault| self.faults.push(fault)).ok()
    }

    /// Reads a part of the body.
    fn json<T: Deserialize<'a> + Default>(&mut self, part: &'a RawValue) -> T {
        let read = serde_json::from_str(part.get()).map_err(|error| {
            let at = offset(self.body, part.get()) + position(part.get().as_bytes(), &error);
            no_json(at)
        });
        self.keep(read).unwrap_or_default()
    }

    /// Reads an object, whose members may have these names among others.
    fn object(
        &mut self,
        json: Option<&'a RawValue>,
        known: &[&str],
        at: Pointer<'_>,
        what: &str,
    ) -> Option<Object<'a>> {
        let Some(json) = json.filter(|json| is_object(json)) else {
            return self.keep(Err(Fault::request(at, format!("{what} must be an object"))));
        };
        let object: Object<'a> = self.json(json);
        self.keep(object.check(known, at)).map(|()| object)
    }

    fn name(&mut self, json: Option<&'a RawValue>, at: Pointer<'_>, what: &str) -> Option<String> {
        let Some(json) = json.filter(|json| json.get().starts_with('"')) else {
            return self.keep(Err(Fault::request(at, format!("{what} must be a string"))));
        };
        let text: String = self.json(json);
        let bytes = text.len();
        if !(1..=NAME_BYTES_MAX).contains(&bytes) {
            let text =
                format!("{what} must have 1 to {NAME_BYTES_MAX} bytes, this one has {bytes}");
            return self.keep(Err(Fault::request(at, text)));
        }
        Some(text)
    }

    fn protocol(&mut self, json: Option<&'a RawValue>) {
        let Some(json) = json.filter(|json| is_object(json)) else {
            let text = "protocol must be an object with name and version";
            return self.faults.push(Fault::request("/protocol", text));
        };
        let protocol = protocol(&self.json(json));
        self.keep(protocol);
    }

    fn call(&mut self, json: Option<&'a RawValue>) -> Option<Call<'a>> {
        let at = Pointer::Root.member("call");
        let call = self.object(json, &["function", "version", "arguments"], at, "call")?;
        let function = self.name(call.get("function"), at.member("function"), "function");
        if function.as_ref().is_some_and(|name| name.contains(char::is_control)) {
            let text = "function must not contain control characters";
            self.faults.push(Fault::request(at.member("function"), text));
        }
        let version = call.get("version").map(|version| self.json(version));
        let version = self.keep(self::version(version.as_ref()));
        let arguments = self.optional(call.get("arguments"), at.member("arguments"), "arguments");
        Some(Call { function: function?, version: version?, arguments: arguments? })
    }

    fn context(&mut self, json: Option<&'a RawValue>) -> Option<Object<'a>> {
        match json {
            None => Some(Object::default()),
            some => self.object(some, &[LOCK], Pointer::Root.member("context"), "context"),
        }
    }

    fn extensions(&mut self, json: Option<&'a RawValue>) -> Option<Vec<Asked<'a>>> {
        let Some(json) = json else { return Some(Vec::new()) };
        let wrong = |text: String| Err(Fault::request("/extensions", text));
        if !json.get().starts_with('[') {
            return self.keep(wrong("extensions must be an array".to_owned()));
        }
        let extensions: Vec<&'a RawValue> = self.json(json);
        let many = extensions.len();
        if many > EXTENSIONS_MAX {
            let text = format!("there may be {EXTENSIONS_MAX} extensions, this request has {many}");
            return self.keep(wrong(text));
        }
        extensions.into_iter().enumerate().map(|(at, text)| self.extension(at, text)).collect()
    }

    fn extension(&mut self, at: usize, text: &'a RawValue) -> Option<Asked<'a>> {
        let pointer = Pointer::Extension(at);
        let extension = self.object(Some(text), &["urn", "options"], pointer, "an extension")?;
        let urn = self.name(extension.get("urn"), pointer.member("urn"), "urn")?;
        let options = self.optional(extension.get("options"), Pointer::Options(at), "options")?;
        let kind = Kind::of(&urn);
        let options = match kind.zip(options) {
            Some((kind, options)) => self.options(kind, options, Pointer::Options(at))?,
            None => Map::new(),
        };
        Some(Asked { urn, kind, options, text })
    }

    /// The options of an extension that is known.
    fn options(
        &mut self,
        kind: Kind,
        json: &'a RawValue,
        at: Pointer<'_>,
    ) -> Option<Map<String, Value>> {
        let options = self.object(Some(json), kind.options(), at, "options")?;
        let amounts = options.members().filter(|(name, _)| kind.is_amount(name));
        for (name, amount) in amounts.filter(|(_, amount)| is_object(amount)) {
            self.object(Some(amount), &["value", "unit"], at.member(name), name)?;
        }
        Some(self.json(json))
    }

    /// An object that may be missing.
    fn optional(
        &mut self,
        json: Option<&'a RawValue>,
        at: Pointer<'_>,
        what: &str,
    ) -> Option<Option<&'a RawValue>> {
        match json {
            Some(json) if !is_object(json) => {
                self.keep(Err(Fault::request(at, format!("{what} must be an object"))))
            }
            json => Some(json),
        }
    }
}

fn is_object(json: &RawValue) -> bool {
    json.get().starts_with('{')
}

/// A body as an object.
fn document(body: &[u8]) -> Result<Object<'_>, Fault> {
    serde_json::from_slice(body).map_err(|error| {
        let is_json = error.is_data().then(|| serde_json::from_slice::<&RawValue>(body));
        let text = match is_json {
            Some(Ok(json)) if json.get().starts_with('[') => {
                "a request is one object: batches are not supported"
            }
            Some(Ok(_)) => "a request must be an object",
            Some(Err(error)) => return no_json(position(body, &error)),
            None => return no_json(position(body, &error)),
        };
        Fault::request("", text)
    })
}

/// Where in a text an error lies: at the first byte that is wrong, or where more should stand.
fn position(text: &[u8], error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let before = text.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let line_start: usize = before.map(|line| line.len() + 1).sum();
    // A column counts the bytes of its line up to what is wrong.
    let at = (line_start + error.column()).saturating_sub(1).min(text.len());
    if !error.to_string().starts_with("control character") {
        return at;
    }
    // Of these it does not always count the one that is wrong itself.
    at + text[at..].iter().position(|byte| *byte < b' ').unwrap_or(0)
}

fn no_json(position: usize) -> Fault {
    Fault::new(ForrstCode::ParseError, "Parse error").at_byte(position)
}

fn protocol(protocol: &Map<String, Value>) -> Result<(), Fault> {
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
        let body = good().to_string();
        let request = Request::read(body.as_bytes()).unwrap();
        assert_eq!(
            (request.id.as_str(), request.function.as_str()),
            ("req_001", "payments.charge")
        );
        let Given { arguments, context } = request.given().unwrap();
        assert!(request.version.is_none() && arguments.is_empty());
        assert!(context.is_empty() && request.extensions.is_empty());
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
            ("/call/function", json!("pay\u{7}ments.charge"), "/call/function"),
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
            (b"{\"id\": \"x\", nope", 12),
            (b"{\"id\": \"a\nb\"}", 9),
            (b"{\"id\": \"a\\qb\"}", 10),
            (b"{\"id\": \"x\"}}", 11),
            (b"", 0),
            (b"{\"id\"", 5),
            (b"{\n\"id\": \"x\n", 10),
            (b"{\n\"id\": \"x\",\n", 13),
            (b"{\"i\nd\": 1}", 3),
            (b"\xff", 0),
        ] {
            let malformed = Request::read(body).unwrap_err();
            let faults = serde_json::to_value(&malformed.faults).unwrap();
            assert_eq!(malformed.id, None);
            assert_eq!(faults[0]["code"], "PARSE_ERROR");
            let text = String::from_utf8_lossy(body);
            assert_eq!(faults[0]["source"]["position"], position, "{text:?}");
        }
    }

    #[test]
    fn a_batch_is_refused() {
        let (id, faults) = refused(&json!([good(), good()]));
        assert_eq!(id, None);
        assert!(faults[0]["message"].as_str().unwrap().contains("batches"));
    }
}
