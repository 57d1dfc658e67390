//! Reads a request to its end before anything answers it.
//!
//! An answer that overtakes the body resets the stream of HTTP/2, and a client may take that for a
//! failure of the connection and never see the answer.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tenure::clock::{SystemClock, within};

use crate::door::is_grpc;
use crate::failure::Failure;
use crate::http::body::{BYTES_MAX, read};

/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Hands a request on with its whole body. A call by gRPC reads its own, and so does Dapr's API,
/// which has another limit.
pub(crate) async fn whole(request: Request, next: Next) -> Response {
    if is_grpc(request.headers())
        || request.uri().path().contains("/v1.0")
        || request.uri().path() == "/forrst"
    {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match within(&SystemClock, PATIENCE, read(body, BYTES_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(failure)) => failure.into_response(),
        Err(_) => {
            Failure::invalid(format!("the body took longer than {PATIENCE:?}")).into_response()
        }
    }
}

/// Reads what is left of a request that is turned away, within reason.
pub(crate) async fn drain(request: Request, max: usize) {
    if !is_grpc(request.headers()) {
        // What is too large or too slow is cut off.
        let _ = within(&SystemClock, PATIENCE, read(request.into_body(), max)).await;
    }
}
