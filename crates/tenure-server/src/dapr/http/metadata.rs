//! `/v1.0/healthz` and `/v1.0/metadata`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tenure_api::DaprCode;
use tenure_api::dapr_v1::RegisteredComponents;

use super::json::bytes;
use crate::access::Caller;
use crate::dapr::failure::DaprFailure;
use crate::dapr::sidecar::Sidecar;

/// What whoever asks for the health may want to know.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    appid: Option<String>,
}

pub(super) async fn healthz(
    State(sidecar): State<Arc<Sidecar>>,
    Query(Wanted { appid }): Query<Wanted>,
) -> Result<StatusCode, DaprFailure> {
    sidecar.api.ready().await.map_err(|failure| {
        DaprFailure::new(DaprCode::NotReady, format!("dapr is not ready: {failure}"))
    })?;
    if appid.is_some_and(|app_id| app_id != sidecar.app_id) {
        return Err(DaprFailure::new(DaprCode::AppIdNotMatch, "dapr app-id does not match"));
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn outbound(
    State(sidecar): State<Arc<Sidecar>>,
) -> Result<StatusCode, DaprFailure> {
    sidecar
        .api
        .ready()
        .await
        .map_err(|_| DaprFailure::new(DaprCode::OutboundNotReady, "dapr outbound is not ready"))?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetadataBody {
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    runtime_version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    enabled_features: Vec<String>,
    components: Vec<ComponentBody>,
    extended: BTreeMap<String, String>,
    app_connection_properties: Empty,
    actor_runtime: ActorRuntimeBody,
}

#[derive(Serialize)]
struct ComponentBody {
    name: String,
    r#type: String,
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capabilities: Vec<String>,
}

impl From<RegisteredComponents> for ComponentBody {
    fn from(component: RegisteredComponents) -> Self {
        let RegisteredComponents { name, r#type, version, capabilities } = component;
        Self { name, r#type, version, capabilities }
    }
}

#[derive(Serialize)]
struct Empty {}

/// There are no actors here.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActorRuntimeBody {
    runtime_status: &'static str,
    host_ready: bool,
}

pub(super) async fn get(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<MetadataBody>, DaprFailure> {
    let metadata = sidecar.metadata(&caller)?;
    let actors = metadata.actor_runtime.unwrap_or_default();
    let components = metadata.registered_components.into_iter().map(Into::into);
    Ok(Json(MetadataBody {
        id: metadata.id,
        runtime_version: metadata.runtime_version,
        enabled_features: metadata.enabled_features,
        components: components.collect(),
        extended: metadata.extended_metadata.into_iter().collect(),
        app_connection_properties: Empty {},
        actor_runtime: ActorRuntimeBody {
            runtime_status: actors.runtime_status().as_str_name(),
            host_ready: actors.host_ready,
        },
    }))
}

/// The body is the value, whatever it is.
pub(super) async fn put(
    State(sidecar): State<Arc<Sidecar>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    body: Body,
) -> Result<StatusCode, DaprFailure> {
    let value = String::from_utf8_lossy(&bytes(body).await?).into_owned();
    sidecar.set_metadata(&caller, key, value)?;
    Ok(StatusCode::NO_CONTENT)
}
