//! All surfaces behind one door.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use http::HeaderMap;
use tenure_api::{Code, DESCRIPTORS};
use tonic::service::Routes;
use tower::ServiceExt;

use crate::api::Api;
use crate::dapr::{self, Sidecar};
use crate::door::{Door, enter, is_grpc, refusal};
use crate::failure::Failure;
use crate::trace::traced;
use crate::{grpc, http as rest};

/// Everything that the main port serves: HTTP and gRPC together.
///
/// # Errors
/// When the descriptors for reflection cannot be read.
pub(crate) fn router(
    api: &Arc<Api>,
    sidecar: &Arc<Sidecar>,
    door: &Arc<Door>,
) -> Result<Router, Failure> {
    let locks = Routes::new(grpc::lock_service(Arc::clone(api)))
        .add_service(grpc::store_service(Arc::clone(api)));
    let guarded = rest::routes(Arc::clone(api))
        .merge(described(locks)?)
        .layer(from_fn_with_state((Arc::clone(door), Arc::clone(api)), enter));
    let open = rest::open_routes(Arc::clone(api));
    let dapr = dapr::routes(sidecar, door);
    Ok(forgiving(open.merge(guarded.layer(from_fn(traced))).merge(dapr.clone()), dapr))
}

/// Everything that Dapr's own ports serve.
///
/// # Errors
/// When the descriptors for reflection cannot be read.
pub(crate) fn dapr_router(sidecar: &Arc<Sidecar>, door: &Arc<Door>) -> Result<Router, Failure> {
    let about = described(Routes::default())?;
    let about =
        about.layer(from_fn_with_state((Arc::clone(door), Arc::clone(sidecar)), dapr::enter));
    let dapr = dapr::routes(sidecar, door);
    Ok(forgiving(dapr.clone().merge(about), dapr))
}

/// These services, with those that tell about services. Reflection is there twice, because many
/// clients know only its older name.
fn described(routes: Routes) -> Result<Router, Failure> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let wrong =
        |error: tonic_reflection::server::Error| Failure::new(Code::Internal, error.to_string());
    let (_, health) = tonic_health::server::health_reporter();
    let routes = routes
        .add_service(reflection().build_v1().map_err(wrong)?)
        .add_service(reflection().build_v1alpha().map_err(wrong)?)
        .add_service(health);
    Ok(routes.prepare().into_axum_router().reset_fallback())
}

/// The routes, with an answer for what fits none of them. Dapr's paths get a second chance.
fn forgiving(routes: Router, dapr: Router) -> Router {
    let dapr = dapr.fallback(nothing);
    routes
        .fallback(async move |request: Request| forgive(dapr, request).await)
        .method_not_allowed_fallback(async || {
            Failure::new(Code::NoSuchMethod, "this path does not take this method")
        })
}

/// A path of Dapr's with slashes that are too many finds its route; any other does not.
async fn forgive(dapr: Router, mut request: Request) -> Response {
    let Some(uri) = dapr::tidied(request.uri()) else {
        return nothing(request.headers().clone()).await;
    };
    *request.uri_mut() = uri;
    let Ok(response) = dapr.oneshot(request).await;
    response
}

/// The answer to a path that is not there, in the words of the protocol that was asked in.
async fn nothing(headers: HeaderMap) -> Response {
    let code = if is_grpc(&headers) { Code::NoSuchMethod } else { Code::NoSuchPlace };
    refusal(Failure::new(code, "there is nothing at this path"), &headers)
}
