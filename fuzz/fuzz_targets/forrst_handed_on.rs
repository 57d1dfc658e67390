//! A request as Forrst's gateway hands it on under a lock: what the function gets is as it came,
//! the fence is the lock's own, and what is done at the gateway is not asked for again. A lock that
//! is asked for under a name that is not quite its own is not passed over.

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
    misspelt(body);
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
    assert!(left.iter().all(|urn| !letters(urn).contains("atomiclock")), "{left:?}");
    assert!(read_request(body, false).is_err() || read_request(&document, false).is_ok());
});

/// The same request for one more lock, in other letters and with other signs between them.
fn misspelt(body: &[u8]) {
    let Ok(mut document) = serde_json::from_slice::<Value>(body) else { return };
    let mut chance = body.iter().map(|byte| byte.wrapping_mul(167) >> 5).cycle();
    let mut urn = String::new();
    for letter in HERE[body.len() % 2].chars() {
        match chance.next().unwrap_or_default() {
            0 => urn.push(letter.to_ascii_uppercase()),
            1 if !letter.is_ascii_alphanumeric() => {}
            2 => urn.extend([letter, '_']),
            3 if !letter.is_ascii_alphanumeric() => urn.push('/'),
            _ => urn.push(letter),
        }
    }
    if HERE.contains(&&*urn) {
        return;
    }
    let extensions = document.as_object_mut().unwrap().entry("extensions");
    let extensions = extensions.or_insert_with(|| json!([])).as_array_mut().unwrap();
    extensions.push(json!({"urn": urn}));
    let handed_on = handed_on(document.to_string().as_bytes(), "lock:k", 7, Duration::ZERO);
    assert_eq!(handed_on, None, "{urn}");
}

/// What is left of a name without its signs, and without its case.
fn letters(urn: &str) -> String {
    let letters = urn.chars().filter(char::is_ascii_alphanumeric);
    letters.collect::<String>().to_ascii_lowercase()
}

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
