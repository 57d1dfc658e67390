//! All surfaces behind one door.

use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use http::HeaderMap;
use tenure_api::{Code, DESCRIPTORS};
use tonic::service::Routes;

use crate::api::Api;
use crate::door::{Door, enter, is_grpc, refusal};
use crate::failure::Failure;
use crate::trace::traced;
use crate::{grpc, http as rest};

/// Everything that the main port serves: HTTP and gRPC together.
///
/// # Errors
/// When the descriptors for reflection cannot be read.
pub(crate) fn router(api: &Arc<Api>, door: &Arc<Door>) -> Result<Router, Failure> {
    let guarded = rest::routes(Arc::clone(api))
        .merge(services(api)?)
        .layer(from_fn_with_state((Arc::clone(door), Arc::clone(api)), enter));
    let open = rest::open_routes(Arc::clone(api));
    Ok(open.merge(guarded.layer(from_fn(traced))).fallback(nothing).method_not_allowed_fallback(
        async || Failure::new(Code::NoSuchMethod, "this path does not take this method"),
    ))
}

fn services(api: &Arc<Api>) -> Result<Router, Failure> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    let (_, health) = tonic_health::server::health_reporter();
    let routes = Routes::new(grpc::lock_service(Arc::clone(api)))
        .add_service(reflection)
        .add_service(health);
    Ok(routes.prepare().into_axum_router().reset_fallback())
}

/// The answer to a path that is not there, in the words of the protocol that was asked in.
async fn nothing(headers: HeaderMap) -> Response {
    let code = if is_grpc(&headers) { Code::NoSuchMethod } else { Code::NoSuchPlace };
    refusal(Failure::new(code, "there is nothing at this path"), &headers)
}
