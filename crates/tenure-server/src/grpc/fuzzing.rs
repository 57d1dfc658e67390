//! What messages ask of a store, for the fuzz targets.

use std::time::Duration;

use tenure_api::tenure_v1::{HoldRequest, LockRequest, StoredGrant, TryAcquireRequest};

use super::locks::{hold_order, lock_order};
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

/// The ttl that a request for a lock asks for.
///
/// # Errors
/// As clients get them.
pub fn read_lock(request: LockRequest) -> Result<Option<Duration>, Failure> {
    lock_order(request).map(|order| order.ttl)
}

/// The ttl that a request for a lock of a stream asks for.
///
/// # Errors
/// As clients get them.
pub fn read_hold(request: HoldRequest) -> Result<Option<Duration>, Failure> {
    hold_order(request).map(|order| order.ttl)
}
