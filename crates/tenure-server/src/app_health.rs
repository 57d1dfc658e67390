//! Asks the application beside this server how it is: its locks are renewed only while it is well.

use std::sync::Arc;
use std::time::Duration;

use tenure::clock::{Clock, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::api::Api;
use crate::config::AppHealthConfig;
use crate::failure::Failure;

/// How long the application may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where to ask, and how often.
#[derive(Debug)]
pub(crate) struct AppHealth {
    host: String,
    path: String,
    interval: Duration,
    threshold: u32,
}

impl AppHealth {
    pub(crate) fn new(config: &AppHealthConfig) -> Result<Self, Failure> {
        let wrong =
            || Failure::invalid("app_health.url must be like http://127.0.0.1:8080/healthz");
        let rest = config.url.0.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains('@') || path.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let threshold = config.threshold.max(1);
        Ok(Self { host, path: format!("/{path}"), interval: config.interval.0, threshold })
    }

    /// Asks until the end.
    pub(crate) async fn watch(
        self,
        api: Arc<Api>,
        clock: Arc<dyn Clock>,
        mut end: watch::Receiver<bool>,
    ) {
        let mut bad = 0;
        loop {
            let is_well = matches!(within(&*clock, PATIENCE, self.ask()).await, Ok(Ok(true)));
            bad = if is_well { 0 } else { bad + 1 };
            if bad == 0 && !api.renews() {
                tracing::info!("the application is well again: its locks are renewed");
                api.go_on_renewing();
            }
            if bad == self.threshold {
                tracing::warn!("the application is unwell: its locks are left to end");
                api.leave_kept();
            }
            tokio::select! {
                biased;
                _ = end.wait_for(|end| *end) => return,
                () = clock.sleep_until(clock.now() + self.interval) => {}
            }
        }
    }

    async fn ask(&self) -> std::io::Result<bool> {
        let Self { host, path, .. } = self;
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        // "HTTP/1.1 200"
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        Ok(head.starts_with(b"HTTP/1.") && head[9] == b'2')
    }
}
