//! Configurations that name stores for Dapr.

use tenure_server::Running;
use tenure_server::config::Config;

use crate::stage::{Stage, ask};

async fn refused(config: &str) -> String {
    Running::start(Config::parse(config).unwrap()).await.unwrap_err().message
}

#[tokio::test]
async fn a_prefix_with_the_separator_is_refused() {
    let config = "listen = '127.0.0.1:0'\n[stores]\na = { url = 'memory:', key_prefix = 'x||y' }\n";
    let text = refused(config).await;
    assert_eq!(text, "stores.a.key_prefix: input key/keyPrefix 'x||y' can't contain '||'");
}

#[tokio::test]
async fn a_component_is_a_store_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let component = "kind: Component\nmetadata: {name: redis}\nspec:\n  type: lock.redis\n  \
                     metadata:\n  - {name: redisHost, value: '127.0.0.1:1'}\n";
    std::fs::write(folder.path().join("redis.yaml"), component).unwrap();
    let config =
        format!("listen = '127.0.0.1:0'\n[dapr]\ncomponents = '{}'\n", folder.path().display());
    // This crate alone has no Redis, so that it is not opened; but it is found and tried.
    let text = refused(&config).await;
    assert!(text.starts_with("store \"redis\": "), "{text}");
    let both = format!("{config}\n[stores]\nredis = {{ url = 'memory:' }}\n");
    assert!(refused(&both).await.contains("there are two stores \"redis\""));
}

/// Dapr's API names a store with every request, so that it needs no default one.
#[tokio::test]
async fn several_stores_need_no_default() {
    let config = "listen = '127.0.0.1:0'\n[dapr]\nhttp_port = 0\n[stores]\n\
                  a = { url = 'memory:' }\nb = { url = 'memory:' }\n";
    let stage = Stage::of(Config::parse(config).unwrap()).await;
    let body = r#"{"resourceId":"r","lockOwner":"a","expiryInSeconds":5}"#;
    for store in ["a", "b"] {
        let reply = stage.post(&format!("/v1.0-alpha1/lock/{store}"), body).await;
        assert_eq!(reply.body, r#"{"success":true}"#);
    }
    let main = stage.running.address();
    assert_eq!(ask(main, "POST", "/v1/locks/k?store=a", "", "{}").await.status, 201);
    let reply = ask(main, "POST", "/v1/locks/k", "", "{}").await;
    assert_eq!(
        (reply.status, reply.json()["error"]["code"].as_str()),
        (404, Some("no_such_place"))
    );
}
