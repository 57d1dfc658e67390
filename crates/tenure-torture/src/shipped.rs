//! tenure's own server, the program as it is shipped.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tenure_testkit::faketime;
use tenure_testkit::servers::{Program, Server, Service};

use crate::clockwork::{self, Clockwork};

/// The program, which stands beside this one.
fn program() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("tenure");
    let advice = "cargo xtask torture builds it";
    ensure!(path.exists(), "there is no {}: {advice}", path.display());
    Ok(path)
}

/// A server on a file. Without rooms: whoever tortures it has it for itself.
#[derive(Debug)]
pub(crate) struct Shipped(Server);

impl Shipped {
    /// Starts it, with its usual settings and a wall clock that can be stepped.
    pub(crate) fn start() -> Result<Self> {
        let (path, library) = (program()?, faketime::library()?);
        let server = Server::start("tenure", |port, folder| {
            let store = format!("file:{}", folder.join("locks.db").display());
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let arguments = ["serve", "--listen", &listen.to_string(), "--store", &store];
            Ok(Program {
                path,
                arguments: arguments.map(Into::into).to_vec(),
                environment: Clockwork::Stepping.environment(
                    &library,
                    folder,
                    clockwork::SERVER,
                )?,
                user: None,
                last_signal: "KILL",
                is_ready: Box::new(move || TcpStream::connect(listen).is_ok()),
            })
        });
        Ok(Self(server.context("tenure serve")?))
    }
}

impl Service for Shipped {
    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    fn url(&self, _room: u32, at: Option<SocketAddr>) -> String {
        format!("tenure://{}", at.unwrap_or_else(|| self.0.address()))
    }
}
