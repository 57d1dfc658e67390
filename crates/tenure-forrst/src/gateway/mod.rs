//! Locks around the functions of another server, in whatever language that is written.
//!
//! A call that asks for a lock is handed on under it, once, with the fence in a header and in the
//! context. Any other call is handed on as it came, and cannot bring a fence of its own.

mod capabilities;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hand_on;
mod passed;
mod place;
mod under_lock;
mod upstream;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

pub(crate) use passed::Passed;
pub(crate) use upstream::Upstream;

/// How long another server may take when nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Another Forrst server, to which calls are handed on.
#[derive(Clone)]
pub struct Gateway {
    url: reqwest::Url,
    timeout: Duration,
}

/// Why there can be no gateway.
#[derive(Debug)]
pub struct GatewayError(String);

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GatewayError {}

impl Gateway {
    /// The server at this URL, like `http://127.0.0.1:8080/forrst`.
    ///
    /// # Errors
    /// When that is no URL over HTTP or HTTPS. The error does not repeat it: it may have a
    /// password.
    pub fn new(url: &str) -> Result<Self, GatewayError> {
        let wrong =
            || GatewayError("the upstream must be like http://127.0.0.1:8080/forrst".into());
        let url: reqwest::Url = url.parse().map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong());
        }
        Ok(Self { url, timeout: TIMEOUT })
    }

    /// Whether it is on this machine, where no proxy is needed.
    fn is_local(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        host == "localhost" || is_loopback
    }

    /// How long it may take to answer: 30 seconds if not set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}
