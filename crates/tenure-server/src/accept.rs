//! The loop that takes connections: bounded in number, and none of them may dawdle.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustix::net::sockopt;
use tenure::clock::{Clock, within};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use crate::door::Peer;
use crate::failure::Failure;
use crate::host::name_host;
use crate::idle::{Heard, Traffic};
use crate::quota::Quota;
use crate::tls::{Encryption, names_of};
use crate::whole::{AT_ONCE, bounded};

/// How long a peer may take to part, once nothing is under way.
const PARTING: Duration = Duration::from_secs(1);

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
            router,
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
        if let Err(error) = prepare(&stream, self.connections.gone_after) {
            tracing::debug!(%peer, %error, "a connection could not be prepared");
        }
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
        let traffic = Traffic::new(AT_ONCE);
        let front = Front { router: self.router.clone(), traffic: traffic.clone(), peer };
        let service = service_fn(move |request| front.clone().answer(request));
        let stream = TokioIo::new(Heard { stream, traffic: traffic.clone() });
        let connection = self.builder.serve_connection_with_upgrades(stream, service);
        let mut connection = std::pin::pin!(connection);
        let Connections { header_timeout, idle_timeout, .. } = self.connections;
        let mut end = self.end.clone();
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(broken),
            () = traffic.idle(&*self.clock, header_timeout, idle_timeout) => {}
            _ = end.wait_for(|end| *end) => {}
        }
        // What is under way is finished, and the peer is told not to begin anything.
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => ended.map_err(broken),
            () = traffic.idle(&*self.clock, PARTING, PARTING) => Ok(()),
        }
    }
}

/// What stands before all routes, in one piece: each request passes here.
#[derive(Clone)]
struct Front {
    router: Router,
    traffic: Traffic,
    peer: Peer,
}

impl Front {
    async fn answer(mut self, request: Request<Incoming>) -> Result<Response, Infallible> {
        let under_way = self.traffic.begin(request.version());
        let mut request = bounded(request, &self.traffic);
        name_host(&mut request);
        request.extensions_mut().insert(self.peer);
        let response = self.router.call(request).await?;
        Ok(under_way.until_sent(response))
    }
}

fn broken(error: Box<dyn std::error::Error + Send + Sync>) -> Failure {
    Failure::invalid(error.to_string())
}

/// Small messages go out at once, and a peer that is gone is found: by what it does not
/// acknowledge, and where nothing is on its way to it, by asking.
fn prepare(stream: &TcpStream, gone_after: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let limit = u32::try_from(gone_after.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, limit)?;
    // The kernel counts in seconds. The limit above ends the asking.
    let seconds = |time: Duration| Duration::from_secs(time.as_secs().max(1));
    sockopt::set_tcp_keepidle(stream, seconds(gone_after / 2))?;
    sockopt::set_tcp_keepintvl(stream, seconds(gone_after / 4))?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

fn builder(connections: &Connections) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // It would also run between requests; see `Traffic::idle`.
        .header_read_timeout(None)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_is_gone_is_asked_for_and_not_only_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        prepare(&stream, Duration::from_secs(10)).unwrap();
        assert!(stream.nodelay().unwrap());
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(5));
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), Duration::from_secs(2));
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 10_000);
        prepare(&stream, Duration::from_millis(200)).unwrap();
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(1));
    }
}
