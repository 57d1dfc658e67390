//! Every call of a store on behalf of a request is within that request's span.
//!
//! A program of its own: whether anyone wants a span is remembered for the whole process, and
//! other tests want none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

#[path = "running/stage.rs"]
#[allow(dead_code, reason = "most of it is for other tests")]
mod stage;

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use tracing::span::{Attributes, Id};
use tracing::{Instrument, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use stage::{anyone, order, place, start};

/// The calls of stores, each with what it was made in.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Made>>>);

/// Which call, and in which span.
type Made = (String, Option<String>);

impl Calls {
    fn take(&self) -> Vec<Made> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Operation(String);

impl tracing::field::Visit for Operation {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "operation" {
            self.0 = format!("{value:?}").trim_matches('"').to_owned();
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Calls {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if span.name() == "store" {
            let mut operation = Operation(String::new());
            attributes.record(&mut operation);
            let parent = span.parent().map(|parent| parent.name().to_owned());
            self.0.lock().unwrap().push((operation.0, parent));
        }
    }
}

#[tokio::test]
async fn the_store_is_called_within_the_request() {
    let calls = Calls::default();
    // This test has one thread, and so has its server.
    let subscriber = tracing_subscriber::registry().with(calls.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    let running = start("").await;
    let (api, caller) = (running.api(), anyone());
    calls.take();
    let span = tracing::info_span!("asked");
    let granted = api.lock(&caller, &order("k")).instrument(span.clone()).await.unwrap();
    let place = place("k");
    let unlock = api.unlock(&caller, &place, &granted.lock_id);
    unlock.instrument(span.clone()).await.unwrap();
    let mut holding = api.hold(&caller, &order("k")).instrument(span).await.unwrap();
    // The answer is read when the call is over.
    holding.next().await.unwrap().unwrap();
    let asked = |operation: &str| (operation.to_owned(), Some("asked".to_owned()));
    let expected = ["try_acquire", "release", "try_acquire"].map(asked);
    assert_eq!(calls.take(), expected);
}
