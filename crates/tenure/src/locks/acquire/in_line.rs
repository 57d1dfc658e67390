//! Standing in the line of this process, behind others of it and behind its own guards.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::{Asking, unanswered};
use crate::clock::within;
use crate::error::Result;
use crate::locks::queue::{Place, Told};

/// For how long a guard of this process is waited for before the store is asked to call.
const SOON: Duration = Duration::from_millis(10);

impl Asking<'_> {
    pub(super) async fn stand_in_line(&mut self) -> Result<Place> {
        let limits = &self.engine.context.options.limits;
        let place = self.engine.queue.join(self.key(), limits.waiters_per_key)?;
        if place.is_head() {
            return Ok(place);
        }
        let clock = &*self.engine.context.clock;
        let too_late = async {
            match self.deadline {
                Some(deadline) => clock.sleep_until(deadline).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = place.turn() => return Ok(place),
            () = too_late => {}
            never = self.show_moves(&place) => match never {},
        }
        self.hear(&place);
        Err(self.timed_out())
    }

    /// What is known of the key without a question: that a guard of this process has it, and else
    /// what the head of the line was told.
    fn hear(&mut self, place: &Place) {
        let clock = &*self.engine.context.clock;
        let own = self.engine.stays.of(self.key(), clock).map(|own| own.status(clock));
        let now = clock.now();
        match own.map(Told::Held).or_else(|| place.heard(self.started, now)) {
            Some(Told::Held(status)) => self.seen = Some(status),
            Some(Told::Ours(_)) => {}
            Some(Told::Failed(error)) => self.outage = Some((now, error)),
            None => self.outage = Some((now, unanswered())),
        }
    }

    /// Tells the others in line.
    pub(super) fn tell(&self, told: Told) {
        let now = self.engine.context.clock.now();
        self.engine.queue.tell(self.key(), now, told);
    }

    async fn show_moves(&self, place: &Place) -> Infallible {
        if self.order.on_wait.is_none() {
            return pending().await;
        }
        let clock = &*self.engine.context.clock;
        place.moves(clock, |ahead, held_by| self.show(ahead, held_by)).await
    }

    /// While a guard of this process believes, the store would only refuse. So this is told of
    /// the guard's end without a question, and of all else that wakes a waiter as well.
    pub(super) async fn await_own_guard(&mut self) -> Result<()> {
        let clock = Arc::clone(&self.engine.context.clock);
        let Some(mut departure) = self.engine.stays.of(self.key(), &*clock) else { return Ok(()) };
        // Most guards that are handed down a line go at once.
        let soon = self.deadline.map_or(SOON, |deadline| SOON.min(deadline.since(clock.now())));
        if within(&*clock, soon, departure.done(&*clock)).await.is_ok() {
            return Ok(());
        }
        let status = departure.status(&*clock);
        self.tell(Told::Ours(status.clone()));
        self.held(status)?;
        self.check_deadline()?;
        let called = async {
            self.subscribe().await;
            self.rest().await
        };
        tokio::select! {
            biased;
            () = departure.done(&*clock) => Ok(()),
            outcome = called => outcome,
        }
    }
}
