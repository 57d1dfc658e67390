//! Locks that stay held after the call: locked, renewed, unlocked, taken away.

use std::time::Duration;

use tenure::claim::Reentry;
use tenure::{ErrorKind, Fence, Guard, LockRequest, Owner};
use tenure_api::Code;

use super::{Api, LockState, Place, Room};
use crate::access::{Caller, Verb};
use crate::audit::Deed;
use crate::failure::Failure;
use crate::quota::Ticket;

/// Who keeps a lock alive after the call that took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// This server, until the lock is unlocked.
    #[default]
    Server,
    /// The client.
    Client,
}

/// Asking for a lock.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Which.
    pub place: Place,
    /// For how long it outlives whoever renews it; the server's default if not set.
    pub ttl: Option<Duration>,
    /// How long to wait; as long as the server allows if not set.
    pub wait: Option<Duration>,
    /// Do not wait.
    pub immediate: bool,
    /// The lock id to use; a new one if not set.
    pub lock_id: Option<String>,
    /// A note for people.
    pub note: String,
    /// Who keeps it alive.
    pub renewal: Renewal,
    /// The longest time to hold it; not for one that its client renews.
    pub max_hold: Option<Duration>,
    /// Refuse a lock id that holds the lock already, instead of giving it the same grant again.
    pub refuse_reentry: bool,
}

impl Order {
    /// How long it may wait; as long as the server allows if not set.
    fn longest_wait(&self) -> Option<Duration> {
        if self.immediate { Some(Duration::ZERO) } else { self.wait }
    }
}

/// A lock that was granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The secret that unlocks it.
    pub lock_id: String,
    /// Its fence.
    pub fence: Fence,
    /// The ttl in use.
    pub ttl: Duration,
}

impl Api {
    /// Waits for a lock and takes it.
    ///
    /// # Contract
    /// After an error, and when the future is dropped, nothing stays locked. After `Ok` the lock is
    /// held until it is unlocked, `max_hold` is over, or whoever renews it stops.
    ///
    /// # Errors
    /// `Held`, `TimedOut`, `LimitReached`, `Invalid`, `ShuttingDown`, or what the store says.
    pub async fn lock(&self, caller: &Caller, order: &Order) -> Result<Granted, Failure> {
        let outcome = self.try_lock(caller, order).await;
        self.record(caller, "lock", &order.place, |granted| Some(granted.fence), outcome)
    }

    async fn try_lock(&self, caller: &Caller, order: &Order) -> Result<Granted, Failure> {
        let room = self.enter(caller, Verb::Acquire, &order.place).await?;
        let by_server = order.renewal == Renewal::Server;
        if !by_server && order.max_hold.is_some() {
            // Any server over the same store renews it, and none knows since when it is held.
            let text = "max_hold needs renewal by the server: a lock that its client renews ends \
                        when the client stops";
            return Err(Failure::invalid(text));
        }
        let ticket = self.lock_ticket(caller)?;
        let request = self.request(&room, caller, order)?.keep_alive(by_server);
        let guard = self.acquired(order, &request).await?;
        let lock_id = guard.owner().expose();
        let granted = Granted { lock_id, fence: guard.fence(), ttl: guard.ttl() };
        if by_server {
            self.held.keep(room, guard, ticket);
        } else {
            let (now, ttl) = (self.clock.now(), granted.ttl);
            self.lent.keep(room.place, granted.fence, now, now + ttl, ticket);
            drop(guard.detach());
        }
        Ok(granted)
    }

    /// Asks for a lock, and stops waiting for it when the server goes down.
    pub(super) async fn acquired(
        &self,
        order: &Order,
        request: &LockRequest,
    ) -> Result<Guard, Failure> {
        let closed = || Failure::new(Code::ShuttingDown, "the server is going down");
        if order.longest_wait() == Some(Duration::ZERO) {
            // It waits for nothing but the store's answer.
            let is_closing = *self.closing.borrow();
            return if is_closing { Err(closed()) } else { Ok(request.acquire().await?) };
        }
        let mut closing = self.closing.subscribe();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Err(closed()),
            guard = request.acquire() => Ok(guard?),
        }
    }

    /// One more lock for this client. What it has let go of by itself no longer counts.
    pub(super) fn lock_ticket(&self, caller: &Caller) -> Result<Ticket, Failure> {
        let client = caller.client();
        self.locks.take(client.clone()).or_else(|_| {
            self.lent.sweep(self.clock.now());
            self.locks.take(client)
        })
    }

    /// The library's request for this order.
    pub(super) fn request(
        &self,
        room: &Room,
        caller: &Caller,
        order: &Order,
    ) -> Result<LockRequest, Failure> {
        let Place { key, .. } = &room.place;
        let mut request = room.locks.lock(key).holder(&label(caller, &order.note));
        if let Some(ttl) = order.ttl {
            request = request.ttl(ttl);
        }
        if let Some(longest) = order.max_hold {
            request = request.max_hold(longest);
        }
        if let Some(lock_id) = &order.lock_id {
            let owner = Owner::parse(lock_id).map_err(|error| {
                Failure::invalid(error.to_string().replacen("owner", "lock_id", 1))
            })?;
            request = request.owner(owner);
        }
        if order.refuse_reentry {
            request = request.reentry(Reentry::Refuse);
        }
        let wait = order.longest_wait();
        if wait != Some(Duration::ZERO) && room.locks.waiters(key) >= self.terms.waiters_per_key {
            let max = self.terms.waiters_per_key;
            let text = format!("{max} wait for this key already, which is the limit");
            return Err(Failure::new(Code::LimitReached, text));
        }
        Ok(match wait {
            Some(wait) => request.wait(wait),
            None => request,
        })
    }

    /// Prolongs a lock; says its fence and the ttl in use.
    ///
    /// # Errors
    /// `NotFound`, `WrongOwner`, `Invalid`, or what the store says.
    pub async fn renew(
        &self,
        caller: &Caller,
        place: &Place,
        lock_id: &str,
        ttl: Option<Duration>,
    ) -> Result<Granted, Failure> {
        let outcome = self.try_renew(caller, place, lock_id, ttl).await;
        self.record(caller, "renew", place, |granted| Some(granted.fence), outcome)
    }

    async fn try_renew(
        &self,
        caller: &Caller,
        place: &Place,
        lock_id: &str,
        ttl: Option<Duration>,
    ) -> Result<Granted, Failure> {
        let room = self.enter(caller, Verb::Acquire, place).await?;
        let owner = owner(lock_id)?;
        let ttl = match ttl {
            Some(ttl) => ttl,
            None => room.locks.lock(&room.place.key).effective_ttl()?,
        };
        let lease = room.locks.renew(&room.place.key, &owner, ttl).await?;
        self.lent.prolong(&room.place, lease.fence, self.clock.now() + lease.ttl);
        Ok(Granted { lock_id: lock_id.to_owned(), fence: lease.fence, ttl: lease.ttl })
    }

    /// Gives a lock back, whichever server keeps it.
    ///
    /// # Errors
    /// `NotFound`, `WrongOwner`, `Invalid`, or what the store says.
    pub async fn unlock(
        &self,
        caller: &Caller,
        place: &Place,
        lock_id: &str,
    ) -> Result<(), Failure> {
        let outcome = self.try_unlock(caller, place, lock_id).await;
        self.record(caller, "unlock", place, |()| None, outcome)
    }

    async fn try_unlock(
        &self,
        caller: &Caller,
        place: &Place,
        lock_id: &str,
    ) -> Result<(), Failure> {
        let room = self.enter(caller, Verb::Acquire, place).await?;
        let owner = owner(lock_id)?;
        match self.held.release(&room.place, lock_id).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) if error.kind() != ErrorKind::Lost => return Err(error.into()),
            // Lost, or kept by another server or by the client: the store knows.
            Some(Err(_)) | None => {}
        }
        room.locks.release(&room.place.key, &owner).await?;
        self.lent.end(&room.place);
        Ok(())
    }

    /// Takes a lock from whoever holds it; says who that was.
    ///
    /// # Errors
    /// `Invalid` without a reason, or what the store says.
    pub async fn force_unlock(
        &self,
        caller: &Caller,
        place: &Place,
        reason: &str,
    ) -> Result<Option<LockState>, Failure> {
        let outcome = self.try_force_unlock(caller, place, reason).await;
        let (fence, code) = match &outcome {
            Ok(evicted) => (evicted.as_ref().map(|state| state.status.fence), None),
            Err(failure) => (None, Some(failure.code)),
        };
        let place = &self.meant(place);
        let deed = Deed { call: "force_unlock", place, fence, reason: Some(reason), code };
        self.ledger.record(caller, &deed);
        outcome
    }

    async fn try_force_unlock(
        &self,
        caller: &Caller,
        place: &Place,
        reason: &str,
    ) -> Result<Option<LockState>, Failure> {
        let room = self.enter(caller, Verb::Force, place).await?;
        let (place, reason_told) = (&room.place, Some(reason));
        let call = "force_unlock_asked";
        let deed = Deed { call, place, fence: None, reason: reason_told, code: None };
        self.ledger.announce(caller, &deed)?;
        let evicted = room.locks.force_release(&room.place.key, reason).await?;
        self.lent.end(&room.place);
        Ok(evicted.map(|status| LockState { status, waiters: 0 }))
    }
}

fn owner(lock_id: &str) -> Result<Owner, Failure> {
    Owner::parse(lock_id)
        .map_err(|error| Failure::invalid(error.to_string().replacen("owner", "lock_id", 1)))
}

/// What people see of a client: its name, its address and its note.
fn label(caller: &Caller, note: &str) -> String {
    let name = &caller.identity.name;
    let mut label = match caller.peer {
        Some(peer) => format!("{name}@{peer}"),
        None => name.to_string(),
    };
    if !note.is_empty() {
        label = format!("{label} {note}");
    }
    label
}
