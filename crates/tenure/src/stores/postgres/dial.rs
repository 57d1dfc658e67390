//! Making connections: to the first address of all that takes writes.
//!
//! An address that stays silent keeps no other from being tried: the next one is, as soon as the
//! one before it has failed or has said nothing for a moment.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::error::Error as Native;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::says_more;
use super::server::{Address, Servers};
use crate::clock::Clock;
use crate::random::{SystemRandom, fraction};

/// How long an address may be silent before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(500);
/// So many addresses have all of their time before the limit.
const ADDRESSES: u32 = 8;

pub(super) type Connected =
    (Client, Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>);
type Carried = (Client, JoinHandle<()>);

/// Makes connections as the options say.
#[derive(Clone)]
pub(super) struct Dialer {
    servers: Servers,
    tls: MakeRustlsConnect,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Dialer {
    pub(super) fn new(servers: Servers, tls: MakeRustlsConnect, clock: Arc<dyn Clock>) -> Self {
        Self { servers, tls, clock }
    }

    /// To other servers, in the same way.
    pub(super) fn to(&self, servers: Servers) -> Self {
        Self { servers, ..self.clone() }
    }

    pub(super) fn settings(&self) -> &Config {
        &self.servers.settings
    }

    /// Within this every address has had its time. It is for the caller to keep.
    pub(super) fn limit(&self) -> Duration {
        self.servers.connect_timeout().saturating_add(HEAD_START * (ADDRESSES - 1))
    }

    pub(super) async fn connect(&self) -> Result<Connected, Native> {
        let mut addresses: Vec<_> = self.servers.addresses.iter().collect();
        if self.servers.settings.get_load_balance_hosts() == LoadBalanceHosts::Random {
            let first = fraction(&SystemRandom) * addresses.len() as f64;
            addresses.rotate_left(first as usize);
        }
        self.first(addresses.into_iter().map(|address| self.reach(address))).await
    }

    /// A name may stand for several addresses.
    async fn reach(&self, address: &Address) -> Result<Connected, Native> {
        let found = match (address.ip, &address.host) {
            (None, Some(Host::Tcp(name))) => look_up(name, address.port).await,
            (given, _) => vec![given],
        };
        let attempts = found.into_iter().map(|ip| {
            let (server, tls) = (self.server(address, ip), self.tls.clone());
            async move { server.connect(tls).await }
        });
        self.first(attempts).await
    }

    fn server(&self, address: &Address, ip: Option<IpAddr>) -> Config {
        let mut server = self.servers.settings.clone();
        match &address.host {
            Some(Host::Tcp(name)) => drop(server.host(name)),
            #[cfg(unix)]
            Some(Host::Unix(path)) => drop(server.host_path(path)),
            None => {}
        }
        if let Some(ip) = ip {
            server.hostaddr(ip);
        }
        server.port(address.port);
        server
    }

    /// What the first attempt that succeeds has made. When all fail, why the one did that came
    /// farthest.
    async fn first<F>(&self, mut attempts: impl Iterator<Item = F>) -> Result<Connected, Native>
    where
        F: Future<Output = Result<Connected, Native>>,
    {
        let mut running = FuturesUnordered::new();
        let mut why: Option<Native> = None;
        loop {
            running.extend(attempts.next().map(Box::pin));
            tokio::select! {
                ended = running.next() => match (ended, why.take()) {
                    (Some(Ok(connected)), _) => return Ok(connected),
                    (Some(Err(error)), Some(known)) if says_more(&known, &error) => {
                        why = Some(known);
                    }
                    (Some(Err(error)), _) => why = Some(error),
                    (None, Some(error)) => return Err(error),
                    // There was nothing to try: the library says what is missing.
                    (None, None) => {
                        let connect = self.servers.settings.connect(self.tls.clone());
                        return Box::pin(connect).await;
                    }
                },
                () = self.clock.sleep_until(self.clock.now() + HEAD_START) => {}
            }
        }
    }
}

impl Connect for Dialer {
    fn connect(
        &self,
        _: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<Carried, Native>> + Send + '_>> {
        Box::pin(async {
            let (client, connection) = self.connect().await?;
            let carrying = tokio::spawn(async {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL broke");
                }
            });
            Ok((client, carrying))
        })
    }
}

/// The addresses of a name. Where there is none, the attempt to connect to the name says why.
async fn look_up(name: &str, port: u16) -> Vec<Option<IpAddr>> {
    let found = tokio::net::lookup_host((name, port)).await;
    let found: Vec<_> = found.into_iter().flatten().map(|address| Some(address.ip())).collect();
    if found.is_empty() { vec![None] } else { found }
}
