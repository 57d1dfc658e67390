//! Another server's answer on its way through Forrst's gateway: nothing of it changes but its
//! extensions, and of the lock only the gateway tells.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tenure_forrst::fuzzing::passed_on;

type Members = BTreeMap<String, Box<RawValue>>;

const REQUEST: &[u8] = br#"{"protocol":{"name":"forrst","version":"0.1.0"},"id":"req_1",
    "call":{"function":"payments.charge"}}"#;

const URNS: [&str; 2] = ["urn:forrst:ext:atomicLock", "urn:cline:forrst:ext:atomic-lock"];

fuzz_target!(|answer: &[u8]| {
    let Some((document, _)) = passed_on(REQUEST, answer, URNS[0], &json!("ours")) else { return };
    let (mut before, mut after) = (members(answer), members(&document));
    let theirs = before.remove("extensions");
    let told: Vec<Box<RawValue>> = read(&after.remove("extensions").unwrap()).unwrap();
    assert!(same(&before, &after));
    let locks: Vec<Value> = told.iter().filter_map(|told| lock(told)).collect();
    assert_eq!(locks, [json!({"urn": URNS[0], "data": "ours"})]);
    let theirs: Vec<Box<RawValue>> = theirs.and_then(|theirs| read(&theirs)).unwrap_or_default();
    let others = theirs.iter().filter(|their| lock(their).is_none());
    assert_eq!(others.count() + 1, told.len());
});

fn members(document: &[u8]) -> Members {
    serde_json::from_slice(document).unwrap()
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a RawValue) -> Option<T> {
    serde_json::from_str(text.get()).ok()
}

/// An extension, if it is a lock by one of its names.
fn lock(extension: &RawValue) -> Option<Value> {
    #[derive(serde::Deserialize)]
    struct Named {
        urn: String,
    }
    let Named { urn } = read(extension)?;
    URNS.contains(&urn.as_str()).then(|| read(extension).unwrap_or_default())
}

fn same(before: &Members, after: &Members) -> bool {
    let text = |members: &Members| -> Vec<(String, String)> {
        members.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
    };
    text(before) == text(after)
}
