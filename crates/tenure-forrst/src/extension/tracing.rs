//! Tracing: what belongs together, as the caller sees it.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::amount::Amount;

#[derive(Clone, Debug, Default)]
pub(crate) struct TracingOptions {
    pub(crate) trace_id: Option<String>,
    pub(crate) span_id: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct TracingData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<&'a str>,
    duration: Amount,
}

impl TracingOptions {
    pub(crate) fn read(options: &Map<String, Value>) -> Self {
        let text = |name: &str| options.get(name).and_then(Value::as_str).map(str::to_owned);
        Self { trace_id: text("trace_id"), span_id: text("span_id") }
    }

    pub(crate) fn data(&self, duration: Amount) -> TracingData<'_> {
        let Self { trace_id, span_id } = self;
        TracingData { trace_id: trace_id.as_deref(), span_id: span_id.as_deref(), duration }
    }
}
