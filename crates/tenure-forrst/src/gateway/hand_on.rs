//! Calls that are handed on, each under its lock if it wants one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::value::RawValue;
use tenure::GuardView;

use super::passed::Passed;
use super::under_lock::{AboutLock, Left, under_lock};
use super::upstream::{Sent, Upstream};
use crate::engine::{Engine, Visit};
use crate::extension::{Kind, Setting, Unknown, Wish, Wishes, atomic_lock, check_spelling};
use crate::fault::Fault;
use crate::locked::{Ended, Plan};
use crate::request::{LOCK, Request};
use crate::response::{Answer, Response};
use crate::stop::Stop;
use crate::system::CANCEL;

/// The header that the fence of a call's lock is handed on in.
const FENCE: &str = "x-forrst-lock-fence";

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

impl Engine {
    /// The other server, if this request is for it.
    pub(crate) fn upstream_of(&self, request: &Request<'_>, visit: &Visit) -> Option<&Upstream> {
        let upstream = self.upstream.as_ref()?;
        let is_here = match request.function.as_str() {
            CANCEL => {
                let token = request.argument("token").map(RawValue::get);
                let token = token.and_then(|token| serde_json::from_str::<String>(token).ok());
                let caller = self.locking.desk.name(&visit.caller);
                token.is_none_or(|token| self.cancellations.knows(caller, &token))
            }
            name => self.registry.has(name),
        };
        (!is_here).then_some(upstream)
    }

    /// Hands a request on, under its lock if it wants one.
    pub(crate) async fn hand_on(
        &self,
        upstream: &Upstream,
        body: &Bytes,
        request: &Request<'_>,
        visit: &Visit,
    ) -> Response {
        let id = Some(request.id.clone());
        if let Err(fault) = self.may_be_handed_on(request, visit) {
            return Response::new(id, Err(fault));
        }
        if !request.extensions.iter().any(|asked| asked.kind == Some(Kind::AtomicLock)) {
            let (document, headers) = (body.clone(), handed_on(&visit.headers));
            let sent = Sent { document, headers, goes_on: Arc::default() };
            let passed = Box::pin(upstream.send(request, sent)).await;
            return Response::new(id, passed.map(Answer::Passed));
        }
        let setting =
            Setting { function: &request.function, is_system: false, unknown: Unknown::Ignore };
        let wishes = match Wishes::read(&request.extensions, setting) {
            Ok(wishes) => wishes,
            Err(fault) => return Response::new(id, Err(fault)),
        };
        let ended = match self.stop(&wishes, visit) {
            Ok(mut stop) => self.locked(upstream, request, visit, &wishes, &mut stop).await,
            Err(fault) => Ended::failed(fault),
        };
        let mut response = Response::new(id, ended.outcome.map(Answer::Passed));
        response.extensions = ended.told;
        self.tell_duration(&wishes, visit, &mut response);
        response
    }

    /// What the other server cannot find out by itself.
    fn may_be_handed_on(&self, request: &Request<'_>, visit: &Visit) -> Result<(), Fault> {
        self.locking.desk.admit(&visit.caller).map_err(atomic_lock::failed)?;
        check_spelling(&request.extensions)?;
        if request.context.get(LOCK).is_some() {
            let text = format!("{LOCK} is told by the server that took the lock");
            return Err(Fault::request(format!("/context/{LOCK}"), text));
        }
        Ok(())
    }

    async fn locked(
        &self,
        upstream: &Upstream,
        request: &Request<'_>,
        visit: &Visit,
        wishes: &Wishes,
        stop: &mut Stop,
    ) -> Ended<Passed> {
        let Some(Wish { urn, options }) = &wishes.lock else {
            return Ended::failed(Fault::internal());
        };
        let goes_on = Arc::<AtomicBool>::default();
        let (function, caller) = (&request.function, &visit.caller);
        let plan = Plan { urn, options, function, caller, goes_on: &goes_on };
        let ends = stop.deadline.as_ref().map(|deadline| deadline.ends);
        let work = |key: &str, view: GuardView| {
            let fence = view.fence().get();
            let left = ends.zip(wishes.deadline.as_ref()).map(|(ends, wish)| Left {
                options: &wish.options,
                remaining: ends.since(self.clock.now()),
            });
            // It was read before: it can be written.
            let document =
                under_lock(request, &AboutLock { key, fence }, left).map_err(|_| Fault::internal());
            let mut headers = handed_on(&visit.headers);
            headers.insert(FENCE, HeaderValue::from(fence));
            let goes_on = Arc::clone(&goes_on);
            async move {
                let sent = Sent { document: document?, headers, goes_on };
                Box::pin(upstream.send(request, sent)).await
            }
        };
        let was_done =
            |passed: &Result<Passed, Fault>| passed.as_ref().is_ok_and(|passed| passed.was_done);
        let mut ended = self.locking.run(&plan, stop, work, was_done).await;
        ended.told.extend(self.deadline_told(wishes, stop));
        ended
    }
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
