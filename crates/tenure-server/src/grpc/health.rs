//! `grpc.health.v1.Health`: what `/readyz` says, for clients of gRPC. Anyone may ask.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use futures_util::{Stream, StreamExt, stream};
use tenure_api::dapr_v1::dapr_server;
use tenure_api::tenure_v1::{lock_service_server, store_service_server};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::MESSAGE_MAX;
use crate::api::Api;
use crate::door::Peer;
use crate::failure::Failure;

/// The empty name is the server as a whole.
const SERVICES: [&str; 4] = [
    "",
    lock_service_server::SERVICE_NAME,
    store_service_server::SERVICE_NAME,
    dapr_server::SERVICE_NAME,
];

struct HealthGrpc(Arc<Api>);

/// The service, without a door in front of it.
pub(crate) fn health(api: &Arc<Api>) -> Router {
    let service = HealthServer::new(HealthGrpc(Arc::clone(api)));
    let service = service.max_decoding_message_size(MESSAGE_MAX);
    Routes::new(service).prepare().into_axum_router().reset_fallback()
}

#[tonic::async_trait]
impl Health for HealthGrpc {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !SERVICES.contains(&&*request.get_ref().service) {
            return Err(Status::not_found("there is no such service"));
        }
        Ok(Response::new(answer(status(self.0.ready().await.is_ok()))))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if !SERVICES.contains(&&*request.get_ref().service) {
            let unknown = Ok(answer(ServingStatus::ServiceUnknown));
            return Ok(Response::new(Box::pin(stream::iter([unknown]))));
        }
        let peer = request.extensions().get::<Peer>().map(|peer| peer.address.ip());
        let peer = peer.ok_or_else(|| Failure::invalid("nobody knows who calls"))?;
        let told = self.0.readiness(peer)?;
        Ok(Response::new(Box::pin(told.map(|is_ready| Ok(answer(status(is_ready)))))))
    }
}

fn status(is_ready: bool) -> ServingStatus {
    if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
