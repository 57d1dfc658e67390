//! Spans: one for every request, in the trace of whoever sent it, and one for every call of a
//! store within it.

#[cfg(feature = "otel")]
pub(crate) mod export;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument, Span};

/// Spans have a name of their own to be chosen by, so that logs can do without them.
pub(crate) const TARGET: &str = "tenure_server::span";

/// Runs a request within its span.
pub(crate) async fn traced(request: Request, next: Next) -> Response {
    let span = span_of(&request);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    response
}

/// The path is the route's: a key may be secret.
fn span_of(request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str);
    let span = tracing::debug_span!(
        target: TARGET,
        "request",
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        http.response.status_code = tracing::field::Empty,
    );
    #[cfg(feature = "otel")]
    if !span.is_disabled() {
        export::join(&span, request.headers());
    }
    span
}
