//! Where the bucket is, what it should be like, and how to log in.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};

use super::bucket::Bucket;
use super::link::Link;
use super::login::{Login, readable};
use super::register::NatsRegister;
use crate::clock::{Clock, within};
use crate::error::{Error, Result};
use crate::random::SystemRandom;
use crate::store::{Store, Timing};
use crate::stores::register::RegisterStore;
use crate::stores::tls::use_ring;

/// How long opening may take in all.
const OPEN_MAX: Duration = Duration::from_secs(10);

/// Where a bucket keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// On disk.
    File,
    /// In memory: locks and fences end with the server.
    Memory,
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Memory => "memory",
        })
    }
}

/// How to open a bucket: every option of the URL can also be set here.
#[derive(Clone)]
pub struct NatsOptions {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) tls: bool,
    pub(super) login: Login,
    pub(super) ca: Option<PathBuf>,
    pub(super) certificate: Option<(PathBuf, PathBuf)>,
    pub(super) domain: Option<String>,
    pub(super) inbox: String,
    pub(super) bucket: String,
    pub(super) description: Option<String>,
    pub(super) replicas: Option<usize>,
    pub(super) storage: Option<Storage>,
    pub(super) create: bool,
    pub(super) timing: Option<Timing>,
    pub(super) syncs_always: bool,
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl NatsOptions {
    /// The options in a URL. What it says nothing about how to log in is taken from the variables
    /// `NATS_CREDS`, `NATS_USER` with `NATS_PASSWORD`, or `NATS_TOKEN`.
    ///
    /// # Errors
    /// `Invalid`, with the name of the option that is wrong, and never its value.
    pub fn new(url: &str) -> Result<Self> {
        let mut options = Self::from_url(url)?;
        if options.login == Login::None {
            options.login = Login::in_environment(|name| std::env::var(name).ok());
        }
        Ok(options)
    }

    /// The name of the bucket; `tenure` unless it is set.
    #[must_use]
    pub fn bucket(mut self, name: impl Into<String>) -> Self {
        self.bucket = name.into();
        self
    }

    /// What a new bucket says of itself.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// How many servers a new bucket is kept on, and an existing one must be: 1 to 5.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = Some(count);
        self
    }

    /// Where a new bucket is kept, and an existing one must be.
    #[must_use]
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Whether a bucket that is not there is made. It is, unless this is set to false.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whose clock ends a lease. Unless it is set: the server's where it can, else the observers'.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = Some(timing);
        self
    }

    /// Asserts that the servers run with `sync_interval: always`, which no client can see.
    #[must_use]
    pub fn syncs_always(mut self, always: bool) -> Self {
        self.syncs_always = always;
        self
    }

    /// Logs in with a user and a password.
    #[must_use]
    pub fn password(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Login::Password { user: user.into(), password: password.into() };
        self
    }

    /// Logs in with a token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.login = Login::Token(token.into());
        self
    }

    /// Logs in with a credentials file: a JWT and its seed.
    #[must_use]
    pub fn credentials(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Login::Credentials(path.into());
        self
    }

    /// Logs in with the nkey seed in this file.
    #[must_use]
    pub fn nkey(mut self, path: impl Into<PathBuf>) -> Self {
        self.login = Login::Nkey(path.into());
        self
    }

    /// Uses TLS and trusts the authorities in this PEM file, instead of the system's.
    #[must_use]
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(path.into());
        self
    }

    /// Uses TLS and shows this certificate: PEM files of the certificate and its key.
    #[must_use]
    pub fn certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate = Some((cert.into(), key.into()));
        self
    }

    /// The JetStream domain that the bucket lives in.
    #[must_use]
    pub fn domain(mut self, name: impl Into<String>) -> Self {
        self.domain = Some(name.into());
        self
    }

    /// What the subjects of replies begin with; `_INBOX` unless it is set.
    #[must_use]
    pub fn inbox(mut self, prefix: impl Into<String>) -> Self {
        self.inbox = prefix.into();
        self
    }

    /// Connects, finds or makes the bucket, and looks at its configuration.
    ///
    /// # Errors
    /// `Denied` for credentials or permissions, `Unavailable` when the server is away,
    /// `Unsupported` without JetStream, `Mismatch` when an existing bucket is not as asked,
    /// `Invalid` for everything else that is set wrongly.
    pub async fn open(self, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
        self.check()?;
        let opening = self.open_unbounded(Arc::clone(&clock));
        match within(&*clock, OPEN_MAX, Box::pin(opening)).await {
            Ok(opened) => opened,
            Err(_) => Err(Error::unavailable(format!("NATS did not answer within {OPEN_MAX:?}"))),
        }
    }

    async fn open_unbounded(self, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
        use_ring();
        let options = self.connecting().await?;
        let (servers, domain) = (self.servers.clone(), self.domain.as_deref());
        let link = Link::connect(servers, options, &self.inbox, domain, Arc::clone(&clock)).await?;
        let link = Arc::new(link);
        let bucket = Bucket::open(&link, &self).await?;
        let register = Arc::new(NatsRegister::new(link, bucket));
        Ok(Arc::new(RegisterStore::new(register, clock, Arc::new(SystemRandom))))
    }

    pub(super) fn check(&self) -> Result<()> {
        let is_name = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !text.is_empty() && text.len() <= 128 && text.chars().all(allowed)
        };
        if !is_name(&self.bucket) {
            let size = self.bucket.len();
            let text = "bucket must have 1 to 128 of A-Z a-z 0-9 _ -, this one has";
            return Err(Error::invalid(format!("{text} {size} bytes")));
        }
        if self.domain.as_deref().is_some_and(|domain| !is_name(domain)) {
            return Err(Error::invalid("domain must have 1 to 128 of A-Z a-z 0-9 _ -"));
        }
        if !self.inbox.split('.').all(is_name) || self.inbox.len() > 128 {
            return Err(Error::invalid("inbox must be the beginning of a subject"));
        }
        match self.replicas {
            Some(count) if !(1..=5).contains(&count) => {
                Err(Error::invalid(format!("replicas must be 1 to 5, not {count}")))
            }
            _ => Ok(()),
        }
    }

    async fn connecting(&self) -> Result<ConnectOptions> {
        let mut options = ConnectOptions::new();
        let uses_tls = self.tls || self.ca.is_some() || self.certificate.is_some();
        options = options.require_tls(uses_tls);
        if let Some(ca) = &self.ca {
            readable("ca", ca)?;
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((cert, key)) = &self.certificate {
            readable("cert", cert)?;
            readable("key", key)?;
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        self.login.applied(options).await
    }
}
