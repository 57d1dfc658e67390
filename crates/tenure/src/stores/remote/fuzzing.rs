//! Answers of a tenure server, for the fuzz targets.

use tenure_api::tenure_v1::{ExchangeRefusal, GetInfoResponse, StoredLease};

use super::error::Failure;
pub use super::exchange::fuzzing::remote_exchange;
use super::wire;
use crate::effect::Effect;
use crate::error::{Error, Result};
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

/// What it means that a request was refused so, and whether it is sent anew.
#[must_use]
pub fn remote_refusal(refusal: ExchangeRefusal, is_write: bool) -> (Error, bool) {
    let ExchangeRefusal { code, message, details } = refusal;
    let status = tonic::Status::with_details(code.into(), message, details.into());
    let effect = if is_write { Effect::Write } else { Effect::Read };
    let Failure { error, again } = Failure::of(status, effect);
    (error, again)
}
