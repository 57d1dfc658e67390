//! Where the server is and how to talk to it: by URL, by environment, or in code.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;

use super::RemoteStore;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::stores::address::decoded;
use crate::stores::options::UrlOptions;

const PORT: u16 = 7117;
const TOKEN: &str = "TENURE_TOKEN";
const CONNECTIONS: usize = 2;
const CONNECTIONS_MAX: usize = 64;
const KNOWN: &[&str] = &["token", "connections", "ca", "cert", "key", "server_name"];

/// What the store is opened with.
#[derive(Clone)]
pub struct RemoteOptions {
    /// `host:port`.
    pub(super) address: String,
    pub(super) tls: bool,
    /// Its name on the server; empty for the default one.
    pub(super) store: String,
    pub(super) token: Option<String>,
    pub(super) connections: usize,
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) server_name: Option<String>,
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("address", &self.address)
            .field("tls", &self.tls)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl RemoteOptions {
    /// The options of a URL, with the token from `TENURE_TOKEN` where it has none.
    ///
    /// # Errors
    /// `Invalid`; no error repeats the URL, which may carry a token.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_environment(url, |name| std::env::var(name).ok())
    }

    fn with_environment(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let (url, mut query) = UrlOptions::split(url)?;
        let expected = format!("a number of 1 to {CONNECTIONS_MAX}");
        let connections = query.parsed("connections", &expected)?.unwrap_or(CONNECTIONS);
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            let text = format!("option connections must be {expected}, it is {connections}");
            return Err(Error::invalid(text));
        }
        let token = query.text("token").or_else(|| variable(TOKEN));
        let options = Self {
            address: address(&url)?,
            tls: url.scheme() == "tenures",
            store: store(&url)?,
            token: token.filter(|token| !token.is_empty()),
            connections,
            ca: query.text("ca").map(PathBuf::from),
            cert: query.text("cert").map(PathBuf::from),
            key: query.text("key").map(PathBuf::from),
            server_name: query.text("server_name"),
        };
        query.finish(KNOWN)?;
        Ok(options)
    }

    /// The token that says who this is.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How many connections requests are spread over: 1 to 64, usually 2.
    #[must_use]
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.clamp(1, CONNECTIONS_MAX);
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

    /// Connects, asks what the store is, and opens it.
    ///
    /// # Errors
    /// What [`open`](super::open) says.
    pub async fn open(self, clock: Arc<dyn Clock>) -> Result<RemoteStore> {
        RemoteStore::open(self, clock).await
    }

    /// Whether a token would be readable on the way.
    pub(super) fn shows_token(&self) -> bool {
        let host = self.address.rsplit_once(':').map_or("", |(host, _)| host);
        let near = host == "localhost" || host == "[::1]" || host.starts_with("127.");
        self.token.is_some() && !self.tls && !near
    }
}

fn address(url: &Url) -> Result<String> {
    let wrong = || Error::invalid("the store's URL must look like tenure://HOST:7117/STORE");
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid("the store's URL takes no user: the token is option token"));
    }
    Ok(format!("{host}:{}", url.port().unwrap_or(PORT)))
}

fn store(url: &Url) -> Result<String> {
    let path = url.path().trim_matches('/');
    if path.contains('/') {
        return Err(Error::invalid("the path of the store's URL must be the name of one store"));
    }
    decoded(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<RemoteOptions> {
        RemoteOptions::with_environment(url, |_| None)
    }

    #[test]
    fn a_host_is_enough() {
        let options = parse("tenure://locks.example").unwrap();
        assert_eq!(options.address, "locks.example:7117");
        assert_eq!((options.store.as_str(), options.tls, options.connections), ("", false, 2));
        let all = "tenures://[::1]:80/my%20store?ca=/a&server_name=n&connections=5&token=s3cret";
        let options = parse(all).unwrap();
        assert_eq!((options.address.as_str(), options.tls), ("[::1]:80", true));
        assert_eq!((options.store.as_str(), options.connections), ("my store", 5));
        assert_eq!(options.token.as_deref(), Some("s3cret"));
        assert!(!format!("{options:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_wrong_is_refused_without_repeating_it() {
        for url in [
            "tenure:secret",
            "tenure://",
            "tenure://secret@h",
            "tenure://h/secret/b",
            "tenure://h?tokn=secret",
            "tenure://h?connections=0",
            "tenure://h?connections=secret",
        ] {
            let error = parse(url).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_token_of_the_environment_is_for_urls_without_one() {
        let read = |url| {
            RemoteOptions::with_environment(url, |name| (name == TOKEN).then(|| "env".to_owned()))
        };
        assert_eq!(read("tenure://h").unwrap().token.as_deref(), Some("env"));
        assert_eq!(read("tenure://h?token=own").unwrap().token.as_deref(), Some("own"));
    }

    #[test]
    fn a_token_on_the_open_way_is_noticed() {
        for (url, shows) in [
            ("tenure://h?token=t", true),
            ("tenures://h?token=t", false),
            ("tenure://h", false),
            ("tenure://127.0.0.1?token=t", false),
            ("tenure://[::1]?token=t", false),
        ] {
            assert_eq!(parse(url).unwrap().shows_token(), shows, "{url}");
        }
    }
}
