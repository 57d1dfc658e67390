//! A store or a server that dies under a running command stops it before the lease can end.

use std::time::Duration;

use rustix::process::Signal;
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::servers::{fresh_room, kinds};

use crate::sandbox::{BEATS, Ran, Sandbox, is_running, send, until};

const TTL: Duration = Duration::from_secs(5);

/// Runs the stubborn command on this store, has the store killed, and sees it stopped in time.
async fn is_stopped(sandbox: &Sandbox, url: &str, kill: impl FnOnce()) {
    let script = format!("trap '' TERM; echo $$ > pid; {BEATS}");
    let words = ["run", "k", "--ttl", "5s", "--store", url, "--", "sh", "-c", &script];
    let child = sandbox.tenure(&words).spawn().unwrap();
    let command = sandbox.pid("pid").await;
    kill();
    // The last renewal was asked for before this, so the lease does not end after this + ttl.
    let at = SystemClock.now();
    until("end of the command", || (!is_running(command)).then_some(())).await;
    let took = sandbox.last_beat().await.since(at);
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
        let (mut server, url) = sandbox.serve("127.0.0.1:0").await;
        is_stopped(&sandbox, &url, || send(&server, signal)).await;
        server.kill().await.unwrap();
    }
}
