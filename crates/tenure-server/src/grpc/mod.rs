//! tenure's own API over gRPC.

mod locks;
mod status;
mod store;
mod stored;
mod wire;

use std::sync::Arc;

use tenure_api::tenure_v1::lock_service_server::LockServiceServer;
use tenure_api::tenure_v1::store_service_server::StoreServiceServer;
use tonic::Request;

pub(crate) use locks::LockGrpc;
pub(crate) use status::status_of;
pub(crate) use store::StoreGrpc;

use crate::access::Caller;
use crate::api::Api;
use crate::failure::Failure;

/// The largest message that is read from a client of the stores.
const MESSAGE_MAX: usize = 64 * 1024;

/// The service for clients in every language.
pub(crate) fn lock_service(api: Arc<Api>) -> LockServiceServer<LockGrpc> {
    LockServiceServer::new(LockGrpc::new(api))
}

/// The service for tenure's own library.
pub(crate) fn store_service(api: Arc<Api>) -> StoreServiceServer<StoreGrpc> {
    StoreServiceServer::new(StoreGrpc::new(api)).max_decoding_message_size(MESSAGE_MAX)
}

/// Who calls: the door has found that out for every request.
pub(crate) fn caller_of<T>(request: &Request<T>) -> Result<Caller, Failure> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Failure::new(tenure_api::Code::Unauthenticated, "nobody knows who calls"))
}
