//! Keys, namespaces, owners and holders: what is taken keeps the rules, and every key of a caller
//! becomes one key of the store from which namespace and label can be told again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure::fuzzing::{key_label, stored_key, stored_prefix};
use tenure::{ErrorKind, Holder, KEY_BYTES_MAX, Key, KeyPolicy, Namespace, Owner};

// By lines: a namespace, two keys, a secret.
fuzz_target!(|text: &str| {
    let mut lines = text.splitn(4, '\n');
    let [namespace, one, two, secret] = [(); 4].map(|()| lines.next().unwrap_or_default());
    checked(one, KEY_BYTES_MAX, Key::new(one).map(|key| key.to_string()));
    checked(one, 256, Owner::parse(one).map(|owner| owner.expose()));
    if !one.is_empty() {
        checked(one, 1024, Holder::new(one).map(|holder| holder.to_string()));
    }
    let _ = KeyPolicy::namespace_of(one);
    let (Ok(namespace), Ok(one), Ok(two)) =
        (Namespace::new(namespace), Key::new(one), Key::new(two))
    else {
        return;
    };
    let hashed = KeyPolicy::hashed(secret);
    assert_eq!(hashed.is_ok(), secret.len() >= 16);
    for policy in [KeyPolicy::plain(), KeyPolicy::raw()].into_iter().chain(hashed) {
        let stored = stored_key(&policy, &namespace, &one);
        assert!(stored.as_str().starts_with(&stored_prefix(&policy, &namespace)));
        assert_eq!(one == two, stored == stored_key(&policy, &namespace, &two));
        if policy.tells_namespace() {
            assert_eq!(KeyPolicy::namespace_of(stored.as_str()).as_ref(), Some(&namespace));
            assert_eq!(KeyPolicy::label_of(&stored), key_label(&policy, &namespace, &one));
        }
    }
});

/// A text is taken as it is, or refused with a reason.
fn checked(text: &str, bytes_max: usize, taken: tenure::Result<String>) {
    let is_good = (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control);
    match taken {
        Ok(taken) => assert!(is_good && taken == text),
        Err(error) => assert!(!is_good && error.kind() == ErrorKind::Invalid),
    }
}
