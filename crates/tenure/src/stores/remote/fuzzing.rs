//! Answers of a tenure server, for the fuzz targets.

use tenure_api::tenure_v1::{GetInfoResponse, StoredLease};

pub use super::exchange::fuzzing::remote_exchange;
use super::wire;
use crate::error::Result;
use crate::lease::Status;
use crate::store::StoreInfo;

/// Reads the lease in an answer.
///
/// # Errors
/// As the store gets them.
pub fn remote_status(lease: StoredLease) -> Result<Status> {
    wire::status(lease)
}

/// Reads what a server says of its store.
///
/// # Errors
/// As the store gets them.
pub fn remote_info(answer: GetInfoResponse) -> Result<StoreInfo> {
    wire::info(answer)
}
