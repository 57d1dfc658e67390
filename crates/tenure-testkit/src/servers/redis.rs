//! Servers for the `redis` store.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::{Kind, Program, Server, Service};

pub(super) const KINDS: &[Kind] =
    &[Kind { name: "redis", start: || Ok(Arc::new(Redis::start_in(&[])?)) }];

/// One Redis that loses nothing; a room is a database.
#[derive(Debug)]
pub struct Redis(Server);

impl Redis {
    /// Starts one, with these variables in its environment.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub fn start_in(environment: &[(&str, &OsStr)]) -> Result<Self> {
        let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--databases", "20000"];
        Ok(Self(start(&arguments, environment)?))
    }
}

impl Service for Redis {
    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        format!("redis://{}/{room}", at.unwrap_or_else(|| self.0.address()))
    }

    fn wrong_url(&self, password: &str) -> Option<String> {
        Some(format!("redis://nobody:{password}@{}/0", self.0.address()))
    }
}

/// Starts a Redis without snapshots and with these arguments beside, on a port of its own.
///
/// # Errors
/// When it does not answer in time.
pub fn start_redis(arguments: &[&str]) -> Result<Server> {
    start(arguments, &[])
}

fn start(arguments: &[&str], environment: &[(&str, &OsStr)]) -> Result<Server> {
    Server::start("redis-server", |port, folder| {
        let (port_text, folder) = (port.to_string(), folder.display().to_string());
        let own = ["--port", &port_text, "--bind", "127.0.0.1", "--dir", &folder, "--save", ""];
        let all = own.iter().chain(arguments).map(Into::into).collect();
        let own = |(name, value): &(&str, &OsStr)| (name.into(), value.into());
        let environment = environment.iter().map(own).collect();
        Ok(Program { environment, ..program("redis-server", port, all) })
    })
}

/// Starts a Sentinel that watches over this primary alone, under the name `mymaster`; with these
/// lines beside in its configuration.
///
/// # Errors
/// When it does not answer in time.
pub fn start_sentinel(primary: SocketAddr, lines: &str) -> Result<Server> {
    Server::start("redis-sentinel", |port, folder| {
        let config = folder.join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor mymaster 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds mymaster 3000\n{lines}\n",
            folder.display(),
            primary.port(),
        );
        std::fs::write(&config, text)?;
        Ok(program("redis-sentinel", port, vec![config.into()]))
    })
}

fn program(path: &str, port: u16, arguments: Vec<OsString>) -> Program {
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    Program {
        path: path.into(),
        arguments,
        environment: Vec::new(),
        user: None,
        last_signal: "KILL",
        is_ready: Box::new(move || answers(at)),
    }
}

/// Whether something speaks the protocol there and has loaded its data. A refusal to speak without
/// a password is an answer too.
fn answers(at: SocketAddr) -> bool {
    let limit = Duration::from_secs(1);
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&at, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = vec![0; 16];
        let size = stream.read(&mut answer)?;
        answer.truncate(size);
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAUTH"))
}
