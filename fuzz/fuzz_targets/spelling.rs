//! Keys as each store spells them: every spelling is of one key and reads as it, and nothing else
//! is taken for a spelling.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure::fuzzing::{
    nats_key, nats_subject, object_key, object_name, postgres_literal, postgres_name, redis_key,
    redis_names,
};

// By lines: two keys, or what may be a spelling.
fuzz_target!(|text: &str| {
    let (one, two) = text.split_once('\n').unwrap_or((text, text));
    if let Some(key) = nats_key(one) {
        assert_eq!(nats_subject(&key), one);
    }
    if let Some(key) = object_key(one) {
        assert_eq!(object_name(key.as_str()), one);
    }
    let _ = redis_key(one);
    postgres(one);
    // What no key can be is no question of spelling.
    if [one, two].iter().any(|key| key.is_empty() || key.contains(char::is_control)) {
        return;
    }
    let subject = nats_subject(one);
    assert_eq!(nats_key(&subject).as_deref(), Some(one));
    assert!(subject.split('.').all(|token| !token.is_empty()), "{subject}");
    assert!(!subject.contains([' ', '*', '>', '\r', '\n']), "{subject}");
    let names = redis_names(one);
    assert_eq!(redis_key(&names.record.0), Some(one));
    assert!(names.record.1 == names.slot && names.counter.1 == names.slot, "{names:?}");
    objects(one, two);
});

/// Names of objects sort as the keys do, and begin alike where these do.
fn objects(one: &str, two: &str) {
    let (first, second) = (object_name(one), object_name(two));
    assert_eq!(object_key(&first).unwrap().as_str(), one);
    assert!(first.split('/').all(|part| (1..=255).contains(&part.len())), "{first}");
    // Where these two stand in a listing is not promised.
    if ![one, two].iter().any(|key| key.contains(['\u{fffe}', '\u{ffff}'])) {
        assert_eq!(one.cmp(two), first.cmp(&second), "{first} {second}");
    }
    assert_eq!(one.starts_with(two), first.starts_with(&second), "{first} {second}");
}

/// What stands in a statement ends where it should, and reads as what it was.
fn postgres(text: &str) {
    let name = postgres_name(text);
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap();
    assert_eq!(unescaped(inner, &[('"', '"')]).as_deref(), Some(text));
    let literal = postgres_literal(text);
    let inner = literal.strip_prefix(" E'").and_then(|text| text.strip_suffix('\'')).unwrap();
    assert_eq!(unescaped(inner, &[('\'', '\''), ('\\', '\\')]).as_deref(), Some(text));
}

/// The text without its escapes; `None` where one of them is not whole.
fn unescaped(text: &str, escapes: &[(char, char)]) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if escapes.iter().any(|(escape, _)| *escape == c) {
            let next = rest.next()?;
            escapes.contains(&(c, next)).then(|| plain.push(next))?;
        } else {
            plain.push(c);
        }
    }
    Some(plain)
}
