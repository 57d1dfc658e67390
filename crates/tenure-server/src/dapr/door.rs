//! The door in Dapr's words.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use tenure_api::DAPR_DOMAIN;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::sidecar::Sidecar;
use crate::access::Caller;
use crate::door::{DAPR_TOKEN, Door, Peer, is_grpc};
use crate::whole::drain;

/// Lets a request in with its caller beside it, or turns it away as Dapr does.
pub(crate) async fn enter(
    State((door, sidecar)): State<(Arc<Door>, Arc<Sidecar>)>,
    Extension(peer): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match door.identify_for_dapr(request.headers(), &peer.names) {
        Ok(identity) => {
            let peer = Some(peer.address.ip());
            request.extensions_mut().insert(Caller { identity, peer });
            next.run(request).await
        }
        Err(failure) => {
            sidecar.api.turned_away(peer.address.ip(), &failure);
            let answer = turn_away(request.headers());
            drain(request).await;
            answer
        }
    }
}

fn turn_away(headers: &HeaderMap) -> Response {
    if !is_grpc(headers) {
        return (StatusCode::UNAUTHORIZED, "invalid api token").into_response();
    }
    let what = match headers.contains_key(DAPR_TOKEN) {
        true => "authentication error: api token mismatch",
        false => "missing api token in request metadata",
    };
    let more = HashMap::from([
        ("http.code".to_owned(), "401".to_owned()),
        ("http.error_message".to_owned(), what.to_owned()),
    ]);
    let details = ErrorDetails::with_error_info("Unauthorized", DAPR_DOMAIN, more);
    Status::with_error_details(Code::Unauthenticated, "Unauthorized", details).into_http::<Body>()
}
