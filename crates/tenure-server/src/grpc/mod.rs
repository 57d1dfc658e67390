//! tenure's own API over gRPC.

mod calls;
mod exchange;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod health;
mod locks;
mod status;
mod store;
mod stored;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use tenure_api::tenure_v1::lock_service_server::LockServiceServer;
use tenure_api::tenure_v1::store_service_server::StoreServiceServer;
use tonic::service::Routes;
use tonic::{Code, Request, Status};

pub(crate) use health::health;
pub(crate) use status::status_of;

use crate::access::Caller;
use crate::api::Api;
use crate::door::Door;
use crate::failure::Failure;
use crate::http::body::BYTES_MAX;
use locks::LockGrpc;
use store::StoreGrpc;

/// The largest message that is read from a client.
pub(crate) const MESSAGE_MAX: usize = BYTES_MAX;

/// The services for whoever was let in.
pub(crate) fn services(api: &Arc<Api>, door: &Arc<Door>) -> Router {
    let locks = LockServiceServer::new(LockGrpc::new(Arc::clone(api)));
    let stores = StoreServiceServer::new(StoreGrpc::new(Arc::clone(api), Arc::clone(door)));
    let routes = Routes::new(locks.max_decoding_message_size(MESSAGE_MAX))
        .add_service(stores.max_decoding_message_size(MESSAGE_MAX));
    routes.prepare().into_axum_router().reset_fallback().layer(map_response(typed))
}

/// A message that was too large to be read is refused in the words of the one table of errors.
async fn typed(response: Response) -> Response {
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() == Code::OutOfRange && status.details().is_empty() => {
            let text = format!("the message must have at most {MESSAGE_MAX} bytes");
            status_of(Failure::new(tenure_api::Code::TooLarge, text)).into_http()
        }
        _ => response,
    }
}

/// Who calls: the door has found that out for every request.
pub(crate) fn caller_of<T>(request: &Request<T>) -> Result<Caller, Failure> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Failure::new(tenure_api::Code::Unauthenticated, "nobody knows who calls"))
}
