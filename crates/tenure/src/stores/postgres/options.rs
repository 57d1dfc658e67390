//! What the URL, the environment and the program say about the server and how to use it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::SslMode;

use super::names::Names;
use super::server::{Environment, Servers, THEIRS};
use super::store::PostgresStore;
use super::tls::{Tls, Verify};
use crate::clock::Clock;
use crate::error::{Error, Operation, Result};

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

const CONNECTIONS: usize = 8;
const CONNECTIONS_MAX: usize = 1000;
const SWEEP_AFTER: Duration = Duration::from_secs(600);

/// How to reach PostgreSQL and what to use there: what a URL says, and what else is set in code.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) servers: Servers,
    pub(super) tls: Tls,
    pub(super) names: Names,
    pub(super) connections: usize,
    pub(super) prepare: Option<bool>,
    pub(super) listen: bool,
    pub(super) listen_servers: Option<Servers>,
    pub(super) sweep_after: Duration,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions").field("names", &self.names).finish_non_exhaustive()
    }
}

/// The environment of this process. An empty variable says nothing.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl PostgresOptions {
    /// What `url` says, and the environment where it is silent.
    ///
    /// # Errors
    /// `Invalid` when the URL is none, or has an option that does not exist or cannot be. No error
    /// repeats the URL or a value.
    pub fn new(url: &str) -> Result<Self> {
        Self::read(url, &variable)
    }

    fn read(url: &str, environment: Environment<'_>) -> Result<Self> {
        let (servers, mut ours) = Servers::read(url, environment)?;
        let mut options = Self {
            servers,
            tls: Tls::default(),
            names: Names::default(),
            connections: CONNECTIONS,
            prepare: ours.flag("prepare")?,
            listen: ours.flag("listen")?.unwrap_or(true),
            listen_servers: None,
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
            options.listen_servers = Some(listen_servers(&url, environment)?);
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

    /// The user and the password. Where [`listen_url`](Self::listen_url) names another server, its
    /// own URL says who asks there.
    #[must_use]
    pub fn credentials(mut self, user: &str, password: &str) -> Self {
        self.servers.settings.user(user).password(password);
        self
    }

    /// The database.
    #[must_use]
    pub fn database(mut self, name: &str) -> Self {
        self.servers.settings.dbname(name);
        self
    }

    /// How long one address of the server may take to connect; 5 s if never said. Where there are
    /// several, no other has to wait for that: the next is tried after half a second.
    #[must_use]
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.servers.settings.connect_timeout(time);
        self
    }

    /// The name under which the server lists the connections; `tenure` if never said.
    #[must_use]
    pub fn application_name(mut self, name: &str) -> Self {
        self.servers.settings.application_name(name);
        self
    }

    /// Settings for the sessions, such as `-c statement_timeout=5s`.
    #[must_use]
    pub fn session_options(mut self, options: &str) -> Self {
        self.servers.settings.options(options);
        self
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
    /// never said. One that is silent for 2 s makes room for another, so that there may be twice as
    /// many.
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
        self.listen_servers = Some(listen_servers(url, &variable)?);
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
        self.servers.settings.ssl_mode(mode);
        self.ssl_mode_on_listener();
        Ok(self)
    }

    /// Whether someone in between could pretend to be the server, here or where it is listened.
    pub(super) fn trusts_the_network(&self) -> bool {
        let listened = self.listen_servers.as_ref().filter(|_| self.listen);
        let mut all = listened.into_iter().chain([&self.servers]);
        self.tls.verify == Verify::Nothing && !all.all(Servers::are_local)
    }

    fn ssl_mode_on_listener(&mut self) {
        let mode = self.servers.settings.get_ssl_mode();
        if let Some(servers) = &mut self.listen_servers {
            servers.settings.ssl_mode(mode);
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

/// Where to listen, and nothing else.
fn listen_servers(url: &str, environment: Environment<'_>) -> Result<Servers> {
    let (servers, rest) = Servers::read(url, environment)?;
    rest.finish(THEIRS)?;
    Ok(servers)
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
    fn what_is_said_in_code_wins() {
        let url = "postgres://u:p@h/db?schema=s%20s&table=t&connections=3&application_name=a";
        let options = read(url, &[]).unwrap();
        assert_eq!((options.names.schema(), options.names.table()), ("s s", "t"));
        assert_eq!(options.connections, 3);
        let options = options.credentials("me", "mine").database("other").application_name("b");
        let options = options.connect_timeout(Duration::from_secs(9)).session_options("-c a=b");
        let settings = &options.servers.settings;
        assert_eq!((settings.get_user(), settings.get_dbname()), (Some("me"), Some("other")));
        assert_eq!(settings.get_password(), Some(&b"mine"[..]));
        assert_eq!(settings.get_application_name(), Some("b"));
        assert_eq!(settings.get_options(), Some("-c a=b"));
        assert_eq!(options.servers.connect_timeout(), Duration::from_secs(9));
    }

    #[test]
    fn the_listener_has_its_own_server_and_the_same_mode() {
        let url = "postgres://pooler/db?listen_url=postgres%3A%2F%2Fdirect%2Fdb&sslmode=require";
        let listen = read(url, &[]).unwrap().listen_servers.unwrap();
        assert!(format!("{listen:?}").contains("direct"), "{listen:?}");
        assert_eq!(listen.settings.get_ssl_mode(), SslMode::Require);
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
            ("postgres://localhost/x?listen_url=postgres%3A%2F%2Fdb.example%2Fx", true),
            (
                "postgres://localhost/x?listen_url=postgres%3A%2F%2Fdb.example%2Fx&listen=false",
                false,
            ),
            ("postgres://localhost/x?listen_url=postgres%3A%2F%2Flocalhost%2Fx", false),
        ] {
            assert_eq!(read(url, &[]).unwrap().trusts_the_network(), trusts, "{url}");
        }
    }

    #[test]
    fn debug_keeps_the_password() {
        let options = read("postgres://u:secret@h/db", &[]).unwrap();
        assert!(!format!("{options:?}").contains("secret"));
    }
}
