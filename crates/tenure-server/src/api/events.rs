//! What happens to locks, as it happens.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tenure::{Event, EventKind};

use super::{Api, Place, settled};
use crate::access::{Caller, Verb};
use crate::failure::Failure;

impl Api {
    /// The events of the keys that begin with `place.key`, until the server goes down.
    ///
    /// # Errors
    /// `Forbidden`, `LimitReached`, or what the store says.
    pub async fn events(
        &self,
        caller: &Caller,
        place: &Place,
    ) -> Result<impl Stream<Item = Event> + Send + use<>, Failure> {
        let outcome = self.try_events(caller, place).await;
        self.record(caller, "events", place, |_| None, outcome)
    }

    async fn try_events(
        &self,
        caller: &Caller,
        place: &Place,
    ) -> Result<impl Stream<Item = Event> + Send + use<>, Failure> {
        let place = settled(place);
        caller.must(Verb::List, &place.namespace)?;
        let ticket = self.streams.take(caller.client())?;
        let locks = self.rooms.locks(&place.store, &place.namespace).await?;
        let clock = Arc::clone(&self.clock);
        let told = self.rooms.told(&place.store, &place.namespace, clock)?;
        let mut closing = self.closing.subscribe();
        let closed = async move {
            let _ = closing.wait_for(|closing| *closing).await;
        };
        let prefix = place.key;
        let events = stream::select(locks.events(), told);
        let events = events.take_until(Box::pin(closed)).filter(move |event| {
            let _live_as_long = (&ticket, &locks);
            let missed = matches!(event.kind, EventKind::Missed { .. });
            std::future::ready(missed || event.key.as_str().starts_with(&prefix))
        });
        Ok(events)
    }
}
