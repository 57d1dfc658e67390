//! A store or a server that dies under a running command stops it before the lease can end.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::{fresh_room, kinds};

use crate::sandbox::{Ran, Sandbox, is_running, pid, send, since, until, until_said};

const TTL: Duration = Duration::from_secs(5);
const SCRIPT: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done";

/// Runs the stubborn command on this store, has the store killed, and sees it stopped in time.
async fn is_stopped(sandbox: &Sandbox, url: &str, kill: impl FnOnce()) {
    let words = ["run", "k", "--ttl", "5s", "--store", url, "--", "sh", "-c", SCRIPT];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    kill();
    // The last renewal was asked for before this, so the lease does not end after this + ttl.
    let at = SystemClock.now();
    until("end of the command", || (!is_running(command)).then_some(())).await;
    let took = since(at);
    assert!(took < TTL, "{took:?}");
    Ran::of(child).await.expect(76, &["could not be renewed in time", "with SIGKILL"]);
}

#[tokio::test]
async fn when_redis_dies() {
    let redis = kinds().into_iter().find(|kind| kind.name == "redis").unwrap();
    let service = (redis.start)().unwrap();
    let url = service.url(fresh_room(), None);
    let server = service.server().unwrap();
    is_stopped(&Sandbox::new(), &url, || server.signal(Signal::KILL).unwrap()).await;
}

#[cfg(feature = "remote")]
#[tokio::test]
async fn when_the_server_dies_or_falls_silent() {
    for signal in [Signal::KILL, Signal::STOP] {
        let sandbox = Sandbox::new();
        let mut server = sandbox.tenure(&["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
        let said = until_said(&mut server, "serving on http://").await;
        let address = said.split("http://").nth(1).unwrap().trim().to_owned();
        let url = format!("tenure://{address}");
        is_stopped(&sandbox, &url, || send(&server, signal)).await;
        kill_process(pid(server.id().unwrap()), Signal::KILL).unwrap();
        server.wait().await.unwrap();
    }
}
