//! Requests by HTTP, for the fuzz targets.

use axum::body::Body;
use futures_util::FutureExt;
use http::Uri;
use serde::de::DeserializeOwned;

use super::body::json;
use super::events::Watching;
use super::json::{LockBody, RenewBody, UnlockBody};
use super::locks::Listing;
use super::path::{place, query};
use crate::api::Place;
use crate::failure::Failure;

/// Reads the body of a request of one kind.
///
/// # Errors
/// As clients get them.
pub fn read_body(kind: u8, bytes: &[u8]) -> Result<(), Failure> {
    match kind % 3 {
        0 => body::<LockBody>(bytes),
        1 => body::<RenewBody>(bytes),
        _ => body::<UnlockBody>(bytes),
    }
}

fn body<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<(), Failure> {
    let read = json::<T>(Body::from(bytes.to_vec())).now_or_never();
    read.unwrap_or_else(|| Err(Failure::invalid("the body is not all there"))).map(drop)
}

/// The key, the namespace and the store that the address of a request names.
///
/// # Errors
/// As clients get them.
pub fn read_place(uri: &Uri) -> Result<(String, String, String), Failure> {
    let Place { key, namespace, store } = place(uri, "/v1/locks/")?;
    Ok((key, namespace, store))
}

/// The prefix, the limit and the key to go on after that a listing is asked for by.
///
/// # Errors
/// As clients get them.
pub fn read_listing(uri: &Uri) -> Result<(String, Option<usize>, Option<String>), Failure> {
    let Listing { prefix, limit, after, .. } = query(uri)?;
    Ok((prefix, limit, after))
}

/// The prefix of the keys whose events are asked for.
///
/// # Errors
/// As clients get them.
pub fn read_watching(uri: &Uri) -> Result<String, Failure> {
    query(uri).map(|Watching { prefix, .. }| prefix)
}
