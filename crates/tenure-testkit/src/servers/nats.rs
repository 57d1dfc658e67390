//! Servers for the `nats` store.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Kind, Program, Server, Service, place};

pub(super) const KINDS: &[Kind] = &[
    Kind { name: "nats", start: || start(Release::Newest) },
    Kind { name: "nats/2.9", start: || start(Release::Old) },
];

/// Whoever names no user is this one; a user who is named needs the right password.
const ANYONE: &str = "authorization { users: [ { user: anyone, password: anything } ] }\n\
                      no_auth_user: anyone";

fn start(release: Release) -> Result<Arc<dyn Service>> {
    Ok(Arc::new(Nats::start(&Recipe::new(release).with(ANYONE))?))
}

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The newest there is, by `PyPI`.
    Newest,
    /// Debian's 2.9, which cannot end single messages.
    Old,
}

impl Release {
    fn path(self) -> Result<PathBuf> {
        if self == Self::Newest {
            return Ok(place::python()?.join("bin/nats-server"));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        let mut found = folders.map(|folder| folder.join("nats-server"));
        found.find(|file| file.is_file()).context("the package nats-server is not installed")
    }
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Recipe {
    release: Release,
    jetstream: bool,
    more: String,
}

impl Recipe {
    /// JetStream that syncs every write, and no users.
    #[must_use]
    pub fn new(release: Release) -> Self {
        Self { release, jetstream: true, more: String::new() }
    }

    /// Without JetStream.
    #[must_use]
    pub fn without_jetstream(mut self) -> Self {
        self.jetstream = false;
        self
    }

    /// With more lines in its configuration file.
    #[must_use]
    pub fn with(mut self, lines: &str) -> Self {
        self.more = lines.to_owned();
        self
    }
}

/// A NATS server; a room is a bucket.
#[derive(Debug)]
pub struct Nats {
    server: Server,
    syncs: bool,
}

impl Nats {
    /// Starts one.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(recipe: &Recipe) -> Result<Self> {
        let syncs = recipe.release == Release::Newest;
        let server = Server::start("nats", |port, folder| program(recipe, port, folder))?;
        Ok(Self { server, syncs })
    }

    /// Where it listens, and its process.
    #[must_use]
    pub fn process(&self) -> &Server {
        &self.server
    }
}

impl Service for Nats {
    fn server(&self) -> Option<&Server> {
        Some(&self.server)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        let at = at.unwrap_or_else(|| self.server.address());
        let sync = if self.syncs { "&sync=always" } else { "" };
        format!("nats://{at}?bucket=room_{room}{sync}")
    }

    fn wrong_url(&self, password: &str) -> Option<String> {
        Some(format!("nats://anyone:{password}@{}?bucket=room_0", self.server.address()))
    }
}

fn program(recipe: &Recipe, port: u16, folder: &Path) -> Result<Program> {
    let store = folder.join("store");
    // 2.9 knows no sync_interval.
    let sync = match recipe.release {
        Release::Newest => "sync_interval: always",
        Release::Old => "",
    };
    let jetstream = if recipe.jetstream {
        format!("jetstream {{ store_dir: {store:?}, max_file: 4GB, max_mem: 256MB, {sync} }}")
    } else {
        String::new()
    };
    let text = format!("listen: \"127.0.0.1:{port}\"\n{jetstream}\n{}\n", recipe.more);
    let file = folder.join("nats.conf");
    fs::write(&file, text)?;
    Ok(Program {
        path: recipe.release.path()?,
        arguments: vec![OsString::from("-c"), file.into()],
        environment: Vec::new(),
        user: None,
        last_signal: "KILL",
        is_ready: Box::new(move || greets(port).unwrap_or(false)),
    })
}

/// Whether the server greets. It does so only when JetStream has recovered what it stores.
fn greets(port: u16) -> std::io::Result<bool> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let limit = Duration::from_millis(500);
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.starts_with("INFO "))
}
