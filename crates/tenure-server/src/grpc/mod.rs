//! tenure's own API over gRPC.

mod locks;
mod status;
mod wire;

use std::sync::Arc;

use tenure_api::tenure_v1::lock_service_server::LockServiceServer;
use tonic::Request;

pub(crate) use locks::LockGrpc;
pub(crate) use status::status_of;

use crate::access::Caller;
use crate::api::Api;
use crate::failure::Failure;

/// The service for clients in every language.
pub(crate) fn lock_service(api: Arc<Api>) -> LockServiceServer<LockGrpc> {
    LockServiceServer::new(LockGrpc::new(api))
}

/// Who calls: the door has found that out for every request.
pub(crate) fn caller_of<T>(request: &Request<T>) -> Result<Caller, Failure> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Failure::new(tenure_api::Code::Unauthenticated, "nobody knows who calls"))
}
