//! NATS's answers: what says that a write went wrong is never taken for a grant, and what stands on
//! a key is read as it was written, or as free where a mark says so. A version that says nothing is
//! not trusted to end leases, and a bucket is worth no more than it tells.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tenure::ErrorKind;
use tenure::fuzzing::{nats_ack, nats_bucket, nats_entry, nats_expires};
use tenure::store::{Class, StoreInfo, Timing};
use tenure::stores::nats::NatsOptions;

fuzz_target!(|payload: &[u8]| {
    let document: Option<Value> = serde_json::from_slice(payload).ok();
    written(payload, document.as_ref());
    stands(payload, document.as_ref());
    if let Some(document) = &document {
        buckets(payload, document);
    }
    if let Ok(text) = str::from_utf8(payload) {
        if nats_expires(text) {
            let major = text.split(['.', '-']).next().unwrap();
            assert!(major.parse::<u32>().unwrap() >= 2, "{text}");
        }
        marked(text);
    }
});

fn written(payload: &[u8], document: Option<&Value>) {
    match nats_ack(payload) {
        Some(Ok((stream, sequence))) => {
            // Not every name that a server may use is one for this reader.
            let Some(document) = document else { return };
            assert!(document["error"].is_null(), "{document}");
            assert_eq!(document["stream"], stream);
            assert_eq!(document["seq"], sequence);
        }
        Some(Err(refused)) => {
            let error = document.map(|document| &document["error"]);
            // One that is written as an array has no names.
            if let Some(Value::Object(error)) = error {
                let told = error.get("err_code").and_then(Value::as_u64);
                assert_eq!(refused, told.unwrap_or_default());
            }
        }
        None => {}
    }
}

fn stands(payload: &[u8], document: Option<&Value>) {
    if let (Ok(Some((sequence, _))), Some(document)) = (nats_entry(payload), document) {
        assert!(document["error"].is_null(), "{document}");
        if let Value::Object(message) = &document["message"] {
            assert_eq!(message["seq"].as_u64(), sequence);
        }
    }
}

/// Headers, and whether they say that nobody holds the key.
const HEADERS: [(&str, bool); 6] = [
    ("", false),
    ("KV-Operation: PUT\r\n", false),
    ("Nats-TTL: 5\r\n", false),
    ("KV-Operation: DEL\r\n", true),
    ("KV-Operation: PURGE\r\n", true),
    ("Nats-Marker-Reason: MaxAge\r\n", true),
];

/// A text as what stands on a key, and as a header: that frees no key and hides no mark.
fn marked(text: &str) {
    let line = text.replace(['\r', '\n'], " ");
    for (header, frees) in HEADERS {
        let headers = format!("NATS/1.0\r\nX: {line}\r\n{header}Y: {line}\r\n\r\n");
        let message = json!({
            "subject": "$KV.t.k",
            "seq": 7,
            "hdrs": base64(headers.as_bytes()),
            "data": base64(text.as_bytes()),
            "time": "2026-11-01T12:00:00Z",
        });
        let payload = json!({ "message": message }).to_string();
        let (sequence, body) = nats_entry(payload.as_bytes()).unwrap().unwrap();
        assert_eq!(sequence, Some(7));
        let left: &[u8] = if frees { b"" } else { text.as_bytes() };
        assert_eq!(body, left, "{header}");
    }
}

/// What a bucket is asked to be.
const QUERIES: [&str; 4] = ["", "sync=always", "sync=always&timing=store", "storage=file"];

static OPTIONS: LazyLock<[NatsOptions; 4]> = LazyLock::new(|| {
    QUERIES.map(|query| NatsOptions::new(&format!("nats://t@h?bucket=t&{query}")).unwrap())
});

/// A bucket that is refused is not as asked; one that is not ends or revives no lease by itself.
fn buckets(payload: &[u8], document: &Value) {
    for (query, options) in QUERIES.into_iter().zip(&*OPTIONS) {
        for (version, is_new) in [("2.9.10", false), ("2.11.10", true)] {
            match nats_bucket(payload, options, version) {
                Some(Ok(info)) => {
                    // One that is written as an array has no names.
                    if let Value::Object(config) = &document["config"] {
                        fits(config);
                        is_worth(&info, config, query, is_new);
                    }
                }
                Some(Err(error)) => assert_eq!(error.kind(), ErrorKind::Mismatch),
                None => return,
            }
        }
    }
}

fn fits(config: &Map<String, Value>) {
    let number = |name: &str| config.get(name).and_then(Value::as_i64).unwrap_or_default();
    assert_eq!((number("max_age"), number("max_msgs_per_subject")), (0, 1), "{config:?}");
    assert!(config["subjects"].as_array().unwrap().iter().any(|subject| subject == "$KV.t.>"));
    for name in ["mirror", "subject_transform"] {
        assert!(config.get(name).is_none_or(Value::is_null), "{config:?}");
    }
    let sources = config.get("sources").and_then(Value::as_array);
    assert!(sources.is_none_or(Vec::is_empty), "{config:?}");
    assert_eq!(word(config, "retention"), Some("limits"));
    assert!(!is_set(config, "no_ack") && !is_set(config, "sealed"), "{config:?}");
}

fn is_worth(info: &StoreInfo, config: &Map<String, Value>, query: &str, is_new: bool) {
    let by_store = is_set(config, "allow_msg_ttl") && is_new;
    assert_eq!(info.timing, if by_store { Timing::Store } else { Timing::Observer });
    assert!(by_store || !query.contains("timing=store"));
    let is_durable = word(config, "storage") == Some("file");
    assert_eq!(info.capabilities.durable, is_durable);
    assert!(is_durable || !query.contains("storage=file"));
    let limits = ["max_msgs", "max_bytes"].map(|name| config.get(name).and_then(Value::as_i64));
    let evicts = limits.into_iter().flatten().any(|limit| limit > 0);
    let evicts = evicts && word(config, "discard") == Some("old");
    let is_fenced = is_durable && !evicts && query.contains("sync=always") && is_new;
    assert_eq!(info.class == Class::Fenced, is_fenced, "{config:?}");
}

fn is_set(config: &Map<String, Value>, name: &str) -> bool {
    config.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// One of several words, which may also stand there as the name of nothing.
fn word<'a>(config: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    match config.get(name)? {
        Value::Object(only) => only.keys().next().map(String::as_str),
        value => value.as_str(),
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| usize::from(three.get(at).copied().unwrap_or_default());
        let whole = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = char::from(DIGITS[(whole >> (18 - 6 * at)) & 63]);
            text.push(if at <= three.len() { digit } else { '=' });
        }
    }
    text
}
