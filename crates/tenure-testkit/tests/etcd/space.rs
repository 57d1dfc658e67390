//! A database that runs full while locks are taken.
//!
//! etcd looks at its size twice: before it takes a change in, and when it carries it out. A change
//! that passed the first look and not the second is made, and answered as if it had been refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use tenure::claim::{Attempt, Claim, Grant, Reentry};
use tenure::{Error, Holder, Key, Lease, Owner, Retry, Store};
use tenure_testkit::servers::etcd::alone;

use crate::stage::{ms, open, url};

const QUOTA: &str = "--quota-backend-bytes=8000000"; // tidy-allow: etcd's word
const CLAIMS: usize = 60;
const FILLERS: usize = 6;
/// It takes one or two to meet such a change.
const SERVERS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_met_a_full_database_is_not_said_to_have_failed() {
    for _ in 0..SERVERS {
        let server = alone(&[QUOTA]).unwrap();
        let store = open(&url(&server)).await.unwrap();
        let full = Arc::new(AtomicBool::new(false));
        for _ in 0..FILLERS {
            let (at, full) = (server.address(), Arc::clone(&full));
            std::thread::spawn(move || while !full.load(Ordering::SeqCst) && fill(at).is_ok() {});
        }
        let refused = refusals(&store).await;
        full.store(true, Ordering::SeqCst);
        let mut made = 0;
        for (key, error) in refused {
            let is_there = store.inspect(&key).await.unwrap().is_some();
            made += usize::from(is_there);
            assert!(!is_there || error.retry() == Retry::Unknown, "{key:?} is there: {error}");
        }
        if made > 0 {
            return;
        }
    }
    panic!("no change was made and answered as if it had been refused");
}

/// Takes keys and gives them back, many at once, until etcd is full: what it refused then.
async fn refusals(store: &dyn Store) -> Vec<(Key, Error)> {
    loop {
        let claims = (0..CLAIMS).map(|n| claim(&format!("k{n}")));
        let tried = claims.map(|claim| async move { (store.try_acquire(&claim).await, claim.key) });
        let mut refused = Vec::new();
        let mut taken = Vec::new();
        for (outcome, key) in join_all(tried).await {
            match outcome {
                Ok(Attempt::Granted(lease)) => taken.push(lease),
                Ok(Attempt::Held(status)) => panic!("held: {status:?}"),
                Err(error) => refused.push((key, error)),
            }
        }
        if !refused.is_empty() {
            return refused;
        }
        let released = taken.into_iter().map(|Lease { key, owner, fence, .. }| async move {
            store.release(&Grant { key, owner, fence: Some(fence) }).await
        });
        for released in join_all(released).await {
            if let Err(error) = released {
                assert!(error.to_string().contains("etcdctl defrag"), "{error}");
            }
        }
    }
}

fn claim(key: &str) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        owner: Owner::parse("worker-7").unwrap(),
        ttl: ms(60_000),
        holder: Holder::new("test").unwrap(),
        reentry: Reentry::Adopt,
    }
}

/// Puts 60 kB of zeros under a key, by etcd's JSON: nothing is left of what was there but its room.
fn fill(at: SocketAddr) -> std::io::Result<()> {
    let body = format!(r#"{{"key": "ZmlsbA==", "value": "{}"}}"#, "A".repeat(80_000));
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(ms(5000)))?;
    write!(stream, "POST /v3/kv/put HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(())
}
