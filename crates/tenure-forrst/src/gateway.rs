//! Locks around the functions of another server, in whatever language that is written.
//!
//! A call that asks for a lock is handed on under it, once, with the fence in a header and in the
//! context. Any other call is handed on as it came, and cannot bring a fence of its own.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use tenure::GuardView;
use tenure::clock::{SystemClock, within};
use tenure_api::ForrstCode;

use crate::amount::Amount;
use crate::engine::{Engine, Visit};
use crate::extension::{Kind, Setting, Unknown, Wish, Wishes, atomic_lock, check_spelling};
use crate::fault::Fault;
use crate::locked::{Ended, Plan};
use crate::passed::{Members, Passed};
use crate::request::Request;
use crate::response::{Answer, Json, Response, json};
use crate::stop::Stop;
use crate::system::CANCEL;

/// The header that the fence of a call's lock is handed on in.
const FENCE: &str = "x-forrst-lock-fence";

/// The member of `context` that tells about the lock.
const CONTEXT: &str = "atomic_lock";

/// How long another server may take when nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to reach it: until then nothing was asked of it, and no lock has to stay.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The headers that are handed on: what belongs together, and nothing that proves who calls or
/// that could be taken for the fence.
const HANDED_ON: [&str; 6] = [
    "traceparent",
    "tracestate",
    "x-forrst-request-id",
    "x-forrst-trace-id",
    "x-forrst-span-id",
    "x-forrst-parent-span-id",
];

/// The most bytes of another server's answer.
const ANSWER_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Another Forrst server, to which calls are handed on.
#[derive(Clone)]
pub struct Gateway {
    url: reqwest::Url,
    timeout: Duration,
}

/// Why there can be no gateway.
#[derive(Debug)]
pub struct GatewayError(String);

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GatewayError {}

impl Gateway {
    /// The server at this URL, like `http://127.0.0.1:8080/forrst`.
    ///
    /// # Errors
    /// When that is no URL over HTTP or HTTPS. The error does not repeat it: it may have a
    /// password.
    pub fn new(url: &str) -> Result<Self, GatewayError> {
        let wrong =
            || GatewayError("the upstream must be like http://127.0.0.1:8080/forrst".into());
        let url: reqwest::Url = url.parse().map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong());
        }
        Ok(Self { url, timeout: TIMEOUT })
    }

    /// Whether it is on this machine, where no proxy is needed.
    fn is_local(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        host == "localhost" || is_loopback
    }

    /// How long it may take to answer: 30 seconds if not set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// A gateway that is open.
#[derive(Debug)]
pub(crate) struct Upstream {
    gateway: Gateway,
    client: reqwest::Client,
}

/// What is told about the lock in the context of a call.
#[derive(Serialize)]
struct AboutLock<'a> {
    key: &'a str,
    fence: u64,
}

#[derive(Serialize)]
struct Shorter<'a> {
    urn: &'a str,
    options: Amount,
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

    /// Sends a document, once. `goes_on` is true from then until it is known that the other server
    /// is done with it, or gone.
    async fn send(
        &self,
        request: &Request,
        document: Bytes,
        headers: HeaderMap,
        goes_on: &AtomicBool,
    ) -> Result<Passed, Fault> {
        goes_on.store(true, Ordering::Relaxed);
        let limit = self.gateway.timeout;
        let answer = within(&SystemClock, limit, self.exchange(request, document, headers)).await;
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

    async fn exchange(
        &self,
        request: &Request,
        document: Bytes,
        headers: HeaderMap,
    ) -> Result<Passed, Broken> {
        let url = self.gateway.url.clone();
        let sent = self.client.post(url).headers(headers).body(document).send().await;
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
        let members = serde_json::from_slice(&document).ok();
        match members.map(|members| Passed { status, members }) {
            Some(passed) if passed.is_answer_to(request) => Ok(passed),
            _ => {
                let text = format!("The upstream's answer (HTTP {status}) is no Forrst document");
                // What stands in front of the other server says so when that takes too long.
                Err(broken(text, matches!(status, 502 | 504)))
            }
        }
    }
}

fn broken(text: String, goes_on: bool) -> Broken {
    Broken { fault: Fault::new(ForrstCode::DependencyError, text), goes_on }
}

fn failed(what: &str, error: reqwest::Error) -> Broken {
    tracing::warn!(error = %error.without_url(), "the upstream {what}");
    broken(format!("The upstream {what}"), false)
}

impl Engine {
    /// The other server, if this request is for it.
    pub(crate) fn upstream_of(&self, request: &Request, visit: &Visit) -> Option<&Upstream> {
        let upstream = self.upstream.as_ref()?;
        let is_here = match request.function.as_str() {
            CANCEL => {
                let token = request.arguments.get("token").and_then(Value::as_str);
                let caller = self.locking.desk.name(&visit.caller);
                token.is_none_or(|token| self.cancellations.knows(caller, token))
            }
            name => self.registry.has(name),
        };
        (!is_here).then_some(upstream)
    }

    /// Hands a request on, under its lock if it wants one.
    pub(crate) async fn hand_on(
        &self,
        upstream: &Upstream,
        body: &[u8],
        request: &Request,
        visit: &Visit,
    ) -> Response {
        let id = Some(request.id.clone());
        if let Err(fault) = self.may_be_handed_on(request, visit) {
            return Response::new(id, Err(fault));
        }
        let wants_lock = |kind| kind == Some(Kind::AtomicLock);
        if !request.extensions.iter().any(|asked| wants_lock(Kind::of(&asked.urn))) {
            let (body, headers) = (Bytes::copy_from_slice(body), handed_on(&visit.headers));
            let goes_on = AtomicBool::new(false);
            let passed = Box::pin(upstream.send(request, body, headers, &goes_on)).await;
            return Response::new(id, passed.map(Answer::Passed));
        }
        let setting =
            Setting { function: &request.function, is_system: false, unknown: Unknown::Ignore };
        let wishes = match Wishes::read(&request.extensions, setting) {
            Ok(wishes) => wishes,
            Err(fault) => return Response::new(id, Err(fault)),
        };
        let ended = match self.stop(&wishes, visit) {
            Ok(mut stop) => self.locked(upstream, body, request, visit, &wishes, &mut stop).await,
            Err(fault) => Ended::failed(fault),
        };
        let mut response = Response::new(id, ended.outcome.map(Answer::Passed));
        response.extensions = ended.told;
        self.tell_all(&wishes, visit, &mut response);
        response
    }

    /// What the other server cannot find out by itself.
    fn may_be_handed_on(&self, request: &Request, visit: &Visit) -> Result<(), Fault> {
        self.locking.desk.admit(&visit.caller).map_err(atomic_lock::failed)?;
        check_spelling(&request.extensions)?;
        if request.context.contains_key(CONTEXT) {
            let text = format!("{CONTEXT} is told by the server that took the lock");
            return Err(Fault::request(format!("/context/{CONTEXT}"), text));
        }
        Ok(())
    }

    async fn locked(
        &self,
        upstream: &Upstream,
        body: &[u8],
        request: &Request,
        visit: &Visit,
        wishes: &Wishes,
        stop: &mut Stop,
    ) -> Ended<Passed> {
        let Some(Wish { urn, options }) = &wishes.lock else {
            return Ended::failed(Fault::internal());
        };
        let goes_on = &AtomicBool::new(false);
        let (function, caller) = (&request.function, &visit.caller);
        let plan = Plan { urn, options, function, caller, goes_on };
        let ends = stop.deadline.as_ref().map(|deadline| deadline.ends);
        let work = |key: &str, view: GuardView| {
            let fence = view.fence().get();
            let remaining = ends.map(|ends| ends.since(self.clock.now()));
            let document = under_lock(body, request, &AboutLock { key, fence }, remaining);
            let mut headers = handed_on(&visit.headers);
            headers.insert(FENCE, HeaderValue::from(fence));
            async move { Box::pin(upstream.send(request, document?, headers, goes_on)).await }
        };
        let was_done = |passed: &Result<Passed, Fault>| passed.as_ref().is_ok_and(Passed::was_done);
        let mut ended = self.locking.run(&plan, stop, work, was_done).await;
        ended.told.extend(self.deadline_told(wishes, stop));
        ended
    }
}

/// The document to hand on: with the lock in its context, without what is done here, and with what
/// is left of its deadline. All else is as it came.
fn under_lock(
    body: &[u8],
    request: &Request,
    lock: &AboutLock<'_>,
    remaining: Option<Duration>,
) -> Result<Bytes, Fault> {
    let written = || -> serde_json::Result<Vec<u8>> {
        let mut document: Members = serde_json::from_slice(body)?;
        let context = document.get("context").map(|context| serde_json::from_str(context.get()));
        let mut context: Members = context.transpose()?.unwrap_or_default();
        context.insert(CONTEXT.to_owned(), json(lock)?);
        document.insert("context".to_owned(), json(&context)?);
        let asked = document.remove("extensions");
        let asked = asked.map(|asked| serde_json::from_str(asked.get()));
        let asked: Vec<Json> = asked.transpose()?.unwrap_or_default();
        let mut left = Vec::new();
        for (extension, known) in asked.into_iter().zip(&request.extensions) {
            match (Kind::of(&known.urn), remaining) {
                (Some(Kind::AtomicLock | Kind::Cancellation), _) => {}
                (Some(Kind::Deadline), Some(remaining)) => {
                    let options = Amount::milliseconds(remaining);
                    left.push(json(&Shorter { urn: &known.urn, options })?);
                }
                _ => left.push(extension),
            }
        }
        if !left.is_empty() {
            document.insert("extensions".to_owned(), json(&left)?);
        }
        serde_json::to_vec(&document)
    };
    // It was read before: it is JSON.
    written().map(Bytes::from).map_err(|_| Fault::internal())
}

/// The headers to hand on.
fn handed_on(headers: &HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::new();
    for name in HANDED_ON {
        if let Some(value) = headers.get(name) {
            out.insert(name, value.clone());
        }
    }
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    out
}
