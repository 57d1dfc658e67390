//! Keys as NATS spells them, for the fuzz targets.

use super::subject;

/// The subject of a key.
#[must_use]
pub fn nats_subject(key: &str) -> String {
    subject::encode(key)
}

/// The key of a subject, if it is of one.
#[must_use]
pub fn nats_key(subject: &str) -> Option<String> {
    subject::decode(subject)
}
