//! `/v1.0-alpha1/lock/{store}` and `/v1.0-alpha1/unlock/{store}`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use serde::Serialize;
use tenure_api::dapr_v1::{TryLockRequest, UnlockRequest};

use super::json::{TryLockBody, UnlockBody, json};
use crate::access::Caller;
use crate::dapr::failure::DaprFailure;
use crate::dapr::sidecar::Sidecar;

#[derive(Serialize)]
pub(super) struct Success {
    success: bool,
}

/// The number of a status, not its name.
#[derive(Serialize)]
pub(super) struct Status {
    status: i32,
}

pub(super) async fn lock(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(caller): Extension<Caller>,
    store_name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Json<Success>, DaprFailure> {
    let TryLockBody { resource_id, lock_owner, expiry_in_seconds } = json(body).await?;
    let request = TryLockRequest {
        store_name: store_name?.0,
        resource_id: resource_id.unwrap_or_default(),
        lock_owner: lock_owner.unwrap_or_default(),
        expiry_in_seconds,
    };
    let answer = sidecar.try_lock(&caller, request).await?;
    Ok(Json(Success { success: answer.success }))
}

pub(super) async fn unlock(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(caller): Extension<Caller>,
    store_name: Result<Path<String>, PathRejection>,
    body: Body,
) -> Result<Json<Status>, DaprFailure> {
    let UnlockBody { resource_id, lock_owner } = json(body).await?;
    let request = UnlockRequest {
        store_name: store_name?.0,
        resource_id: resource_id.unwrap_or_default(),
        lock_owner: lock_owner.unwrap_or_default(),
    };
    let answer = sidecar.unlock(&caller, request).await?;
    Ok(Json(Status { status: answer.status }))
}
