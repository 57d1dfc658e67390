//! Where Redis is and how to get in: what a URL says, and what can be set in code.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::store::RedisStore;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::stores::address::decoded;
use crate::stores::options::UrlOptions;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

const KNOWN: &[&str] = &["ca", "cert", "key", "sentinel_password", "sentinel_username", "service"];

/// Where something listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// What stands behind the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One server.
    Single,
    /// Sentinels, which know where the primary of this service is.
    Sentinel { service: String },
    /// Some nodes of a Cluster, which know the others.
    Cluster,
}

/// A user and a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

/// What TLS needs beside the system's own authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) ca: Option<PathBuf>,
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// Where Redis is and how to get in: a URL, and what else is set in code.
#[derive(Clone)]
pub struct RedisOptions {
    pub(super) layout: Layout,
    pub(super) addresses: Vec<Address>,
    pub(super) database: u32,
    pub(super) credentials: Credentials,
    pub(super) sentinel_credentials: Credentials,
    pub(super) tls: Option<Tls>,
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("layout", &self.layout)
            .field("addresses", &self.addresses)
            .field("database", &self.database)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// What a URL says; see [the module](crate::stores::redis) for the forms. A user or password
    /// that the URL does not give is taken from `REDIS_USERNAME` and `REDISCLI_AUTH`.
    ///
    /// # Errors
    /// `Invalid` when it is no such URL. No error repeats it.
    pub fn new(url: &str) -> Result<Self> {
        let parts = Parts::of(url)?;
        let (tls, layout) = match parts.scheme {
            "redis" => (false, Layout::Single),
            "rediss" => (true, Layout::Single),
            "redis+sentinel" => (false, Layout::Sentinel { service: String::new() }),
            "rediss+sentinel" => (true, Layout::Sentinel { service: String::new() }),
            "redis+cluster" => (false, Layout::Cluster),
            "rediss+cluster" => (true, Layout::Cluster),
            _ => return Err(Error::invalid("the URL does not begin with a scheme of Redis")),
        };
        let port = if matches!(layout, Layout::Sentinel { .. }) { SENTINEL_PORT } else { PORT };
        let addresses: Vec<_> =
            parts.hosts.split(',').map(|host| address(host, port)).collect::<Result<_>>()?;
        let mut options = Self {
            layout,
            addresses,
            database: database(parts.path)?,
            credentials: credentials(parts.user_info)?,
            sentinel_credentials: Credentials::default(),
            tls: tls.then(Tls::default),
        };
        options.take(parts.query)?;
        Ok(options)
    }

    fn take(&mut self, query: &str) -> Result<()> {
        let (_, mut given) = UrlOptions::split(&format!("redis://host/{query}"))?;
        self.sentinel_credentials.username = given.text("sentinel_username");
        self.sentinel_credentials.password = given.text("sentinel_password");
        if let Some(name) = given.text("service") {
            *self = self.clone().service(name)?;
        }
        if let Some(path) = given.text("ca") {
            *self = self.clone().ca(path)?;
        }
        match (given.text("cert"), given.text("key")) {
            (None, None) => {}
            (Some(cert), Some(key)) => *self = self.clone().client_certificate(cert, key)?,
            _ => return Err(Error::invalid("options cert and key belong together")),
        }
        given.finish(KNOWN)
    }

    /// The user and password. A user of `None` is Redis's `default`.
    #[must_use]
    pub fn credentials(mut self, username: Option<&str>, password: &str) -> Self {
        let username = username.map(str::to_owned);
        self.credentials = Credentials { username, password: Some(password.to_owned()) };
        self
    }

    /// The user and password of the Sentinels, where they have their own. Option
    /// `sentinel_username` and `sentinel_password`.
    #[must_use]
    pub fn sentinel_credentials(mut self, username: Option<&str>, password: &str) -> Self {
        let username = username.map(str::to_owned);
        self.sentinel_credentials = Credentials { username, password: Some(password.to_owned()) };
        self
    }

    /// The number of the logical database.
    #[must_use]
    pub fn database(mut self, number: u32) -> Self {
        self.database = number;
        self
    }

    /// The name under which the Sentinels know the primary. Option `service`.
    ///
    /// # Errors
    /// `Invalid` when the URL is not one of Sentinels.
    pub fn service(mut self, name: impl Into<String>) -> Result<Self> {
        match &mut self.layout {
            Layout::Sentinel { service } => *service = name.into(),
            Layout::Single | Layout::Cluster => {
                let text = "option service is for Sentinels: use redis+sentinel://";
                return Err(Error::invalid(text));
            }
        }
        Ok(self)
    }

    /// A PEM file with the certificates of the authorities to trust, in place of the system's.
    /// Option `ca`.
    ///
    /// # Errors
    /// `Invalid` when the URL is not one with TLS.
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Result<Self> {
        self.tls("ca")?.ca = Some(path.into());
        Ok(self)
    }

    /// The PEM files of a client certificate and its key. Options `cert` and `key`.
    ///
    /// # Errors
    /// `Invalid` when the URL is not one with TLS.
    pub fn client_certificate(
        mut self,
        cert: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self> {
        self.tls("cert")?.client = Some((cert.into(), key.into()));
        Ok(self)
    }

    fn tls(&mut self, option: &str) -> Result<&mut Tls> {
        let text = || format!("option {option} is for TLS: use rediss:// instead of redis://");
        self.tls.as_mut().ok_or_else(|| Error::invalid(text()))
    }

    /// Connects, probes and opens the store. `clock` times how long an answer may take.
    ///
    /// # Errors
    /// `Invalid` when the options contradict each other; `Denied`, `Unavailable` or `Unsupported`
    /// when Redis cannot be used, with what to do about it.
    pub async fn open(self, clock: Arc<dyn Clock>) -> Result<RedisStore> {
        if self.layout == Layout::Single && self.addresses.len() > 1 {
            let text =
                "redis:// is one server: use redis+cluster:// or redis+sentinel:// for several";
            return Err(Error::invalid(text));
        }
        if self.layout == Layout::Cluster && self.database != 0 {
            return Err(Error::invalid("a Redis Cluster has only database 0"));
        }
        if matches!(&self.layout, Layout::Sentinel { service } if service.is_empty()) {
            let text = "option service is missing: the name under which the Sentinels know the \
                        primary, often mymaster";
            return Err(Error::invalid(text));
        }
        RedisStore::open(self, clock).await
    }
}

/// A URL in its parts. The usual parsers refuse several hosts.
struct Parts<'a> {
    scheme: &'a str,
    user_info: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Self> {
        let none = || Error::invalid("the URL of Redis must be like redis://host:6379/0");
        let (scheme, rest) = url.split_once("://").ok_or_else(none)?;
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        // A password may contain a slash, a host may not.
        let (user_info, rest) = match rest.rsplit_once('@') {
            Some((user_info, rest)) => (Some(user_info), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self { scheme, user_info, hosts, path: path.trim_matches('/'), query })
    }
}

fn address(text: &str, port: u16) -> Result<Address> {
    let wrong =
        || Error::invalid("a host in the URL must be like name:6379, 10.0.0.1 or [::1]:6379");
    let (host, rest) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']').ok_or_else(wrong)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| wrong())?,
        None if rest.is_empty() => port,
        None => return Err(wrong()),
    };
    if host.is_empty() || port == 0 {
        return Err(wrong());
    }
    Ok(Address { host: host.to_owned(), port })
}

fn database(path: &str) -> Result<u32> {
    if path.is_empty() {
        return Ok(0);
    }
    let text = "what follows the host in the URL must be the number of a database";
    path.parse().map_err(|_| Error::invalid(text))
}

fn credentials(user_info: Option<&str>) -> Result<Credentials> {
    let from_url =
        |text: &str| decoded(text).map(|text| Some(text).filter(|text| !text.is_empty()));
    let from_environment = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (username, password) =
        match user_info.map(|info| info.split_once(':').unwrap_or((info, ""))) {
            Some((username, password)) => (from_url(username)?, from_url(password)?),
            None => (None, None),
        };
    Ok(Credentials {
        username: username.or_else(|| from_environment("REDIS_USERNAME")),
        password: password.or_else(|| from_environment("REDISCLI_AUTH")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> RedisOptions {
        RedisOptions::new(url).unwrap()
    }

    fn hosts(url: &str) -> Vec<(String, u16)> {
        options(url).addresses.into_iter().map(|address| (address.host, address.port)).collect()
    }

    #[test]
    fn all_forms_are_read() {
        let one = options("redis://u%3Aser:p%2F@s+:s@h:7000/3");
        assert_eq!((one.layout, one.database), (Layout::Single, 3));
        assert_eq!(one.credentials.username.as_deref(), Some("u:ser"));
        assert_eq!(one.credentials.password.as_deref(), Some("p/@s+:s"));
        assert_eq!(hosts("redis://h"), [("h".to_owned(), 6379)]);
        assert_eq!(hosts("redis://[::1]:7"), [("::1".to_owned(), 7)]);
        assert_eq!(hosts("redis+cluster://a:1,b").len(), 2);
        assert_eq!(hosts("redis+sentinel://a?service=m"), [("a".to_owned(), 26_379)]);
        let all = "rediss+sentinel://:p@a:1,b:2/4?service=m&sentinel_username=x\
                   &sentinel_password=y&ca=/c&cert=/d&key=/e";
        let all = options(all);
        assert_eq!(all.layout, Layout::Sentinel { service: "m".into() });
        assert_eq!(all.tls.unwrap().client, Some(("/d".into(), "/e".into())));
        assert_eq!((all.database, all.sentinel_credentials.password), (4, Some("y".into())));
    }

    #[test]
    fn what_is_wrong_is_refused_without_repeating_it() {
        for url in [
            "redis:secret",
            "redis://",
            "redis://:secret@",
            "redis://:secret@h:x",
            "redis://:secret@h:0",
            "redis://:secret@h/secret",
            "redis://:secret@[::1",
            "redis://:secret%@h",
            "redis://:secret@a,,b",
            "http://:secret@h",
            "redis://:secret@h?secret=1",
            "redis://:secret@h?ca=secret",
            "redis://:secret@h?service=secret",
            "rediss://:secret@h?cert=secret",
        ] {
            let error = RedisOptions::new(url).unwrap_err();
            let text = format!("{error:?}").replace("\\\"secret\\\" is not known", "");
            assert!(!text.contains("secret"), "{url}: {text}");
        }
        let shown = format!("{:?}", options("redis://user:secret@h"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
