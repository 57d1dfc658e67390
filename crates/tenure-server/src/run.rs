//! A server from its configuration: opened, running, and brought to an end.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tenure::clock::{Clock, SystemClock, within};
use tenure::{KeyPolicy, Locks, Store, stores};
use tenure_api::Code;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::accept::Port;
use crate::access::Identity;
use crate::api::Api;
use crate::app_health::AppHealth;
use crate::audit::Audit;
use crate::config::{CertificateConfig, Config, OnShutdown, STORE, StoreConfig, access_of};
use crate::dapr::{KeyPrefix, Sidecar};
use crate::door::{Door, Guests};
use crate::failure::Failure;
use crate::meter::MeterLayer;
use crate::metrics::Metrics;
use crate::rooms::{NamedStore, Rooms};
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

    /// As [`start`](Self::start), with more stores, by name, which the program has opened itself.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        mut config: Config,
        stores: BTreeMap<String, Arc<dyn Store>>,
    ) -> Result<Self, Failure> {
        for note in config.load_components()? {
            tracing::info!("{note}");
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let address = config.address()?;
        let door = Arc::new(Door::new(guests(&config)?));
        let metrics = Arc::new(Metrics::new());
        let audit = config.audit.as_ref().map(Audit::open).transpose()?;
        let rooms = rooms(&config, stores, &clock, &metrics).await?;
        let terms = config.limits.terms();
        let api = Arc::new(Api::new(rooms, terms, Arc::clone(&clock), metrics, audit));
        let app = config.app_health.as_ref().map(AppHealth::new).transpose()?;
        let encryption = config.tls.as_ref().map(Encryption::read).transpose()?.map(Arc::new);
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
        let router = router(&running.api, &sidecar, &running.door)?;
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
        let router = dapr_router(sidecar, &self.door)?;
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
    /// # Errors
    /// `Invalid`; then everything stays as it was.
    pub fn reload(&self, config: &Config) -> Result<(), Failure> {
        let guests = guests(config)?;
        match (&self.encryption, &config.tls) {
            (Some(encryption), Some(tls)) => encryption.reload(tls)?,
            (None, None) => {}
            _ => return Err(Failure::invalid("tls cannot be switched while the server runs")),
        }
        self.door.replace(guests);
        Ok(())
    }

    /// The clean end: no more connections, streams are told, locks are given back or left as the
    /// configuration says, and all that within its time.
    pub async fn shutdown(mut self) {
        let limit = self.config.limits.shutdown.0;
        let clock = Arc::clone(&self.clock);
        self.end.send_replace(true);
        self.api.close_streams();
        let work = async {
            match self.config.on_shutdown {
                OnShutdown::Release => self.api.release_kept().await,
                OnShutdown::Leave => self.api.leave_kept(),
            }
            while self.listeners.join_next().await.is_some() {}
            for (_, _, locks) in self.api.rooms().opened() {
                locks.flush().await;
            }
        };
        if within(&*clock, limit, work).await.is_err() {
            tracing::warn!(?limit, "not all was done in time; what is left ends with its ttl");
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| Failure::invalid(format!("{address} cannot be listened on: {error}")))
}

fn guests(config: &Config) -> Result<Guests, Failure> {
    let tokens = config.tokens.iter().map(|token| token.token()).collect::<Result<_, _>>()?;
    let anonymous = match &config.anonymous {
        Some(guest) => {
            let grants = access_of(&guest.grants)?;
            Some(Identity { name: "anonymous".into(), grants: grants.into() })
        }
        None if config.has_guests() => None,
        None => Some(Identity::unrestricted("anonymous")),
    };
    let certificate = |config: &CertificateConfig| {
        let grants = access_of(&config.grants)?.into();
        Ok(Identity { name: (&*config.name).into(), grants })
    };
    let certificates =
        config.certificates.iter().map(certificate).collect::<Result<_, Failure>>()?;
    Ok(Guests { anonymous, tokens, certificates })
}

async fn rooms(
    config: &Config,
    more: BTreeMap<String, Arc<dyn Store>>,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Result<Rooms, Failure> {
    let mut opened = BTreeMap::new();
    for (name, store) in more {
        let store: Arc<dyn Store> =
            Arc::new(MeterLayer::new(store, &name, Arc::clone(metrics), Arc::clone(clock)));
        let (key_policy, dapr_prefix) = (KeyPolicy::plain(), KeyPrefix::default());
        opened.insert(name, NamedStore { store, key_policy, dapr_prefix });
    }
    for (name, store) in &config.stores {
        opened.insert(name.clone(), open(name, store, clock, metrics).await?);
    }
    let default_store = match (&config.default_store, opened.len()) {
        (Some(name), _) if opened.contains_key(name) => name.clone(),
        (Some(name), _) => {
            return Err(Failure::invalid(format!(
                "default_store {name:?} is not among the stores"
            )));
        }
        (None, 1) => opened.keys().next().cloned().unwrap_or_default(),
        (None, 0) => return Err(Failure::invalid("there must be a store")),
        (None, _) if opened.contains_key(STORE) => STORE.to_owned(),
        (None, count) => {
            // Dapr's API names a store with every request.
            tracing::info!("none of the {count} stores is the default: requests must name one");
            String::new()
        }
    };
    let limits = &config.limits;
    let settings = Locks::builder().limits(limits.limits()).default_ttl(limits.ttl_default.0);
    let rooms = Rooms::new(opened, default_store, settings, Arc::clone(metrics));
    // What is wrong with the limits or with a store shows at the start.
    for name in config.stores.keys() {
        rooms.locks(name, "default").await?;
    }
    Ok(rooms)
}

async fn open(
    name: &str,
    config: &StoreConfig,
    clock: &Arc<dyn Clock>,
    metrics: &Arc<Metrics>,
) -> Result<NamedStore, Failure> {
    let named = |error: tenure::Error| {
        let text = format!("store {name:?}: {}", tenure::error::Chain(&error));
        Failure::new(Code::Unavailable, text)
    };
    let key_policy = match (&config.key_secret_file, config.raw_keys) {
        (Some(_), true) => {
            let text = format!("stores.{name}: raw_keys and key_secret_file exclude each other");
            return Err(Failure::invalid(text));
        }
        (Some(file), false) => {
            let secret = std::fs::read(file).map_err(|error| {
                Failure::invalid(format!("stores.{name}.key_secret_file cannot be read: {error}"))
            })?;
            KeyPolicy::hashed(secret.trim_ascii()).map_err(named)?
        }
        (None, true) => KeyPolicy::raw(),
        (None, false) => KeyPolicy::plain(),
    };
    let dapr_prefix = KeyPrefix::parse(config.key_prefix.as_deref().unwrap_or_default())
        .map_err(|failure| Failure::invalid(format!("stores.{name}.key_prefix: {failure}")))?;
    let store = stores::open(&config.url.0, Arc::clone(clock)).await.map_err(named)?;
    let meter = MeterLayer::new(store, name, Arc::clone(metrics), Arc::clone(clock));
    let store: Arc<dyn Store> = Arc::new(meter);
    Ok(NamedStore { store, key_policy, dapr_prefix })
}
