//! Who may do what: verbs by namespaces by roles by surfaces, and every cell of it is a call.

#![allow(clippy::unwrap_used)]

#[path = "../wire/grpc.rs"]
mod grpc;
mod grpc_rows;
mod http;
#[path = "../wire/http1.rs"]
mod http1;
mod role;
#[path = "../wire/routes.rs"]
mod routes;
mod row;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use prost::Message;
use tenure_server::Running;
use tenure_server::config::Config;
use tonic::transport::Channel;

use role::{Needs, Role};
use row::{Row, Spot, Wire};

async fn server() -> Running {
    let tokens: String = Role::all().iter().map(Role::config).collect();
    let text = format!(
        "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n[dapr]\nhttp_port = 0\n{tokens}"
    );
    Running::start(Config::parse(&text).unwrap()).await.unwrap()
}

/// One that no other call has used.
fn fresh_key() -> String {
    static KEYS: AtomicU32 = AtomicU32::new(0);
    format!("k{}", KEYS.fetch_add(1, Ordering::Relaxed))
}

/// Makes every call of these rows with every token, and without one.
async fn check(at: SocketAddr, rows: &[Row]) {
    let channel = Channel::from_shared(format!("http://{at}")).unwrap().connect().await.unwrap();
    let wire = Wire { at, channel };
    let mut wrong = Vec::new();
    let roles = Role::all();
    for row in rows {
        for &namespace in row.namespaces {
            let spot = || Spot { namespace, key: fresh_key() };
            for role in &roles {
                let expected = match row.needs.allow(role, namespace) {
                    true => row.answer,
                    false => row.words.refused,
                };
                let answer = row.make(&wire, Some(&role.token), &spot()).await;
                if answer != expected {
                    let (token, route) = (&role.token, row.route);
                    wrong.push(format!("{token}: {route} in {namespace}: {answer}"));
                }
            }
            let expected = match row.needs {
                Needs::Nothing => row.answer,
                _ => row.words.stranger,
            };
            for token in [None, Some("of-nobody")] {
                let answer = row.make(&wire, token, &spot()).await;
                if answer != expected {
                    wrong.push(format!("{token:?}: {} in {namespace}: {answer}", row.route));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_over_http() {
    let running = server().await;
    check(running.address(), &http::rows()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_over_dapr_s_http() {
    let running = server().await;
    for at in [running.address(), running.dapr_http().unwrap()] {
        check(at, &http::dapr_rows()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_over_grpc() {
    let running = server().await;
    check(running.address(), &grpc_rows::lock_rows()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_of_stores_over_grpc() {
    let running = server().await;
    check(running.address(), &grpc_rows::store_rows()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_over_dapr_s_grpc() {
    let running = server().await;
    for at in [running.address(), running.dapr_http().unwrap()] {
        check(at, &grpc_rows::dapr_rows()).await;
    }
}

/// Forrst's calls have a matrix of their own, in `tests/forrst.rs`: their rights are those of one
/// namespace, whatever the call.
#[test]
fn every_route_is_in_the_matrix() {
    let mut known = routes_of([http::rows(), http::dapr_rows()]);
    known.insert("POST /forrst".to_owned());
    assert_eq!(known, routes::routes());
}

#[test]
fn every_method_is_in_the_matrix() {
    let set = prost_types::FileDescriptorSet::decode(tenure_api::DESCRIPTORS).unwrap();
    let mut methods = BTreeSet::new();
    for file in &set.file {
        for service in &file.service {
            let service_name = format!("{}.{}", file.package(), service.name());
            let names = service.method.iter().map(|m| format!("/{service_name}/{}", m.name()));
            methods.extend(names);
        }
    }
    let rows = [grpc_rows::lock_rows(), grpc_rows::store_rows(), grpc_rows::dapr_rows()];
    assert_eq!(routes_of(rows), methods);
}

fn routes_of<const N: usize>(lists: [Vec<Row>; N]) -> BTreeSet<String> {
    lists.into_iter().flatten().map(|row| row.route.to_owned()).collect()
}
