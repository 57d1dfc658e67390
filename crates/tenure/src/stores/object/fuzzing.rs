//! Keys as names of objects, for the fuzz targets.

use super::name;
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
