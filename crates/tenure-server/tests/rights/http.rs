//! The rows of the routes over HTTP: tenure's own, and Dapr's.

use tenure_server::Verb::{Acquire, Admin, Force, List, Read};

use crate::role::Needs::{self, Everywhere, Here, Nothing, Somewhere};
use crate::row::{Ask, Row, Spot, Words};

const TENURE: Words = Words { refused: "403 forbidden", stranger: "401 unauthenticated" };
const DAPR: Words =
    Words { refused: "403 ERR_PERMISSION_DENIED", stranger: "401 invalid api token" };

const STREAM: &str = "accept: application/x-ndjson\r\n";

fn tenure(
    route: &'static str,
    needs: Needs,
    answer: &'static str,
    headers: &'static str,
    body: fn(&Spot) -> String,
) -> Row {
    let namespaces = match needs {
        Here(_) => &["default", "other"][..],
        _ => &["default"],
    };
    Row { route, needs, answer, ask: Ask::Http(headers, body), words: TENURE, namespaces }
}

fn dapr(
    route: &'static str,
    needs: Needs,
    answer: &'static str,
    headers: &'static str,
    body: fn(&Spot) -> String,
) -> Row {
    Row { words: DAPR, namespaces: &["default"], ..tenure(route, needs, answer, headers, body) }
}

fn nothing(_: &Spot) -> String {
    String::new()
}

fn lock_id(_: &Spot) -> String {
    r#"{"lock_id": "x"}"#.to_owned()
}

fn force(_: &Spot) -> String {
    r#"{"force": true, "reason": "x"}"#.to_owned()
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        tenure("GET /v1/locks", Here(&[List]), "done", "", nothing),
        tenure("GET /v1/locks/{key}", Here(&[Read]), "404 not_found", "", nothing),
        tenure("POST /v1/locks/{key}", Here(&[Acquire]), "done", "", nothing),
        tenure("POST /v1/locks/{key}", Here(&[Acquire]), "done", STREAM, nothing),
        tenure("PATCH /v1/locks/{key}", Here(&[Acquire]), "404 not_found", "", lock_id),
        tenure("DELETE /v1/locks/{key}", Here(&[Acquire]), "404 not_found", "", lock_id),
        tenure("DELETE /v1/locks/{key}", Here(&[Force]), "done", "", force),
        tenure("GET /v1/events", Here(&[List]), "done", "", nothing),
        tenure("GET /v1/stores", Everywhere(&[Admin]), "done", "", nothing),
        tenure("GET /metrics", Everywhere(&[Admin]), "done", "", nothing),
        tenure("GET /v1/openapi.json", Nothing, "done", "", nothing),
        tenure("GET /healthz", Nothing, "done", "", nothing),
        tenure("GET /readyz", Nothing, "done", "", nothing),
    ]
}

pub(crate) fn dapr_rows() -> Vec<Row> {
    let alpha1 = |spot: &Spot| {
        let key = &spot.key;
        format!(r#"{{"resourceId": "{key}", "lockOwner": "x", "expiryInSeconds": 5}}"#)
    };
    let lock_id = |_: &Spot| r#"{"lockID": "x"}"#.to_owned();
    let (lock, none) = ("POST /v1.0-alpha2/lock/{store}/{resource}", "404 ERR_LOCK_NOT_FOUND");
    let unlock = "DELETE /v1.0-alpha2/lock/{store}/{resource}";
    vec![
        dapr("POST /v1.0-alpha1/lock/{store}", Here(&[Acquire]), "done", "", alpha1),
        dapr("POST /v1.0-alpha1/unlock/{store}", Here(&[Acquire]), "done", "", alpha1),
        dapr(lock, Here(&[Acquire]), "done", "", nothing),
        dapr(lock, Here(&[Acquire]), "done", STREAM, nothing),
        dapr(unlock, Here(&[Acquire]), none, "", lock_id),
        dapr(unlock, Here(&[Force]), "done", "", force),
        dapr("GET /v1.0/metadata", Somewhere(&[Acquire, Read, List]), "done", "", nothing),
        dapr("PUT /v1.0/metadata/{key}", Here(&[Acquire]), "done", "", nothing),
        dapr("GET /v1.0/healthz", Nothing, "done", "", nothing),
        dapr("GET /v1.0/healthz/outbound", Nothing, "done", "", nothing),
    ]
}
