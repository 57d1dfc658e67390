//! Addresses and bodies of requests, for the fuzz targets.

use axum::body::Body;
use futures_util::FutureExt;
use http::Uri;
use serde::de::DeserializeOwned;

use super::json::{LockBody, ReleaseBody, TryLockBody, UnlockBody, json};
use super::tidied;
use crate::dapr::failure::DaprFailure;

/// The address without the slashes that are too many; `None` when it is not one of Dapr's.
#[must_use]
pub fn tidied_address(uri: &Uri) -> Option<Uri> {
    tidied(uri)
}

/// Reads the body of a request of one kind.
///
/// # Errors
/// In words, as clients get them.
pub fn read_dapr_body(kind: u8, bytes: &[u8]) -> Result<(), String> {
    let read = match kind % 4 {
        0 => body::<TryLockBody>(bytes).map(drop),
        1 => body::<UnlockBody>(bytes).map(drop),
        2 => body::<LockBody>(bytes).and_then(|body| body.ttl().map(drop)),
        _ => body::<ReleaseBody>(bytes).map(drop),
    };
    read.map_err(|failure| failure.message)
}

fn body<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, DaprFailure> {
    let read = json(Body::from(bytes.to_vec())).now_or_never();
    read.unwrap_or_else(|| Err(DaprFailure::body("it is not all there")))
}
