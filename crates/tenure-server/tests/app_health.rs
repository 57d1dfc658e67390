//! The application beside the server: its locks are renewed only while it is well.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tenure::clock::{Clock, SystemClock};
use tenure_api::Code;
use tenure_server::api::{Order, Place};
use tenure_server::config::Config;
use tenure_server::{Caller, Identity, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TTL: Duration = Duration::from_millis(600);

/// No wait in these tests is longer than this. It is far more than any should take.
const LIMIT: Duration = Duration::from_secs(30);

/// An application that says how it is.
#[derive(Default)]
struct App {
    is_well: AtomicBool,
    asked: AtomicU32,
}

impl App {
    async fn start() -> (Arc<Self>, SocketAddr) {
        let app = Arc::new(Self { is_well: true.into(), ..Self::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = Arc::clone(&app);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 512];
                let size = stream.read(&mut request).await.unwrap();
                assert!(request[..size].starts_with(b"GET /how?are=you HTTP/1.1\r\n"));
                let is_well = answering.is_well.load(Ordering::SeqCst);
                let status = if is_well { "204 No Content" } else { "503 Service Unavailable" };
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                answering.asked.fetch_add(1, Ordering::SeqCst);
            }
        });
        (app, address)
    }

    /// Returns when it was asked so many times more.
    async fn was_asked(&self, times: u32) {
        let until = self.asked.load(Ordering::SeqCst) + times;
        wait("it is asked", async || self.asked.load(Ordering::SeqCst) >= until).await;
    }
}

async fn wait(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let end = SystemClock.now() + LIMIT;
    while !ask().await {
        assert!(SystemClock.now() < end, "not within {LIMIT:?}: {what}");
        pause(Duration::from_millis(10)).await;
    }
}

async fn pause(time: Duration) {
    SystemClock.sleep_until(SystemClock.now() + time).await;
}

fn caller() -> Caller {
    Caller { identity: Identity::unrestricted("test"), peer: None }
}

fn place(key: &str) -> Place {
    Place { key: key.to_owned(), ..Place::default() }
}

async fn lock(running: &Running, key: &str) {
    let order = Order { place: place(key), ttl: Some(TTL), ..Order::default() };
    running.api().lock(&caller(), &order).await.unwrap();
}

async fn is_free(running: &Running, key: &str) -> bool {
    let seen = running.api().get(&caller(), &place(key)).await;
    seen.is_err_and(|failure| failure.code == Code::NotFound)
}

#[tokio::test]
async fn locks_are_left_to_end_while_it_is_unwell_and_renewed_when_it_is_well_again() {
    let (app, address) = App::start().await;
    let text = format!(
        "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n[app_health]\n\
         url = 'http://{address}/how?are=you'\ninterval = '50ms'\nthreshold = 3\n"
    );
    let running = Running::start(Config::parse(&text).unwrap()).await.unwrap();
    lock(&running, "one").await;
    pause(TTL * 2).await;
    assert!(!is_free(&running, "one").await, "it is well, and its lock was not renewed");
    assert_eq!(running.api().kept(), 1);

    app.is_well.store(false, Ordering::SeqCst);
    wait("the lock ends", async || is_free(&running, "one").await).await;
    assert!(!running.api().renews());
    lock(&running, "two").await;
    assert_eq!(running.api().kept(), 0, "nothing is renewed for an application that is unwell");
    wait("a lock that was taken meanwhile ends", async || is_free(&running, "two").await).await;

    app.is_well.store(true, Ordering::SeqCst);
    wait("it is seen to be well", async || running.api().renews()).await;
    lock(&running, "three").await;
    pause(TTL * 2).await;
    assert!(!is_free(&running, "three").await, "it is well again, and its lock was not renewed");
    running.shutdown().await;
}

#[tokio::test]
async fn fewer_bad_answers_than_the_threshold_change_nothing() {
    let (app, address) = App::start().await;
    app.is_well.store(false, Ordering::SeqCst);
    let text = format!(
        "listen = '127.0.0.1:0'\nstores.main.url = 'memory:'\n[app_health]\n\
         url = 'http://{address}/how?are=you'\ninterval = '20ms'\nthreshold = 100000\n"
    );
    let running = Running::start(Config::parse(&text).unwrap()).await.unwrap();
    app.was_asked(5).await;
    assert!(running.api().renews());
}
