//! Garbage in, an answer out: bodies of JSON and of protocol buffers, broken at random.

#![allow(clippy::unwrap_used)]

mod dice;
#[path = "../wire/grpc.rs"]
mod grpc;
#[path = "../wire/http1.rs"]
mod http1;
mod json;
mod messages;

use tenure_server::Running;
use tenure_server::config::Config;

async fn server() -> Running {
    let text = "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\nlimits.wait_max = '1ms'\n";
    Running::start(Config::parse(text).unwrap()).await.unwrap()
}

/// Fails unless the server runs, its store answers, and a lock can be taken.
async fn is_well(running: &Running) {
    for (request, status) in
        [("GET /healthz", 204), ("GET /readyz", 204), ("POST /v1/locks/at-the-end", 201)]
    {
        let reply = http1::ask(running.address(), request, "", b"").await;
        assert_eq!(reply.status, status, "{request}: {reply:?}");
    }
}
