//! The calls that come by themselves and on a stream of many: decoded, made and encoded.

use tenure::claim::{Attempt, Released, Renewal, Renewed};
use tenure_api::tenure_v1::{
    InspectLeaseRequest, InspectLeaseResponse, ReleaseLeaseRequest, ReleaseLeaseResponse,
    RenewLeaseRequest, RenewLeaseResponse, TryAcquireRequest, TryAcquireResponse,
};

use super::stored::{claim, grant, key, lease, ttl};
use super::wire::count;
use crate::access::Caller;
use crate::api::Api;
use crate::failure::Failure;

pub(super) async fn try_acquire(
    api: &Api,
    caller: &Caller,
    mut request: TryAcquireRequest,
) -> Result<TryAcquireResponse, Failure> {
    let store = std::mem::take(&mut request.store);
    let (granted, status) = match api.try_acquire(caller, &store, &claim(request)?).await? {
        Attempt::Granted(lease) => (true, lease.status()),
        Attempt::Held(status) => (false, status),
    };
    Ok(TryAcquireResponse { granted, lease: Some(lease(&status)) })
}

pub(super) async fn renew_lease(
    api: &Api,
    caller: &Caller,
    request: RenewLeaseRequest,
) -> Result<RenewLeaseResponse, Failure> {
    let RenewLeaseRequest { store, grant: named, ttl: asked } = request;
    let renewal = Renewal { grant: grant(named)?, ttl: ttl(asked)? };
    let (renewed, status) = match api.renew_lease(caller, &store, &renewal).await? {
        Renewed::Renewed(lease) => (true, Some(lease.status())),
        Renewed::Lost(status) => (false, status),
    };
    Ok(RenewLeaseResponse { renewed, lease: status.as_ref().map(lease) })
}

pub(super) async fn release_lease(
    api: &Api,
    caller: &Caller,
    request: ReleaseLeaseRequest,
) -> Result<ReleaseLeaseResponse, Failure> {
    let ReleaseLeaseRequest { store, grant: named } = request;
    let (released, status) = match api.release_lease(caller, &store, &grant(named)?).await? {
        Released::Released(status) => (true, Some(status)),
        Released::NotHeld(status) => (false, status),
    };
    Ok(ReleaseLeaseResponse { released, lease: status.as_ref().map(lease) })
}

pub(super) async fn inspect_lease(
    api: &Api,
    caller: &Caller,
    request: InspectLeaseRequest,
) -> Result<InspectLeaseResponse, Failure> {
    let InspectLeaseRequest { store, key: named, owners } = request;
    let found = api.inspect_lease(caller, &store, &key(&named)?, &owners).await?;
    Ok(match found {
        None => InspectLeaseResponse::default(),
        Some((status, owner)) => InspectLeaseResponse {
            lease: Some(lease(&status)),
            owner: owner.map_or(0, |index| count(index + 1)),
        },
    })
}
