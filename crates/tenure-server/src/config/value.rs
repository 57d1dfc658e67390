//! Values of the configuration that need a reader of their own.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use tenure_api::duration::parse;

/// A length of time, written like `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).map(Self).map_err(de::Error::custom)
    }
}

/// A URL, which may have a password in it and is never printed whole.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Url(pub String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split(':').next().unwrap_or_default();
        write!(f, "{scheme}:…")
    }
}
