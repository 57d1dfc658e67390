//! The loop that takes connections: bounded in number, and none of them may dawdle.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::middleware::from_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tenure::clock::{Clock, within};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::door::Peer;
use crate::failure::Failure;
use crate::idle::{Traffic, count};
use crate::quota::Quota;
use crate::tls::{Encryption, names_of};
use crate::whole::whole;

/// What connections may do.
#[derive(Clone, Debug)]
pub struct Connections {
    /// How many there may be at once.
    pub max: usize,
    /// How many there may be from one address.
    pub per_address: usize,
    /// How long the head of a request may take.
    pub header_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// After how long without a request a connection is closed.
    pub idle_timeout: Duration,
    /// After how long without a sign of life a peer is taken to be gone.
    pub gone_after: Duration,
    /// How many requests one HTTP/2 connection may have under way.
    pub streams: u32,
    /// How long the end may take.
    pub farewell: Duration,
}

/// A port that is served.
pub(crate) struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    pub(crate) encryption: Option<Arc<Encryption>>,
    pub(crate) connections: Connections,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What every connection of a port shares.
struct Shared {
    builder: Builder<TokioExecutor>,
    router: Router,
    encryption: Option<Arc<Encryption>>,
    connections: Connections,
    clock: Arc<dyn Clock>,
    end: watch::Receiver<bool>,
}

impl Port {
    /// Serves until `end` is set; then no more connections are taken, and those that are open have
    /// some time to finish.
    pub(crate) async fn serve(self, mut end: watch::Receiver<bool>) {
        let Self { listener, router, encryption, connections, clock } = self;
        let free = Arc::new(Semaphore::new(connections.max));
        let addresses = Quota::new("connections", connections.per_address);
        let farewell = connections.farewell;
        let shared = Arc::new(Shared {
            builder: builder(&connections),
            router: router.layer(from_fn(whole)).layer(from_fn(count)),
            encryption,
            connections,
            clock: Arc::clone(&clock),
            end: end.clone(),
        });
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = end.wait_for(|end| *end) => break,
                Some(_) = open.join_next() => continue,
                accepted = accept(&listener, &free) => accepted,
            };
            let (stream, peer, place) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    clock.sleep_until(clock.now() + Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(ticket) = addresses.take(peer.ip().to_string()) else {
                tracing::debug!(%peer, "too many connections from this address");
                continue;
            };
            let shared = Arc::clone(&shared);
            open.spawn(async move {
                let _counted = (place, ticket);
                if let Err(error) = shared.serve(stream, peer).await {
                    tracing::debug!(%peer, %error, "a connection ended badly");
                }
            });
        }
        drop(listener);
        let all = async { while open.join_next().await.is_some() {} };
        if within(&*clock, farewell, all).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }
}

type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, free: &Arc<Semaphore>) -> std::io::Result<Accepted> {
    let place = Arc::clone(free).acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

impl Shared {
    async fn serve(&self, stream: TcpStream, peer: SocketAddr) -> Result<(), Failure> {
        prepare(&stream, self.connections.gone_after);
        let Some(encryption) = &self.encryption else {
            return self.talk(stream, Peer { address: peer, names: [].into() }).await;
        };
        let handshake = TlsAcceptor::from(encryption.current()).accept(stream);
        let limit = self.connections.handshake_timeout;
        let stream = match within(&*self.clock, limit, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Failure::invalid(format!("no TLS: {error}"))),
            Err(_) => return Err(Failure::invalid("the TLS handshake took too long")),
        };
        let certificates = stream.get_ref().1.peer_certificates();
        let names = certificates.and_then(<[_]>::first).map(names_of).unwrap_or_default();
        self.talk(stream, Peer { address: peer, names: names.into() }).await
    }

    /// One connection from its first byte to its last.
    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
    ) -> Result<(), Failure> {
        let traffic = Traffic::default();
        let router = self.router.clone().layer(Extension(traffic.clone())).layer(Extension(peer));
        let service = TowerToHyperService::new(router);
        let connection = self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let Connections { header_timeout, idle_timeout, .. } = self.connections;
        let idle = traffic.idle(&*self.clock, header_timeout, idle_timeout);
        let mut end = self.end.clone();
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(broken),
            // Nothing is under way, so nothing is lost.
            () = idle => return Ok(()),
            _ = end.wait_for(|end| *end) => connection.as_mut().graceful_shutdown(),
        }
        connection.await.map_err(broken)
    }
}

fn broken(error: Box<dyn std::error::Error + Send + Sync>) -> Failure {
    Failure::invalid(error.to_string())
}

/// Small messages go out at once, and a peer that does not answer any more is found.
fn prepare(stream: &TcpStream, gone_after: Duration) {
    let gone_after = u32::try_from(gone_after.as_millis()).unwrap_or(u32::MAX);
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, gone_after)?));
    if let Err(error) = prepared {
        tracing::debug!(%error, "a connection could not be prepared");
    }
}

fn builder(connections: &Connections) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.header_timeout)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(connections.gone_after / 2)
        .keep_alive_timeout(connections.gone_after / 2)
        .max_concurrent_streams(connections.streams)
        .max_header_list_size(16 * 1024);
    builder
}
