//! A Redis with a replica that takes its place, and has not heard of what was granted last.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::clock::{Clock, SystemClock};
use tenure_testkit::proxy::Proxy;
use tenure_testkit::servers::redis::start_redis;
use tenure_testkit::servers::{Server, Service};
use tokio::runtime::Handle;

use crate::subject::said;

/// For how long the replica has been cut off when the primary ends.
const BEHIND: Duration = Duration::from_secs(1);

/// How long a replica may take until it has all that the primary has.
const FOLLOWS_MAX: Duration = Duration::from_secs(20);

const LOOK: Duration = Duration::from_millis(50);

/// Both, and one address for whichever is the primary.
#[derive(Debug)]
pub(crate) struct Replicated {
    nodes: [Server; 2],
    primary: AtomicUsize,
    front: Proxy,
}

impl Replicated {
    /// Starts both, and waits until one follows the other. To be called outside of the runtime's
    /// own threads.
    pub(crate) fn start() -> Result<Self> {
        let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
        let arguments = [&keeps[..], &["--repl-diskless-sync-delay", "0"]].concat();
        let nodes = [start_redis(&arguments)?, start_redis(&arguments)?];
        let front = Handle::current().block_on(Proxy::start(nodes[0].address(), 0))?;
        follow(&nodes[1], &nodes[0])?;
        Ok(Self { nodes, primary: AtomicUsize::new(0), front })
    }

    fn primary(&self) -> usize {
        self.primary.load(Ordering::SeqCst)
    }

    /// The replica is cut off and made the primary, as whoever cannot see the old one would do; the
    /// old one goes on for a while, ends, and comes back as a replica.
    fn swap(&self) -> Result<()> {
        let old = self.primary();
        let new = 1 - old;
        tell(&self.nodes[new], "REPLICAOF NO ONE")?;
        nap(BEHIND);
        self.nodes[old].kill()?;
        self.front.lead_to(self.nodes[new].address());
        self.primary.store(new, Ordering::SeqCst);
        self.nodes[old].start_again()?;
        follow(&self.nodes[old], &self.nodes[new])
    }
}

impl Service for Replicated {
    fn server(&self) -> Option<&Server> {
        self.nodes.get(self.primary())
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(self.front.address())
    }

    fn url(&self, _room: u32, at: Option<SocketAddr>) -> String {
        format!("redis://{}/0", at.unwrap_or_else(|| self.front.address()))
    }

    fn fail_over(&self) -> Option<Result<()>> {
        Some(self.swap())
    }
}

/// Makes one the replica of another, and waits until it has all that the other has.
fn follow(replica: &Server, primary: &Server) -> Result<()> {
    tell(replica, &format!("REPLICAOF 127.0.0.1 {}", primary.address().port()))?;
    let latest = SystemClock.now() + FOLLOWS_MAX;
    while !said(primary.address(), "INFO replication\r\n", "repl_backlog_histlen")?
        .contains("state=online")
    {
        ensure!(SystemClock.now() < latest, "the replica does not follow");
        nap(LOOK);
    }
    Ok(())
}

fn tell(node: &Server, command: &str) -> Result<()> {
    let answer = said(node.address(), &format!("{command}\r\n"), "\r\n")?;
    ensure!(answer.starts_with("+OK"), "{command}: {answer}");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a server is waited for outside of any runtime")]
fn nap(time: Duration) {
    std::thread::sleep(time);
}
