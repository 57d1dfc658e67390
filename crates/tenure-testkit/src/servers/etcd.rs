//! Servers for the `etcd` store.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Kind, Program, Server, Service, free_port};

pub(super) const KINDS: &[Kind] = &[Kind { name: "etcd", start }];

#[derive(Debug)]
struct Etcd(Server);

impl Service for Etcd {
    fn server(&self) -> Option<&Server> {
        Some(&self.0)
    }

    fn url(&self, room: u32, at: Option<SocketAddr>) -> String {
        format!("etcd://{}/room{room}", at.unwrap_or(self.0.address()))
    }
}

fn start() -> Result<Arc<dyn Service>> {
    Ok(Arc::new(Etcd(alone(&[])?)))
}

/// A cluster of one member, started with `more` arguments.
///
/// # Errors
/// When it does not answer in time.
pub fn alone(more: &[&str]) -> Result<Server> {
    let peer = free_port()?;
    Server::start("etcd", |port, folder| Ok(member(folder, port, peer, &[peer], more)))
}

/// A cluster of so many members.
///
/// # Errors
/// When one does not answer in time.
pub fn cluster(members: usize) -> Result<Vec<Server>> {
    let peers = (0..members).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
    let start = |peer: u16| {
        Server::start("etcd", |port, folder| Ok(member(folder, port, peer, &peers, &[])))
    };
    // None of them is ready before most of them run.
    std::thread::scope(|scope| {
        let starting: Vec<_> = peers.iter().map(|&peer| scope.spawn(move || start(peer))).collect();
        let started = starting.into_iter().map(|thread| thread.join());
        started.map(|server| server.ok().context("the starting thread panicked")?).collect()
    })
}

/// How a member is started. Its elections are quick, so that the shortest lease is a second.
fn member(folder: &Path, port: u16, peer: u16, peers: &[u16], more: &[&str]) -> Program {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let cluster: Vec<_> = peers.iter().map(|peer| format!("{peer}={}", url(*peer))).collect();
    let has = |name: &str| more.iter().find_map(|argument| argument.strip_prefix(name));
    let scheme = if has("--cert-file=").is_some() { "https" } else { "http" };
    let client = format!("{scheme}://127.0.0.1:{port}");
    // Where clients need TLS, health is told elsewhere without.
    let health = has("--listen-metrics-urls=http://127.0.0.1:").and_then(|port| port.parse().ok());
    let health = health.unwrap_or(port);
    let mut arguments: Vec<OsString> = [
        ("--name", peer.to_string()),
        ("--listen-client-urls", client.clone()),
        ("--advertise-client-urls", client),
        ("--listen-peer-urls", url(peer)),
        ("--initial-advertise-peer-urls", url(peer)),
        ("--initial-cluster", cluster.join(",")),
        ("--heartbeat-interval", "50".into()),
        ("--election-timeout", "500".into()),
        ("--log-level", "error".into()),
        ("--data-dir", folder.join("data").display().to_string()),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.into(), value.into()])
    .collect();
    arguments.extend(more.iter().map(OsString::from));
    Program {
        path: PathBuf::from("etcd"),
        arguments,
        environment: Vec::new(),
        user: None,
        last_signal: "KILL",
        is_ready: Box::new(move || is_healthy(health)),
    }
}

/// Whether the server says that it has a leader.
fn is_healthy(port: u16) -> bool {
    http_get(port, "/health").is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}

/// What etcd's HTTP side answers.
///
/// # Errors
/// When it does not.
pub fn http_get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The methods of the API that a client calls for one answer. `LeaseKeepAlive` is a stream, but the
/// store opens one for each question, and that is what etcd counts.
pub const ANSWERED: &[&str] = &[
    "Range",
    "Put",
    "DeleteRange",
    "Txn",
    "LeaseGrant",
    "LeaseRevoke",
    "LeaseKeepAlive",
    "LeaseTimeToLive",
];

/// How often a method of the API was called, as the server counts.
///
/// # Errors
/// When it does not tell.
pub fn calls(server: &Server, method: &str) -> Result<u64> {
    let metrics = http_get(server.address().port(), "/metrics")?;
    let wanted = format!("grpc_method=\"{method}\"");
    let mut lines = metrics.lines().filter(|line| line.starts_with("grpc_server_started_total"));
    let line = lines.find(|line| line.contains(&wanted)).context("no such method")?;
    let count: f64 = line.rsplit(' ').next().context("no count")?.parse()?;
    // Counts in a test are far below what a float cannot hold.
    Ok(format!("{count:.0}").parse()?)
}

/// Runs etcdctl against a server.
///
/// # Errors
/// When it fails; the text is what it printed.
pub fn etcdctl(server: &Server, arguments: &[&str]) -> Result<String> {
    let output = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &server.address().to_string()])
        .args(arguments)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "etcdctl {arguments:?}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
