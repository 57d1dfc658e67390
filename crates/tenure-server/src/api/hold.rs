//! Locks that are held for as long as a stream is open.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use tenure::clock::Clock;
use tenure::{Fence, Guard, Locks, LostReason, Waiting};
use tenure_api::Code;
use tokio::sync::watch;
use tracing::{Instrument, Span};

use super::{Api, Granted, Order, Place};
use crate::access::{Caller, Verb};
use crate::audit::Deed;
use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::quota::Ticket;

/// What a stream tells. Its last word is an error, unless its reader went first.
#[derive(Clone, Debug)]
pub enum HoldEvent {
    /// Another holds the lock; how many stand before this one, and who holds it.
    Waiting(Waiting),
    /// The lock is held, from here on.
    Acquired(Granted),
    /// Nothing has happened.
    Ping,
}

/// A stream that holds a lock. Dropping it gives the lock back at once.
pub type Holding = Pin<Box<dyn Stream<Item = Result<HoldEvent, Failure>> + Send>>;

struct State {
    phase: Phase,
    seen: watch::Receiver<Option<Waiting>>,
    closing: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    ping: std::time::Duration,
    book: Book,
    /// The request's, which is over for whoever reads the stream.
    span: Span,
    _kept: (Ticket, Arc<Locks>),
}

/// Writes down what becomes of the lock.
struct Book {
    ledger: Arc<Ledger>,
    caller: Caller,
    place: Place,
    fence: Option<Fence>,
}

impl Book {
    fn write(&self, call: &'static str, code: Option<Code>) {
        let deed = Deed { call, place: &self.place, fence: self.fence, reason: None, code };
        self.ledger.record(&self.caller, &deed);
    }
}

enum Phase {
    Asking(Pin<Box<dyn Future<Output = tenure::Result<Guard>> + Send>>),
    Held(Box<Guard>),
    Over,
}

impl Api {
    /// Waits for a lock, and holds it until the stream is dropped, the lock is lost or the server
    /// goes down.
    ///
    /// # Errors
    /// What is known before the first wait: `Forbidden`, `LimitReached`, `Invalid`. All else comes
    /// by the stream.
    pub async fn hold(&self, caller: &Caller, order: &Order) -> Result<Holding, Failure> {
        let outcome = self.try_hold(caller, order).await;
        if let Err(failure) = &outcome {
            let (place, code) = (&order.place, Some(failure.code));
            let deed = Deed { call: "hold", place, fence: None, reason: None, code };
            self.ledger.record(caller, &deed);
        }
        outcome
    }

    async fn try_hold(&self, caller: &Caller, order: &Order) -> Result<Holding, Failure> {
        let room = self.enter(caller, Verb::Acquire, &order.place).await?;
        let ticket = self.streams.take(caller.client())?;
        let (show, seen) = watch::channel(None);
        let request = self.request(&room, caller, order)?.on_wait(move |waiting| {
            show.send_replace(Some(waiting.clone()));
        });
        request.effective_ttl()?;
        request.effective_wait()?;
        let state = State {
            phase: Phase::Asking(Box::pin(async move { request.acquire().await })),
            seen,
            closing: self.closing.subscribe(),
            clock: Arc::clone(&self.clock),
            ping: self.terms.ping,
            book: Book {
                ledger: Arc::clone(&self.ledger),
                caller: caller.clone(),
                place: room.place,
                fence: None,
            },
            span: Span::current(),
            _kept: (ticket, room.locks),
        };
        Ok(Box::pin(stream::unfold(state, |mut state| async move {
            let span = state.span.clone();
            let event = state.next().instrument(span).await?;
            Some((event, state))
        })))
    }
}

/// What comes next.
enum Turn {
    Closing,
    Answered(tenure::Result<Box<Guard>>),
    Seen,
    Lost(LostReason),
    Quiet,
}

impl State {
    async fn next(&mut self) -> Option<Result<HoldEvent, Failure>> {
        let turn = self.turn().await?;
        Some(match turn {
            Turn::Closing => self.close().await,
            Turn::Answered(outcome) => self.answered(outcome),
            Turn::Seen => {
                let waiting = self.seen.borrow_and_update().clone();
                Ok(waiting.map_or(HoldEvent::Ping, HoldEvent::Waiting))
            }
            Turn::Lost(reason) => self.lost(reason),
            Turn::Quiet => Ok(HoldEvent::Ping),
        })
    }

    async fn turn(&mut self) -> Option<Turn> {
        let quiet = self.clock.sleep_until(self.clock.now() + self.ping);
        let closing = self.closing.wait_for(|closing| *closing);
        Some(match &mut self.phase {
            Phase::Over => return None,
            Phase::Asking(acquire) => tokio::select! {
                biased;
                _ = closing => Turn::Closing,
                outcome = acquire => Turn::Answered(outcome.map(Box::new)),
                Ok(()) = self.seen.changed() => Turn::Seen,
                () = quiet => Turn::Quiet,
            },
            Phase::Held(guard) => tokio::select! {
                biased;
                reason = guard.lost() => Turn::Lost(reason),
                _ = closing => Turn::Closing,
                () = quiet => Turn::Quiet,
            },
        })
    }

    fn answered(&mut self, outcome: tenure::Result<Box<Guard>>) -> Result<HoldEvent, Failure> {
        match outcome {
            Ok(guard) => {
                let lock_id = guard.owner().expose();
                let granted = Granted { lock_id, fence: guard.fence(), ttl: guard.ttl() };
                self.book.fence = Some(granted.fence);
                self.book.write("hold", None);
                self.phase = Phase::Held(guard);
                Ok(HoldEvent::Acquired(granted))
            }
            Err(error) => {
                self.phase = Phase::Over;
                let failure = Failure::from(error);
                self.book.write("hold", Some(failure.code));
                Err(failure)
            }
        }
    }

    fn lost(&mut self, reason: LostReason) -> Result<HoldEvent, Failure> {
        self.phase = Phase::Over;
        self.book.write("hold_end", Some(Code::Lost));
        Err(Failure::new(Code::Lost, format!("the lock is lost: {reason}")))
    }

    async fn close(&mut self) -> Result<HoldEvent, Failure> {
        if let Phase::Held(guard) = std::mem::replace(&mut self.phase, Phase::Over)
            && let Err(error) = guard.release().await
        {
            tracing::debug!(%error, "a lock could not be given back before the end");
        }
        self.book.write("hold_end", Some(Code::ShuttingDown));
        Err(Failure::new(Code::ShuttingDown, "the server is going down; the lock is given back"))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if matches!(self.phase, Phase::Held(_)) {
            self.book.write("hold_end", None);
        }
    }
}
