//! `tenure.v1.LockService`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tenure_api::tenure_v1::lock_service_server::LockService;
use tenure_api::tenure_v1::{
    Acquired, ForceUnlockRequest, ForceUnlockResponse, GetRequest, GetResponse, HoldRequest,
    HoldResponse, ListRequest, ListResponse, ListStoresRequest, ListStoresResponse, LockRequest,
    LockResponse, Ping, RenewRequest, RenewResponse, Renewal as WireRenewal, UnlockRequest,
    UnlockResponse, Waiting, WatchEventsRequest, WatchEventsResponse, hold_response,
};
use tenure_api::time::to_wire;
use tonic::{Request, Response, Status};

use super::caller_of;
use super::wire::{count, duration, event, lock_state, place, store_state, text};
use crate::api::{Api, HoldEvent, LockState, Order, Place, Renewal};
use crate::failure::Failure;

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service for clients in every language.
#[derive(Debug)]
pub(super) struct LockGrpc {
    api: Arc<Api>,
}

impl LockGrpc {
    pub(super) fn new(api: Arc<Api>) -> Self {
        Self { api }
    }
}

#[tonic::async_trait]
impl LockService for LockGrpc {
    async fn lock(&self, request: Request<LockRequest>) -> Answer<LockResponse> {
        let caller = caller_of(&request)?;
        let order = lock_order(request.into_inner())?;
        let granted = self.api.lock(&caller, &order).await?;
        Ok(Response::new(LockResponse {
            lock_id: granted.lock_id,
            fence: granted.fence.get(),
            ttl: Some(to_wire(granted.ttl)),
        }))
    }

    type HoldStream = Answers<HoldResponse>;

    async fn hold(&self, request: Request<HoldRequest>) -> Answer<Self::HoldStream> {
        let caller = caller_of(&request)?;
        let order = hold_order(request.into_inner())?;
        let holding = self.api.hold(&caller, &order).await?;
        let told = holding.map(|event| Ok(HoldResponse { event: Some(told(event?)) }));
        Ok(Response::new(Box::pin(told)))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Answer<RenewResponse> {
        let caller = caller_of(&request)?;
        let RenewRequest { target, lock_id, ttl } = request.into_inner();
        let ttl = duration("ttl", ttl)?;
        let renewed = self.api.renew(&caller, &place(target)?, &lock_id, ttl).await?;
        let ttl = Some(to_wire(renewed.ttl));
        Ok(Response::new(RenewResponse { fence: renewed.fence.get(), ttl }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Answer<UnlockResponse> {
        let caller = caller_of(&request)?;
        let UnlockRequest { target, lock_id } = request.into_inner();
        self.api.unlock(&caller, &place(target)?, &lock_id).await?;
        Ok(Response::new(UnlockResponse {}))
    }

    async fn force_unlock(
        &self,
        request: Request<ForceUnlockRequest>,
    ) -> Answer<ForceUnlockResponse> {
        let caller = caller_of(&request)?;
        let ForceUnlockRequest { target, reason } = request.into_inner();
        let evicted = self.api.force_unlock(&caller, &place(target)?, &reason).await?;
        let evicted = evicted.as_ref().map(lock_state);
        Ok(Response::new(ForceUnlockResponse { evicted }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Answer<GetResponse> {
        let caller = caller_of(&request)?;
        let state = self.api.get(&caller, &place(request.into_inner().target)?).await?;
        Ok(Response::new(GetResponse { lock: Some(lock_state(&state)) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Answer<ListResponse> {
        let caller = caller_of(&request)?;
        let ListRequest { prefix, namespace, store, page_size, page_token } = request.into_inner();
        let place = Place { store, namespace, key: prefix };
        let size = usize::try_from(page_size).ok().filter(|size| *size > 0);
        let page = self.api.list(&caller, &place, size, text(page_token).as_deref()).await?;
        let locks = page.items.iter().map(lock_state).collect();
        let next_page_token = page.next.unwrap_or_default();
        Ok(Response::new(ListResponse { locks, next_page_token }))
    }

    type WatchEventsStream = Answers<WatchEventsResponse>;

    async fn watch_events(
        &self,
        request: Request<WatchEventsRequest>,
    ) -> Answer<Self::WatchEventsStream> {
        let caller = caller_of(&request)?;
        let WatchEventsRequest { prefix, namespace, store } = request.into_inner();
        let place = Place { store, namespace, key: prefix };
        let events = self.api.events(&caller, &place).await?;
        Ok(Response::new(Box::pin(events.map(|told| Ok(event(told))))))
    }

    async fn list_stores(&self, request: Request<ListStoresRequest>) -> Answer<ListStoresResponse> {
        let caller = caller_of(&request)?;
        let stores = self.api.stores(&caller)?.into_iter().map(store_state).collect();
        Ok(Response::new(ListStoresResponse { stores }))
    }
}

pub(super) fn lock_order(request: LockRequest) -> Result<Order, Failure> {
    let renewal = match request.renewal() {
        WireRenewal::Unspecified | WireRenewal::Server => Renewal::Server,
        WireRenewal::Client => Renewal::Client,
    };
    Ok(Order {
        place: place(request.target)?,
        ttl: duration("ttl", request.ttl)?,
        wait: duration("wait", request.wait)?,
        immediate: request.immediate,
        lock_id: text(request.lock_id),
        note: request.note,
        renewal,
        max_hold: duration("max_hold", request.max_hold)?,
        refuse_reentry: false,
    })
}

pub(super) fn hold_order(request: HoldRequest) -> Result<Order, Failure> {
    Ok(Order {
        place: place(request.target)?,
        ttl: duration("ttl", request.ttl)?,
        wait: duration("wait", request.wait)?,
        immediate: request.immediate,
        note: request.note,
        max_hold: duration("max_hold", request.max_hold)?,
        ..Order::default()
    })
}

fn told(event: HoldEvent) -> hold_response::Event {
    match event {
        HoldEvent::Waiting(waiting) => {
            let held_by = waiting.held_by.map(|status| LockState { status, waiters: 0 });
            let held_by = held_by.as_ref().map(lock_state);
            hold_response::Event::Waiting(Waiting { ahead: count(waiting.ahead), held_by })
        }
        HoldEvent::Acquired(granted) => hold_response::Event::Acquired(Acquired {
            lock_id: granted.lock_id,
            fence: granted.fence.get(),
            ttl: Some(to_wire(granted.ttl)),
        }),
        HoldEvent::Ping => hold_response::Event::Ping(Ping {}),
    }
}
