//! Keys as names of objects, and what a store refuses with, for the fuzz targets.

use super::{name, wire};
use crate::key::Key;

/// The name of a key.
#[must_use]
pub fn object_name(key: &str) -> String {
    name::encode(key)
}

/// The key of a name, if it is of one.
#[must_use]
pub fn object_key(name: &str) -> Option<Key> {
    name::decode(name)
}

/// The store's own word in the body of a refusal; empty when there is none.
#[must_use]
pub fn object_refusal(body: &[u8]) -> String {
    wire::code_in(body)
}
