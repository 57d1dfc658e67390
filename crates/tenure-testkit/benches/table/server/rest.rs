//! As little of an HTTP/1.1 client as it takes, so that the client is not what is measured.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection that is kept.
pub(super) struct Rest(BufReader<TcpStream>);

impl Rest {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// The body of an answer that must be a success.
    pub(super) async fn call(&mut self, method: &str, path: &str, body: &str) -> Result<String> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(request.as_bytes()).await?;
        let mut line = self.line().await?;
        ensure!(line.starts_with("HTTP/1.1 2"), "{method} {path}: {line}");
        let mut length = 0;
        loop {
            line = self.line().await?;
            let header = line.trim_end();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().context("no length")?;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(String::from_utf8(body)?)
    }

    /// Takes a lock for as long as this connection is open.
    pub(super) async fn hold(&mut self, path: &str) -> Result<()> {
        let body = r#"{"ttl":"10m"}"#;
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\naccept: application/x-ndjson\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        ensure!(status.starts_with("HTTP/1.1 2"), "{path}: {status}");
        while !self.line().await?.contains(r#""type":"acquired""#) {}
        Ok(())
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            bail!("the connection ended");
        }
        Ok(line)
    }
}
