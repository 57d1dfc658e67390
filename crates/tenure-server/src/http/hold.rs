//! A lock that is held for as long as its answer is read: one JSON object a line.

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::future::ready;
use http::{HeaderMap, StatusCode, header};

use super::json::HoldLine;
use super::locks::refusal;
use crate::access::Caller;
use crate::api::{Api, HoldEvent, Order};
use crate::failure::Failure;

const TYPE: &str = "application/x-ndjson";

/// Whether a request asks for a stream.
pub(super) fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(TYPE))
}

/// Answers with a stream that holds the lock. What fails before anything was said has a status of
/// its own; what comes later is the stream's last line.
pub(super) async fn hold(api: &Api, caller: &Caller, order: Order) -> Result<Response, Failure> {
    let mut holding = api.hold(caller, &order).await?;
    let first = match holding.next().await {
        Some(Err(failure)) => return Ok(refusal(&failure, &order)),
        first => first,
    };
    let first = futures_util::stream::iter(first).filter(|event| ready(!is_ping(event)));
    let key = order.place.key;
    let lines = first.chain(holding).map(move |event| line(&HoldLine::new(&key, event)));
    Response::builder()
        .status(StatusCode::OK)
        .header(header::CONTENT_TYPE, TYPE)
        .header(header::CACHE_CONTROL, "no-store")
        .header("x-accel-buffering", "no")
        .body(Body::from_stream(lines))
        .map_err(|error| Failure::new(tenure_api::Code::Internal, error.to_string()))
}

fn is_ping(event: &Result<HoldEvent, Failure>) -> bool {
    matches!(event, Ok(HoldEvent::Ping))
}

fn line(line: &HoldLine) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}
