//! All of a server but its ports, from its configuration.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tenure::clock::{Clock, SystemClock};
use tenure::{KeyPolicy, Locks, Store, stores};
use tenure_api::Code;

use crate::access::{ANONYMOUS, Identity};
use crate::api::Api;
use crate::app_health::AppHealth;
use crate::audit::Audit;
use crate::config::{CertificateConfig, Config, STORE, StoreConfig, access_of};
use crate::dapr::KeyPrefix;
use crate::door::{Door, Guests};
use crate::failure::Failure;
use crate::meter::MeterLayer;
use crate::metrics::Metrics;
use crate::rooms::{NamedStore, Rooms};
use crate::tls::Encryption;

/// A server that can be started.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) api: Arc<Api>,
    pub(crate) door: Arc<Door>,
    pub(crate) address: SocketAddr,
    pub(crate) app: Option<AppHealth>,
    pub(crate) encryption: Option<Arc<Encryption>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
}

impl Prepared {
    /// Checks the configuration and opens the stores, and with them more that are open already.
    pub(crate) async fn new(
        mut config: Config,
        stores: BTreeMap<String, Arc<dyn Store>>,
    ) -> Result<Self, Failure> {
        for note in config.load_components()? {
            tracing::info!("{note}");
        }
        config.check()?;
        let address = config.address()?;
        let door = Arc::new(Door::new(guests(&config)?));
        let app = config.app_health.as_ref().map(AppHealth::new).transpose()?;
        let encryption = config.tls.as_ref().map(Encryption::read).transpose()?.map(Arc::new);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Arc::new(Metrics::new());
        let audit = config.audit.as_ref().map(Audit::open).transpose()?;
        let rooms = rooms(&config, stores, &clock, &metrics).await?;
        let terms = config.limits.terms();
        let api = Arc::new(Api::new(rooms, terms, Arc::clone(&clock), metrics, audit));
        Ok(Self { api, door, address, app, encryption, clock, config })
    }
}

/// Who is let in.
pub(crate) fn guests(config: &Config) -> Result<Guests, Failure> {
    let tokens = config.tokens.iter().map(|token| token.token()).collect::<Result<_, _>>()?;
    let anonymous = match &config.anonymous {
        Some(guest) => {
            let grants = access_of(&guest.grants)?;
            Some(Identity { name: ANONYMOUS.into(), grants: grants.into() })
        }
        None if config.is_open() => Some(Identity::unrestricted(ANONYMOUS)),
        None => None,
    };
    let certificate = |config: &CertificateConfig| {
        let grants = access_of(&config.grants)?.into();
        Ok(Identity { name: (&*config.name).into(), grants })
    };
    let certificates =
        config.certificates.iter().map(certificate).collect::<Result<_, Failure>>()?;
    Ok(Guests { anonymous, tokens, certificates, hosts: config.hosts.clone() })
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
