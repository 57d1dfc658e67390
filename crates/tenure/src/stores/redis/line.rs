//! One connection to one node, shared by all callers, and made anew when it breaks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::redis::{Cmd, RedisError, RedisResult, Value};

use super::dial::{Dialer, Live};
use super::error::Fault;
use super::options::Address;
use crate::clock::{Moment, within};
use crate::error::Error;

/// An answer that takes longer makes the connection suspect: the next command takes a new one.
const SUSPECT_AFTER: Duration = Duration::from_secs(2);
/// An answer that takes longer will not come.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The way to one node.
#[derive(Debug)]
pub(super) struct Line {
    dialer: Arc<Dialer>,
    address: Address,
    live: Mutex<Option<Live>>,
    /// Held by whoever connects; with how it last failed.
    dialing: tokio::sync::Mutex<Option<(Moment, Error)>>,
}

/// Whether a command follows a redirection to a slot that is only moving in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// It is an ordinary one.
    No,
    /// It says so first.
    Yes,
}

impl Line {
    pub(super) fn new(dialer: Arc<Dialer>, address: Address) -> Self {
        Self { dialer, address, live: Mutex::default(), dialing: tokio::sync::Mutex::default() }
    }

    /// Sends a command, once, and waits for the answer. It is never sent again: a script that may
    /// have run is its caller's to find out about.
    pub(super) async fn call(&self, command: &Cmd, asking: Asking) -> Result<Value, Fault> {
        let live = self.live().await.map_err(Fault::Unreachable)?;
        let clock = self.dialer.clock();
        let mut answer = std::pin::pin!(send(live.clone(), command, asking));
        let mut answered = within(clock, SUSPECT_AFTER, &mut answer).await;
        if answered.is_err() {
            live.retire();
            answered = within(clock, ANSWER_WITHIN - SUSPECT_AFTER, &mut answer).await;
        }
        let fault = match answered {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => Fault::new(error),
            Err(_) => Fault::Silent(None),
        };
        if matches!(fault, Fault::Silent(_)) {
            live.retire();
        }
        Err(fault)
    }

    async fn live(&self) -> Result<Live, Error> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let asked = self.dialer.clock().now();
        let mut failed = self.dialing.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        // Whoever stood behind an attempt that failed has waited for the same answer.
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        match self.dialer.connect(&self.address).await {
            Ok(live) => {
                *failed = None;
                *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                *failed = Some((self.dialer.clock().now(), error.clone()));
                Err(error)
            }
        }
    }

    fn current(&self) -> Option<Live> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.as_ref().filter(|live| live.is_alive()).cloned()
    }
}

async fn send(mut live: Live, command: &Cmd, asking: Asking) -> RedisResult<Value> {
    if asking == Asking::No {
        return command.query_async(&mut live.connection).await;
    }
    let mut both = ::redis::pipe();
    both.cmd("ASKING").ignore().add_command(command.clone());
    let answers: RedisResult<Vec<Value>> = both.query_async(&mut live.connection).await;
    match answers {
        Ok(mut answers) => Ok(answers.pop().unwrap_or(Value::Nil)),
        Err(error) => Err(match error.clone().into_server_errors() {
            Some(errors) => {
                errors.first().map_or(error, |(_, first)| RedisError::from(first.clone()))
            }
            None => error,
        }),
    }
}
