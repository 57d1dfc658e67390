//! The loop that takes connections: bounded in number, and none of them may dawdle.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tenure::clock::{Clock, within};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::door::Peer;

/// What a connection may do.
#[derive(Clone, Debug)]
pub struct Connections {
    /// How many there may be at once.
    pub max: usize,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How often a silent HTTP/2 connection is asked whether it lives, and how long it may take to
    /// say so.
    pub ping: (Duration, Duration),
    /// How many requests one HTTP/2 connection may have under way.
    pub streams: u32,
    /// How long the end may take.
    pub farewell: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            max: 10_000,
            header_timeout: Duration::from_secs(10),
            ping: (Duration::from_secs(10), Duration::from_secs(10)),
            streams: 20_000,
            farewell: Duration::from_secs(10),
        }
    }
}

/// Serves `router` on `listener` until `end` resolves; then no more connections are taken, and
/// those that are open have some time to finish.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    clock: Arc<dyn Clock>,
    end: impl Future<Output = ()> + Send,
) {
    let builder = Arc::new(builder(&connections));
    let free = Arc::new(Semaphore::new(connections.max));
    let graceful = GracefulShutdown::new();
    let mut end = std::pin::pin!(end);
    loop {
        let place = tokio::select! {
            biased;
            () = &mut end => break,
            place = Arc::clone(&free).acquire_owned() => place,
        };
        let accepted = tokio::select! {
            biased;
            () = &mut end => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                clock.sleep_until(clock.now() + Duration::from_millis(100)).await;
                continue;
            }
        };
        prepare(&stream);
        let service = router.clone().layer(Extension(Peer(peer)));
        let io = TokioIo::new(stream);
        let connection =
            builder.serve_connection_with_upgrades(io, TowerToHyperService::new(service));
        let connection = graceful.watch(connection.into_owned());
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::trace!(%peer, error = %error, "a connection ended badly");
            }
        });
    }
    drop(listener);
    if within(&*clock, connections.farewell, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

/// Small messages go out at once, and a peer that is gone is found.
fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
}

fn builder(connections: &Connections) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.header_timeout)
        .keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(connections.ping.0)
        .keep_alive_timeout(connections.ping.1)
        .max_concurrent_streams(connections.streams)
        .max_header_list_size(16 * 1024);
    builder
}
