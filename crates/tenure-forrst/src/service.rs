//! The protocol over HTTP: a tower service, to be mounted anywhere.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::Full;
use tenure_api::ForrstCode;
use tower::Service;

use crate::amount::Amount;
use crate::body::{self, Unread};
use crate::engine::{Engine, Visit};
use crate::fault::Fault;
use crate::response::{Meta, Response};

const REQUEST_ID: &str = "x-forrst-request-id";
const DURATION: &str = "x-forrst-duration-ms";
const NODE: &str = "x-forrst-node";
/// What is told again as it came.
const TRACE: [&str; 2] = ["x-forrst-trace-id", "x-forrst-span-id"];

/// Answers Forrst calls over HTTP. Cheap to clone.
///
/// Mount it with `axum::Router::route_service`, or call it as any tower service. What the
/// application has put into the extensions of the HTTP request reaches the functions as
/// [`Call::caller`](crate::Call::caller).
#[derive(Clone)]
pub struct ForrstService(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) request_bytes_max: usize,
    pub(crate) response_bytes_max: usize,
    pub(crate) node: Option<String>,
}

impl ForrstService {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }
}

impl fmt::Debug for ForrstService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForrstService").field("node", &self.0.node).finish_non_exhaustive()
    }
}

impl<B> Service<http::Request<B>> for ForrstService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { Ok(inner.respond(request).await) })
    }
}

impl Inner {
    async fn respond<B>(&self, request: http::Request<B>) -> http::Response<Full<Bytes>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let came = self.engine.clock.now();
        let (parts, body) = request.into_parts();
        let (mut body, max) = (pin!(body), self.request_bytes_max);
        let outcome = match why_not(&parts) {
            Some(refusal) => Err(refusal),
            None => body::read(body.as_mut(), max).await.map_err(|unread| refusal(&unread, max)),
        };
        let body = match outcome {
            Ok(body) => body,
            Err((status, text)) => {
                // One that is refused for its head may be too large besides.
                body::pass_over(body, 2 * max).await;
                return self.refused(status, &text);
            }
        };
        let (headers, caller) = (parts.headers, Arc::new(parts.extensions));
        let visit = Visit { came, headers, caller };
        let response = self.engine.answer(&body, &visit).await;
        let status = StatusCode::from_u16(response.status()).unwrap_or(StatusCode::BAD_REQUEST);
        self.written(status, &response, &visit)
    }

    /// A refusal before the request was read.
    fn refused(&self, status: StatusCode, text: &str) -> http::Response<Full<Bytes>> {
        let fault = Fault::new(ForrstCode::InvalidRequest, text);
        let came = self.engine.clock.now();
        let visit = Visit { came, headers: HeaderMap::new(), caller: Arc::default() };
        let mut response = self.written(status, &Response::new(None, Err(fault)), &visit);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }

    fn written(
        &self,
        status: StatusCode,
        response: &Response,
        visit: &Visit,
    ) -> http::Response<Full<Bytes>> {
        let took = self.engine.clock.now().since(visit.came);
        let meta = Meta { duration: Amount::milliseconds(took), node: self.node.clone() };
        let is_short = |document: &Bytes| document.len() <= self.response_bytes_max;
        let written = response.write(&meta).ok().filter(is_short);
        let (status, document) = match written {
            Some(document) => (status, document),
            None => (StatusCode::INTERNAL_SERVER_ERROR, self.too_long(response, &meta)),
        };
        let mut out = http::Response::new(Full::new(document));
        *out.status_mut() = status;
        let headers = out.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(DURATION, HeaderValue::from(meta.duration.value));
        let told = [(REQUEST_ID, response.id.as_deref()), (NODE, self.node.as_deref())];
        for (name, value) in told {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
        for name in TRACE {
            if let Some(value) = visit.headers.get(name) {
                headers.insert(name, value.clone());
            }
        }
        out
    }

    /// In place of an answer that cannot be written. Whoever holds a lock needs to know of it all
    /// the more.
    fn too_long(&self, response: &Response, meta: &Meta) -> Bytes {
        let max = self.response_bytes_max;
        tracing::error!(max, "the answer cannot be written or is too long");
        let mut short = Response::new(response.id.clone(), Err(Fault::internal()));
        short.extensions.clone_from(&response.extensions);
        short.write(meta).unwrap_or_default()
    }
}

/// Why a request is refused before its body is read.
fn why_not(parts: &http::request::Parts) -> Option<(StatusCode, Cow<'static, str>)> {
    if parts.method != Method::POST {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "Only POST is served here".into()));
    }
    if !is_json(&parts.headers) {
        let text = "Content-Type must be application/json";
        return Some((StatusCode::UNSUPPORTED_MEDIA_TYPE, text.into()));
    }
    None
}

fn refusal(unread: &Unread, max: usize) -> (StatusCode, Cow<'static, str>) {
    match unread {
        Unread::TooLarge => {
            let text = format!("the request must have at most {max} bytes");
            (StatusCode::PAYLOAD_TOO_LARGE, text.into())
        }
        Unread::BrokenOff => {
            (StatusCode::BAD_REQUEST, "the request ended before it was whole".into())
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"))
}
