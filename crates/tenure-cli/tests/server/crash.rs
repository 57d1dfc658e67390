//! The server killed under the locks of a thousand streams, and started again.

use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure_api::tenure_v1::{GetRequest, HoldRequest, LockRequest, Renewal};
use tenure_api::time::{from_wire, to_wire};
use tenure_testkit::servers::free_port;
use tonic::Code;

use super::process::{Server, acquired, target};

const STREAMS: usize = 1000;

/// Far more than a restart takes, so that all leases still stand after it.
const TTL: Duration = Duration::from_secs(30);

/// Between the clock of this test and that of the store.
const SLACK: Duration = Duration::from_millis(100);

fn key(number: usize) -> String {
    format!("job/{number}")
}

/// Nothing that a dead server held is granted before its lease has ended, all of it is afterwards,
/// and fences grow.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_with_a_thousand_streams_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port().unwrap();
    let mut server = Server::start(folder.path(), port, &[]);
    let client = server.client().await;
    let hold = |number: usize| {
        let mut client = client.clone();
        let (target, ttl) = (target(&key(number)), Some(to_wire(TTL)));
        tokio::spawn(async move {
            let request = HoldRequest { target, ttl, ..HoldRequest::default() };
            let mut stream = client.hold(request).await.unwrap().into_inner();
            let fence = acquired(&mut stream).await.fence;
            (stream, fence)
        })
    };
    let holding: Vec<_> = (0..STREAMS).map(hold).collect();
    let mut held = Vec::new();
    for hold in holding {
        held.push(hold.await.unwrap());
    }
    server.kill();
    for (stream, _) in &mut held {
        // What was still on its way may come first.
        while stream.message().await.is_ok_and(|message| message.is_some()) {}
    }
    let server = Server::start(folder.path(), port, &[]);
    let client = server.client().await;
    let take = |number: usize, fence: u64| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let asked = SystemClock.now();
            let seen = client.get(GetRequest { target: target(&key(number)) }).await;
            let seen = seen.unwrap_or_else(|status| panic!("{number} is not held: {status}"));
            let seen = seen.into_inner().lock.unwrap();
            assert_eq!(seen.fence, fence, "{number} is another's");
            let remaining = from_wire(&seen.remaining.unwrap()).unwrap();
            let request = LockRequest {
                target: target(&key(number)),
                wait: Some(to_wire(Duration::ZERO)),
                renewal: Renewal::Client.into(),
                ..LockRequest::default()
            };
            let refused = client.lock(request.clone()).await;
            let was_in_time = SystemClock.now() < asked + remaining;
            match refused {
                Err(status) => assert_eq!(status.code(), Code::Aborted, "{number}: {status}"),
                Ok(_) => assert!(!was_in_time, "{number} was granted while its lease stood"),
            }
            assert!(was_in_time, "{number}: too slow to tell");
            let wait = Some(to_wire(TTL * 4));
            let granted = client.lock(LockRequest { wait, ..request }).await.unwrap().into_inner();
            let waited = SystemClock.now().since(asked);
            assert!(waited + SLACK >= remaining, "{number}: {waited:?} of {remaining:?}");
            assert!(granted.fence > fence, "{number}: {} after {fence}", granted.fence);
        })
    };
    let taking: Vec<_> =
        held.iter().enumerate().map(|(number, (_, fence))| take(number, *fence)).collect();
    for take in taking {
        take.await.unwrap();
    }
}
