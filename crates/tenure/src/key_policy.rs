//! How a key of the caller's becomes a key in the store.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Operation, Result};
use crate::key::{Key, Namespace};

const SECRET_BYTES_MIN: usize = 16;
const LABEL_HEX: usize = 12;

/// How keys are written into the store.
///
/// Every scheme but [`raw`](Self::raw) has a version in front, and every one is injective: two
/// different keys never become one. The scheme and a digest of the secret stand in the store beside
/// the locks, so that a process with another one is refused when it opens the namespace, instead of
/// silently excluding nobody.
#[derive(Clone, Debug, Default)]
pub struct KeyPolicy(Scheme);

#[derive(Clone, Default)]
enum Scheme {
    #[default]
    Plain,
    Hashed(Arc<[u8]>),
    Raw,
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Hashed(_) => "Hashed(…)",
            Self::Raw => "Raw",
        })
    }
}

impl KeyPolicy {
    /// Keys are readable in the store: `t1/namespace/key`.
    #[must_use]
    pub const fn plain() -> Self {
        Self(Scheme::Plain)
    }

    /// Keys are HMAC-SHA256 digests under `secret`: whoever reads the store learns no key, and
    /// whoever can write to it cannot pin a lock without the secret. Errors and events then carry
    /// a short digest in place of the key, and keys can be listed but not by prefix.
    ///
    /// # Errors
    /// `Invalid` when the secret has fewer than 16 bytes.
    pub fn hashed(secret: impl AsRef<[u8]>) -> Result<Self> {
        let secret = secret.as_ref();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(Error::invalid(format!(
                "key secret must have at least {SECRET_BYTES_MIN} bytes, this one has {}",
                secret.len()
            ))
            .during(Operation::Open));
        }
        Ok(Self(Scheme::Hashed(secret.into())))
    }

    /// [`hashed`](Self::hashed) with the secret in an environment variable.
    ///
    /// # Errors
    /// `Invalid` when the variable is not set or its value is too short.
    pub fn hashed_from_env(variable: &str) -> Result<Self> {
        match std::env::var_os(variable) {
            Some(secret) => Self::hashed(secret.as_encoded_bytes()),
            None => Err(Error::invalid(format!("environment variable {variable} is not set"))
                .during(Operation::Open)),
        }
    }

    /// Keys stand in the store exactly as the caller writes them, so that tenure and programs that
    /// follow the store's usual convention exclude each other on the same key. All namespaces then
    /// share one room for keys; the namespace only tells which processes must agree on this.
    #[must_use]
    pub const fn raw() -> Self {
        Self(Scheme::Raw)
    }

    /// What stands in front of every key of the namespace.
    pub(crate) fn store_prefix(&self, namespace: &Namespace) -> String {
        match &self.0 {
            Scheme::Plain => format!("t1/{namespace}/"),
            Scheme::Hashed(_) => format!("t1h/{namespace}/"),
            Scheme::Raw => String::new(),
        }
    }

    /// The key as the store keeps it.
    pub(crate) fn store_key(&self, namespace: &Namespace, key: &Key) -> Key {
        let (scheme, tail) = match &self.0 {
            Scheme::Raw => return key.clone(),
            Scheme::Plain => ("t1/", Cow::Borrowed(key.as_str())),
            Scheme::Hashed(secret) => ("t1h/", Cow::Owned(digest(secret, namespace, key))),
        };
        Key::stored([scheme, namespace.as_str(), "/", &tail].concat())
    }

    /// The namespace of a key, or of the beginning of one, as it stands in a store; `None` where
    /// it is not told, as under [`raw`](Self::raw).
    #[must_use]
    pub fn namespace_of(stored: &str) -> Option<Namespace> {
        let (scheme, rest) = stored.split_once('/')?;
        let (namespace, _) = rest.split_once('/')?;
        Namespace::new(namespace).ok().filter(|_| matches!(scheme, "t1" | "t1h"))
    }

    /// A stored key as events may show it, to those in its namespace.
    #[must_use]
    pub fn label_of(stored: &Key) -> Key {
        let tail = Self::namespace_of(stored.as_str())
            .and_then(|namespace| stored.as_str().split_once(&format!("/{namespace}/")));
        match tail {
            Some(("t1h", digest)) => {
                Key::stored(format!("#{}", digest.get(..LABEL_HEX).unwrap_or(digest)))
            }
            Some((_, key)) => Key::stored(key.to_owned()),
            None => stored.clone(),
        }
    }

    /// Whether a stored key tells its namespace; not under [`raw`](Self::raw).
    #[must_use]
    pub const fn tells_namespace(&self) -> bool {
        !matches!(self.0, Scheme::Raw)
    }

    /// The key as errors, events and logs may show it.
    pub(crate) fn label(&self, namespace: &Namespace, key: &Key) -> Key {
        match &self.0 {
            Scheme::Plain | Scheme::Raw => key.clone(),
            Scheme::Hashed(secret) => {
                let digest = digest(secret, namespace, key);
                Key::stored(format!("#{}", &digest[..LABEL_HEX]))
            }
        }
    }

    pub(crate) fn is_hashed(&self) -> bool {
        matches!(self.0, Scheme::Hashed(_))
    }

    /// Scheme and secret, as a text that tells neither key nor secret.
    pub(crate) fn fingerprint(&self, namespace: &Namespace) -> String {
        match &self.0 {
            Scheme::Plain => "t1 plain".into(),
            Scheme::Raw => "t1 raw".into(),
            Scheme::Hashed(secret) => {
                let proof =
                    hmac_hex(secret, &[b"tenure fingerprint", namespace.as_str().as_bytes()]);
                format!("t1h hmac-sha256 {}", &proof[..32])
            }
        }
    }
}

fn digest(secret: &[u8], namespace: &Namespace, key: &Key) -> String {
    hmac_hex(secret, &[b"tenure key", namespace.as_str().as_bytes(), key.as_str().as_bytes()])
}

/// HMAC over the parts, each ended by a NUL, which none of them contains.
fn hmac_hex(secret: &[u8], parts: &[&[u8]]) -> String {
    use std::fmt::Write;

    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else {
        unreachable!("HMAC takes a secret of any length");
    };
    for part in parts {
        mac.update(part);
        mac.update(&[0]);
    }
    let bytes = mac.finalize().into_bytes();
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    #[test]
    fn schemes_do_not_collide() {
        let [a, ab] = ["a", "a.b"].map(|n| Namespace::new(n).unwrap());
        let hashed = KeyPolicy::hashed("0123456789abcdef").unwrap();
        let plain = KeyPolicy::plain();
        let stored = [
            KeyPolicy::raw().store_key(&a, &key("c")),
            plain.store_key(&a, &key("b/c")),
            plain.store_key(&ab, &key("c")),
            plain.store_key(&a, &key("c")),
            hashed.store_key(&a, &key("c")),
            hashed.store_key(&ab, &key("c")),
        ];
        let distinct: std::collections::BTreeSet<_> = stored.iter().collect();
        assert_eq!(distinct.len(), stored.len(), "{stored:?}");
    }

    #[test]
    fn the_namespace_is_told_by_what_stands_in_the_store() {
        let namespace = Namespace::new("a.b").unwrap();
        for policy in [KeyPolicy::plain(), KeyPolicy::hashed("0123456789abcdef").unwrap()] {
            let prefix = policy.store_prefix(&namespace);
            let stored = policy.store_key(&namespace, &key("c/d"));
            for text in [prefix.as_str(), stored.as_str()] {
                assert_eq!(KeyPolicy::namespace_of(text), Some(namespace.clone()), "{text}");
            }
        }
        for text in ["", "t1", "t1/", "t1/a", "t2/a/b", "a/b/c", "t1//b", "t1/ü/b", "x"] {
            assert_eq!(KeyPolicy::namespace_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_stored_key_is_shown_like_the_key() {
        let namespace = Namespace::new("t1").unwrap();
        let hashed = KeyPolicy::hashed("0123456789abcdef").unwrap();
        for policy in [KeyPolicy::plain(), hashed, KeyPolicy::raw()] {
            let key = key("c/t1/d");
            let stored = policy.store_key(&namespace, &key);
            assert_eq!(KeyPolicy::label_of(&stored), policy.label(&namespace, &key), "{stored}");
        }
    }

    #[test]
    fn a_hashed_key_shows_nowhere() {
        let policy = KeyPolicy::hashed(b"a secret of many bytes").unwrap();
        let namespace = Namespace::default();
        let raw = key("customer-4711");
        for shown in [
            policy.store_key(&namespace, &raw).to_string(),
            policy.label(&namespace, &raw).to_string(),
            policy.fingerprint(&namespace),
            format!("{policy:?}"),
        ] {
            assert!(!shown.contains("4711") && !shown.contains("many bytes"), "{shown}");
        }
    }

    #[test]
    fn the_fingerprint_tells_secrets_apart() {
        let namespace = Namespace::default();
        let one = KeyPolicy::hashed("0123456789abcdef").unwrap().fingerprint(&namespace);
        let two = KeyPolicy::hashed("0123456789abcdeF").unwrap().fingerprint(&namespace);
        assert_ne!(one, two);
        assert_ne!(one, KeyPolicy::plain().fingerprint(&namespace));
    }

    #[test]
    fn a_short_secret_is_refused_with_its_size() {
        let text = KeyPolicy::hashed("short").unwrap_err().to_string();
        assert!(text.contains("16") && text.contains('5'), "{text}");
    }
}
