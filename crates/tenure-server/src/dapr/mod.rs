//! Dapr's API: alpha1 for its clients of today, and alpha2, which Dapr has proposed and not built.
//!
//! | file | what it holds |
//! |---|---|
//! | `sidecar.rs` | what both surfaces call, with the checks in Dapr's order |
//! | `alpha1.rs`, `alpha2.rs`, `metadata.rs` | its calls |
//! | `failure.rs` | failures in Dapr's words; their codes are in [`tenure_api::DaprCode`] |
//! | `key.rs` | the key of a resource: Dapr's `keyPrefix` |
//! | `door.rs` | who is let in, in Dapr's words |
//! | `http/`, `grpc.rs` | the surfaces |

mod alpha1;
mod alpha2;
mod door;
mod failure;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod go_duration;
mod grpc;
mod http;
mod key;
mod metadata;
mod sidecar;

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tenure_api::dapr_v1::dapr_server::DaprServer;
use tonic::service::Routes;

pub(crate) use door::enter;
pub(crate) use http::tidied;
pub use key::KeyPrefix;
pub(crate) use sidecar::Sidecar;

use crate::door::Door;
use crate::trace::traced;

/// All of Dapr's API, over HTTP and gRPC.
pub(crate) fn routes(sidecar: &Arc<Sidecar>, door: &Arc<Door>) -> Router {
    let service = DaprServer::new(grpc::DaprGrpc(Arc::clone(sidecar)));
    let service = Routes::new(service).prepare().into_axum_router().reset_fallback();
    let guarded = http::routes(Arc::clone(sidecar))
        .merge(service)
        .layer(from_fn_with_state((Arc::clone(door), Arc::clone(sidecar)), enter))
        .layer(from_fn(traced));
    http::open_routes(Arc::clone(sidecar)).merge(guarded)
}
