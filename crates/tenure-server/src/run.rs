//! A server from its configuration: opened, running, and brought to an end.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tenure::Store;
use tenure::clock::{Clock, within};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::accept::Port;
use crate::api::Api;
use crate::config::{Config, OnShutdown};
use crate::dapr::Sidecar;
use crate::door::Door;
use crate::failure::Failure;
use crate::prepare::{Prepared, guests};
use crate::server::{dapr_router, router};
use crate::tls::Encryption;

/// A server that runs. Dropping it stops it at once; [`shutdown`](Self::shutdown) is the clean end.
#[derive(Debug)]
pub struct Running {
    api: Arc<Api>,
    door: Arc<Door>,
    address: SocketAddr,
    dapr_http: Option<SocketAddr>,
    dapr_grpc: Option<SocketAddr>,
    config: Config,
    clock: Arc<dyn Clock>,
    end: watch::Sender<bool>,
    listeners: JoinSet<()>,
    encryption: Option<Arc<Encryption>>,
}

impl Running {
    /// Opens the stores, binds the ports and serves.
    ///
    /// # Errors
    /// `Invalid` for a wrong configuration or an address that is taken; what a store says.
    pub async fn start(config: Config) -> Result<Self, Failure> {
        Self::start_with(config, BTreeMap::new()).await
    }

    /// Checks a configuration and opens its stores, as [`start`](Self::start) would, and nothing
    /// else: a server that runs from it is not in the way.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn check(config: Config) -> Result<(), Failure> {
        Prepared::new(config, BTreeMap::new()).await.map(|_| ())
    }

    /// As [`start`](Self::start), with more stores, by name, which the program has opened itself.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        config: Config,
        stores: BTreeMap<String, Arc<dyn Store>>,
    ) -> Result<Self, Failure> {
        let Prepared { api, door, address, app, encryption, clock, config } =
            Prepared::new(config, stores).await?;
        let listener = bind(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        let mut running = Self {
            api,
            door,
            address,
            dapr_http: None,
            dapr_grpc: None,
            clock,
            end: watch::Sender::new(false),
            listeners: JoinSet::new(),
            encryption,
            config,
        };
        let app_id = running.config.dapr.app_id.clone();
        let sidecar = Arc::new(Sidecar::new(Arc::clone(&running.api), app_id));
        let forrst = &running.config.forrst;
        let router = router(&running.api, &sidecar, &running.door, forrst)?;
        running.listen(listener, router, running.encryption.clone());
        if let Some(app) = app {
            let (api, clock) = (Arc::clone(&running.api), Arc::clone(&running.clock));
            running.listeners.spawn(app.watch(api, clock, running.end.subscribe()));
        }
        running.listen_for_dapr(&sidecar).await?;
        Ok(running)
    }

    /// On the ports of its own that are wanted. Only this machine can reach them, and without TLS,
    /// as with Dapr: its clients know nothing else.
    async fn listen_for_dapr(&mut self, sidecar: &Arc<Sidecar>) -> Result<(), Failure> {
        let router = dapr_router(&self.api, sidecar, &self.door)?;
        self.dapr_http = self.listen_here(self.config.dapr.http_port, &router).await?;
        self.dapr_grpc = self.listen_here(self.config.dapr.grpc_port, &router).await?;
        Ok(())
    }

    async fn listen_here(
        &mut self,
        port: Option<u16>,
        router: &axum::Router,
    ) -> Result<Option<SocketAddr>, Failure> {
        let Some(port) = port else { return Ok(None) };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = bind(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        self.listen(listener, router.clone(), None);
        Ok(Some(address))
    }

    fn listen(
        &mut self,
        listener: TcpListener,
        router: axum::Router,
        encryption: Option<Arc<Encryption>>,
    ) {
        let port = Port {
            listener,
            router,
            encryption,
            connections: self.config.limits.connections(),
            clock: Arc::clone(&self.clock),
        };
        self.listeners.spawn(port.serve(self.end.subscribe()));
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for Dapr's API over HTTP, if it has a port of its own.
    #[must_use]
    pub fn dapr_http(&self) -> Option<SocketAddr> {
        self.dapr_http
    }

    /// Where it listens for Dapr's API over gRPC, if it has a port of its own.
    #[must_use]
    pub fn dapr_grpc(&self) -> Option<SocketAddr> {
        self.dapr_grpc
    }

    /// The calls behind its surfaces.
    #[must_use]
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Takes over what may change while the server runs: who is let in, and the certificates.
    ///
    /// What would not be safe to start with is refused here too; and so is a configuration that
    /// says nothing about who may do what, where one did before: more likely it is broken than
    /// meant.
    ///
    /// # Errors
    /// `Invalid`; then everything stays as it was.
    pub fn reload(&self, config: &Config) -> Result<(), Failure> {
        // The address is the one that it has, whatever is said of it now.
        Config { listen: Some(self.address), ..config.clone() }.check()?;
        let guests = guests(config)?;
        if config.is_open() && !self.door.is_open() {
            let text = "no tokens, certificates or anonymous are left, which would let everybody \
                        in; start the server anew if that is meant";
            return Err(Failure::invalid(text));
        }
        match (&self.encryption, &config.tls) {
            (Some(encryption), Some(tls)) => encryption.reload(tls)?,
            (None, None) => {}
            _ => return Err(Failure::invalid("tls cannot be switched while the server runs")),
        }
        self.door.replace(guests);
        Ok(())
    }

    /// The clean end: no more connections, waits and streams are told, locks are given back or
    /// left as the configuration says, and all that within its time.
    pub async fn shutdown(mut self) {
        let limit = self.config.limits.shutdown.0;
        let clock = Arc::clone(&self.clock);
        self.end.send_replace(true);
        self.api.close();
        // Whoever is still connected could be granted what is given back.
        let connections = async { while self.listeners.join_next().await.is_some() {} };
        in_time(&*clock, limit / 2, connections).await;
        self.listeners.abort_all();
        match self.config.on_shutdown {
            OnShutdown::Release => in_time(&*clock, limit / 4, self.api.release_kept()).await,
            OnShutdown::Leave => self.api.leave_kept(),
        }
        let opened = self.api.rooms().opened();
        let flushed = join_all(opened.iter().map(|locks| locks.flush()));
        in_time(&*clock, limit / 4, async { drop(flushed.await) }).await;
    }
}

/// One part of the end has its own time, so that the next gets some too.
async fn in_time(clock: &dyn Clock, limit: Duration, part: impl Future<Output = ()>) {
    if within(clock, limit, part).await.is_err() {
        tracing::warn!(?limit, "not all was done in time; what is left ends with its ttl");
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| Failure::invalid(format!("{address} cannot be listened on: {error}")))
}
