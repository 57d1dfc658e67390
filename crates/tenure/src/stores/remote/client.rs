//! Requests to the server, spread over a few connections that replace themselves.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::Stream;
use prost::Message;
use tenure_api::tenure_v1::{WatchKeysRequest, WatchKeysResponse};
use tokio::runtime::Handle;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::error::{Failure, has_no_exchange};
use super::exchange::{Exchange, Trouble};
use super::options::RemoteOptions;
use super::wire::{Call, EXCHANGE_PATH, Exchanged, WATCH_PATH};
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
/// A server without streams of calls is not asked for one again so soon.
const PLAIN: Duration = Duration::from_secs(60);

pub(super) struct Client {
    clock: Arc<dyn Clock>,
    token: Option<MetadataValue<Ascii>>,
    endpoint: Endpoint,
    lines: Vec<Line>,
    next: AtomicUsize,
    /// Until this moment of the clock the server is not asked for streams of calls.
    plain_until: Arc<AtomicU64>,
    runtime: Handle,
}

/// A connection with its number, so that of many who find it dead only one replaces it.
struct Line(Mutex<Link>);

struct Link {
    number: u64,
    channel: Channel,
    exchange: Option<Arc<Exchange>>,
}

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
        let (next, plain_until, runtime) = (AtomicUsize::new(0), Arc::default(), Handle::current());
        Ok(Self { clock, token, endpoint, lines, next, plain_until, runtime })
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

    /// As [`call`](Self::call), on a stream that many calls share, where the server has it.
    pub(super) async fn exchange<C: Exchanged>(&self, request: C) -> Result<C::Answer> {
        match self.pass(&request).await {
            Err(failure) if failure.again => Ok(Box::pin(self.pass(&request)).await?),
            outcome => Ok(outcome?),
        }
    }

    async fn pass<C: Exchanged>(&self, request: &C) -> Result<C::Answer, Failure> {
        if self.is_plain() || !Exchange::takes(request) {
            return Box::pin(self.send(request.clone())).await;
        }
        let line = self.line();
        let (number, exchange) = line.exchange(|channel| self.open(channel));
        let work = exchange.ask(request.clone().asked(), C::EFFECT);
        match within(&*self.clock, PATIENCE, work).await {
            Ok(Ok(answer)) => C::answered(answer).ok_or_else(Failure::malformed),
            Ok(Err(Trouble::NoExchange)) => Box::pin(self.send(request.clone())).await,
            Ok(Err(Trouble::Failed(failure))) => Err(failure),
            Err(_) => {
                line.replace(number, &self.endpoint);
                Err(Failure::silence(C::EFFECT, PATIENCE))
            }
        }
    }

    /// Begins to open a stream of calls.
    fn open(&self, channel: Channel) -> Exchange {
        let (exchange, calls, answers) = Exchange::new();
        let calls = self.dressed(calls);
        let (clock, plain_until) = (Arc::clone(&self.clock), Arc::clone(&self.plain_until));
        self.runtime.spawn(async move {
            let work = stream_of(channel, EXCHANGE_PATH, calls);
            let trouble = match within(&*clock, PATIENCE, work).await {
                Ok(Ok(opened)) => return answers.take(opened).await,
                Ok(Err(status)) if has_no_exchange(&status) => {
                    plain_until.store((clock.now() + PLAIN).as_nanos(), Ordering::Relaxed);
                    Trouble::NoExchange
                }
                // Nothing was sent, so that not even a change can have been made.
                Ok(Err(status)) => Trouble::Failed(Failure::of(status, Effect::Read)),
                Err(_) => Trouble::Failed(Failure::silence(Effect::Read, PATIENCE)),
            };
            answers.refuse(&trouble);
        });
        exchange
    }

    /// Whether the server had no streams of calls lately.
    fn is_plain(&self) -> bool {
        self.clock.now().as_nanos() < self.plain_until.load(Ordering::Relaxed)
    }

    async fn send<C: Call>(&self, request: C) -> Result<C::Answer, Failure> {
        let line = self.line();
        let (number, channel) = line.channel();
        let request = self.dressed(request);
        let work = async {
            let mut grpc = ready(channel).await?;
            let path = Uri::from_static(C::PATH).into_parts().path_and_query;
            grpc.unary(request, path.ok_or_else(no_path)?, ProstCodec::default()).await
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
        let (number, channel) = line.channel();
        let work = stream_of(channel, WATCH_PATH, self.dressed(requests));
        match within(&*self.clock, PATIENCE, work).await {
            Ok(Ok(stream)) => Ok(stream),
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
        Self(Mutex::new(Link { number: 0, channel: endpoint.connect_lazy(), exchange: None }))
    }

    fn channel(&self) -> (u64, Channel) {
        let link = self.link();
        (link.number, link.channel.clone())
    }

    /// Its stream of calls, or a new one if it has none that goes on.
    fn exchange(&self, open: impl FnOnce(Channel) -> Exchange) -> (u64, Arc<Exchange>) {
        let mut link = self.link();
        let going_on = link.exchange.take().filter(|exchange| !exchange.is_over());
        let exchange = going_on.unwrap_or_else(|| Arc::new(open(link.channel.clone())));
        link.exchange = Some(Arc::clone(&exchange));
        (link.number, exchange)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection on which an answer stayed out may be dead without knowing it.
    fn replace(&self, number: u64, endpoint: &Endpoint) {
        let mut link = self.link();
        if link.number == number {
            let (number, channel) = (number + 1, endpoint.connect_lazy());
            *link = Link { number, channel, exchange: None };
        }
    }
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
    Ok(grpc)
}

fn no_path() -> Status {
    Status::internal("no path")
}

async fn stream_of<Q: Message + 'static, A: Message + Default + 'static>(
    channel: Channel,
    method: &'static str,
    requests: Request<impl Stream<Item = Q> + Send + 'static>,
) -> Result<Streaming<A>, Status> {
    let mut grpc = ready(channel).await?;
    let path = Uri::from_static(method).into_parts().path_and_query.ok_or_else(no_path)?;
    let opened = grpc.streaming(requests, path, ProstCodec::default()).await?;
    Ok(opened.into_inner())
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
