//! Making connections: to a node, for commands or for messages, and to a Sentinel.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use ::redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisResult, TlsCertificates,
};

use super::error;
use super::options::{Address, Credentials, Layout, RedisOptions};
use crate::clock::{Clock, within};
use crate::error::{Error, ErrorKind, Result};

/// How long making one connection may take, greeting and all.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// How long the system lets what was sent go unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// How many commands may queue in front of the socket before callers wait their turn.
const QUEUE: usize = 512;

/// Makes connections as the options say.
pub(super) struct Dialer {
    options: RedisOptions,
    certificates: Option<TlsCertificates>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A connection for commands, until it is dead.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    dead: Arc<AtomicBool>,
}

impl Live {
    /// Whether the next command may still go this way.
    pub(super) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Acquire)
    }

    /// Nothing more is sent this way. What was sent is still waited for.
    pub(super) fn retire(&self) {
        self.dead.store(true, Ordering::Release);
    }
}

impl Dialer {
    pub(super) fn new(options: RedisOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let certificates = match &options.tls {
            None => None,
            Some(tls) => {
                crate::stores::tls::use_ring();
                let client_tls = match &tls.client {
                    None => None,
                    Some((cert, key)) => Some(ClientTlsConfig {
                        client_cert: pem("cert", cert)?,
                        client_key: pem("key", key)?,
                    }),
                };
                let root_cert = tls.ca.as_deref().map(|path| pem("ca", path)).transpose()?;
                Some(TlsCertificates { client_tls, root_cert })
            }
        };
        Ok(Self { options, certificates, clock })
    }

    pub(super) fn options(&self) -> &RedisOptions {
        &self.options
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// A connection for commands. In the one protocol that tells when it breaks, so that nothing is
    /// sent into a connection that is known to be dead.
    pub(super) async fn connect(&self, address: &Address) -> Result<Live> {
        let dead = Arc::new(AtomicBool::new(false));
        let told = {
            let dead = Arc::clone(&dead);
            move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    dead.store(true, Ordering::Release);
                }
                Ok::<_, ::redis::aio::SendError>(())
            }
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(told);
        let client = self.client(address, self.settings().set_protocol(ProtocolVersion::RESP3))?;
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let live = Live { connection: self.bounded(connection).await?, dead };
        // A Cluster's replica says by itself where the primary is.
        if self.options.layout != Layout::Cluster {
            self.refuse_replica(live.clone()).await?;
        }
        Ok(live)
    }

    async fn refuse_replica(&self, mut live: Live) -> Result<()> {
        let mut command = ::redis::cmd("ROLE");
        let command = command.take();
        let role: Vec<::redis::Value> =
            self.bounded(command.query_async(&mut live.connection)).await?;
        match role.first() {
            Some(::redis::Value::BulkString(role)) if role == b"slave" => {
                Err(Error::unavailable(error::READ_ONLY))
            }
            Some(::redis::Value::BulkString(role)) if role == b"sentinel" => {
                let text = "this is a Sentinel: use redis+sentinel:// with the option service";
                Err(Error::invalid(text))
            }
            _ => Ok(()),
        }
    }

    /// A connection for messages.
    pub(super) async fn listen(&self, address: &Address) -> Result<PubSub> {
        let client = self.client(address, self.settings())?;
        self.bounded(client.get_async_pubsub()).await
    }

    /// Where a Sentinel says the primary is; `None` when it knows no such service.
    pub(super) async fn ask_sentinel(
        &self,
        sentinel: &Address,
        service: &str,
    ) -> Result<Option<Address>> {
        let settings = with(&self.options.sentinel_credentials);
        let client = self.client(sentinel, settings)?;
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let found: Option<(String, u16)> = self
            .bounded(async {
                let mut connection =
                    client.get_multiplexed_async_connection_with_config(&config).await?;
                let mut command = ::redis::cmd("SENTINEL");
                command.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
                command.query_async(&mut connection).await
            })
            .await?;
        Ok(found.map(|(host, port)| Address { host, port }))
    }

    fn settings(&self) -> RedisConnectionInfo {
        with(&self.options.credentials).set_db(self.options.database.into())
    }

    fn client(&self, address: &Address, settings: RedisConnectionInfo) -> Result<Client> {
        let Address { host, port } = address.clone();
        let addr = match self.certificates {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let keepalive =
            TcpKeepalive::new().with_time(UNACKNOWLEDGED_MAX).with_interval(UNACKNOWLEDGED_MAX / 4);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(UNACKNOWLEDGED_MAX);
        let client = addr.into_connection_info().and_then(|info| {
            let info = info.set_tcp_settings(tcp).set_redis_settings(settings);
            match &self.certificates {
                None => Client::open(info),
                Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            }
        });
        client.map_err(|error| {
            Error::invalid("the certificates cannot be read as PEM files").caused_by(error)
        })
    }

    async fn bounded<T>(&self, work: impl Future<Output = RedisResult<T>>) -> Result<T> {
        match within(&*self.clock, CONNECT_WITHIN, work).await {
            Ok(outcome) => outcome.map_err(error::unreachable),
            Err(_) => {
                let plain = self.certificates.is_none();
                let hint =
                    if plain { "is it a TLS port (rediss://)?" } else { "is it the TLS port?" };
                Err(Error::unavailable(format!(
                    "Redis let {CONNECT_WITHIN:?} pass without an answer to the greeting: {hint}"
                )))
            }
        }
    }
}

fn with(credentials: &Credentials) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(username) = &credentials.username {
        settings = settings.set_username(username);
    }
    if let Some(password) = &credentials.password {
        settings = settings.set_password(password);
    }
    settings
}

fn pem(option: &str, path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(|error| {
        Error::new(ErrorKind::Invalid, format!("option {option}: the file cannot be read"))
            .caused_by(error)
    })?;
    let begins = b"-----BEGIN ";
    if !bytes.windows(begins.len()).any(|window| window == begins) {
        return Err(Error::invalid(format!("option {option}: the file has nothing in PEM form")));
    }
    Ok(bytes)
}
