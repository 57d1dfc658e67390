//! What the URL, the environment and the program say about the server and how to use it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::names::Names;
use super::store::PostgresStore;
use super::tls::{Tls, Verify};
use crate::clock::Clock;
use crate::error::{Error, Operation, Result};
use crate::stores::options::UrlOptions;

/// Options of ours.
const OURS: &[&str] = &[
    "schema",
    "table",
    "connections",
    "prepare",
    "listen",
    "listen_url",
    "sweep_after",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];

/// Options that the client library reads, under the names that libpq gave them.
const THEIRS: &[&str] = &[
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "sslnegotiation",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "tcp_user_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "target_session_attrs",
    "channel_binding",
    "load_balance_hosts",
];

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is gone without a word is noticed after about this long.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 8;
const CONNECTIONS_MAX: usize = 1000;
const SWEEP_AFTER: Duration = Duration::from_secs(600);

/// How to reach PostgreSQL and what to use there: every option of the URL, settable in code.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) server: Config,
    pub(super) tls: Tls,
    pub(super) names: Names,
    pub(super) connections: usize,
    pub(super) prepare: Option<bool>,
    pub(super) listen: bool,
    pub(super) listen_server: Option<Config>,
    pub(super) sweep_after: Duration,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions").field("names", &self.names).finish_non_exhaustive()
    }
}

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

impl PostgresOptions {
    /// What `url` says, and the environment where it is silent.
    ///
    /// # Errors
    /// `Invalid` when the URL is none, or has an option that does not exist or cannot be. No error
    /// repeats the URL or a value.
    pub fn new(url: &str) -> Result<Self> {
        Self::read(url, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn read(url: &str, environment: Environment<'_>) -> Result<Self> {
        let (server, mut ours) = split(url, environment)?;
        let mut options = Self {
            server,
            tls: Tls::default(),
            names: Names::default(),
            connections: CONNECTIONS,
            prepare: ours.flag("prepare")?,
            listen: ours.flag("listen")?.unwrap_or(true),
            listen_server: None,
            sweep_after: SWEEP_AFTER,
        };
        let schema = ours.text("schema").unwrap_or_else(|| options.names.schema().to_owned());
        let table = ours.text("table").unwrap_or_else(|| options.names.table().to_owned());
        options.names = Names::new(&schema, &table)?;
        if let Some(count) = ours.parsed("connections", "a number of 1 to 1000")? {
            options = options.connections(count)?;
        }
        if let Some(seconds) = ours.parsed("sweep_after", "a number of seconds")? {
            options.sweep_after = Duration::from_secs(seconds);
        }
        if let Some(url) = ours.text("listen_url") {
            let (server, rest) = split(&url, environment)?;
            rest.finish(THEIRS)?;
            options.listen_server = Some(server);
        }
        let mut text = |name: &str, variable: &str| {
            ours.text(name).filter(|value| !value.is_empty()).or_else(|| environment(variable))
        };
        let mode = text("sslmode", "PGSSLMODE");
        options.tls.root = text("sslrootcert", "PGSSLROOTCERT").map(PathBuf::from);
        options.tls.certificate = text("sslcert", "PGSSLCERT").map(PathBuf::from);
        options.tls.key = text("sslkey", "PGSSLKEY").map(PathBuf::from);
        ours.finish(&[OURS, THEIRS].concat())?;
        options.ssl_mode(mode.as_deref().unwrap_or("prefer"))
    }

    /// The schema and the table that the locks are in; `tenure` and `lease` if never said.
    ///
    /// # Errors
    /// `Invalid` when one is empty, too long or holds a control character.
    pub fn table(mut self, schema: &str, table: &str) -> Result<Self> {
        self.names = Names::new(schema, table)?;
        Ok(self)
    }

    /// How many connections the store opens at the most, without the one that it listens on; 8 if
    /// never said.
    ///
    /// # Errors
    /// `Invalid` outside of 1 to 1000.
    pub fn connections(mut self, count: usize) -> Result<Self> {
        if !(1..=CONNECTIONS_MAX).contains(&count) {
            let text = format!("connections must be 1 to {CONNECTIONS_MAX}, this is {count}");
            return Err(Error::invalid(text));
        }
        self.connections = count;
        Ok(self)
    }

    /// Whether statements are prepared once per connection. If never said, they are where the
    /// store finds that a session stays on its connection: not behind a transaction pooler.
    #[must_use]
    pub fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = Some(prepare);
        self
    }

    /// Whether to keep a connection for wake-ups; without it, waiters look from time to time.
    #[must_use]
    pub fn listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// Where to listen for wake-ups, when the store itself is reached through a pooler that cannot
    /// pass them on.
    ///
    /// # Errors
    /// `Invalid` when the URL is none.
    pub fn listen_url(mut self, url: &str) -> Result<Self> {
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (server, rest) = split(url, &environment)?;
        rest.finish(THEIRS)?;
        self.listen_server = Some(server);
        self.ssl_mode_on_listener();
        Ok(self)
    }

    /// How long the row of a key stays after its lease has ended; ten minutes if never said.
    #[must_use]
    pub fn sweep_after(mut self, time: Duration) -> Self {
        self.sweep_after = time;
        self
    }

    /// `disable`, `prefer`, `require`, `verify-ca` or `verify-full`; see the
    /// [module](super#transport-security) for what each of them checks.
    ///
    /// # Errors
    /// `Invalid` for another word.
    pub fn ssl_mode(mut self, mode: &str) -> Result<Self> {
        let (mode, verify) = match mode {
            "disable" => (SslMode::Disable, Verify::Nothing),
            "allow" | "prefer" => (SslMode::Prefer, Verify::Nothing),
            "verify-ca" => (SslMode::Require, Verify::Issuer),
            "require" | "verify-full" => (SslMode::Require, Verify::IssuerAndName),
            _ => {
                let text = "sslmode must be disable, prefer, require, verify-ca or verify-full";
                return Err(Error::invalid(text));
            }
        };
        self.tls.verify = verify;
        self.server.ssl_mode(mode);
        self.ssl_mode_on_listener();
        Ok(self)
    }

    /// Whether someone in between could pretend to be the server.
    pub(super) fn trusts_the_network(&self) -> bool {
        let is_local = |host: &Host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        };
        let hosts = self.server.get_hosts();
        let addresses = self.server.get_hostaddrs();
        let local = match addresses.is_empty() {
            true => hosts.iter().all(is_local),
            false => addresses.iter().all(std::net::IpAddr::is_loopback),
        };
        self.tls.verify == Verify::Nothing && !local
    }

    fn ssl_mode_on_listener(&mut self) {
        let mode = self.server.get_ssl_mode();
        if let Some(server) = &mut self.listen_server {
            server.ssl_mode(mode);
        }
    }

    /// The certificates (PEM) that the server's must come from, instead of the system's.
    #[must_use]
    pub fn root_certificate(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.root = Some(path.into());
        self
    }

    /// The certificate and the key (PEM) that this client shows.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.tls.certificate = Some(certificate.into());
        self.tls.key = Some(key.into());
        self
    }

    /// The statements that make the tables, for a database whose users may not.
    #[must_use]
    pub fn setup_sql(&self) -> String {
        self.names.setup()
    }

    /// The statements that give a role what the store needs on those tables.
    #[must_use]
    pub fn grant_sql(&self, role: &str) -> String {
        self.names.grants(role)
    }

    /// Connects, makes the tables where they are missing, and probes the server.
    ///
    /// # Errors
    /// What stands in the way, with what to do about it.
    pub async fn open(self, clock: Arc<dyn Clock>) -> Result<Arc<PostgresStore>> {
        PostgresStore::open(self, clock).await.map_err(|error| error.during(Operation::Open))
    }
}

/// The server that a URL names, and the options in it that are ours.
fn split(url: &str, environment: Environment<'_>) -> Result<(Config, UrlOptions)> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    if query.contains('#') {
        return Err(Error::invalid("a # in the options of the store's URL must be written %23"));
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let (theirs, ours): (Vec<_>, Vec<_>) =
        pairs.partition(|pair| THEIRS.contains(&pair.split('=').next().unwrap_or_default()));
    let (_, ours) = UrlOptions::split(&format!("postgres://-?{}", ours.join("&")))?;
    let address = base.split_once(':').map_or("", |(_, rest)| rest);
    let address = match address.strip_prefix("//") {
        Some(address) => address,
        None if address.is_empty() => "",
        None => return Err(Error::invalid("the store's URL must begin with postgres://")),
    };
    let address = with_port(address, environment("PGPORT"));
    let config = Config::from_str(&format!("postgres://{address}?{}", theirs.join("&")))
        .map_err(|error| Error::invalid("the store's URL is not one").caused_by(error))?;
    Ok((complete(config, environment)?, ours))
}

/// The part after `//`, with the port that the environment names where the URL names none.
fn with_port(address: &str, port: Option<String>) -> String {
    let Some(port) = port else { return address.to_owned() };
    let (credentials, rest) = address.rsplit_once('@').map_or(("", address), |(a, b)| (a, b));
    let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let hosts: Vec<_> = hosts
        .split(',')
        .map(|host| match host.rsplit_once(']').map_or(host, |(_, after)| after).contains(':') {
            false if !host.is_empty() => format!("{host}:{port}"),
            _ => host.to_owned(),
        })
        .collect();
    let at = if credentials.is_empty() { "" } else { "@" };
    format!("{credentials}{at}{}{path}", hosts.join(","))
}

/// Fills in what the URL leaves out: from the environment, and what a lock wants of a connection.
fn complete(mut config: Config, environment: Environment<'_>) -> Result<Config> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let hosts = environment("PGHOST").unwrap_or_else(|| "localhost".to_owned());
        for host in hosts.split(',') {
            config.host(host);
        }
        if let (true, Some(ports)) = (config.get_ports().is_empty(), environment("PGPORT")) {
            for port in ports.split(',') {
                let port = port.parse().map_err(|_| {
                    Error::invalid("PGPORT must be a port, or one for each host with commas")
                })?;
                config.port(port);
            }
        }
    }
    if let (None, Some(user)) = (config.get_user(), environment("PGUSER")) {
        config.user(user);
    }
    if let (None, Some(password)) = (config.get_password(), environment("PGPASSWORD")) {
        config.password(password);
    }
    if let (None, Some(name)) = (config.get_dbname(), environment("PGDATABASE")) {
        config.dbname(name);
    }
    if config.get_application_name().is_none() {
        config.application_name("tenure");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    if config.get_keepalives_interval().is_none() && config.get_keepalives_retries().is_none() {
        config.keepalives_idle(SILENCE_MAX / 2);
        config.keepalives_interval(SILENCE_MAX / 5);
        config.keepalives_retries(3);
    }
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
        return Err(Error::invalid("target_session_attrs must be read-write"));
    }
    // Always, so that after a fail-over no read is answered by a server that has fallen behind.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, environment: &[(&str, &str)]) -> Result<PostgresOptions> {
        PostgresOptions::read(url, &|name| {
            let found = environment.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_url_wins_and_the_environment_fills_in() {
        let environment = [
            ("PGHOST", "elsewhere"),
            ("PGPORT", "6000"),
            ("PGUSER", "env"),
            ("PGPASSWORD", "env"),
            ("PGDATABASE", "env"),
        ];
        let server = read("postgres://me@here/db", &environment).unwrap().server;
        assert_eq!(server.get_hosts(), [Host::Tcp("here".into())]);
        assert_eq!((server.get_ports(), server.get_user()), (&[6000][..], Some("me")));
        assert_eq!(server.get_dbname(), Some("db"));
        assert_eq!(server.get_password(), Some(&b"env"[..]));
        let server = read("postgresql:", &environment).unwrap().server;
        assert_eq!(server.get_hosts(), [Host::Tcp("elsewhere".into())]);
        assert_eq!((server.get_ports(), server.get_user()), (&[6000][..], Some("env")));
        let server = read("postgres:///db", &[]).unwrap().server;
        assert_eq!(server.get_hosts(), [Host::Tcp("localhost".into())]);
    }

    #[test]
    fn hosts_are_tried_until_one_takes_writes() {
        let url = "postgres://u:p@a:1,[::1],c:3/db?schema=s%20s&table=t&connections=3";
        let options = read(url, &[("PGPORT", "7")]).unwrap();
        assert_eq!(options.server.get_ports(), [1, 7, 3]);
        assert_eq!(options.server.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!((options.names.schema(), options.names.table()), ("s s", "t"));
        assert_eq!(options.connections, 3);
    }

    #[test]
    fn the_listener_has_its_own_server_and_the_same_mode() {
        let url = "postgres://pooler/db?listen_url=postgres%3A%2F%2Fdirect%2Fdb&sslmode=require";
        let listen = read(url, &[]).unwrap().listen_server.unwrap();
        assert_eq!(listen.get_hosts(), [Host::Tcp("direct".into())]);
        assert_eq!(listen.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn what_is_not_known_is_refused_and_nothing_is_repeated() {
        for (url, says) in [
            ("postgres://u:secret@h/db?conections=3", "conections"),
            ("postgres://u:secret@h/db?connections=secret", "connections"),
            ("postgres://u:secret@h/db?connections=0", "1 to 1000"),
            ("postgres://u:secret@h/db?sslmode=secret", "verify-full"),
            ("postgres://u:secret@h/db?port=secret", "not one"),
            ("postgres://u:secret@h/db?table=", "table"),
            ("postgres://u:secret@h/db?prepare=secret#x", "%23"),
            ("postgres:secret", "postgres://"),
        ] {
            let error = read(url, &[]).unwrap_err();
            assert!(error.to_string().contains(says), "{url}: {error}");
            assert!(!crate::error::Chain(&error).to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_network_is_trusted_only_when_nothing_is_checked() {
        for (url, trusts) in [
            ("postgres://db.example/x", true),
            ("postgres://db.example/x?sslmode=disable", true),
            ("postgres://db.example/x?sslmode=verify-full", false),
            ("postgres://db.example/x?hostaddr=127.0.0.1", false),
            ("postgres://localhost,127.0.0.1,[::1]/x", false),
            ("postgres://%2Frun%2Fpostgresql/x", false),
        ] {
            assert_eq!(read(url, &[]).unwrap().trusts_the_network(), trusts, "{url}");
        }
    }

    #[test]
    fn debug_keeps_the_password() {
        let options = read("postgres://u:secret@h/db", &[]).unwrap();
        assert!(!format!("{options:?} {:?}", options.server).contains("secret"));
    }
}
