//! All surfaces behind one door.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use http::StatusCode;
use tenure_api::{Code, DESCRIPTORS};
use tonic::service::Routes;

use crate::api::Api;
use crate::door::{Door, enter};
use crate::failure::Failure;
use crate::{grpc, http as rest};

/// Everything that the main port serves: HTTP and gRPC together.
///
/// # Errors
/// When the descriptors for reflection cannot be read.
pub(crate) fn router(api: &Arc<Api>, door: &Arc<Door>) -> Result<Router, Failure> {
    let guarded = rest::routes(Arc::clone(api))
        .merge(services(api)?)
        .layer(from_fn_with_state((Arc::clone(door), Arc::clone(api)), enter));
    let open = Router::new()
        .route("/healthz", get(async || StatusCode::NO_CONTENT))
        .route("/readyz", get(ready))
        .with_state(Arc::clone(api));
    Ok(open
        .merge(guarded)
        .fallback(async || Failure::new(Code::NoSuchPlace, "there is nothing at this path"))
        .method_not_allowed_fallback(async || {
            Failure::new(Code::NoSuchMethod, "this path does not take this method")
        }))
}

fn services(api: &Arc<Api>) -> Result<Router, Failure> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    let (_, health) = tonic_health::server::health_reporter();
    let routes = Routes::new(grpc::lock_service(Arc::clone(api)))
        .add_service(grpc::store_service(Arc::clone(api)))
        .add_service(reflection)
        .add_service(health);
    Ok(routes.prepare().into_axum_router().reset_fallback())
}

async fn ready(State(api): State<Arc<Api>>) -> Result<StatusCode, Failure> {
    api.ready().await.map(|()| StatusCode::NO_CONTENT)
}
