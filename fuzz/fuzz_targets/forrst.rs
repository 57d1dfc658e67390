//! Forrst's request document: what is read can be written and read again, and what is refused is
//! pointed at by a byte of the body or by a place in the document. The functions of the protocol
//! itself do what their arguments say and nothing else, take no lock, and repeat no owner.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tenure_forrst::fuzzing::{ReadRequest, Refused, SystemFunctions, read_request};
use tenure_forrst::{Fault, PREFIX};

static SYSTEM: LazyLock<SystemFunctions> = LazyLock::new(SystemFunctions::new);

/// The functions of the protocol, and what each asks a desk for.
const FUNCTIONS: [(&str, Option<&str>); 8] = [
    ("urn:cline:forrst:ext:atomic-lock:fn:release", Some("release")),
    ("urn:cline:forrst:ext:atomic-lock:fn:force-release", Some("force-release")),
    ("urn:cline:forrst:ext:atomic-lock:fn:status", Some("status")),
    ("urn:cline:forrst:ext:cancellation:fn:cancel", None),
    ("urn:cline:forrst:fn:ping", None),
    ("urn:cline:forrst:fn:health", None),
    ("urn:cline:forrst:fn:capabilities", None),
    (DESCRIBE, None),
];

const DESCRIBE: &str = "urn:cline:forrst:fn:describe";

/// The extensions that are not for them.
const NOT_FOR_SYSTEM: [&str; 4] = [
    "urn:forrst:ext:atomicLock",
    "urn:cline:forrst:ext:atomic-lock",
    "urn:forrst:ext:idempotency",
    "urn:cline:forrst:ext:idempotency",
];

const SECRET: &str = "hunter2, which stands nowhere else";

fuzz_target!(|body: &[u8]| {
    let document: Option<Value> = serde_json::from_slice(body).ok();
    match read_request(body, false) {
        Ok(ReadRequest { written, refused }) => {
            let again = read_request(written.to_string().as_bytes(), false).unwrap();
            assert_eq!(again.written, written);
            // What is not read need not fit.
            let Some(document) = document else { return };
            assert_eq!(document["id"], written["id"]);
            assert_eq!(document["call"]["function"], written["call"]["function"]);
            extensions(body, &document, refused.as_ref());
            if let Some(fault) = &refused {
                pointed_at(&told(fault), body, Some(&document));
            }
            for (function, verb) in FUNCTIONS {
                system(&document, function, verb);
            }
        }
        Err(Refused { id, faults }) => {
            assert!(!faults.is_empty());
            for fault in &faults {
                pointed_at(&told(fault), body, document.as_ref());
            }
            if let (Some(id), Some(document)) = (id, document) {
                assert_eq!(document["id"], *id);
            }
        }
    }
});

/// What is refused is so for the functions of the protocol too, and so are locks for them.
fn extensions(body: &[u8], document: &Value, refused: Option<&Fault>) {
    let of_system = read_request(body, true).unwrap().refused;
    assert!(of_system.is_some() || (refused.is_none() && !asks_for_lock(document)));
    if let (None, Some(fault)) = (refused, of_system) {
        assert_eq!(fault.code(), "EXTENSION_NOT_APPLICABLE");
        assert!(asks_for_lock(document));
        pointed_at(&told(&fault), body, Some(document));
    }
}

fn asks_for_lock(document: &Value) -> bool {
    let extensions = document["extensions"].as_array().into_iter().flatten();
    extensions.filter_map(|asked| asked["urn"].as_str()).any(|urn| NOT_FOR_SYSTEM.contains(&urn))
}

/// The same document as a call of one of them, with a secret behind its owner.
fn system(document: &Value, function: &str, verb: Option<&str>) {
    let mut document = document.clone();
    document["call"].as_object_mut().unwrap().remove("version");
    document["call"]["function"] = function.into();
    if let Some(Value::String(owner)) = document.pointer_mut("/call/arguments/owner") {
        owner.push_str(SECRET);
    }
    let body = document.to_string();
    let (answer, errands) = SYSTEM.answer(body.as_bytes()).unwrap();
    assert!(!str::from_utf8(&answer).unwrap().contains(SECRET), "{body}");
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let arguments = &document["call"]["arguments"];
    assert!(errands.len() <= 1 && (errands.is_empty() || !asks_for_lock(&document)), "{body}");
    for (asked, key, owner) in &errands {
        assert_eq!((Some(*asked), json!(key)), (verb, arguments["key"].clone()));
        assert!(key.starts_with(PREFIX), "{key:?}");
        let has_owner = *asked != "force-release";
        assert_eq!(json!(owner), if has_owner { arguments["owner"].clone() } else { Value::Null });
    }
    let is_bare = function == DESCRIBE && arguments.get("function").is_none();
    match answer["errors"].as_array() {
        Some(faults) => {
            assert!(!faults.is_empty() && errands.is_empty(), "{answer}");
            assert_eq!(answer["id"], document["id"]);
            faults.iter().for_each(|fault| pointed_at(fault, body.as_bytes(), Some(&document)));
        }
        None if is_bare => assert!(answer["functions"].is_array(), "{answer}"),
        None => {
            assert_eq!(answer["id"], document["id"]);
            // Nothing is told to be done that was not.
            let releases = verb.is_some_and(|verb| verb.ends_with("release"));
            let released = answer["result"]["released"].as_bool();
            assert_eq!(released, releases.then_some(!errands.is_empty()), "{answer}");
        }
    }
}

fn told(fault: &Fault) -> Value {
    serde_json::to_value(fault).unwrap()
}

fn pointed_at(fault: &Value, body: &[u8], document: Option<&Value>) {
    let source = &fault["source"];
    match document {
        None if fault["code"] == "PARSE_ERROR" => {
            assert!(source["position"].as_u64().unwrap() <= body.len() as u64, "{fault}");
        }
        None => assert!(serde_json::from_slice::<&RawValue>(body).is_ok(), "{fault}"),
        Some(document) => {
            assert_ne!(fault["code"], "PARSE_ERROR");
            let Some(mut pointer) = source["pointer"].as_str() else { return };
            // What is missing is pointed at too, and so may be what it is missing in.
            for _ in 0..2 {
                pointer = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
            }
            assert!(document.pointer(pointer).is_some(), "{fault}");
        }
    }
}
