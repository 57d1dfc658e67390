//! One request from its document to its answer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use tenure::clock::{Clock, Moment};

use crate::amount::Amount;
use crate::call::{About, Call};
use crate::extension::cancellation::Cancellations;
use crate::extension::idempotency::{Answers, Found, Slot, digest};
use crate::extension::retry::advise;
use crate::extension::{Setting, Unknown, Wish, Wishes};
use crate::fault::Fault;
use crate::function::Prepared;
#[cfg(feature = "gateway")]
use crate::gateway::Upstream;
use crate::locked::{Ended, Locking, Plan, caught};
use crate::registry::Registry;
use crate::request::{Given, Malformed, Request};
use crate::response::{Answer, Json, Response, Told};
use crate::stop::Stop;

/// All that answers are made of.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) registry: Registry,
    pub(crate) locking: Locking,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) unknown: Unknown,
    pub(crate) cancellations: Arc<Cancellations>,
    pub(crate) answers: Arc<Answers>,
    #[cfg(feature = "gateway")]
    pub(crate) upstream: Option<Upstream>,
}

/// What came with a request besides its document.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) came: Moment,
    pub(crate) headers: http::HeaderMap,
    pub(crate) caller: Arc<http::Extensions>,
}

impl Engine {
    /// Answers a body.
    pub(crate) async fn answer(&self, body: &Bytes, visit: &Visit) -> Response {
        let request = match Request::read(body) {
            Ok(request) => request,
            Err(Malformed { id, faults }) => return Response::refused(id, faults),
        };
        let mut response = self.respond(body, &request, visit).await;
        advise(&request.extensions, &mut response);
        response
    }

    #[cfg_attr(not(feature = "gateway"), allow(unused_variables, reason = "for handing it on"))]
    async fn respond(&self, body: &Bytes, request: &Request<'_>, visit: &Visit) -> Response {
        #[cfg(feature = "gateway")]
        if let Some(upstream) = self.upstream_of(request, visit) {
            return self.hand_on(upstream, body, request, visit).await;
        }
        let given = match request.given() {
            Ok(given) => given,
            Err(Malformed { id, faults }) => return Response::refused(id, faults),
        };
        match self.prepare(request, given, visit) {
            Ok(ready) => self.serve(ready, visit).await,
            Err(fault) => Response::new(Some(request.id.clone()), Err(fault)),
        }
    }

    /// All that can be found wrong before anything is done.
    fn prepare(&self, request: &Request<'_>, given: Given, visit: &Visit) -> Result<Ready, Fault> {
        let Request { id, function: name, version, extensions, .. } = request;
        let Given { arguments, context } = given;
        let function = self.registry.find(name, version.as_ref())?;
        let is_system = function.is_system();
        let setting = Setting { function: name, is_system, unknown: self.unknown };
        let wishes = Wishes::read(extensions, setting)?;
        let slot = wishes.idempotency.as_ref().map(|wish| {
            let caller = self.locking.desk.name(&visit.caller);
            let (function, version) = (name.clone(), version.as_ref().map(ToString::to_string));
            let slot = Slot { caller, function, version, key: wish.options.key.clone() };
            (slot, digest(&arguments))
        });
        let is_bare = is_system && crate::system::is_bare(name, &arguments);
        let prepared = function.prepare(arguments)?;
        let about = About {
            id: id.clone(),
            function: name.clone(),
            version: function.about().version.clone(),
            context,
            headers: visit.headers.clone(),
            caller: Arc::clone(&visit.caller),
            lock: None,
            deadline: None,
            clock: Arc::clone(&self.clock),
        };
        Ok(Ready { about, prepared, wishes, slot, is_bare })
    }

    async fn serve(&self, ready: Ready, visit: &Visit) -> Response {
        let Ready { about, prepared, wishes, slot, is_bare } = ready;
        let id = about.id.clone();
        let ended = match self.stop(&wishes, visit) {
            Ok(mut stop) => {
                let mut ended = self.answered(about, prepared, &wishes, slot, &mut stop).await;
                ended.told.extend(self.deadline_told(&wishes, &stop));
                ended
            }
            Err(fault) => Ended::failed(fault),
        };
        let answer = if is_bare { Answer::Bare } else { Answer::Result };
        let mut response = Response::new(Some(id), ended.outcome.map(answer));
        response.extensions = ended.told;
        self.tell_duration(&wishes, visit, &mut response);
        response
    }

    /// The answer that was given before, or a new one.
    async fn answered(
        &self,
        about: About,
        prepared: Prepared,
        wishes: &Wishes,
        slot: Option<(Slot, [u8; 32])>,
        stop: &mut Stop,
    ) -> Ended<Json> {
        let (Some(Wish { urn, options }), Some((slot, arguments))) = (&wishes.idempotency, slot)
        else {
            return self.call(about, prepared, wishes, stop).await;
        };
        match self.answers.begin(slot, options, arguments, &about.id) {
            Err(fault) => Ended::failed(fault),
            Ok(Found::Answered(outcome, data)) => Ended::told(outcome, vec![Told::new(urn, &data)]),
            Ok(Found::First(ticket)) => {
                let mut ended = self.call(about, prepared, wishes, stop).await;
                if ended.outcome.is_ok() || ended.was_done {
                    let data = ticket.keep(&ended.outcome);
                    ended.told.extend(data.map(|data| Told::new(urn, &data)));
                }
                ended
            }
        }
    }

    pub(crate) fn deadline_told(&self, wishes: &Wishes, stop: &Stop) -> Option<Told> {
        let (wish, deadline) = (wishes.deadline.as_ref()?, stop.deadline.as_ref()?);
        Some(Told::new(&wish.urn, &deadline.data(self.clock.now())))
    }

    /// What may end the call early.
    pub(crate) fn stop(&self, wishes: &Wishes, visit: &Visit) -> Result<Stop, Fault> {
        let deadline = wishes
            .deadline
            .as_ref()
            .map(|wish| wish.options.clone().begin(visit.came, &*self.clock));
        let cancellable = match &wishes.cancellation {
            Some(wish) => {
                let caller = self.locking.desk.name(&visit.caller);
                Some(self.cancellations.begin(caller, &wish.options)?)
            }
            None => None,
        };
        Ok(Stop { deadline, cancellable, clock: Arc::clone(&self.clock) })
    }

    /// The function itself, under its lock if it wants one.
    async fn call(
        &self,
        mut about: About,
        prepared: Prepared,
        wishes: &Wishes,
        stop: &mut Stop,
    ) -> Ended<Json> {
        about.deadline = stop.deadline.as_ref().map(|deadline| deadline.ends);
        let Some(Wish { urn, options }) = &wishes.lock else {
            let function = about.function.clone();
            let work = caught(&function, prepared(Call::new(about)));
            let outcome = stop.or_done(work).await.and_then(|done| done);
            return Ended::told(outcome, Vec::new());
        };
        let (function, caller) = (about.function.clone(), Arc::clone(&about.caller));
        // What is dropped here has ended.
        let goes_on = &AtomicBool::new(false);
        let plan = Plan { urn, options, function: &function, caller: &caller, goes_on };
        let work = |_: &str, view| {
            about.lock = Some(view);
            prepared(Call::new(about))
        };
        self.locking.run(&plan, stop, work, |_| true).await
    }

    /// How long an answer took, for whoever traces it.
    pub(crate) fn tell_duration(&self, wishes: &Wishes, visit: &Visit, response: &mut Response) {
        if let Some(Wish { urn, options }) = &wishes.tracing {
            let took = Amount::milliseconds(self.clock.now().since(visit.came));
            response.extensions.push(Told::new(urn, &options.data(took)));
        }
    }
}

/// A call with nothing wrong about it.
struct Ready {
    about: About,
    prepared: Prepared,
    wishes: Wishes,
    slot: Option<(Slot, [u8; 32])>,
    is_bare: bool,
}
