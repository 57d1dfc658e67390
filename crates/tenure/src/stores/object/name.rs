//! Keys as names of objects: every key has one, and they sort alike.
//!
//! Letters, digits and all that is not ASCII stand for themselves. The rest is written as a mark
//! and two hexadecimal digits; the mark sorts where the character does, so that a store's own order
//! of names is the order of the keys:
//!
//! | characters | written as | for example |
//! |---|---|---|
//! | space to `/` | `-XX` | `a/b` is `a-2Fb` |
//! | `:` to `@` | `=XX` | `order:42` is `order=3A42` |
//! | `[` to `` ` `` | `_XX` | `a_b` is `a_5Fb` |
//! | `{` to `~` | `~XX` | `{a}` is `~7Ba~7D` |
//!
//! After every 63 characters comes `+/`: some servers keep names as files, whose parts can have 255
//! bytes. Otherwise no name contains a slash, a dot or a percent sign: servers and proxies disagree
//! on those.

use std::fmt::Write as _;

use crate::key::Key;

/// What cannot stand in the XML of a listing. Nobody names a lock like that; it is kept all the
/// same, and only its place in a listing may be another.
const NOT_IN_XML: [char; 2] = ['\u{fffe}', '\u{ffff}'];

/// Counted in characters, so that names which begin alike are cut alike: that keeps their order.
const PART_CHARS: usize = 63;

/// What ends a part that goes on. The `+` sorts before all else that a name can have.
pub(super) const GOES_ON: char = '+';

/// The name of a key, or of what keys begin with.
pub(super) fn encode(key: &str) -> String {
    let mut plain = String::with_capacity(key.len() * 2);
    for c in key.chars() {
        match mark(c) {
            None => plain.push(c),
            Some(mark) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string cannot fail.
                    let _ = write!(plain, "{mark}{byte:02X}");
                }
            }
        }
    }
    let mut name = String::with_capacity(plain.len() + plain.len() / 16);
    for (at, c) in plain.chars().enumerate() {
        if at > 0 && at % PART_CHARS == 0 {
            name.extend([GOES_ON, '/']);
        }
        name.push(c);
    }
    name
}

/// The key of a name; `None` when it is nobody's.
pub(super) fn decode(name: &str) -> Option<Key> {
    let plain = name.replace("+/", "");
    let mut bytes = Vec::with_capacity(plain.len());
    let mut rest = plain.bytes();
    while let Some(byte) = rest.next() {
        if matches!(byte, b'-' | b'=' | b'_' | b'~') {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let key = String::from_utf8(bytes).ok()?;
    // Only the one way to write it counts, or two names would be one key.
    (!key.is_empty() && encode(&key) == name).then(|| Key::stored(key))
}

fn mark(c: char) -> Option<char> {
    match c {
        '0'..='9' | 'A'..='Z' | 'a'..='z' => None,
        ..='/' => Some('-'),
        ..='@' => Some('='),
        ..='`' => Some('_'),
        ..='\u{7f}' => Some('~'),
        c if NOT_IN_XML.contains(&c) => Some('~'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &[
        "t1/default/order:42",
        "a",
        "a/b",
        "a%2Fb",
        "a-2Fb",
        "a.b",
        "..",
        ".",
        "/",
        "//",
        "a//",
        "a/",
        "A",
        "a ",
        " a",
        "ä",
        "a\u{308}",
        "a*",
        "a>",
        "🔒",
        "{a}",
        "~",
        "~7E",
        "_",
        "=",
        "-",
        "a_b",
        "z{",
        "z\u{80}",
        "\u{e000}",
        "\u{10ffff}",
        "日本",
    ];

    #[test]
    fn every_key_has_a_name_of_its_own_and_comes_back() {
        for key in KEYS.iter().chain(&["\u{ffff}", "a\u{fffe}b"]) {
            let name = encode(key);
            assert_eq!(decode(&name).unwrap().as_str(), *key, "{name}");
            assert!(!name.contains(['/', '.', '%', '\u{ffff}', '\u{fffe}']), "{name}");
        }
        assert_eq!(encode("t1/default/order:42"), "t1-2Fdefault-2Forder=3A42");
    }

    #[test]
    fn names_sort_as_keys_do() {
        for one in KEYS {
            for two in KEYS {
                assert_eq!(one.cmp(two), encode(one).cmp(&encode(two)), "{one:?} {two:?}");
            }
        }
        let ascii: Vec<_> = (' '..='~').chain(['é', '🔒']).map(String::from).collect();
        assert!(ascii.is_sorted_by_key(|key| encode(key)));
    }

    #[test]
    fn a_long_name_is_cut_and_sorts_all_the_same() {
        let x = |count: usize, end: &str| format!("{}{end}", "x".repeat(count));
        let keys: Vec<_> = [62, 63, 64, 125, 126, 127, 500]
            .into_iter()
            .flat_map(|n| ["", " ", "/a", "b", "é", "🔒🔒"].map(|end| x(n, end)))
            .chain(["🔒".repeat(256), "ü".repeat(300)])
            .collect();
        for one in &keys {
            let name = encode(one);
            assert!(name.split('/').all(|part| part.len() <= 255 && !part.is_empty()), "{name}");
            assert_eq!(decode(&name).unwrap().as_str(), one);
            for two in &keys {
                assert_eq!(one.cmp(two), name.cmp(&encode(two)), "{one} {two}");
                assert_eq!(one.starts_with(two.as_str()), name.starts_with(&encode(two)));
            }
        }
    }

    #[test]
    fn what_begins_alike_is_named_alike() {
        assert!(encode("job/a/1").starts_with(&encode("job/")));
        assert!(!encode("jobs").starts_with(&encode("job/")));
    }

    #[test]
    fn a_name_that_we_do_not_write_is_nobodys() {
        for name in [
            "",
            ".tenure-probe",
            "a.b",
            "a/b",
            "a+/b",
            "+",
            "-2f",
            "-41",
            "-",
            "-2",
            "=2F",
            "~FF",
            "a b",
        ] {
            assert!(decode(name).is_none(), "{name:?}");
        }
    }
}
