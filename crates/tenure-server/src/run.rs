//! A server from its configuration: opened, running, and brought to an end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tenure::clock::{Clock, SystemClock, within};
use tenure::{KeyPolicy, Locks, stores};
use tenure_api::Code;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::accept::serve;
use crate::access::Identity;
use crate::api::Api;
use crate::config::access_of;
use crate::config::{Config, OnShutdown, STORE, StoreConfig};
use crate::door::{Door, Guests};
use crate::failure::Failure;
use crate::rooms::{NamedStore, Rooms};
use crate::server::router;

/// A server that runs. Dropping it stops it at once; [`shutdown`](Self::shutdown) is the clean end.
#[derive(Debug)]
pub struct Running {
    api: Arc<Api>,
    door: Arc<Door>,
    address: SocketAddr,
    config: Config,
    clock: Arc<dyn Clock>,
    end: watch::Sender<bool>,
    listeners: JoinSet<()>,
}

impl Running {
    /// Opens the stores, binds the ports and serves.
    ///
    /// # Errors
    /// `Invalid` for a wrong configuration or an address that is taken; what a store says.
    pub async fn start(config: Config) -> Result<Self, Failure> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let address = config.address()?;
        let door = Arc::new(Door::new(guests(&config)?));
        let api = Arc::new(Api::new(
            rooms(&config, &clock).await?,
            config.limits.terms(),
            Arc::clone(&clock),
        ));
        let listener = bind(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        let mut running = Self {
            api,
            door,
            address,
            clock,
            end: watch::Sender::new(false),
            listeners: JoinSet::new(),
            config,
        };
        let router = router(&running.api, &running.door)?;
        running.listen(listener, router);
        Ok(running)
    }

    fn listen(&mut self, listener: TcpListener, router: axum::Router) {
        let mut end = self.end.subscribe();
        let ended = async move {
            let _ = end.wait_for(|end| *end).await;
        };
        let connections = self.config.limits.connections();
        let clock = Arc::clone(&self.clock);
        self.listeners.spawn(serve(listener, router, connections, clock, ended));
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The calls behind its surfaces.
    #[must_use]
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Takes over what may change while the server runs: who is let in.
    ///
    /// # Errors
    /// `Invalid`; then everything stays as it was.
    pub fn reload(&self, config: &Config) -> Result<(), Failure> {
        self.door.replace(guests(config)?);
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
    Ok(Guests { anonymous, tokens })
}

async fn rooms(config: &Config, clock: &Arc<dyn Clock>) -> Result<Rooms, Failure> {
    let mut opened = BTreeMap::new();
    for (name, store) in &config.stores {
        opened.insert(name.clone(), open(name, store, clock).await?);
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
            return Err(Failure::invalid(format!(
                "default_store must name one of the {count} stores"
            )));
        }
    };
    let limits = &config.limits;
    let settings = Locks::builder().limits(limits.limits()).default_ttl(limits.ttl_default.0);
    Ok(Rooms::new(opened, default_store, settings))
}

async fn open(
    name: &str,
    config: &StoreConfig,
    clock: &Arc<dyn Clock>,
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
    let store = stores::open(&config.url.0, Arc::clone(clock)).await.map_err(named)?;
    let dapr_prefix = config.key_prefix.clone().unwrap_or_default();
    Ok(NamedStore { store, key_policy, dapr_prefix })
}
