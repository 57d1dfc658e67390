//! `ping` and `health`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tenure::clock::Clock;
use tenure_api::rfc3339;

use super::VERSION;
use crate::amount::Amount;
use crate::call::Call;
use crate::desk::LockDesk;
use crate::fault::Fault;
use crate::function::Function;

const PING: [&str; 2] = ["urn:cline:forrst:fn:ping", "urn:cline:forrst:ext:diagnostics:fn:ping"];
const HEALTH: [&str; 2] =
    ["urn:cline:forrst:fn:health", "urn:cline:forrst:ext:diagnostics:fn:health"];

#[derive(Deserialize)]
struct Nothing {}

#[derive(Deserialize)]
struct HealthArguments {
    component: Option<String>,
    #[serde(default = "yes")]
    include_details: bool,
}

fn yes() -> bool {
    true
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
    timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<BTreeMap<&'static str, Component>>,
}

#[derive(Serialize)]
struct Component {
    status: &'static str,
    latency: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
}

pub(crate) fn ping(clock: &Arc<dyn Clock>) -> [Function; 2] {
    PING.map(|name| {
        let clock = Arc::clone(clock);
        Function::new(name, VERSION, move |_: Call, _: Nothing| {
            let timestamp = rfc3339::seconds(clock.wall());
            async move { Ok(json!({"status": "healthy", "timestamp": timestamp})) }
        })
        .summary("Tells that the server runs")
        .system()
    })
}

pub(crate) fn health(desk: &Arc<dyn LockDesk>, clock: &Arc<dyn Clock>) -> [Function; 2] {
    HEALTH.map(|name| {
        let (desk, clock) = (Arc::clone(desk), Arc::clone(clock));
        Function::new(name, VERSION, move |_: Call, asked: HealthArguments| {
            let (desk, clock) = (Arc::clone(&desk), Arc::clone(&clock));
            async move { Ok::<_, Fault>(healthy(&*desk, &*clock, &asked).await) }
        })
        .summary("Tells how the server and what it needs are")
        .argument("component", json!({"type": "string"}), false, "only this one, or self")
        .argument("include_details", json!({"type": "boolean"}), false, "with components")
        .system()
    })
}

/// A component that fails is told, and is no error.
async fn healthy(desk: &dyn LockDesk, clock: &dyn Clock, asked: &HealthArguments) -> Health {
    let mut components = BTreeMap::new();
    if asked.component.as_deref().is_none_or(|name| name == "locks") {
        let began = clock.now();
        let outcome = desk.check().await;
        let latency = Amount::milliseconds(clock.now().since(began));
        let (status, message) = match outcome {
            Ok(()) => ("healthy", None),
            Err(_) => ("unhealthy", Some("the lock store cannot be used")),
        };
        components.insert("locks", Component { status, latency, message });
    }
    let is_well = components.values().all(|component| component.status == "healthy");
    Health {
        status: if is_well { "healthy" } else { "unhealthy" },
        timestamp: rfc3339::seconds(clock.wall()),
        components: asked.include_details.then_some(components),
    }
}
