//! tenure's server on the embedded store, in a process of its own.

mod caller;
mod forrst;
mod grants;
mod growth;
mod latency;
mod others;
mod rest;
mod start;
mod streams;
mod ways;

use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, bail};
use tenure_api::tenure_v1::lock_service_client::LockServiceClient;
use tenure_server::Running;
use tenure_server::config::Config;
use tonic::transport::{Channel, Endpoint};

pub(crate) use forrst::{measure as measure_forrst, play as play_forrst};
pub(crate) use grants::measure as measure_grants;
pub(crate) use growth::measure as measure_growth;
pub(crate) use latency::measure as measure_latency;
pub(crate) use start::measure as measure_start;
pub(crate) use streams::{measure_connections, measure_held, measure_waiters};

use crate::machine::{allow_files, resident};
use crate::role::{Helper, argument, say};
use crate::sample::on_all_cores;

/// How many connections, or callers on a few of them, each load comes from.
const CALLERS: usize = 64;

/// A server in a process of its own, on a file. It ends with this value.
struct Served {
    helper: Helper,
    address: SocketAddr,
}

impl Served {
    fn start(file: &str) -> Result<Self> {
        Self::start_with(file, "")
    }

    /// `more` is a line of its configuration.
    fn start_with(file: &str, more: &str) -> Result<Self> {
        let mut helper = Helper::start("serve", &[file, more])?;
        let line = helper.line()?.context("the server ended")?;
        Ok(Self { address: line.parse()?, helper })
    }

    /// The memory of the server that is in RAM now, in bytes.
    fn resident(&mut self) -> Result<u64> {
        self.helper.go()?;
        let [bytes] = self.helper.numbers()?;
        Ok(bytes)
    }

    async fn client(&self) -> Result<LockServiceClient<Channel>> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))?;
        Ok(LockServiceClient::new(endpoint.connect().await?))
    }
}

/// Serves until its input ends; tells its address, and its memory whenever it is asked.
pub(crate) fn play(arguments: &[String]) -> Result<()> {
    let (file, more): (String, String) = (argument(arguments, 0)?, argument(arguments, 1)?);
    on_all_cores(async move {
        let text = format!(
            "listen = '127.0.0.1:0'\nstores.main.url = 'file:{file}'\n{more}\n[limits]\n\
             locks_per_client = 1000000\nstreams_per_client = 1000000\nwaiters_per_key = 1000000\n\
             connections = 1000000\nconnections_per_address = 1000000\n"
        );
        allow_files()?;
        let config = Config::parse(&text).map_err(|failure| anyhow!("{failure}"))?;
        let running = Running::start(config).await.map_err(|failure| anyhow!("{failure}"))?;
        say(&running.address().to_string())?;
        loop {
            let asked = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map(|count| count > 0)
            });
            if !asked.await?? {
                return Ok(());
            }
            say(&resident()?.to_string())?;
        }
    })
}

/// Runs all of them at once; all must succeed.
async fn all<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let tasks: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        match task.await {
            Ok(outcome) => done.push(outcome?),
            Err(error) => bail!("a caller panicked: {error}"),
        }
    }
    Ok(done)
}
