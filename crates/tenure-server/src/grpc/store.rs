//! `tenure.v1.StoreService`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, stream};
use tenure::claim::{Attempt, Eviction, ListQuery, Pledge, Released, Renewal, Renewed};
use tenure::{Key, Namespace};
use tenure_api::tenure_v1::store_service_server::StoreService;
use tenure_api::tenure_v1::{
    AgreeRequest, AgreeResponse, ForceReleaseRequest, ForceReleaseResponse, GetInfoRequest,
    GetInfoResponse, InspectLeaseRequest, InspectLeaseResponse, ListLeasesRequest,
    ListLeasesResponse, ReleaseLeaseRequest, ReleaseLeaseResponse, RenewLeaseRequest,
    RenewLeaseResponse, TryAcquireRequest, TryAcquireResponse, WatchKeysRequest, WatchKeysResponse,
    WatchRefusal,
};
use tonic::{Request, Response, Status, Streaming};

use super::caller_of;
use super::stored::{claim, grant, info, key, lease, ttl};
use super::wire::count;
use crate::api::{Api, News, Watching};

type Answer<T> = Result<Response<T>, Status>;

/// The service for tenure's own library.
#[derive(Debug)]
pub(super) struct StoreGrpc {
    api: Arc<Api>,
}

impl StoreGrpc {
    pub(super) fn new(api: Arc<Api>) -> Self {
        Self { api }
    }
}

#[tonic::async_trait]
impl StoreService for StoreGrpc {
    async fn get_info(&self, request: Request<GetInfoRequest>) -> Answer<GetInfoResponse> {
        let caller = caller_of(&request)?;
        let found = self.api.store_info(&caller, &request.into_inner().store)?;
        Ok(Response::new(info(found)))
    }

    async fn try_acquire(&self, request: Request<TryAcquireRequest>) -> Answer<TryAcquireResponse> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let store = request.store.clone();
        let (granted, status) =
            match self.api.try_acquire(&caller, &store, &claim(request)?).await? {
                Attempt::Granted(lease) => (true, lease.status()),
                Attempt::Held(status) => (false, status),
            };
        Ok(Response::new(TryAcquireResponse { granted, lease: Some(lease(&status)) }))
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Answer<RenewLeaseResponse> {
        let caller = caller_of(&request)?;
        let RenewLeaseRequest { store, grant: named, ttl: asked } = request.into_inner();
        let renewal = Renewal { grant: grant(named)?, ttl: ttl(asked)? };
        let (renewed, status) = match self.api.renew_lease(&caller, &store, &renewal).await? {
            Renewed::Renewed(lease) => (true, Some(lease.status())),
            Renewed::Lost(status) => (false, status),
        };
        Ok(Response::new(RenewLeaseResponse { renewed, lease: status.as_ref().map(lease) }))
    }

    async fn release_lease(
        &self,
        request: Request<ReleaseLeaseRequest>,
    ) -> Answer<ReleaseLeaseResponse> {
        let caller = caller_of(&request)?;
        let ReleaseLeaseRequest { store, grant: named } = request.into_inner();
        let (released, status) =
            match self.api.release_lease(&caller, &store, &grant(named)?).await? {
                Released::Released(status) => (true, Some(status)),
                Released::NotHeld(status) => (false, status),
            };
        Ok(Response::new(ReleaseLeaseResponse { released, lease: status.as_ref().map(lease) }))
    }

    async fn force_release(
        &self,
        request: Request<ForceReleaseRequest>,
    ) -> Answer<ForceReleaseResponse> {
        let caller = caller_of(&request)?;
        let ForceReleaseRequest { store, key: named, reason } = request.into_inner();
        let eviction = Eviction::new(key(&named)?, &reason).map_err(crate::Failure::from)?;
        let evicted = self.api.force_release(&caller, &store, &eviction).await?;
        Ok(Response::new(ForceReleaseResponse { evicted: evicted.as_ref().map(lease) }))
    }

    async fn inspect_lease(
        &self,
        request: Request<InspectLeaseRequest>,
    ) -> Answer<InspectLeaseResponse> {
        let caller = caller_of(&request)?;
        let InspectLeaseRequest { store, key: named, owners } = request.into_inner();
        let found = self.api.inspect_lease(&caller, &store, &key(&named)?, &owners).await?;
        Ok(Response::new(match found {
            None => InspectLeaseResponse::default(),
            Some((status, owner)) => InspectLeaseResponse {
                lease: Some(lease(&status)),
                owner: owner.map_or(0, |index| count(index + 1)),
            },
        }))
    }

    async fn list_leases(&self, request: Request<ListLeasesRequest>) -> Answer<ListLeasesResponse> {
        let caller = caller_of(&request)?;
        let ListLeasesRequest { store, prefix, after, limit } = request.into_inner();
        let after = if after.is_empty() { None } else { Some(key(&after)?) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let query = ListQuery { prefix, after, limit };
        let page = self.api.list_leases(&caller, &store, &query).await?;
        Ok(Response::new(ListLeasesResponse {
            leases: page.items.iter().map(lease).collect(),
            next: page.next.map(|next| next.to_string()).unwrap_or_default(),
        }))
    }

    type WatchKeysStream = Pin<Box<dyn Stream<Item = Result<WatchKeysResponse, Status>> + Send>>;

    async fn watch_keys(
        &self,
        request: Request<Streaming<WatchKeysRequest>>,
    ) -> Answer<Self::WatchKeysStream> {
        let caller = caller_of(&request)?;
        let mut requests = request.into_inner();
        let first = requests.message().await?.unwrap_or_default();
        let mut watching = self.api.watching(&caller, &first.store)?;
        follow(&mut watching, first);
        let told = stream::unfold(Some((requests, watching)), |state| async move {
            let (mut requests, mut watching) = state?;
            match tell(&mut requests, &mut watching).await {
                Ok(news) => Some((Ok(news?), Some((requests, watching)))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn agree(&self, request: Request<AgreeRequest>) -> Answer<AgreeResponse> {
        let caller = caller_of(&request)?;
        let AgreeRequest { store, namespace, fingerprint } = request.into_inner();
        let namespace = Namespace::new(&namespace).map_err(crate::Failure::from)?;
        let pledge = Pledge { namespace, fingerprint };
        let fingerprint = self.api.agree(&caller, &store, &pledge).await?;
        Ok(Response::new(AgreeResponse { fingerprint }))
    }
}

/// Follows requests until there is something to tell; `None` when the client has no more.
async fn tell(
    requests: &mut Streaming<WatchKeysRequest>,
    watching: &mut Watching,
) -> Result<Option<WatchKeysResponse>, Status> {
    loop {
        tokio::select! {
            news = watching.next() => return Ok(Some(told(news?))),
            request = requests.message() => match request? {
                Some(request) => follow(watching, request),
                None => return Ok(None),
            },
        }
    }
}

fn follow(watching: &mut Watching, request: WatchKeysRequest) {
    for text in &request.remove {
        if let Ok(key) = key(text) {
            watching.remove(&key);
        }
    }
    for text in &request.add {
        match key(text) {
            Ok(key) => watching.add(key),
            Err(failure) => watching.refuse(text.clone(), failure),
        }
    }
}

fn told(news: News) -> WatchKeysResponse {
    let texts = |keys: Vec<Key>| keys.iter().map(Key::to_string).collect();
    let refusal = |(key, why): (String, crate::Failure)| WatchRefusal {
        key,
        reason: why.code.name().to_owned(),
        message: why.message,
    };
    WatchKeysResponse {
        watching: texts(news.watching),
        changed: texts(news.changed),
        refused: news.refused.into_iter().map(refusal).collect(),
    }
}
