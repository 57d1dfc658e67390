//! Servers for the `postgres` store.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::{Kind, Program, Server, Service};

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "postgres", start: || Ok(Arc::new(Postgres::start(&[])?)) },
    Kind { name: "postgres/pgbouncer", start: || Ok(Arc::new(Pooled::start(&[])?)) },
];

/// Who runs the server when the tests run as root: PostgreSQL refuses that.
pub const USER: &str = "postgres";

/// A user who needs a password.
const LOCKED: &str = "locked";

/// A PostgreSQL server with a superuser `postgres` without a password. Rooms are schemas.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
}

impl Postgres {
    /// Starts one on an empty database. `settings` are more arguments, such as `-c fsync=off`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(settings: &[&str]) -> Result<Self> {
        Self::start_on(settings, make_empty)
    }

    /// Starts one on an empty database, with these variables in its environment.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_in(variables: &[(&str, &OsStr)]) -> Result<Self> {
        // Not for whatever comes before it: that runs as another user.
        let mut wrapper: Vec<OsString> = vec!["env".into()];
        for (name, value) in variables {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(value);
            wrapper.push(variable);
        }
        Self::launch(wrapper, &[], make_empty)
    }

    /// Starts one on a data folder that `prepare` fills.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_on(settings: &[&str], prepare: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        Self::launch(Vec::new(), settings, prepare)
    }

    /// `wrapper` is a command that ends by being the one whose line follows.
    fn launch(
        wrapper: Vec<OsString>,
        settings: &[&str],
        prepare: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let server = Server::start("postgres", |port, folder| {
            give(folder)?;
            let data = folder.join("data");
            prepare(&data)?;
            let mut arguments = wrapper;
            arguments.extend([binary("postgres")?.into(), "-D".into(), data.into()]);
            let socket = format!("unix_socket_directories={}", folder.display());
            for setting in [
                "listen_addresses=127.0.0.1",
                &format!("port={port}"),
                &socket,
                "max_connections=400",
                "fsync=on",
            ] {
                arguments.extend(["-c".into(), setting.into()]);
            }
            arguments.extend(settings.iter().map(Into::into));
            Ok(Program {
                path: arguments.remove(0).into(),
                arguments,
                environment: Vec::new(),
                user: is_root().then_some(USER),
                last_signal: "INT",
                is_ready: answers(port)?,
            })
        })?;
        Ok(Self { server })
    }

    /// The process.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The URL of the server for `user`, whose password may follow a colon, and `database`.
    #[must_use]
    pub fn url_for(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@{}/{database}", self.server.address())
    }

    /// Runs statements as the superuser; says what they print.
    ///
    /// # Errors
    /// When one of them fails.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let url = self.url_for(USER, "postgres");
        let mut psql = Command::new(binary("psql")?);
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statements, &url]);
        let output = psql.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "psql failed: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

impl Service for Postgres {
    fn server(&self) -> Option<&Server> {
        Some(&self.server)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        let at = at.unwrap_or_else(|| self.server.address());
        format!("postgres://{USER}@{at}/postgres?schema=room_{room}&connections=4")
    }

    fn wrong_url(&self, password: &str) -> Option<String> {
        Some(self.url_for(&format!("{LOCKED}:{password}"), "postgres"))
    }
}

/// `PgBouncer` in transaction mode in front of a server: each transaction may run on another
/// connection, so that nothing of a session lasts.
#[derive(Debug)]
pub struct Pooled {
    postgres: Postgres,
    pooler: Server,
}

impl Pooled {
    /// Starts both; `settings` are for the server.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn start(settings: &[&str]) -> Result<Self> {
        let postgres = Postgres::start(settings)?;
        let behind = postgres.server.address().port();
        let pooler = Server::start("pgbouncer", |port, folder| {
            give(folder)?;
            let file = folder.join("pgbouncer.ini");
            let text = format!(
                "[databases]\npostgres = host=127.0.0.1 port={behind} user={USER}\n[pgbouncer]\n\
                 listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
                 auth_type = any\npool_mode = transaction\ndefault_pool_size = 20\n\
                 max_client_conn = 1000\n"
            );
            std::fs::write(&file, text)?;
            Ok(Program {
                path: "/usr/sbin/pgbouncer".into(),
                arguments: vec![file.into()],
                environment: Vec::new(),
                user: is_root().then_some(USER),
                last_signal: "KILL",
                is_ready: answers(port)?,
            })
        })?;
        Ok(Self { postgres, pooler })
    }

    /// The server behind the pooler.
    #[must_use]
    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    /// Where the pooler listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.pooler.address()
    }
}

impl Service for Pooled {
    fn server(&self) -> Option<&Server> {
        Some(&self.pooler)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        // Without the search for wake-ups, which may take seconds to find none.
        format!("{}&listen=false", self.postgres.url(room, Some(at.unwrap_or(self.address()))))
    }
}

/// Makes an empty database in the data folder.
fn make_empty(data: &Path) -> Result<()> {
    let mut initdb = as_user(&binary("initdb")?);
    initdb.args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
    run(initdb.arg(data))?;
    let rules = data.join("pg_hba.conf");
    let others = std::fs::read_to_string(&rules)?;
    Ok(std::fs::write(rules, format!("host all {LOCKED} all scram-sha-256\n{others}"))?)
}

fn answers(port: u16) -> Result<Box<dyn Fn() -> bool + Send + Sync>> {
    let (program, port) = (binary("pg_isready")?, port.to_string());
    Ok(Box::new(move || {
        let asked = Command::new(&program).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
        asked.is_ok_and(|status| status.success())
    }))
}

/// A program of the newest PostgreSQL on this machine.
///
/// # Errors
/// When there is none.
pub fn binary(name: &str) -> Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter(|(_, folder)| folder.join("bin").join(name).is_file())
        .collect();
    versions.sort();
    if let Some((_, folder)) = versions.pop() {
        return Ok(folder.join("bin").join(name));
    }
    let asked = Command::new("pg_config").arg("--bindir").output();
    let asked = asked.context("PostgreSQL is not installed")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    let path = folder.join(name);
    ensure!(path.is_file(), "PostgreSQL's {name} is not installed");
    Ok(path)
}

/// A command that runs as the user whom the server runs as.
#[must_use]
pub fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
    command
}

/// Gives a file or a folder to the user whom the server runs as.
///
/// # Errors
/// When it cannot be given.
pub fn give(path: &Path) -> Result<()> {
    match is_root() {
        true => run(Command::new("chown").arg(format!("{USER}:")).arg(path)),
        false => Ok(()),
    }
}

/// Runs a command to its end.
///
/// # Errors
/// When it fails; the text says what it printed.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
