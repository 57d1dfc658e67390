//! `/v1/locks` and `/v1/stores`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, extract::Request};
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use tenure_api::Code;

use super::answer::answer;
use super::body::json;
use super::hold::hold;
use super::json::{
    EvictedBody, GrantedBody, LockBody, PageBody, RenewBody, RenewalBody, RenewedBody, StateBody,
    StoresBody, UnlockBody, ms,
};
use super::lines::wants_lines;
use super::path::{place, query};
use crate::access::Caller;
use crate::api::{Api, Order, Place, Renewal};
use crate::failure::Failure;

const PREFIX: &str = "/v1/locks/";

/// Where a lock id can stand instead of the body, for clients whose DELETE has none.
const LOCK_ID: &str = "tenure-lock-id";

type Answer<T = Response> = Result<T, Failure>;
type Caring = Extension<Caller>;

pub(super) async fn lock(
    State(api): State<Arc<Api>>,
    Extension(caller): Caring,
    request: Request,
) -> Answer {
    let (head, body) = request.into_parts();
    let place = place(&head.uri, PREFIX)?;
    let order = order(place, json(body).await?);
    if wants_lines(&head.headers) {
        return hold(&api, &caller, order).await;
    }
    let status = StatusCode::CREATED;
    match api.lock(&caller, &order).await {
        Ok(granted) => {
            let granted = GrantedBody::new(&order.place.key, granted);
            Ok((status, Json(granted)).into_response())
        }
        Err(failure) => Ok(refusal(&failure, &order)),
    }
}

/// A client that asked not to wait is told that the lock is locked; any other, of a conflict.
pub(super) fn refusal(failure: &Failure, order: &Order) -> Response {
    let locked = failure.code == Code::Held && order.immediate;
    answer(failure, if locked { 423 } else { failure.code.fault().http })
}

fn order(place: Place, body: LockBody) -> Order {
    Order {
        place,
        ttl: body.ttl,
        wait: body.wait,
        immediate: body.immediate,
        lock_id: body.lock_id,
        note: body.note,
        renewal: match body.renewal {
            RenewalBody::Server => Renewal::Server,
            RenewalBody::Client => Renewal::Client,
        },
        max_hold: body.max_hold,
        refuse_reentry: false,
    }
}

pub(super) async fn renew(
    State(api): State<Arc<Api>>,
    Extension(caller): Caring,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Answer<Json<RenewedBody>> {
    let place = place(&uri, PREFIX)?;
    let RenewBody { lock_id, ttl } = json(body).await?;
    let lock_id = lock_id_of(lock_id, &headers)?;
    let renewed = api.renew(&caller, &place, &lock_id, ttl).await?;
    let (fence, ttl_ms) = (renewed.fence.get(), ms(renewed.ttl));
    Ok(Json(RenewedBody { key: place.key, fence, ttl_ms }))
}

pub(super) async fn unlock(
    State(api): State<Arc<Api>>,
    Extension(caller): Caring,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Answer {
    let place = place(&uri, PREFIX)?;
    let UnlockBody { lock_id, force, reason } = json(body).await?;
    if force {
        let evicted = api.force_unlock(&caller, &place, &reason).await?;
        let evicted = evicted.map(StateBody::from);
        return Ok(Json(EvictedBody { evicted }).into_response());
    }
    let lock_id = lock_id_of(lock_id, &headers)?;
    api.unlock(&caller, &place, &lock_id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn lock_id_of(in_body: Option<String>, headers: &HeaderMap) -> Result<String, Failure> {
    let in_header = headers.get(LOCK_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    match (in_body, in_header) {
        (Some(one), Some(other)) if one != other => {
            Err(Failure::invalid(format!("lock_id in the body and in the header {LOCK_ID} differ")))
        }
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => {
            let text = format!("lock_id must be given, in the body or in the header {LOCK_ID}");
            Err(Failure::invalid(text))
        }
    }
}

pub(super) async fn get(
    State(api): State<Arc<Api>>,
    Extension(caller): Caring,
    uri: Uri,
) -> Answer<Json<StateBody>> {
    let state = api.get(&caller, &place(&uri, PREFIX)?).await?;
    Ok(Json(state.into()))
}

/// What `GET /v1/locks` takes from its query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listing {
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    store: String,
    pub(super) limit: Option<usize>,
    pub(super) after: Option<String>,
}

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Caring,
    uri: Uri,
) -> Answer<Json<PageBody>> {
    let Listing { prefix, namespace, store, limit, after } = query(&uri)?;
    let place = Place { store, namespace, key: prefix };
    let page = api.list(&caller, &place, limit, after.as_deref()).await?;
    Ok(Json(page.into()))
}

pub(super) async fn stores(
    State(api): State<Arc<Api>>,
    Extension(caller): Caring,
) -> Answer<Json<StoresBody>> {
    let stores = api.stores(&caller)?.into_iter().map(Into::into).collect();
    Ok(Json(StoresBody { stores }))
}
