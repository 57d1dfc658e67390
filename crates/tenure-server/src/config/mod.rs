//! The configuration: one schema for the file, the environment and the flags.

mod access;
mod components;
mod forrst;
mod limits;
mod read;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

pub(crate) use access::grants as access_of;
pub use access::{CertificateConfig, GrantConfig, GuestConfig, TokenConfig};
pub use forrst::ForrstConfig;
pub use limits::LimitsConfig;
pub use value::{Span, Url};

/// Where the server listens when nothing is said.
pub const LISTEN: &str = "127.0.0.1:7117";

/// The name of a store that is given without one, which is also its name in Dapr's API.
pub const STORE: &str = "lockstore";

/// All that can be said about a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to listen, for HTTP and gRPC together.
    pub listen: Option<SocketAddr>,
    /// The stores by name.
    pub stores: BTreeMap<String, StoreConfig>,
    /// The store of requests that name none; not needed where there is only one.
    pub default_store: Option<String>,
    /// Allows another address than loopback without TLS or without authentication.
    pub insecure: bool,
    /// Names by which callers without a token or a certificate may call this server, besides its
    /// addresses and names without a dot. Any other may be that of a page in somebody's browser.
    pub hosts: Vec<String>,
    /// What becomes of the locks that the server keeps for clients when it goes down.
    pub on_shutdown: OnShutdown,
    /// Encryption, and certificates of clients.
    pub tls: Option<TlsConfig>,
    /// Whoever brings one of these tokens.
    pub tokens: Vec<TokenConfig>,
    /// Whoever brings one of these certificates.
    pub certificates: Vec<CertificateConfig>,
    /// Whoever brings neither. Not set: everything on loopback if there are no tokens and no
    /// certificates, otherwise nothing.
    pub anonymous: Option<GuestConfig>,
    /// The bounds of what clients may ask for.
    pub limits: LimitsConfig,
    /// Dapr's API on ports of its own.
    pub dapr: DaprConfig,
    /// Forrst's calls, and where to hand them on.
    pub forrst: ForrstConfig,
    /// The application whose locks are renewed only while it is well.
    pub app_health: Option<AppHealthConfig>,
    /// What is written down about every change.
    pub audit: Option<AuditConfig>,
    /// What is said to stderr.
    pub log: LogConfig,
    /// Where spans are sent.
    pub trace: Option<TraceConfig>,
}

/// A store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Where it is.
    pub url: Url,
    /// Keys are written into the store as they come, without a namespace in front: for a store that
    /// clients of another make share. Only the namespace `default` can be used then.
    #[serde(default)]
    pub raw_keys: bool,
    /// A file with the secret under which keys are hashed before they are written.
    #[serde(default)]
    pub key_secret_file: Option<PathBuf>,
    /// What Dapr's API puts before a key: `appid`, `name`, `none` or a word.
    #[serde(default)]
    pub key_prefix: Option<String>,
}

/// What becomes of locks at the end.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnShutdown {
    /// They are given back.
    #[default]
    Release,
    /// They are left alone, and end with their ttl.
    Leave,
}

/// Encryption.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The server's certificate chain, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// Those whose certificates clients may bring, as PEM. Not set: none are asked for.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    /// Turns away clients without a certificate.
    #[serde(default)]
    pub client_required: bool,
}

/// Dapr's API on ports of its own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DaprConfig {
    /// For HTTP. Dapr's own is 3500.
    pub http_port: Option<u16>,
    /// For gRPC. Dapr's own is 50001.
    pub grpc_port: Option<u16>,
    /// The application beside which this server runs; part of the keys of stores that say so.
    pub app_id: String,
    /// A folder with components as Dapr writes them: those of type `lock.redis` become stores.
    pub components: Option<PathBuf>,
}

/// The application whose locks are renewed only while it is well.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppHealthConfig {
    /// Asked with GET; an answer of 200 to 299 is well. Plain HTTP.
    pub url: Url,
    /// How often.
    #[serde(default = "AppHealthConfig::interval")]
    pub interval: Span,
    /// After how many bad answers in a row it is unwell.
    #[serde(default = "AppHealthConfig::threshold")]
    pub threshold: u32,
}

impl AppHealthConfig {
    fn interval() -> Span {
        Span::from_secs(5)
    }

    fn threshold() -> u32 {
        3
    }
}

/// What is written down about every change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// Where to: a file that is only appended to.
    pub file: PathBuf,
    /// Whether keys are written as they are or as a digest.
    #[serde(default)]
    pub keys: AuditKeys,
    /// Also what only looked: get, list, events.
    #[serde(default)]
    pub reads: bool,
}

/// How keys appear in the audit log.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AuditKeys {
    /// As they are.
    #[default]
    Plain,
    /// As the first 16 hexadecimal digits of their SHA-256.
    Digest,
}

/// What is said to stderr.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// For people or for machines.
    pub format: LogFormat,
    /// What to say: a level, or targets with levels, like `info,tenure_server=debug`.
    pub level: Option<String>,
}

/// For people or for machines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text.
    #[default]
    Text,
    /// A line of JSON.
    Json,
}

/// Where spans are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// An OTLP endpoint over HTTP, like `http://127.0.0.1:4318`.
    pub otlp: Url,
    /// Which part of traces that begin here is kept: 0 to 1.
    #[serde(default = "TraceConfig::ratio")]
    pub ratio: f64,
}

impl TraceConfig {
    fn ratio() -> f64 {
        1.0
    }
}
