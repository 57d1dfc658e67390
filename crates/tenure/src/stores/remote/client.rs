//! Requests to the server, spread over a few connections that replace themselves.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::Stream;
use tenure_api::tenure_v1::{WatchKeysRequest, WatchKeysResponse};
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::error::Failure;
use super::options::RemoteOptions;
use super::wire::{Call, WATCH_PATH};
use crate::clock::{Clock, within};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::stores::channel_tls::TlsFiles;

/// How long the server may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(2);
/// A dead connection is found by pings, also while only watches are on it.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(5);

pub(super) struct Client {
    clock: Arc<dyn Clock>,
    token: Option<MetadataValue<Ascii>>,
    endpoint: Endpoint,
    lines: Vec<Line>,
    next: AtomicUsize,
}

/// A connection with its number, so that of many who find it dead only one replaces it.
struct Line(Mutex<(u64, Channel)>);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("connections", &self.lines.len()).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to nothing yet.
    pub(super) fn new(options: &RemoteOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let endpoint = endpoint(options)?;
        let lines = (0..options.connections).map(|_| Line::new(&endpoint)).collect();
        let token = options.token.as_deref().map(bearer).transpose()?;
        Ok(Self { clock, token, endpoint, lines, next: AtomicUsize::new(0) })
    }

    /// Sends a request, and once more by another connection where the first one failed and nothing
    /// was changed. A change is never sent again once it may have been made.
    pub(super) async fn call<C: Call>(&self, request: C) -> Result<C::Answer> {
        // A request is a large future, and many of them wait within larger ones.
        match Box::pin(self.send(request.clone())).await {
            Err(failure) if failure.again => Ok(Box::pin(self.send(request)).await?),
            outcome => Ok(outcome?),
        }
    }

    async fn send<C: Call>(&self, request: C) -> Result<C::Answer, Failure> {
        let line = self.line();
        let (number, channel) = line.channel().clone();
        let request = self.dressed(request);
        let work = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let path = Uri::from_static(C::PATH).into_parts().path_and_query;
            let path = path.ok_or_else(|| Status::internal("no path"))?;
            grpc.unary(request, path, ProstCodec::default()).await
        };
        match within(&*self.clock, PATIENCE, work).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Failure::of(status, C::EFFECT)),
            Err(_) => {
                line.replace(number, &self.endpoint);
                Err(Failure::silence(C::EFFECT, PATIENCE))
            }
        }
    }

    /// A stream of watches. It is answered only when its first request is.
    pub(super) async fn watch(
        &self,
        requests: impl Stream<Item = WatchKeysRequest> + Send + 'static,
    ) -> Result<Streaming<WatchKeysResponse>> {
        let line = self.line();
        let (number, channel) = line.channel().clone();
        let requests = self.dressed(requests);
        let work = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let path = Uri::from_static(WATCH_PATH).into_parts().path_and_query;
            let path = path.ok_or_else(|| Status::internal("no path"))?;
            grpc.streaming(requests, path, ProstCodec::default()).await
        };
        match within(&*self.clock, PATIENCE, work).await {
            Ok(Ok(stream)) => Ok(stream.into_inner()),
            Ok(Err(status)) => Err(Failure::of(status, Effect::Read).into()),
            Err(_) => {
                line.replace(number, &self.endpoint);
                Err(Failure::silence(Effect::Read, PATIENCE).into())
            }
        }
    }

    /// The connection whose turn it is.
    fn line(&self) -> &Line {
        &self.lines[self.next.fetch_add(1, Ordering::Relaxed) % self.lines.len()]
    }

    fn dressed<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }
}

impl Line {
    fn new(endpoint: &Endpoint) -> Self {
        Self(Mutex::new((0, endpoint.connect_lazy())))
    }

    fn channel(&self) -> MutexGuard<'_, (u64, Channel)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection on which an answer stayed out may be dead without knowing it.
    fn replace(&self, number: u64, endpoint: &Endpoint) {
        let mut channel = self.channel();
        if channel.0 == number {
            *channel = (number + 1, endpoint.connect_lazy());
        }
    }
}

fn endpoint(options: &RemoteOptions) -> Result<Endpoint> {
    let wrong = |error: tonic::transport::Error| {
        Error::invalid("the host or the TLS settings of the store are wrong").caused_by(error)
    };
    let files = TlsFiles {
        ca: options.ca.as_deref(),
        cert: options.cert.as_deref(),
        key: options.key.as_deref(),
        server_name: options.server_name.as_deref(),
    };
    let scheme = if options.tls { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{}", options.address))
        .map_err(wrong)?
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER)
        .keep_alive_while_idle(true);
    if options.tls {
        return endpoint.tls_config(files.config(CONNECT)?).map_err(wrong);
    }
    files.refuse_without_tls("tenures")?;
    Ok(endpoint)
}

/// The token as the server reads it. It is never shown, and never kept in a compression table.
fn bearer(token: &str) -> Result<MetadataValue<Ascii>> {
    let mut value = MetadataValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Error::invalid("the token must be printable ASCII"))?;
    value.set_sensitive(true);
    Ok(value)
}
