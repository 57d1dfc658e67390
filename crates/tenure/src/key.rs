//! What is locked: a key within a namespace.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The most bytes a key can have whatever the limits say.
pub const KEY_BYTES_MAX: usize = 1024;

const NAMESPACE_BYTES_MAX: usize = 64;

/// The name of one lock: 1 to 1024 bytes of UTF-8 without control characters.
///
/// [`Limits`](crate::Limits) usually allow less.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// A key of at most [`KEY_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `Invalid`, with the limit and the size, when the text is no key.
    pub fn new(text: &str) -> Result<Self> {
        Self::with_limit(text, KEY_BYTES_MAX)
    }

    /// A key of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `Invalid`, with the limit and the size, when the text is no key.
    pub fn with_limit(text: &str, bytes_max: usize) -> Result<Self> {
        if text.is_empty() || text.len() > bytes_max {
            return Err(Error::invalid(format!(
                "key must have 1 to {bytes_max} bytes, this one has {}",
                text.len()
            )));
        }
        if let Some(at) = text.find(char::is_control) {
            return Err(Error::invalid(format!(
                "key must not contain control characters, this one has one at byte {at} of {}",
                text.len()
            )));
        }
        Ok(Self(text.into()))
    }

    /// A key as a layer or a store keeps it: already checked, and longer by a fixed prefix.
    pub(crate) fn stored(text: String) -> Self {
        Self(text.into())
    }

    /// The text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A room for keys: the same key in two namespaces is two locks.
///
/// 1 to 64 of `A-Z a-z 0-9 . _ -`, so that it can stand in front of a key without ambiguity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// A namespace.
    ///
    /// # Errors
    /// `Invalid`, with the limit and the size, when the text is no namespace.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > NAMESPACE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "namespace must have 1 to {NAMESPACE_BYTES_MAX} bytes, this one has {}",
                text.len()
            )));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !text.chars().all(allowed) {
            return Err(Error::invalid("namespace may contain only A-Z a-z 0-9 . _ -"));
        }
        Ok(Self(text.into()))
    }

    /// The text of the namespace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    /// The namespace `default`.
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_any_text_without_controls() {
        for good in ["a", "order:42", "a/b%c", "ключ", "🔒", &"x".repeat(1024)] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\0b", "line\nbreak", "\u{85}", &"x".repeat(1025)] {
            assert!(Key::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_refusal_names_field_limit_and_size() {
        let text = Key::with_limit(&"é".repeat(300), 512).unwrap_err().to_string();
        assert!(text.contains("key") && text.contains("512") && text.contains("600"), "{text}");
    }

    #[test]
    fn namespaces_have_no_separator() {
        assert!(Namespace::new("billing-2.eu_west").is_ok());
        for bad in ["", "a/b", "a:b", "ä", &"x".repeat(65)] {
            assert!(Namespace::new(bad).is_err(), "{bad:?}");
        }
    }
}
