//! Health, metadata, tokens and ports.

use std::collections::HashMap;
use std::net::SocketAddr;

use futures_util::stream;
use serde_json::json;
use tenure_api::dapr_v1::actor_runtime::ActorRuntimeStatus;
use tenure_api::dapr_v1::dapr_client::DaprClient;
use tenure_api::dapr_v1::{GetMetadataRequest, SetMetadataRequest, TryLockRequest};
use tonic::{Code, Request};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt;

use crate::stage::{Stage, ask, channel};

/// The SHA-256 of `s3cret`.
const DIGEST: &str = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";

async fn guarded(verbs: &str) -> Stage {
    let grants = format!("grants = [{{ namespace = 'default', verbs = [{verbs}] }}]");
    Stage::with(&format!("[[tokens]]\nname = 'app'\nsha256 = '{DIGEST}'\n{grants}\n")).await
}

#[tokio::test]
async fn it_says_that_it_is_well() {
    let stage = Stage::new().await;
    for path in
        ["/v1.0/healthz", "/v1.0/healthz/outbound", "//v1.0/healthz/", "/v1.0/healthz?appid=app"]
    {
        let reply = stage.get(path).await;
        assert_eq!((reply.status, &*reply.body), (204, ""), "{path}");
    }
    let reply = stage.get("/v1.0/healthz?appid=other").await;
    reply.is_error(500, "ERR_HEALTH_APPID_NOT_MATCH", "dapr app-id does not match");
}

#[tokio::test]
async fn it_says_what_it_is_made_of() {
    let stage = Stage::new().await;
    let reply = stage.get("/v1.0/metadata").await;
    assert_eq!(reply.status, 200);
    let metadata = reply.json();
    assert_eq!(metadata["id"], "app");
    let components = metadata["components"].as_array().unwrap();
    assert_eq!(components.len(), 5);
    let mine = json!({ "name": "lockstore", "type": "lock.memory", "version": "v1" });
    assert!(components.contains(&mine), "{metadata}");
    assert!(metadata["runtimeVersion"].as_str().unwrap().starts_with("tenure-"));
    assert_eq!(metadata["actorRuntime"]["runtimeStatus"], "DISABLED");

    let reply = stage.ask("PUT", "/v1.0/metadata/cliPID", "", "42").await;
    assert_eq!((reply.status, &*reply.body), (204, ""));
    let mut client = stage.grpc().await;
    let (key, value) = ("by".to_owned(), "gRPC".to_owned());
    client.set_metadata(SetMetadataRequest { key, value }).await.unwrap();
    let metadata = client.get_metadata(GetMetadataRequest {}).await.unwrap().into_inner();
    assert_eq!(metadata.id, "app");
    assert_eq!(metadata.registered_components.len(), 5);
    assert_eq!(metadata.extended_metadata["cliPID"], "42");
    assert_eq!(metadata.actor_runtime.unwrap().runtime_status(), ActorRuntimeStatus::Disabled);
    assert_eq!(stage.get("/v1.0/metadata").await.json()["extended"]["by"], "gRPC");
}

#[tokio::test]
async fn metadata_has_limits() {
    let stage = Stage::new().await;
    let put = async |path: &str, body: &str| stage.ask("PUT", path, "", body).await.status;
    assert_eq!(put("/v1.0/metadata/k", &"x".repeat(5000)).await, 400);
    assert_eq!(put(&format!("/v1.0/metadata/{}", "k".repeat(300)), "x").await, 400);
    for n in 0..128 {
        assert_eq!(put(&format!("/v1.0/metadata/{n}"), "x").await, 204);
    }
    assert_eq!(put("/v1.0/metadata/one-more", "x").await, 400);
    assert_eq!(put("/v1.0/metadata/7", "y").await, 204);
}

#[tokio::test]
async fn without_the_token_only_health_is_told() {
    let stage = guarded("'acquire'").await;
    for path in ["/v1.0/healthz", "/v1.0/healthz/outbound"] {
        assert_eq!(stage.get(path).await.status, 204, "{path}");
    }
    for token in ["", "dapr-api-token: wrong\r\n"] {
        for (method, path) in [
            ("GET", "/v1.0/metadata"),
            ("PUT", "/v1.0/metadata/k"),
            ("POST", "/v1.0-alpha1/lock/lockstore"),
            ("POST", "/v1.0-alpha1/unlock/lockstore"),
            ("POST", "/v1.0-alpha2/lock/lockstore/r"),
            ("DELETE", "/v1.0-alpha2/lock/lockstore/r"),
            ("POST", "//v1.0-alpha1/lock/lockstore/"),
        ] {
            for at in [stage.running.dapr_http().unwrap(), stage.running.address()] {
                let reply = ask(at, method, path, token, "").await;
                assert_eq!((reply.status, &*reply.body), (401, "invalid api token"), "{path}");
            }
        }
    }
    let token = "dapr-api-token: s3cret\r\n";
    assert_eq!(stage.ask("GET", "/v1.0/metadata", token, "").await.status, 200);
    let body = r#"{"resourceId":"r","lockOwner":"a","expiryInSeconds":5}"#;
    let reply = stage.ask("POST", "/v1.0-alpha1/lock/lockstore", token, body).await;
    assert_eq!(reply.body, r#"{"success":true}"#);
}

#[tokio::test]
async fn grpc_turns_away_as_dapr_does() {
    let stage = guarded("'acquire'").await;
    let mut client = stage.grpc().await;
    for (token, why) in [
        (None, "missing api token in request metadata"),
        (Some("wrong"), "authentication error: api token mismatch"),
    ] {
        let mut request = Request::new(GetMetadataRequest {});
        if let Some(token) = token {
            request.metadata_mut().insert("dapr-api-token", token.parse().unwrap());
        }
        let status = client.get_metadata(request).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "Unauthorized"));
        let info = status.get_details_error_info().unwrap();
        let more = [("http.code", "401"), ("http.error_message", why)];
        assert_eq!((&*info.reason, &*info.domain), ("Unauthorized", "dapr.io"));
        assert_eq!(info.metadata, HashMap::from(more.map(|(a, b)| (a.into(), b.into()))));
    }
    let mut request = Request::new(GetMetadataRequest {});
    request.metadata_mut().insert("dapr-api-token", "s3cret".parse().unwrap());
    client.get_metadata(request).await.unwrap();
}

#[tokio::test]
async fn a_token_allows_no_more_than_it_says() {
    let stage = guarded("'read'").await;
    let token = "dapr-api-token: s3cret\r\n";
    let body = r#"{"resourceId":"r","lockOwner":"a","expiryInSeconds":5}"#;
    let text = r#"app may not acquire in namespace "default""#;
    let refused = async |method, path, body| {
        let reply = stage.ask(method, path, token, body).await;
        reply.is_error(403, "ERR_PERMISSION_DENIED", text);
    };
    refused("POST", "/v1.0-alpha1/lock/lockstore", body).await;
    refused("POST", "/v1.0-alpha1/unlock/lockstore", body).await;
    refused("POST", "/v1.0-alpha2/lock/lockstore/r", "").await;
    refused("DELETE", "/v1.0-alpha2/lock/lockstore/r", r#"{"lockID":"x"}"#).await;
    refused("PUT", "/v1.0/metadata/k", "v").await;
    let reply =
        stage.ask("DELETE", "/v1.0-alpha2/lock/lockstore/r", token, r#"{"force":true}"#).await;
    let text = r#"app may not force in namespace "default""#;
    reply.is_error(403, "ERR_PERMISSION_DENIED", text);
}

#[tokio::test]
async fn only_who_has_to_do_with_locks_is_told_what_it_is_made_of() {
    let stage = guarded("'admin'").await;
    let reply = stage.ask("GET", "/v1.0/metadata", "dapr-api-token: s3cret\r\n", "").await;
    reply.is_error(403, "ERR_PERMISSION_DENIED", "app may not acquire or read or list anywhere");
    let mut request = Request::new(GetMetadataRequest {});
    request.metadata_mut().insert("dapr-api-token", "s3cret".parse().unwrap());
    let status = stage.grpc().await.get_metadata(request).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
}

#[tokio::test]
async fn an_authorization_for_somebody_else_is_not_looked_at() {
    let stage = guarded("'acquire'").await;
    for (dapr, status) in [("s3cret", 200), ("wrong", 401)] {
        let headers = format!("authorization: Bearer other\r\ndapr-api-token: {dapr}\r\n");
        assert_eq!(stage.ask("GET", "/v1.0/metadata", &headers, "").await.status, status);
    }
}

/// The services that a port tells of.
async fn services(at: SocketAddr) -> Vec<String> {
    let mut client = ServerReflectionClient::new(channel(at).await);
    let ask = MessageRequest::ListServices(String::new());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(ask) };
    let mut answers =
        client.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
    match answers.message().await.unwrap().unwrap().message_response.unwrap() {
        MessageResponse::ListServicesResponse(list) => {
            list.service.into_iter().map(|service| service.name).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn its_ports_tell_of_what_they_serve() {
    let stage = Stage::new().await;
    for at in [stage.running.dapr_http().unwrap(), stage.running.dapr_grpc().unwrap()] {
        let services = services(at).await;
        assert!(services.iter().any(|name| name == "dapr.proto.runtime.v1.Dapr"), "{services:?}");
        assert!(!services.iter().any(|name| name.starts_with("tenure.")), "{services:?}");
    }
    let services = services(stage.running.address()).await;
    for name in ["dapr.proto.runtime.v1.Dapr", "tenure.v1.LockService", "tenure.v1.StoreService"] {
        assert!(services.iter().any(|service| service == name), "{services:?}");
    }
}

#[tokio::test]
async fn every_port_has_both_protocols() {
    let stage = Stage::new().await;
    let (http, grpc) = (stage.running.dapr_http().unwrap(), stage.running.dapr_grpc().unwrap());
    assert!(http.ip().is_loopback() && grpc.ip().is_loopback() && http != grpc);
    for (at, owner) in [(http, "http"), (grpc, "grpc"), (stage.running.address(), "main")] {
        assert_eq!(ask(at, "GET", "/v1.0/healthz", "", "").await.status, 204);
        let mut client = DaprClient::new(channel(at).await);
        let request = TryLockRequest {
            store_name: "lockstore".into(),
            resource_id: owner.into(),
            lock_owner: owner.into(),
            expiry_in_seconds: 5,
        };
        assert!(client.try_lock_alpha1(request).await.unwrap().into_inner().success);
    }
}

#[tokio::test]
async fn without_ports_there_are_none() {
    let config = "listen = '127.0.0.1:0'\n[stores]\nlockstore = { url = 'memory:' }\n";
    let stage = Stage::of(tenure_server::config::Config::parse(config).unwrap()).await;
    assert_eq!((stage.running.dapr_http(), stage.running.dapr_grpc()), (None, None));
    let reply = ask(stage.running.address(), "GET", "/v1.0/metadata", "", "").await;
    assert_eq!(reply.status, 200);
}
