//! `/v1/events`: what happens, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::{Stream, StreamExt};
use http::Uri;
use serde::Deserialize;

use super::json::EventBody;
use super::path::query;
use crate::access::Caller;
use crate::api::{Api, Place};
use crate::failure::Failure;

/// What the query may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watching {
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    store: String,
}

pub(super) async fn watch(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Failure> {
    let Watching { prefix, namespace, store } = query(&uri)?;
    let place = Place { store, namespace, key: prefix };
    let events = api.events(&caller, &place).await?;
    let told = events.map(|event| {
        let body = EventBody::from(event);
        let data = serde_json::to_string(&body).unwrap_or_default();
        Ok(SseEvent::default().event(body.kind).data(data))
    });
    // Said at once, so that a client knows from when on it is told.
    let begun = Ok(SseEvent::default().comment("watching"));
    let told = futures_util::stream::iter([begun]).chain(told);
    Ok(Sse::new(told).keep_alive(KeepAlive::default()))
}
