//! All surfaces behind one door.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use tenure_api::{Code, DAPR_DESCRIPTORS, DESCRIPTORS};
use tonic::service::Routes;
use tower::ServiceExt;

use crate::api::Api;
use crate::config::ForrstConfig;
use crate::dapr::{self, Sidecar};
use crate::door::{Door, enter, is_grpc, refusal};
use crate::failure::Failure;
use crate::trace::traced;
use crate::whole::{drain, whole};
use crate::{forrst, grpc, http as rest};

/// Everything that the main port serves: HTTP and gRPC together.
///
/// # Errors
/// When the descriptors for reflection cannot be read.
pub(crate) fn router(
    api: &Arc<Api>,
    sidecar: &Arc<Sidecar>,
    door: &Arc<Door>,
    calls: &ForrstConfig,
) -> Result<Router, Failure> {
    let guarded = rest::routes(Arc::clone(api))
        .layer(from_fn(whole))
        .merge(forrst::routes(api, calls)?)
        .merge(grpc::services(api, door))
        .merge(reflection(DESCRIPTORS)?)
        .layer(from_fn_with_state((Arc::clone(door), Arc::clone(api)), enter));
    let open = rest::open_routes(Arc::clone(api)).merge(grpc::health(api));
    let dapr = dapr::routes(sidecar, door);
    Ok(forgiving(open.merge(guarded.layer(from_fn(traced))).merge(dapr.clone()), dapr))
}

/// Everything that Dapr's own ports serve.
///
/// # Errors
/// When the descriptors for reflection cannot be read.
pub(crate) fn dapr_router(
    api: &Arc<Api>,
    sidecar: &Arc<Sidecar>,
    door: &Arc<Door>,
) -> Result<Router, Failure> {
    let reflection = reflection(DAPR_DESCRIPTORS)?
        .layer(from_fn_with_state((Arc::clone(door), Arc::clone(sidecar)), dapr::enter));
    let dapr = dapr::routes(sidecar, door);
    let about = reflection.merge(grpc::health(api));
    Ok(forgiving(dapr.clone().merge(about), dapr))
}

/// The service that tells which services there are: those that have these descriptors. It is there
/// twice, because many clients know only its older name.
fn reflection(descriptors: &[u8]) -> Result<Router, Failure> {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let wrong =
        |error: tonic_reflection::server::Error| Failure::new(Code::Internal, error.to_string());
    let new = builder().build_v1().map_err(wrong)?;
    let old = builder().build_v1alpha().map_err(wrong)?;
    let routes = Routes::new(new.max_decoding_message_size(grpc::MESSAGE_MAX))
        .add_service(old.max_decoding_message_size(grpc::MESSAGE_MAX));
    Ok(routes.prepare().into_axum_router().reset_fallback())
}

/// The routes, with an answer for what fits none of them. Dapr's paths get a second chance.
fn forgiving(routes: Router, dapr: Router) -> Router {
    let dapr = dapr.fallback(nothing);
    routes
        .fallback(async move |request: Request| forgive(dapr, request).await)
        .method_not_allowed_fallback(async |request: Request| {
            drain(request).await;
            Failure::new(Code::NoSuchMethod, "this path does not take this method")
        })
}

/// A path of Dapr's with slashes that are too many finds its route; any other does not.
async fn forgive(dapr: Router, mut request: Request) -> Response {
    let Some(uri) = dapr::tidied(request.uri()) else {
        return nothing(request).await;
    };
    *request.uri_mut() = uri;
    let Ok(response) = dapr.oneshot(request).await;
    response
}

/// The answer to a path that is not there, in the words of the protocol that was asked in.
async fn nothing(request: Request) -> Response {
    let code = if is_grpc(request.headers()) { Code::NoSuchMethod } else { Code::NoSuchPlace };
    let answer = refusal(Failure::new(code, "there is nothing at this path"), request.headers());
    drain(request).await;
    answer
}
