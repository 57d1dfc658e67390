//! The OpenAPI document tells what the server does.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_api::{Code, OPENAPI};

use super::curl::Server;
use super::routes::routes;

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_served_and_names_every_error_code() {
    let server = Server::start().await;
    let served = server.get("/v1/openapi.json").await;
    assert_eq!((served.status, &*served.body), (200, OPENAPI));
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let codes = &document["components"]["schemas"]["ErrorText"]["properties"]["code"]["enum"];
    let codes: Vec<_> = codes.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(codes, Code::ALL.map(Code::name));
}

/// Dapr's paths are Dapr's, and described by Dapr; Forrst describes itself.
#[test]
fn the_document_has_every_route_and_no_other() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut told = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|name| *name != "parameters");
        told.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let is_own = |route: &String| !route.contains(" /v1.0") && route != "POST /forrst";
    let own = routes().into_iter().filter(is_own).collect();
    assert_eq!(told, own);
}

/// Every path and method of the document exists, and no method that it does not name.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_document_tells_is_there() {
    let server = Server::start().await;
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        let asked = path.replace("{key}", "k");
        for method in ["get", "post", "put", "patch", "delete"] {
            let told = item.get(method).is_some();
            // A stream of events would not end by itself.
            let arguments = ["-X", &method.to_uppercase(), "--max-time", "2", "--data", "{}"];
            if told && path == "/v1/events" {
                continue;
            }
            let reply = server.curl(&asked, &arguments).await;
            assert_eq!(reply.status != 405, told, "{method} {path}: {reply:?}");
            if told {
                let statuses = item[method]["responses"].as_object().unwrap();
                assert!(
                    statuses.contains_key(&reply.status.to_string()),
                    "{method} {path}: {reply:?}"
                );
            }
        }
    }
}
