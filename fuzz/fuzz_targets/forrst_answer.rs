//! Another server's answer on its way through Forrst's gateway: nothing of it changes but its
//! extensions, and of the lock only the gateway tells. Where it says what it can do, the lock is
//! added to that, and nothing else.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tenure_forrst::fuzzing::passed_on;

type Members = BTreeMap<String, Box<RawValue>>;

const REQUEST: &[u8] = br#"{"protocol":{"name":"forrst","version":"0.1.0"},"id":"req_1",
    "call":{"function":"payments.charge"}}"#;

const CAPABILITIES: &[u8] = br#"{"protocol":{"name":"forrst","version":"0.1.0"},"id":"req_1",
    "call":{"function":"urn:cline:forrst:fn:capabilities"}}"#;

const URNS: [&str; 2] = ["urn:forrst:ext:atomicLock", "urn:cline:forrst:ext:atomic-lock"];

fuzz_target!(|answer: &[u8]| {
    let pass = |request: &[u8]| passed_on(request, answer, URNS[0], &json!("ours"));
    let (Some((document, was_done)), Some((able, was_able))) = (pass(REQUEST), pass(CAPABILITIES))
    else {
        return assert!(pass(REQUEST).is_none() && pass(CAPABILITIES).is_none());
    };
    assert_eq!(was_done, was_able);
    can_lock(members(&document), members(&able));
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

/// The answer as one to a call of any function, and as one that says what the server can do.
fn can_lock(mut any: Members, mut able: Members) {
    let results = (any.remove("result"), able.remove("result"));
    assert!(same(&any, &able));
    let (Some(before), Some(after)) = results else { return };
    // Readers differ on which one counts of two with the same name.
    let is_plain = !before.get().contains('\\');
    if !is_plain || before.get().matches("extensions").count() > 1 {
        return;
    }
    let theirs = read(&before).and_then(|members: Members| match members.get("extensions") {
        Some(theirs) => read::<Vec<Box<RawValue>>>(theirs),
        None => Some(Vec::new()),
    });
    let Some(theirs) = theirs else { return assert_eq!(before.get(), after.get()) };
    let (mut before, mut after): (Members, Members) =
        (read(&before).unwrap(), read(&after).unwrap());
    let told: Vec<Box<RawValue>> = read(&after.remove("extensions").unwrap()).unwrap();
    before.remove("extensions");
    assert!(same(&before, &after));
    assert!(theirs.iter().zip(&told).all(|(their, told)| their.get() == told.get()));
    for name in URNS {
        assert!(told.iter().any(|told| urn(told).as_deref() == Some(name)), "{told:?}");
    }
}

fn members(document: &[u8]) -> Members {
    serde_json::from_slice(document).unwrap()
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a RawValue) -> Option<T> {
    serde_json::from_str(text.get()).ok()
}

/// An extension, if it is a lock by one of its names.
fn lock(extension: &RawValue) -> Option<Value> {
    URNS.contains(&urn(extension)?.as_str()).then(|| read(extension).unwrap_or_default())
}

fn urn(extension: &RawValue) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        urn: String,
    }
    read(extension).map(|Named { urn }| urn)
}

fn same(before: &Members, after: &Members) -> bool {
    let text = |members: &Members| -> Vec<(String, String)> {
        members.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
    };
    text(before) == text(after)
}
