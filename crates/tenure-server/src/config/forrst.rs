//! Forrst's calls.

use serde::Deserialize;

use super::{Span, Url};

/// Where the locks of Forrst's calls are, and who serves the calls themselves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForrstConfig {
    /// The store of the locks; empty for the default one.
    pub store: String,
    /// Their namespace, whose rights are those of the calls.
    pub namespace: String,
    /// What their keys begin with.
    pub prefix: String,
    /// The server to which calls are handed on, under their locks.
    pub upstream: Option<Url>,
    /// How long it may take.
    pub timeout: Span,
}

impl Default for ForrstConfig {
    fn default() -> Self {
        Self {
            store: String::new(),
            namespace: "default".to_owned(),
            prefix: tenure_forrst::PREFIX.to_owned(),
            upstream: None,
            timeout: Span::from_secs(30),
        }
    }
}
