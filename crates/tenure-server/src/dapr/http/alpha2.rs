//! `/v1.0-alpha2/lock/{store}/{resource}`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::json::{LockBody, ReleaseBody, json};
use crate::access::Caller;
use crate::api::HoldEvent;
use crate::dapr::alpha2::Wish;
use crate::dapr::failure::DaprFailure;
use crate::dapr::sidecar::{Sidecar, Target};
use crate::failure::Failure;
use crate::http::lines::{lines, wants_lines};

/// A store and a resource of it, which may have slashes.
type Names = Result<Path<(String, String)>, PathRejection>;

#[derive(Serialize)]
struct GrantedBody {
    #[serde(rename = "lockID")]
    lock_id: String,
    fence: u64,
}

/// One line of a stream that holds a lock.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line {
    LockAcquired { fence: u64 },
    Ping,
    Error { error: String },
}

impl From<Result<HoldEvent, Failure>> for Line {
    fn from(event: Result<HoldEvent, Failure>) -> Self {
        match event {
            Ok(HoldEvent::Acquired(granted)) => Self::LockAcquired { fence: granted.fence.get() },
            // The proposal has no word for a place in line: what it says is that all is well.
            Ok(HoldEvent::Waiting(_) | HoldEvent::Ping) => Self::Ping,
            Err(failure) => Self::Error { error: DaprFailure::lock(failure).message },
        }
    }
}

pub(super) async fn lock(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(caller): Extension<Caller>,
    names: Names,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, DaprFailure> {
    let Path((store, resource)) = names?;
    let body: LockBody = json(body).await?;
    let wish = Wish {
        target: Target { store: &store, resource: &resource },
        immediate: body.immediate.unwrap_or_default(),
        ttl: body.ttl()?,
    };
    if wants_lines(&headers) {
        return hold(&sidecar, &caller, &wish).await;
    }
    let granted = sidecar.lock(&caller, &wish).await?;
    let body = GrantedBody { lock_id: granted.lock_id, fence: granted.fence.get() };
    Ok(Json(body).into_response())
}

/// What fails before anything was said has a status of its own; what comes later is the last line.
async fn hold(
    sidecar: &Sidecar,
    caller: &Caller,
    wish: &Wish<'_>,
) -> Result<Response, DaprFailure> {
    let mut holding = sidecar.hold(caller, wish).await?;
    let first = match holding.next().await {
        Some(Err(failure)) => return Err(DaprFailure::lock(failure)),
        first => first,
    };
    let told = futures_util::stream::iter(first).chain(holding).map(Line::from);
    Ok(lines(told))
}

pub(super) async fn unlock(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(caller): Extension<Caller>,
    names: Names,
    body: Body,
) -> Result<StatusCode, DaprFailure> {
    let Path((store, resource)) = names?;
    let ReleaseBody { force, lock_id, reason } = json(body).await?;
    let target = Target { store: &store, resource: &resource };
    if force.unwrap_or_default() {
        sidecar.force(&caller, &target, &reason.unwrap_or_default()).await?;
    } else {
        sidecar.release(&caller, &target, &lock_id.unwrap_or_default()).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
