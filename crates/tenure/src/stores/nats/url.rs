//! The options in a URL.

use std::path::PathBuf;

use async_nats::ServerAddr;

use super::login::Login;
use super::options::{NatsOptions, Storage};
use crate::error::{Error, Result};
use crate::store::Timing;
use crate::stores::address::Address;
use crate::stores::options::UrlOptions;

const KNOWN: &[&str] = &[
    "bucket",
    "description",
    "replicas",
    "storage",
    "create",
    "timing",
    "sync",
    "credentials",
    "nkey",
    "ca",
    "cert",
    "key",
    "domain",
    "inbox",
];

impl NatsOptions {
    pub(super) fn from_url(url: &str) -> Result<Self> {
        let wrong = || Error::invalid("the URL must begin with nats:// or nats+tls://");
        let Address { scheme, login, hosts, tail } = Address::of(url).ok_or_else(wrong)?;
        let tls = match scheme {
            "nats" => false,
            "nats+tls" => true,
            _ => return Err(wrong()),
        };
        // Several hosts do not fit into one URL; the query is read with none of them.
        let (path, mut query) = UrlOptions::split(&format!("{scheme}://host{tail}"))?;
        if !matches!(path.path(), "" | "/") || path.fragment().is_some() {
            return Err(Error::invalid("nats takes no path: name the bucket with ?bucket=NAME"));
        }
        let mut options = Self {
            servers: servers(hosts, tls)?,
            tls,
            login: login.map_or(Ok(Login::None), Login::in_url)?,
            ca: query.text("ca").map(PathBuf::from),
            certificate: pair(query.text("cert"), query.text("key"))?,
            domain: query.text("domain"),
            inbox: query.text("inbox").unwrap_or_else(|| "_INBOX".to_owned()),
            bucket: query.text("bucket").unwrap_or_else(|| "tenure".to_owned()),
            description: query.text("description"),
            replicas: query.parsed("replicas", "a number of 1 to 5")?,
            storage: None,
            create: query.flag("create")?.unwrap_or(true),
            timing: None,
            syncs_always: false,
        };
        options.storage =
            chosen(&mut query, "storage", &[("file", Storage::File), ("memory", Storage::Memory)])?;
        options.timing = chosen(
            &mut query,
            "timing",
            &[("store", Timing::Store), ("observer", Timing::Observer)],
        )?;
        let sync = chosen(&mut query, "sync", &[("always", true), ("interval", false)])?;
        options.syncs_always = sync.unwrap_or(false);
        for login in [
            query.text("credentials").map(|path| Login::Credentials(path.into())),
            query.text("nkey").map(|path| Login::Nkey(path.into())),
        ] {
            match (login, &options.login) {
                (None, _) => {}
                (Some(login), Login::None) => options.login = login,
                (Some(_), _) => {
                    let text = "give one of: user and password, token, credentials, nkey";
                    return Err(Error::invalid(text));
                }
            }
        }
        query.finish(KNOWN)?;
        Ok(options)
    }
}

fn servers(hosts: &str, tls: bool) -> Result<Vec<ServerAddr>> {
    let scheme = if tls { "tls" } else { "nats" };
    let parsed = hosts.split(',').enumerate().map(|(at, host)| {
        let server = format!("{scheme}://{host}").parse::<ServerAddr>();
        let server = server.ok().filter(|server| !server.host().is_empty());
        let is_plain = !host.contains(['/', '@', '?', '#']);
        server.filter(|_| is_plain).ok_or_else(|| {
            Error::invalid(format!("server {} in the URL must be HOST or HOST:PORT", at + 1))
        })
    });
    parsed.collect()
}

fn pair(cert: Option<String>, key: Option<String>) -> Result<Option<(PathBuf, PathBuf)>> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some((cert.into(), key.into()))),
        _ => Err(Error::invalid("the options cert and key go together")),
    }
}

fn chosen<T: Copy>(query: &mut UrlOptions, name: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
    let Some(text) = query.text(name) else { return Ok(None) };
    match choices.iter().find(|(choice, _)| *choice == text) {
        Some((_, value)) => Ok(Some(*value)),
        None => {
            let words: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
            let text = format!("option {name} must be {}", words.join(" or "));
            Err(Error::invalid(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(options: &NatsOptions) -> Vec<String> {
        options.servers.iter().map(|s| format!("{}:{}", s.host(), s.port())).collect()
    }

    #[test]
    fn a_url_says_it_all() {
        let url = "nats+tls://ann:p%40ss@a:4223,[::1],b.example/?bucket=locks&replicas=3\
                   &storage=memory&create=false&timing=store&sync=always&domain=hub&inbox=_IN.app";
        let options = NatsOptions::from_url(url).unwrap();
        assert_eq!(hosts(&options), ["a:4223", "::1:4222", "b.example:4222"]);
        let login = Login::Password { user: "ann".into(), password: "p@ss".into() };
        assert!(options.login == login && options.tls && options.syncs_always && !options.create);
        assert_eq!((&*options.bucket, options.replicas), ("locks", Some(3)));
        assert_eq!(options.storage, Some(Storage::Memory));
        assert_eq!(options.timing, Some(Timing::Store));
        assert_eq!((options.domain.as_deref(), &*options.inbox), (Some("hub"), "_IN.app"));
        options.check().unwrap();
        let token = NatsOptions::from_url("nats://s3cret@h").unwrap();
        assert!(token.login == Login::Token("s3cret".into()) && token.bucket == "tenure");
    }

    #[test]
    fn what_is_wrong_is_refused_by_name_and_never_shown() {
        for (url, word) in [
            ("nats://h?bukket=s3cret", "bukket"),
            ("nats://h?bucket=s3cret.x", "bucket"),
            ("nats://h?replicas=9", "replicas"),
            ("nats://h?storage=s3cret", "storage"),
            ("nats://h?timing=s3cret", "timing"),
            ("nats://h?cert=s3cret", "cert"),
            ("nats://s3cret@h?nkey=s3cret", "one of"),
            ("nats://h/s3cret", "bucket"),
            ("nats://u:s3cret@", "server 1"),
            ("nats://u:s3cret@a,b:s3cret", "server 2"),
            ("nats://u:s3cret%4@a", "percent"),
            ("nats://h?inbox=s3cret..x", "inbox"),
            ("http://u:s3cret@a", "nats://"),
        ] {
            let refused = NatsOptions::from_url(url).and_then(|options| options.check());
            let text = refused.unwrap_err().to_string();
            assert!(text.contains(word) && !text.contains("s3cret"), "{url}: {text}");
        }
        let secret = NatsOptions::from_url("nats://u:s3cret@h").unwrap();
        assert!(!format!("{secret:?}").contains("s3cret"));
    }
}
