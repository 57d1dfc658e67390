//! A lease as others may see it, in JSON, with the names that the server's API has.

use serde::Serialize;
use tenure::Status;
use tenure_api::rfc3339;

use crate::spans::ms;

/// A lease without its owner.
#[derive(Debug, Serialize)]
pub(crate) struct StatusLine {
    pub(crate) key: String,
    pub(crate) fence: u64,
    pub(crate) holder: String,
    pub(crate) ttl_ms: u64,
    pub(crate) remaining_ms: u64,
    pub(crate) granted_at: String,
}

impl From<&Status> for StatusLine {
    fn from(status: &Status) -> Self {
        Self {
            key: status.key.to_string(),
            fence: status.fence.get(),
            holder: status.holder.to_string(),
            ttl_ms: ms(status.ttl),
            remaining_ms: ms(status.remaining),
            granted_at: rfc3339::milliseconds(status.granted_at),
        }
    }
}
