//! Locks around calls that this server makes or hands on: they end with the call.

use std::sync::Arc;

use tenure::{Guard, Lease};

use super::{Api, Order, Place};
use crate::access::{Caller, Verb};
use crate::failure::Failure;
use crate::quota::Ticket;

impl Api {
    /// Waits for a lock and takes it. Whoever has the guard gives it back, or detaches it and says
    /// so by calling what is returned beside it; until one or the other it counts as a lock of the
    /// caller.
    ///
    /// # Contract
    /// After an error, and when the future is dropped, nothing stays locked.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub async fn guard(
        self: Arc<Self>,
        caller: &Caller,
        order: &Order,
    ) -> Result<(Guard, impl FnOnce(&Lease) + Send + Sync + use<>), Failure> {
        let outcome = self.try_guard(caller, order).await;
        let fence = |(guard, ..): &(Guard, Place, Ticket)| Some(guard.fence());
        let (guard, place, ticket) = self.record(caller, "call", &order.place, fence, outcome)?;
        let stays = move |lease: &Lease| {
            let now = self.clock.now();
            self.lent.keep(place, lease.fence, now, now + lease.remaining, ticket);
        };
        Ok((guard, stays))
    }

    async fn try_guard(
        &self,
        caller: &Caller,
        order: &Order,
    ) -> Result<(Guard, Place, Ticket), Failure> {
        let room = self.enter(caller, Verb::Acquire, &order.place).await?;
        let ticket = self.lock_ticket(caller)?;
        let request = self.request(&room, caller, order)?;
        let guard = self.acquired(order, &request).await?;
        Ok((guard, room.place, ticket))
    }

    /// The lease on a key, with its owner: for those who may see it, and no one else.
    ///
    /// # Errors
    /// What the store says.
    pub async fn lease(&self, caller: &Caller, place: &Place) -> Result<Option<Lease>, Failure> {
        let outcome = self.try_lease(caller, place).await;
        let fence = |lease: &Option<Lease>| lease.as_ref().map(|lease| lease.fence);
        self.record(caller, "get", place, fence, outcome)
    }

    async fn try_lease(&self, caller: &Caller, place: &Place) -> Result<Option<Lease>, Failure> {
        let room = self.enter(caller, Verb::Read, place).await?;
        Ok(room.locks.inspect(&room.place.key).await?)
    }
}
