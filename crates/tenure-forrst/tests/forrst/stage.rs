//! A service on locks in memory, and calls to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::{Value, json};
use tenure::Locks;
use tenure_forrst::{Call, Fault, Forrst, ForrstService};
use tower::ServiceExt;

/// The owner of the specification's examples.
pub(crate) const OWNER: &str = "550e8400-e29b-41d4-a716-446655440000";

#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) locks: Locks,
    pub(crate) service: ForrstService,
    /// How many calls run at this moment, and how many did at once at the most.
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) most: Arc<AtomicUsize>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) json: Value,
    pub(crate) headers: http::HeaderMap,
}

#[derive(Deserialize)]
struct Sleep {
    #[serde(default)]
    ms: u64,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let locks = Locks::builder()
            .limits(tenure::Limits { ttl_min: Duration::from_millis(50), ..Default::default() })
            .open("memory:")
            .await
            .unwrap();
        Self::on(locks, |forrst| forrst)
    }

    /// With the functions of the specification's examples and some that go wrong.
    pub(crate) fn on(locks: Locks, settle: impl FnOnce(Forrst) -> Forrst) -> Self {
        let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let count = (Arc::clone(&running), Arc::clone(&most));
        let forrst = Forrst::new(locks.clone())
            .function("payments.charge", "1.0.0", async |_: Call, _: Value| {
                Ok::<_, Fault>(json!({"charge_id": "ch_abc", "status": "succeeded"}))
            })
            .function("billing.generateReport", "1.0.0", async |_: Call, _: Value| {
                Ok::<_, Fault>(json!({"report": "r1"}))
            })
            .function("test.sleep", "1.0.0", move |call: Call, asked: Sleep| {
                let (running, most) = count.clone();
                async move {
                    let _here = Here::new(&running, &most);
                    pause(asked.ms).await;
                    Ok::<_, Fault>(json!({"fence": call.fence().map(|fence| fence.get())}))
                }
            })
            .function("test.fail", "1.0.0", async |_: Call, _: Value| {
                Err::<(), _>(Fault::custom("CARD_DECLINED", "no funds").with(json!({"a": 1})))
            })
            .function("test.panic", "1.0.0", async |_: Call, asked: Value| {
                assert!(asked.is_null(), "on purpose");
                Ok::<_, Fault>(())
            });
        let service = settle(forrst).service();
        Self { locks, service, running, most }
    }

    /// Sends a body with these headers.
    pub(crate) async fn send(&self, body: impl Into<Bytes>, headers: &[(&str, &str)]) -> Answer {
        let mut request = http::Request::post("/forrst");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.service.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let json = serde_json::from_str(&text).unwrap();
        Answer { status, text, json, headers }
    }

    /// Sends a document.
    pub(crate) async fn post(&self, document: &Value) -> Answer {
        self.send(document.to_string(), &[("content-type", "application/json")]).await
    }

    /// Calls a function with extensions.
    pub(crate) async fn call(&self, function: &str, arguments: Value, extensions: Value) -> Answer {
        self.post(&document(function, arguments, extensions)).await
    }

    /// Waits until so many calls run.
    pub(crate) async fn until_running(&self, many: usize) {
        let what = format!("{many} calls run");
        until(&what, || self.running.load(Ordering::SeqCst) == many).await;
    }

    /// Waits until someone waits for a key.
    pub(crate) async fn until_awaited(&self, key: &str) {
        until(&format!("someone waits for {key}"), || self.locks.waiters(key) > 0).await;
    }

    /// Waits until nobody holds a key.
    pub(crate) async fn until_free(&self, key: &str) {
        for _ in 0..5000 {
            if !self.locks.is_locked(key).await.unwrap() {
                return;
            }
            pause(2).await;
        }
        panic!("{key} stays locked");
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..5000 {
        if is_so() {
            return;
        }
        pause(2).await;
    }
    panic!("not so: {what}");
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.json["errors"][0]["code"].as_str().unwrap_or("none")
    }

    pub(crate) fn pointer(&self) -> &str {
        self.json["errors"][0]["source"]["pointer"].as_str().unwrap_or("none")
    }

    /// What an extension told, by a part of its name.
    pub(crate) fn told(&self, name: &str) -> Value {
        let told = self.json["extensions"].as_array().cloned().unwrap_or_default();
        let found = told.iter().find(|told| told["urn"].as_str().unwrap().ends_with(name));
        found.map(|told| told["data"].clone()).unwrap_or_default()
    }

    /// The document without what differs from run to run.
    pub(crate) fn fixed(&self) -> String {
        let (document, meta) = self.text.rsplit_once(r#","meta":"#).unwrap();
        assert!(meta.starts_with(r#"{"duration":{"value":"#), "{meta}");
        format!("{document}}}")
    }
}

pub(crate) fn document(function: &str, arguments: Value, extensions: Value) -> Value {
    let mut document = json!({
        "protocol": {"name": "forrst", "version": "0.1.0"},
        "id": "req_1",
        "call": {"function": function, "version": "1.0.0", "arguments": arguments},
    });
    if !extensions.is_null() {
        document["extensions"] = extensions;
    }
    document
}

/// The lock extension with these options besides key and ttl.
pub(crate) fn lock(more: Value) -> Value {
    let mut options = json!({"key": "user:123", "ttl": {"value": 30, "unit": "second"}});
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        options[name] = value;
    }
    json!([{"urn": "urn:forrst:ext:atomicLock", "options": options}])
}

#[allow(clippy::disallowed_methods, reason = "a test waits")]
pub(crate) async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// One that is counted for as long as it is here.
struct Here(Arc<AtomicUsize>);

impl Here {
    fn new(running: &Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(running))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
