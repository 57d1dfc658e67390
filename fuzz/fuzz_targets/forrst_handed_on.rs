//! A request as Forrst's gateway hands it on under a lock: what the function gets is as it came,
//! the fence is the lock's own, and what is done at the gateway is not asked for again.

#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tenure_forrst::fuzzing::{handed_on, read_request};

/// What is done at the gateway.
const HERE: [&str; 4] = [
    "urn:forrst:ext:atomicLock",
    "urn:cline:forrst:ext:atomic-lock",
    "urn:forrst:ext:cancellation",
    "urn:cline:forrst:ext:cancellation",
];

type Members = BTreeMap<String, Box<RawValue>>;

fuzz_target!(|body: &[u8]| {
    let Some(document) = handed_on(body, "lock:k", 7, Duration::ZERO) else { return };
    let (mut before, mut after) = (members(body), members(&document));
    let context = |members: &mut Members| -> Members {
        let context = members.remove("context");
        context.map(|context| serde_json::from_str(context.get()).unwrap()).unwrap_or_default()
    };
    let (ours, mut theirs) = (context(&mut before), context(&mut after));
    let lock: Value = serde_json::from_str(theirs.remove("atomic_lock").unwrap().get()).unwrap();
    assert_eq!(lock, json!({"key": "lock:k", "fence": 7}));
    assert_eq!(texts(&ours), texts(&theirs));
    let (asked, left) = (before.remove("extensions"), after.remove("extensions"));
    assert_eq!(texts(&before), texts(&after));
    let urns = |extensions: Option<Box<RawValue>>| -> Vec<String> {
        let named = extensions.map(|text| serde_json::from_str(text.get()).unwrap());
        let named: Vec<Named> = named.unwrap_or_default();
        named.into_iter().map(|Named { urn }| urn).collect()
    };
    let (asked, left) = (urns(asked), urns(left));
    let kept = asked.into_iter().filter(|urn| !HERE.contains(&urn.as_str()));
    assert_eq!(kept.collect::<Vec<_>>(), left);
    assert!(read_request(body).is_err() || read_request(&document).is_ok());
});

#[derive(serde::Deserialize)]
struct Named {
    urn: String,
}

fn members(document: &[u8]) -> Members {
    serde_json::from_slice(document).unwrap()
}

fn texts(members: &Members) -> Vec<(&str, &str)> {
    members.iter().map(|(name, value)| (name.as_str(), value.get())).collect()
}
