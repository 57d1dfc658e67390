//! Answers that go on: one JSON object a line.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, header};
use serde::Serialize;

const TYPE: &str = "application/x-ndjson";

/// Whether a request asks for an answer in lines.
pub(crate) fn wants_lines(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(TYPE))
}

/// Answers with these lines, each as soon as it comes.
pub(crate) fn lines<T: Serialize>(lines: impl Stream<Item = T> + Send + 'static) -> Response {
    let headers =
        [(header::CONTENT_TYPE.as_str(), TYPE), ("cache-control", "no-store"), UNBUFFERED];
    let body = Body::from_stream(lines.map(|line| in_json(&line)));
    (headers, body).into_response()
}

/// What proxies understand.
const UNBUFFERED: (&str, &str) = ("x-accel-buffering", "no");

fn in_json(line: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(text)
}
