//! Asks the application beside this server how it is: its locks are renewed only while it is well.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
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
        let url: Uri = config.url.0.parse().map_err(|_| wrong())?;
        let authority = url.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(wrong)?;
        if url.scheme() != Some(&Scheme::HTTP) {
            return Err(wrong());
        }
        let host = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80));
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let threshold = config.threshold.max(1);
        Ok(Self { host, path, interval: config.interval.0, threshold })
    }

    /// Asks until the end.
    pub(crate) async fn watch(
        self,
        api: Arc<Api>,
        clock: Arc<dyn Clock>,
        mut end: watch::Receiver<bool>,
    ) {
        tokio::select! {
            biased;
            _ = end.wait_for(|end| *end) => {}
            () = self.go_on_asking(&api, &*clock) => {}
        }
    }

    async fn go_on_asking(&self, api: &Api, clock: &dyn Clock) {
        let mut bad = 0;
        loop {
            let is_well = matches!(within(clock, PATIENCE, self.ask()).await, Ok(Ok(true)));
            bad = if is_well { 0 } else { bad + 1 };
            if bad == 0 && !api.renews() {
                tracing::info!("the application is well again: its locks are renewed");
                api.go_on_renewing();
            }
            if bad == self.threshold {
                tracing::warn!("the application is unwell: its locks are left to end");
                api.leave_kept();
            }
            clock.sleep_until(clock.now() + self.interval).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Span, Url};

    fn parsed(url: &str) -> Option<(String, String)> {
        let (url, interval) = (Url(url.to_owned()), Span::from_secs(1));
        let health = AppHealth::new(&AppHealthConfig { url, interval, threshold: 1 }).ok()?;
        Some((health.host, health.path))
    }

    #[test]
    fn where_to_ask_is_read_from_a_url() {
        for (url, host, path) in [
            ("http://127.0.0.1:8080/healthz?deep=1", "127.0.0.1:8080", "/healthz?deep=1"),
            ("http://app", "app:80", "/"),
            ("http://app/", "app:80", "/"),
            ("http://[::1]/x", "[::1]:80", "/x"),
            ("http://[::1]:81", "[::1]:81", "/"),
            ("http://app?deep", "app:80", "/?deep"),
        ] {
            assert_eq!(parsed(url), Some((host.to_owned(), path.to_owned())), "{url}");
        }
        for url in ["", "app:80/x", "https://app/x", "http://u:p@app/", "http:///x", "http://a/ b"]
        {
            assert_eq!(parsed(url), None, "{url}");
        }
    }
}
