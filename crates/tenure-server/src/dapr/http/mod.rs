//! Dapr's API over HTTP and JSON.
//!
//! | | |
//! |---|---|
//! | `POST /v1.0-alpha1/lock/{store}` | take a lock if it is free |
//! | `POST /v1.0-alpha1/unlock/{store}` | give it back |
//! | `POST /v1.0-alpha2/lock/{store}/{resource}` | wait for a lock and take it |
//! | `DELETE /v1.0-alpha2/lock/{store}/{resource}` | give it back, or take it away by force |
//! | `GET /v1.0/metadata`, `PUT /v1.0/metadata/{key}` | what this sidecar is made of |
//! | `GET /v1.0/healthz`, `GET /v1.0/healthz/outbound` | that it is well; without a token |
//!
//! With `Accept: application/x-ndjson`, a lock of alpha2 is held for as long as its answer is read.

mod alpha1;
mod alpha2;
#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;
mod json;
mod metadata;
mod slashes;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};

pub(crate) use slashes::tidied;

use super::sidecar::Sidecar;

/// The routes for whoever was let in.
pub(super) fn routes(sidecar: Arc<Sidecar>) -> Router {
    Router::new()
        .route("/v1.0-alpha1/lock/{store}", post(alpha1::lock))
        .route("/v1.0-alpha1/unlock/{store}", post(alpha1::unlock))
        .route("/v1.0-alpha2/lock/{store}/{*resource}", post(alpha2::lock).delete(alpha2::unlock))
        .route("/v1.0/metadata", get(metadata::get))
        .route("/v1.0/metadata/{key}", put(metadata::put))
        .with_state(sidecar)
}

/// The routes for everyone.
pub(super) fn open_routes(sidecar: Arc<Sidecar>) -> Router {
    Router::new()
        .route("/v1.0/healthz", get(metadata::healthz))
        .route("/v1.0/healthz/outbound", get(metadata::outbound))
        .with_state(sidecar)
}
