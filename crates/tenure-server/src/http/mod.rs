//! tenure's own API over HTTP and JSON.
//!
//! | | |
//! |---|---|
//! | `POST /v1/locks/{key}` | lock; with `Accept: application/x-ndjson` for as long as it is read |
//! | `PATCH /v1/locks/{key}` | renew |
//! | `DELETE /v1/locks/{key}` | unlock, or take away by force |
//! | `GET /v1/locks/{key}` | who holds it |
//! | `GET /v1/locks` | who holds what |
//! | `GET /v1/events` | what happens, as server-sent events |
//! | `GET /v1/stores` | the stores |
//! | `GET /v1/openapi.json` | this, as an OpenAPI document |
//! | `GET /metrics` | numbers for Prometheus |
//! | `GET /healthz`, `GET /readyz` | whether the server runs, and its stores answer |

mod answer;
pub(crate) mod body;
mod events;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hold;
mod json;
pub(crate) mod lines;
mod locks;
mod path;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use tenure_api::OPENAPI;

use crate::access::Caller;
use crate::api::Api;
use crate::failure::Failure;

/// The routes that anyone may ask for.
pub(crate) fn open_routes(api: Arc<Api>) -> Router {
    Router::new()
        .route("/healthz", get(async || StatusCode::NO_CONTENT))
        .route("/readyz", get(ready))
        .route("/v1/openapi.json", get(openapi))
        .with_state(api)
}

async fn ready(State(api): State<Arc<Api>>) -> Result<StatusCode, Failure> {
    api.ready().await.map(|()| StatusCode::NO_CONTENT)
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// The routes of tenure's own API.
pub(crate) fn routes(api: Arc<Api>) -> Router {
    Router::new()
        .route("/v1/locks", get(locks::list))
        .route(
            "/v1/locks/{*key}",
            get(locks::get).post(locks::lock).patch(locks::renew).delete(locks::unlock),
        )
        .route("/v1/events", get(events::watch))
        .route("/v1/stores", get(locks::stores))
        .route("/metrics", get(metrics))
        .with_state(api)
}

async fn metrics(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Failure> {
    let text = api.metrics(&caller)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
