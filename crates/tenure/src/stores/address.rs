//! The parts of a URL that the usual parsers do not take: several hosts, and a login as it stands.

use crate::error::{Error, Result};

/// A URL whose authority may name several hosts.
#[cfg(any(feature = "etcd", feature = "nats"))]
pub(crate) struct Address<'a> {
    pub(crate) scheme: &'a str,
    /// What stands before the `@`, still encoded.
    pub(crate) login: Option<&'a str>,
    /// With commas between them.
    pub(crate) hosts: &'a str,
    /// Path, query and fragment.
    pub(crate) tail: &'a str,
}

#[cfg(any(feature = "etcd", feature = "nats"))]
impl<'a> Address<'a> {
    /// `None` when it has no `://`.
    pub(crate) fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        Some(Self { scheme, login, hosts, tail })
    }
}

/// The text with its `%XX` resolved; a plus sign is one. No error repeats it: it may be a password.
pub(crate) fn decoded(text: &str) -> Result<String> {
    let wrong = || Error::invalid("the store's URL is badly percent-encoded");
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or_else(wrong)?;
        // The parser of numbers would take a sign.
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or_else(wrong)?;
        bytes.push(byte);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_resolved_and_what_is_badly_encoded_refused() {
        for (text, wanted) in
            [("", ""), ("p@s+s", "p@s+s"), ("%70%40%2F%25", "p@/%"), ("a%C3%bcb", "aüb")]
        {
            assert_eq!(decoded(text).unwrap(), wanted);
        }
        for wrong in ["secret%", "secret%2", "secret%zz", "secret%+1", "secret%ü", "secret%C3"] {
            let error = decoded(wrong).unwrap_err();
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[cfg(any(feature = "etcd", feature = "nats"))]
    #[test]
    fn hosts_are_told_from_the_login_and_the_tail() {
        let parts = |url| {
            let Address { scheme, login, hosts, tail } = Address::of(url).unwrap();
            (scheme, login, hosts, tail)
        };
        assert_eq!(parts("x://h"), ("x", None, "h", ""));
        assert_eq!(parts("x://u:p@q@a:1,b/p@r?o=1"), ("x", Some("u:p@q"), "a:1,b", "/p@r?o=1"));
        assert_eq!(parts("x://?o=1"), ("x", None, "", "?o=1"));
        assert!(Address::of("x:h").is_none());
    }
}
