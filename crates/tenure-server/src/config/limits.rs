//! The bounds of what clients may ask for.

use serde::Deserialize;
use tenure::Limits;

use super::Span;
use crate::accept::Connections;
use crate::api::Terms;

/// The bounds of what clients may ask for, and how long they may take.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// The longest key, in bytes.
    pub key_bytes: usize,
    /// The ttl of requests that name none.
    pub ttl_default: Span,
    /// The shortest ttl.
    pub ttl_min: Span,
    /// The longest ttl.
    pub ttl_max: Span,
    /// The longest wait, which is also that of requests that name none.
    pub wait_max: Span,
    /// How many may wait for one key.
    pub waiters_per_key: usize,
    /// How many locks one client may have, whoever renews them; not those of its streams.
    pub locks_per_client: usize,
    /// How many streams one client may have open.
    pub streams_per_client: usize,
    /// How many connections there may be.
    pub connections: usize,
    /// How many connections there may be from one address.
    pub connections_per_address: usize,
    /// How many requests one HTTP/2 connection may have under way. It is more than one client may
    /// have streams: where those wait, there is still room to unlock.
    pub streams_per_connection: u32,
    /// How long the head of a request may take.
    pub header_timeout: Span,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Span,
    /// After how long without a request a connection is closed.
    pub idle_timeout: Span,
    /// How often an idle stream says that it is alive.
    pub ping: Span,
    /// How long the end of the server may take.
    pub shutdown: Span,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            key_bytes: 512,
            ttl_default: Span::from_secs(30),
            ttl_min: Span(std::time::Duration::from_millis(100)),
            ttl_max: Span::from_secs(24 * 60 * 60),
            wait_max: Span::from_secs(600),
            waiters_per_key: 10_000,
            locks_per_client: 10_000,
            streams_per_client: 10_000,
            connections: 10_000,
            connections_per_address: 5000,
            streams_per_connection: 20_000,
            header_timeout: Span::from_secs(10),
            handshake_timeout: Span::from_secs(10),
            idle_timeout: Span::from_secs(120),
            ping: Span::from_secs(5),
            shutdown: Span::from_secs(10),
        }
    }
}

impl LimitsConfig {
    /// The bounds as the library checks them.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            key_bytes: self.key_bytes,
            ttl_min: self.ttl_min.0,
            ttl_max: self.ttl_max.0,
            wait_max: Some(self.wait_max.0),
            waiters_per_key: self.waiters_per_key,
            ..Limits::default()
        }
    }

    /// The bounds as the calls check them.
    #[must_use]
    pub fn terms(&self) -> Terms {
        Terms {
            locks_per_client: self.locks_per_client,
            streams_per_client: self.streams_per_client,
            waiters_per_key: self.waiters_per_key,
            ttl_min: self.ttl_min.0,
            ttl_max: self.ttl_max.0,
            ping: self.ping.0,
        }
    }

    /// The bounds as the accept loop keeps them.
    #[must_use]
    pub fn connections(&self) -> Connections {
        Connections {
            max: self.connections,
            per_address: self.connections_per_address,
            header_timeout: self.header_timeout.0,
            handshake_timeout: self.handshake_timeout.0,
            idle_timeout: self.idle_timeout.0,
            gone_after: self.ping.0 * 2,
            streams: self.streams_per_connection,
            farewell: self.shutdown.0 / 2,
        }
    }
}
