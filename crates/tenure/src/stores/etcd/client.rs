//! Requests to the members of a cluster: the way to the next member, the login, the limit.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Uri};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::error::{Blame, Failure, Remedy};
use super::options::EtcdOptions;
use super::wire::{AuthenticateRequest, Call, WATCH_PATH, WatchRequest, WatchResponse};
use crate::clock::{Clock, within};
use crate::effect::Effect;
use crate::error::{Error, Result};
use crate::stores::channel_tls::TlsFiles;

/// How long one member may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(2);
/// A dead connection is found by pings; etcd takes it amiss when they come more often than every
/// five seconds, or while nothing is asked.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER: Duration = Duration::from_secs(5);

type Token = MetadataValue<Ascii>;

pub(super) struct Client {
    clock: Arc<dyn Clock>,
    members: Vec<Member>,
    current: AtomicUsize,
    login: Option<AuthenticateRequest>,
    token: Mutex<Option<Token>>,
    logging_in: tokio::sync::Mutex<()>,
}

struct Member {
    endpoint: Endpoint,
    /// With its number, so that of many who find it dead only one replaces it.
    channel: Mutex<(u64, Channel)>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to nothing yet.
    pub(super) fn new(options: &EtcdOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let tls = tls_of(options)?;
        let members = options
            .endpoints
            .iter()
            .map(|host| Member::new(host, tls.as_ref()))
            .collect::<Result<_>>()?;
        let login = options.user.as_ref().map(|name| AuthenticateRequest {
            name: name.clone(),
            password: options.password.clone().unwrap_or_default(),
        });
        Ok(Self {
            clock,
            members,
            current: AtomicUsize::new(0),
            login,
            token: Mutex::default(),
            logging_in: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// Sends a request, and where it certainly changed nothing, to the next member when one fails.
    /// A change is never sent again once it may have been made.
    pub(super) async fn call<C: Call>(&self, request: C) -> Result<C::Answer, Failure> {
        let token = self.token();
        match self.try_members(&request, token.clone()).await {
            Err(failure) if failure.remedy == Remedy::Login && self.has_login() => {
                self.login(token).await?;
                self.try_members(&request, self.token()).await
            }
            outcome => outcome,
        }
    }

    async fn try_members<C: Call>(
        &self,
        request: &C,
        token: Option<Token>,
    ) -> Result<C::Answer, Failure> {
        let mut tries = self.members.len().max(2);
        loop {
            let at = self.current.load(Ordering::Relaxed);
            // A request is a large future, and many of them wait within larger ones.
            let sent = Box::pin(self.send(at, request.clone(), token.clone()));
            let failure = match sent.await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.blame != Blame::Nobody {
                self.leave(at);
            }
            tries -= 1;
            if tries == 0 || failure.remedy != Remedy::OtherMember {
                return Err(failure);
            }
        }
    }

    async fn send<C: Call>(
        &self,
        at: usize,
        request: C,
        token: Option<Token>,
    ) -> Result<C::Answer, Failure> {
        let (number, channel) = self.members[at].channel().clone();
        let work = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let path = Uri::from_static(C::PATH).into_parts().path_and_query;
            let path = path.ok_or_else(|| Status::internal("no path"))?;
            grpc.unary(dressed(request, token), path, ProstCodec::default()).await
        };
        match within(&*self.clock, PATIENCE, work).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Failure::of(status, C::EFFECT)),
            Err(_) => {
                self.members[at].replace(number);
                Err(Failure::silence(C::EFFECT, PATIENCE))
            }
        }
    }

    /// A stream of watches. It is answered only when its first request is.
    pub(super) async fn watch(
        &self,
        requests: impl futures_util::Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let at = self.current.load(Ordering::Relaxed);
        let (number, channel) = self.members[at].channel().clone();
        let token = self.token();
        let work = async {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
            let path = Uri::from_static(WATCH_PATH).into_parts().path_and_query;
            let path = path.ok_or_else(|| Status::internal("no path"))?;
            grpc.streaming(dressed(requests, token), path, ProstCodec::default()).await
        };
        let failure = match within(&*self.clock, PATIENCE, work).await {
            Ok(Ok(stream)) => return Ok(stream.into_inner()),
            Ok(Err(status)) => Failure::of(status, Effect::Read),
            Err(_) => {
                self.members[at].replace(number);
                Failure::silence(Effect::Read, PATIENCE)
            }
        };
        if failure.blame != Blame::Nobody {
            self.leave(at);
        }
        Err(failure)
    }

    /// Whoever asks next asks another member, unless someone has seen to that already.
    fn leave(&self, at: usize) {
        let next = (at + 1) % self.members.len();
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        // An error means that another task has moved on.
        let _ = self.current.compare_exchange(at, next, set, get);
    }

    pub(super) fn leave_member(&self) {
        self.leave(self.current.load(Ordering::Relaxed));
    }

    /// Gets a token to replace `stale`, unless another task has. Without a login it does nothing.
    pub(super) async fn login(&self, stale: Option<Token>) -> Result<(), Failure> {
        let Some(login) = &self.login else { return Ok(()) };
        let _one_at_a_time = self.logging_in.lock().await;
        if self.token() != stale {
            return Ok(());
        }
        let token = match self.try_members(login, None).await {
            Ok(answer) => MetadataValue::try_from(answer.token).ok(),
            Err(failure) if failure.remedy == Remedy::NoLogin => None,
            Err(failure) => return Err(failure),
        };
        *self.locked_token() = token;
        Ok(())
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.locked_token().clone()
    }

    fn locked_token(&self) -> MutexGuard<'_, Option<Token>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn new(host: &str, tls: Option<&ClientTlsConfig>) -> Result<Self> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let wrong = |error: tonic::transport::Error| {
            Error::invalid("the host or the TLS settings of the store are wrong").caused_by(error)
        };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))
            .map_err(wrong)?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWER)
            .keep_alive_while_idle(false);
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls.clone()).map_err(wrong)?;
        }
        let channel = Mutex::new((0, endpoint.connect_lazy()));
        Ok(Self { endpoint, channel })
    }

    fn channel(&self) -> MutexGuard<'_, (u64, Channel)> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection on which an answer stayed out may be dead without knowing it.
    fn replace(&self, number: u64) {
        let mut channel = self.channel();
        if channel.0 == number {
            *channel = (number + 1, self.endpoint.connect_lazy());
        }
    }
}

fn dressed<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    // A member that sees no leader says so at once, instead of keeping the request.
    metadata.insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        metadata.insert("token", token);
    }
    request
}

fn tls_of(options: &EtcdOptions) -> Result<Option<ClientTlsConfig>> {
    let files = TlsFiles {
        ca: options.ca.as_deref(),
        cert: options.cert.as_deref(),
        key: options.key.as_deref(),
        server_name: options.server_name.as_deref(),
    };
    if options.tls {
        return files.config(CONNECT).map(Some);
    }
    files.refuse_without_tls("etcds")?;
    Ok(None)
}
