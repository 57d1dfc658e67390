//! Forrst's calls.

use serde::Deserialize;
use tenure_forrst::{Gateway, PREFIX};

use super::{Span, Url};
use crate::failure::Failure;

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
            prefix: PREFIX.to_owned(),
            upstream: None,
            timeout: Span::from_secs(30),
        }
    }
}

impl ForrstConfig {
    /// The server to which calls are handed on, if there is one.
    pub(crate) fn gateway(&self) -> Result<Option<Gateway>, Failure> {
        let Some(url) = &self.upstream else { return Ok(None) };
        if self.timeout.0.is_zero() {
            return Err(Failure::invalid("forrst.timeout must be longer than 0"));
        }
        let gateway = Gateway::new(&url.0)
            .map_err(|error| Failure::invalid(format!("forrst.upstream: {error}")))?;
        Ok(Some(gateway.timeout(self.timeout.0)))
    }
}
