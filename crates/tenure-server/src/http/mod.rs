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

mod answer;
mod body;
mod events;
mod hold;
mod json;
mod locks;
mod path;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::api::Api;

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
        .with_state(api)
}
