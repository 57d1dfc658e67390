//! Where etcd is and how to talk to it: by URL, by environment, or in code.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;

use super::EtcdStore;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::stores::options::{UrlOptions, decoded};

const PORT: u16 = 2379;
const PREFIX: &str = "tenure";
const KNOWN: &[&str] = &["ca", "cert", "key", "server_name"];

/// What the store is opened with.
#[derive(Clone)]
pub struct EtcdOptions {
    /// `host:port`, each.
    pub(super) endpoints: Vec<String>,
    pub(super) tls: bool,
    /// What all keys begin with; ends with a slash.
    pub(super) prefix: String,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) server_name: Option<String>,
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("tls", &self.tls)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl EtcdOptions {
    /// The options of a URL, with etcdctl's environment variables for what it leaves out.
    ///
    /// # Errors
    /// `Invalid`; no error repeats the URL, which may carry a password.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_environment(url, |name| std::env::var(name).ok().filter(|text| !text.is_empty()))
    }

    fn with_environment(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut options = Self::parse(url)?;
        if options.user.is_none()
            && let Some(user) = variable("ETCDCTL_USER")
        {
            let (user, password) = match user.split_once(':') {
                Some((user, password)) => (user.to_owned(), Some(password.to_owned())),
                None => (user, None),
            };
            options.user = Some(user);
            options.password = password;
        }
        if options.user.is_some() && options.password.is_none() {
            options.password = variable("ETCDCTL_PASSWORD");
        }
        if options.tls {
            let file = |given: &mut Option<PathBuf>, name| {
                if given.is_none() {
                    *given = variable(name).map(PathBuf::from);
                }
            };
            file(&mut options.ca, "ETCDCTL_CACERT");
            file(&mut options.cert, "ETCDCTL_CERT");
            file(&mut options.key, "ETCDCTL_KEY");
        }
        Ok(options)
    }

    /// Several hosts are no URL to the parser of URLs, so the authority is taken out first.
    fn parse(url: &str) -> Result<Self> {
        let no_url = || Error::invalid("the store's URL must look like etcd://HOST:2379/PREFIX");
        let (scheme, rest) = url.split_once("://").ok_or_else(no_url)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (address, mut query) = UrlOptions::split(&format!("etcd://host{tail}"))?;
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (decoded(user)?, decoded(password)?),
            None => (None, None),
        };
        let mut options = Self {
            endpoints: hosts.split(',').map(endpoint).collect::<Result<_>>()?,
            tls: scheme == "etcds",
            prefix: String::new(),
            user,
            password,
            ca: query.text("ca").map(PathBuf::from),
            cert: query.text("cert").map(PathBuf::from),
            key: query.text("key").map(PathBuf::from),
            server_name: query.text("server_name"),
        };
        query.finish(KNOWN)?;
        let prefix = decoded(address.path().trim_matches('/'))?;
        options = options.prefix(prefix.as_deref().unwrap_or(PREFIX));
        Ok(options)
    }

    /// What all keys begin with, without the slash at the end. The usual one is `tenure`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = format!("{}/", prefix.trim_matches('/'));
        self
    }

    /// The user to log in as.
    #[must_use]
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        (self.user, self.password) = (Some(user.into()), Some(password.into()));
        self
    }

    /// The PEM file with the certificate authorities to trust, instead of the system's.
    #[must_use]
    pub fn ca(mut self, file: impl AsRef<Path>) -> Self {
        self.ca = Some(file.as_ref().to_owned());
        self
    }

    /// The PEM files with the certificate and the key to show to the server.
    #[must_use]
    pub fn identity(mut self, cert: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        (self.cert, self.key) = (Some(cert.as_ref().to_owned()), Some(key.as_ref().to_owned()));
        self
    }

    /// The name that the server's certificate must have, where that is not its host's.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Connects, probes, and opens the store.
    ///
    /// # Errors
    /// What [`open`](super::open) says.
    pub async fn open(self, clock: Arc<dyn Clock>) -> Result<EtcdStore> {
        EtcdStore::open(self, clock).await
    }
}

fn endpoint(host: &str) -> Result<String> {
    let url = Url::parse(&format!("http://{host}"))
        .map_err(|error| Error::invalid(format!("a host in the store's URL: {error}")))?;
    let is_plain = url.path() == "/" && url.query().is_none() && url.username().is_empty();
    match url.host_str() {
        // The parser drops a port of 80, the usual one of the scheme that it was given.
        Some(name) if is_plain && host.ends_with(":80") => Ok(format!("{name}:80")),
        Some(name) if is_plain => Ok(format!("{name}:{}", url.port().unwrap_or(PORT))),
        _ => Err(Error::invalid("a host in the store's URL must be HOST or HOST:PORT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<EtcdOptions> {
        EtcdOptions::with_environment(url, |_| None)
    }

    #[test]
    fn several_hosts_a_login_and_a_prefix() {
        let options = parse("etcd://a:23,b,[::1]:80/my%20app/").unwrap();
        assert_eq!(options.endpoints, ["a:23", "b:2379", "[::1]:80"]);
        assert_eq!((options.prefix.as_str(), options.tls), ("my app/", false));
        let options = parse("etcds://me:p%40s+s@h?ca=/a.pem&server_name=etcd").unwrap();
        assert_eq!(options.prefix, "tenure/");
        assert_eq!(
            (options.user.as_deref(), options.password.as_deref()),
            (Some("me"), Some("p@s+s"))
        );
        assert_eq!(options.ca.as_deref(), Some(Path::new("/a.pem")));
        assert!(!format!("{options:?}").contains("p@s"));
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        for url in ["etcd:secret", "etcd://", "etcd://secret:x", "etcd://h?secret=1", "etcd://a,,b"]
        {
            let error = parse(url).unwrap_err();
            assert!(url.contains("?secret") || !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_environment_fills_in_what_the_url_leaves_out() {
        let environment = |name: &str| {
            let text = match name {
                "ETCDCTL_USER" => "env:inline",
                "ETCDCTL_PASSWORD" => "word",
                "ETCDCTL_CACERT" => "/ca",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let read = |url| EtcdOptions::with_environment(url, environment).unwrap();
        let login = |options: EtcdOptions| (options.user.unwrap(), options.password.unwrap());
        assert_eq!(login(read("etcd://h")), ("env".into(), "inline".into()));
        assert_eq!(login(read("etcd://me@h")), ("me".into(), "word".into()));
        assert_eq!(login(read("etcd://me:own@h")), ("me".into(), "own".into()));
        assert_eq!(read("etcd://h").ca, None);
        assert_eq!(read("etcds://h").ca, Some(PathBuf::from("/ca")));
        assert_eq!(read("etcds://h?ca=/b").ca, Some(PathBuf::from("/b")));
    }
}
