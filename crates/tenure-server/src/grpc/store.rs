//! `tenure.v1.StoreService`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, stream};
use tenure::claim::{Eviction, ListQuery, Pledge};
use tenure::{Key, Namespace};
use tenure_api::Code;
use tenure_api::tenure_v1::store_service_server::StoreService;
use tenure_api::tenure_v1::{
    AgreeRequest, AgreeResponse, ExchangeRequest, ExchangeResponse, ForceReleaseRequest,
    ForceReleaseResponse, GetInfoRequest, GetInfoResponse, InspectLeaseRequest,
    InspectLeaseResponse, ListLeasesRequest, ListLeasesResponse, ReleaseLeaseRequest,
    ReleaseLeaseResponse, RenewLeaseRequest, RenewLeaseResponse, TryAcquireRequest,
    TryAcquireResponse, WatchKeysRequest, WatchKeysResponse, WatchRefusal,
};
use tonic::{Request, Response, Status, Streaming};

use super::exchange::Exchange;
use super::stored::{info, key, lease};
use super::{caller_of, calls};
use crate::api::{Api, News, Watching};
use crate::door::{Door, Peer, Visitor};
use crate::failure::Failure;

type Answer<T> = Result<Response<T>, Status>;

/// The service for tenure's own library.
#[derive(Debug)]
pub(super) struct StoreGrpc {
    api: Arc<Api>,
    door: Arc<Door>,
}

impl StoreGrpc {
    pub(super) fn new(api: Arc<Api>, door: Arc<Door>) -> Self {
        Self { api, door }
    }

    /// Whoever opens a stream, and what comes on it.
    fn visitor<T>(&self, request: Request<T>) -> Result<(Visitor, T), Failure> {
        let (metadata, extensions, requests) = request.into_parts();
        let unknown = || Failure::new(Code::Unauthenticated, "nobody knows who calls");
        let peer = extensions.get::<Peer>().cloned().ok_or_else(unknown)?;
        Ok((Visitor::new(Arc::clone(&self.door), metadata.into_headers(), peer), requests))
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
        let answer = calls::try_acquire(&self.api, &caller, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Answer<RenewLeaseResponse> {
        let caller = caller_of(&request)?;
        let answer = calls::renew_lease(&self.api, &caller, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn release_lease(
        &self,
        request: Request<ReleaseLeaseRequest>,
    ) -> Answer<ReleaseLeaseResponse> {
        let caller = caller_of(&request)?;
        let answer = calls::release_lease(&self.api, &caller, request.into_inner()).await?;
        Ok(Response::new(answer))
    }

    async fn force_release(
        &self,
        request: Request<ForceReleaseRequest>,
    ) -> Answer<ForceReleaseResponse> {
        let caller = caller_of(&request)?;
        let ForceReleaseRequest { store, key: named, reason } = request.into_inner();
        let eviction = Eviction::new(key(&named)?, &reason).map_err(Failure::from)?;
        let evicted = self.api.force_release(&caller, &store, &eviction).await?;
        Ok(Response::new(ForceReleaseResponse { evicted: evicted.as_ref().map(lease) }))
    }

    async fn inspect_lease(
        &self,
        request: Request<InspectLeaseRequest>,
    ) -> Answer<InspectLeaseResponse> {
        let caller = caller_of(&request)?;
        let answer = calls::inspect_lease(&self.api, &caller, request.into_inner()).await?;
        Ok(Response::new(answer))
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
        let (visitor, mut requests) = self.visitor(request)?;
        let first = requests.message().await?.unwrap_or_default();
        let mut watching = self.api.watching(&visitor.caller()?, &first.store)?;
        follow(&mut watching, first);
        let state = Some((visitor, requests, watching));
        let told = stream::unfold(state, |state| async move {
            let (visitor, mut requests, mut watching) = state?;
            match tell(&visitor, &mut requests, &mut watching).await {
                Ok(news) => Some((Ok(news?), Some((visitor, requests, watching)))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(Box::pin(told)))
    }

    type ExchangeStream = Pin<Box<dyn Stream<Item = Result<ExchangeResponse, Status>> + Send>>;

    async fn exchange(
        &self,
        request: Request<Streaming<ExchangeRequest>>,
    ) -> Answer<Self::ExchangeStream> {
        let (visitor, requests) = self.visitor(request)?;
        let exchange = Exchange::new(Arc::clone(&self.api), visitor, requests)?;
        let told = stream::unfold(Some(exchange), |exchange| async move {
            let mut exchange = exchange?;
            match exchange.next().await {
                Ok(answers) => Some((Ok(answers?), Some(exchange))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn agree(&self, request: Request<AgreeRequest>) -> Answer<AgreeResponse> {
        let caller = caller_of(&request)?;
        let AgreeRequest { store, namespace, fingerprint } = request.into_inner();
        let namespace = Namespace::new(&namespace).map_err(Failure::from)?;
        let pledge = Pledge { namespace, fingerprint };
        let fingerprint = self.api.agree(&caller, &store, &pledge).await?;
        Ok(Response::new(AgreeResponse { fingerprint }))
    }
}

/// Follows requests until there is something to tell; `None` when the client has no more.
async fn tell(
    visitor: &Visitor,
    requests: &mut Streaming<WatchKeysRequest>,
    watching: &mut Watching,
) -> Result<Option<WatchKeysResponse>, Status> {
    loop {
        tokio::select! {
            news = watching.next() => return Ok(Some(told(news?))),
            request = requests.message() => match request? {
                Some(request) => {
                    watching.called_by(visitor.caller()?);
                    follow(watching, request);
                }
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
    let refusal = |(key, why): (String, Failure)| WatchRefusal {
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
