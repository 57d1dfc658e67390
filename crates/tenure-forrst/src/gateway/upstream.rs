//! The other server: asked once, and only so long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use serde::Serialize;
use tenure::clock::{SystemClock, within};
use tenure_api::ForrstCode;

use super::passed::Passed;
use super::{Gateway, GatewayError};
use crate::amount::Amount;
use crate::fault::Fault;
use crate::request::Request;

/// How long it may take to reach it: until then nothing was asked of it, and no lock has to stay.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of another server's answer.
const ANSWER_BYTES_MAX: usize = 10 * 1024 * 1024;

/// A gateway that is open.
#[derive(Debug)]
pub(crate) struct Upstream {
    gateway: Gateway,
    client: reqwest::Client,
}

/// A document on its way.
pub(crate) struct Sent {
    pub(crate) document: Bytes,
    pub(crate) headers: HeaderMap,
    /// True from when something of it may have reached the other server, until that has answered
    /// or its connection has broken, which is taken for its end.
    pub(crate) goes_on: Arc<AtomicBool>,
}

/// A body that tells when the first of it is taken to be sent.
struct Told {
    body: Full<Bytes>,
    taken: Arc<AtomicBool>,
}

#[derive(Serialize)]
struct Exceeded {
    deadline: Amount,
    elapsed: Amount,
}

/// An exchange without an answer.
struct Broken {
    fault: Fault,
    /// Whether the other server may still be at work.
    goes_on: bool,
}

impl Upstream {
    pub(crate) fn new(gateway: Gateway) -> Result<Self, GatewayError> {
        // The one that the process has already is as good.
        let _ = rustls::crypto::ring::default_provider().install_default(); // tidy-allow: its name
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            // A call is made once: what was sent may have been served.
            .retry(reqwest::retry::never())
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT.min(gateway.timeout / 2));
        if gateway.is_local() {
            client = client.no_proxy();
        }
        let client = client
            .build()
            .map_err(|error| GatewayError(format!("no client for the upstream: {error}")))?;
        Ok(Self { gateway, client })
    }

    /// Sends a document, once.
    pub(crate) async fn send(&self, request: &Request<'_>, sent: Sent) -> Result<Passed, Fault> {
        let limit = self.gateway.timeout;
        let goes_on = Arc::clone(&sent.goes_on);
        let answer = within(&SystemClock, limit, self.exchange(request, sent)).await;
        let Ok(answer) = answer else {
            let text = format!("The upstream did not answer within {limit:?}");
            let (deadline, elapsed) = (Amount::milliseconds(limit), Amount::milliseconds(limit));
            let fault = Fault::new(ForrstCode::DeadlineExceeded, text);
            return Err(fault.with(Exceeded { deadline, elapsed }));
        };
        let still = answer.as_ref().is_err_and(|broken| broken.goes_on);
        goes_on.store(still, Ordering::Relaxed);
        answer.map_err(|broken| broken.fault)
    }

    async fn exchange(&self, request: &Request<'_>, sent: Sent) -> Result<Passed, Broken> {
        let Sent { document, headers, goes_on: taken } = sent;
        let body = reqwest::Body::wrap(Told { body: Full::new(document), taken });
        let url = self.gateway.url.clone();
        let sent = self.client.post(url).headers(headers).body(body).send().await;
        let mut answer = sent.map_err(|error| failed("cannot be reached or broke off", error))?;
        let status = answer.status().as_u16();
        let mut document = Vec::new();
        while let Some(chunk) =
            answer.chunk().await.map_err(|error| failed("broke off its answer", error))?
        {
            document.extend_from_slice(&chunk);
            if document.len() > ANSWER_BYTES_MAX {
                let text = format!("The upstream's answer has more than {ANSWER_BYTES_MAX} bytes");
                return Err(broken(text, false));
            }
        }
        Passed::read(status, document.into(), request).ok_or_else(|| {
            let text = format!("The upstream's answer (HTTP {status}) is no Forrst document");
            // What stands in front of the other server says so when that takes too long.
            broken(text, matches!(status, 502 | 504))
        })
    }
}

fn broken(text: String, goes_on: bool) -> Broken {
    Broken { fault: Fault::new(ForrstCode::DependencyError, text), goes_on }
}

fn failed(what: &str, error: reqwest::Error) -> Broken {
    tracing::warn!(error = %error.without_url(), "the upstream {what}");
    broken(format!("The upstream {what}"), false)
}

impl Body for Told {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.taken.store(true, Ordering::Relaxed);
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
