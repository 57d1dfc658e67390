//! What messages ask of a store, for the fuzz targets.

use tenure_api::tenure_v1::{StoredGrant, TryAcquireRequest};

use super::stored::{claim, grant};
use crate::failure::Failure;

/// Reads a claim as the store service does.
///
/// # Errors
/// As clients get them.
pub fn read_claim(request: TryAcquireRequest) -> Result<(), Failure> {
    claim(request).map(drop)
}

/// Reads what a renewal or a release is about.
///
/// # Errors
/// As clients get them.
pub fn read_grant(stored: Option<StoredGrant>) -> Result<(), Failure> {
    grant(stored).map(drop)
}
