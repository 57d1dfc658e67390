//! Cancellation: a call ends early when someone names its token.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tenure::clock::{Clock, Moment};
use tenure_api::ForrstCode;
use tokio::sync::watch;

use crate::fault::Fault;
use crate::pointer::Pointer;

/// The most characters of a token.
const TOKEN_MAX: usize = 100;

/// How long it is known that a call has ended.
const KNOWN_FOR: Duration = Duration::from_secs(300);

/// Of how many calls that is known.
const KNOWN_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct CancellationOptions {
    pub(crate) token: String,
    at: Pointer<'static>,
}

/// The calls of this process that can be cancelled.
#[derive(Debug)]
pub(crate) struct Cancellations {
    clock: Arc<dyn Clock>,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    under_way: HashMap<Name, watch::Sender<bool>>,
    ended: VecDeque<(Name, Moment)>,
}

/// A caller and its token: one caller's means nothing to another.
type Name = (String, String);

/// A call that can be cancelled, until it is done or this is dropped.
#[derive(Debug)]
pub(crate) struct Cancellable {
    all: Arc<Cancellations>,
    name: Name,
    cancelled: watch::Receiver<bool>,
    is_done: bool,
}

#[derive(Serialize)]
struct Token<'a> {
    token: &'a str,
}

impl CancellationOptions {
    /// Reads the options, which stand there.
    pub(crate) fn read(options: &Map<String, Value>, at: Pointer<'static>) -> Result<Self, Fault> {
        Ok(Self { token: token(options.get("token"), at.member("token"))?, at })
    }
}

/// A token, which stands there.
pub(crate) fn token(json: Option<&Value>, at: Pointer<'_>) -> Result<String, Fault> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match json.and_then(Value::as_str) {
        Some(token) if (1..=TOKEN_MAX).contains(&token.len()) && token.chars().all(is_allowed) => {
            Ok(token.to_owned())
        }
        _ => {
            let text = format!("token must have 1 to {TOKEN_MAX} of A-Z a-z 0-9 - _");
            Err(Fault::argument(at, text))
        }
    }
}

impl Cancellations {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, calls: Mutex::default() }
    }

    /// A call begins.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: String,
        asked: &CancellationOptions,
    ) -> Result<Cancellable, Fault> {
        let CancellationOptions { token, at } = asked;
        let (cancel, cancelled) = watch::channel(false);
        let name = (caller, token.clone());
        let mut calls = self.calls();
        if calls.under_way.contains_key(&name) {
            let text = "a call with this token is under way";
            return Err(Fault::new(ForrstCode::Conflict, text).at(at.member("token")));
        }
        calls.under_way.insert(name.clone(), cancel);
        Ok(Cancellable { all: Arc::clone(self), name, cancelled, is_done: false })
    }

    /// Whether a call with this token is or was under way here.
    #[cfg(feature = "gateway")]
    pub(crate) fn knows(&self, caller: String, token: &str) -> bool {
        let (calls, name) = (self.calls(), (caller, token.to_owned()));
        calls.under_way.contains_key(&name) || calls.ended.iter().any(|(ended, _)| *ended == name)
    }

    /// Ends the call with this token.
    pub(crate) fn cancel(&self, caller: String, token: &str) -> Result<(), Fault> {
        let (now, name) = (self.clock.now(), (caller, token.to_owned()));
        let mut calls = self.calls();
        calls.forget_before(now);
        if let Some(cancel) = calls.under_way.get(&name) {
            cancel.send_replace(true);
            return Ok(());
        }
        let (code, text) = if calls.ended.iter().any(|(ended, _)| *ended == name) {
            (ForrstCode::CancellationTooLate, "Request has already completed")
        } else {
            (ForrstCode::CancellationTokenUnknown, "Cancellation token not found or expired")
        };
        Err(Fault::new(code, text).with(Token { token }))
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    fn forget_before(&mut self, now: Moment) {
        while let Some((_, at)) = self.ended.front()
            && (now.since(*at) > KNOWN_FOR || self.ended.len() > KNOWN_MAX)
        {
            self.ended.pop_front();
        }
    }
}

impl Cancellable {
    /// Returns when the call is cancelled.
    pub(crate) async fn cancelled(&mut self) {
        // The sender is in the map for as long as this lives.
        let _ = self.cancelled.wait_for(|cancelled| *cancelled).await;
    }

    /// The call has done its work: from now on it is too late to cancel it. False, if it was
    /// cancelled before.
    pub(crate) fn done(&mut self) -> bool {
        let now = self.all.clock.now();
        let mut calls = self.all.calls();
        if !self.is_done {
            self.is_done = true;
            calls.under_way.remove(&self.name);
            calls.ended.push_back((self.name.clone(), now));
            calls.forget_before(now);
        }
        // Whoever cancels does so with the calls in its hands.
        !*self.cancelled.borrow()
    }

    /// The error of a call that was cancelled.
    pub(crate) fn fault(&self) -> Fault {
        let (_, token) = &self.name;
        let text = "Request was cancelled by client";
        Fault::new(ForrstCode::Cancelled, text).with(Token { token })
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        self.done();
    }
}
