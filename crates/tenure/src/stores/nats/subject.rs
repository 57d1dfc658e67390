//! How a key is spelled in a NATS subject.
//!
//! What a key-value bucket allows in a key stays as it is: letters, digits, `-`, `_`, `/`, and a
//! `.` between two other characters. Every other byte becomes `=` and two hexadecimal digits, and
//! so does `=` itself, so that no two keys share a subject and every subject can be read back.

use std::fmt::Write;

/// The subject's part for `key`.
pub(super) fn encode(key: &str) -> String {
    let bytes = key.as_bytes();
    let mut text = String::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let stays = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'/' => true,
            // A dot parts two tokens, neither of which may be empty.
            b'.' => at > 0 && at + 1 < bytes.len() && !text.ends_with('.'),
            _ => false,
        };
        if stays {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "={byte:02X}");
        }
    }
    text
}

/// The key of a subject's part; `None` when it is of no key, because another wrote it.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'=' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    let key = String::from_utf8(bytes).ok()?;
    (encode(&key) == text).then_some(key)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn what_a_bucket_allows_stays_readable() {
        for key in ["t1/default/order-42", "a.b.c", "A_z/9"] {
            assert_eq!(encode(key), key);
        }
        assert_eq!(encode("order:123"), "order=3A123");
        assert_eq!(encode("a b"), "a=20b");
        assert_eq!(encode(".."), "=2E=2E");
        assert_eq!(encode("a..b."), "a.=2Eb=2E");
        assert_eq!(encode("="), "=3D");
        assert_eq!(encode("ключ"), "=D0=BA=D0=BB=D1=8E=D1=87");
    }

    /// Every text of up to four of the characters that matter, and some longer ones by chance.
    fn texts() -> Vec<String> {
        let letters = ["a", ".", "=", "2", "E", "*", ">", " ", "/", "ü", "🔒"];
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..4 {
            let to = all.len();
            for at in from..to {
                for letter in letters {
                    all.push(format!("{}{letter}", all[at]));
                }
            }
            from = to;
        }
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let letter = usize::try_from(seed >> 33).unwrap() % letters.len();
                text.push_str(letters[letter]);
            }
            all.push(text);
        }
        all
    }

    #[test]
    fn no_two_keys_share_a_subject_and_each_is_read_back() {
        let mut taken = HashMap::new();
        for key in texts() {
            let text = encode(&key);
            assert_eq!(decode(&text).as_deref(), Some(&*key), "{text}");
            let other = taken.insert(text.clone(), key.clone());
            assert!(other.is_none_or(|other| other == key), "{text}");
        }
    }

    #[test]
    fn every_subject_is_valid() {
        for key in texts().into_iter().filter(|key| !key.is_empty()) {
            let text = encode(&key);
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-/_=.".contains(c);
            assert!(text.chars().all(allowed), "{text}");
            assert!(text.split('.').all(|token| !token.is_empty()), "{text}");
            assert!(text.len() <= 3 * key.len());
        }
    }

    #[test]
    fn what_is_not_spelled_our_way_is_of_no_key() {
        for text in ["=", "=2", "=2e", "=41", "=ZZ", "=FF", "a=", ".a", "a..b"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
