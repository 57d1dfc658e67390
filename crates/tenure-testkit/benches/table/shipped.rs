//! The program as it is shipped, and its server in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::machine::{allow_files, resident_of};

/// What the line begins with that tells where it serves.
const SERVING: &str = "serving on http://";

/// The program, which stands beside the folder of this one.
pub(crate) fn program() -> Result<PathBuf> {
    let ours = std::env::current_exe()?;
    let path = ours.parent().and_then(Path::parent).context("no folder")?.join("tenure");
    ensure!(path.exists(), "build it first: cargo build --release -p tenure-cli");
    Ok(path)
}

/// A server on a file, with limits that are in nobody's way. It ends with this value.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn start(file: &str) -> Result<Self> {
        Self::start_with(file, "")
    }

    /// `more` is a line of its configuration.
    pub(crate) fn start_with(file: &str, more: &str) -> Result<Self> {
        let config = format!("{file}.toml");
        let text = format!(
            "listen = '127.0.0.1:0'\nstores.main.url = 'file:{file}'\n{more}\n[limits]\n\
             locks_per_client = 1000000\nstreams_per_client = 1000000\nwaiters_per_key = 1000000\n\
             connections = 1000000\nconnections_per_address = 1000000\n"
        );
        std::fs::write(&config, text)?;
        // It has as many as whoever starts it.
        allow_files()?;
        let mut child = Command::new(program()?)
            .args(["serve", "--config", &config])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("the server did not start")?;
        let told = child.stderr.take().context("the server says nothing")?;
        let mut served = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut lines = BufReader::new(told).lines();
        served.address = loop {
            let Some(line) = lines.next() else { bail!("the server ended") };
            if let Some(address) = line?.strip_prefix(SERVING) {
                break address.parse()?;
            }
        };
        // Nobody reads what it says from here on, but it must not wait for that.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(served)
    }

    pub(crate) async fn client(&self) -> Result<LockServiceClient<Channel>> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))?;
        Ok(LockServiceClient::new(endpoint.connect().await?))
    }

    /// Its memory that is in RAM now, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        resident_of(&self.child.id().to_string())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has usually not ended by itself; if it has, there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
