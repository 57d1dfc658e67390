//! A TCP proxy that fails on command: what a network does to a byte stream.
//!
//! A byte stream with a hole in it is no longer that stream. So a connection that has lost one byte
//! never carries another in that direction: it stays silent until it is cut, as one does whose
//! peer has gone away.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::sim::Dice;
use crate::wait::sleep;

/// The longest time from a lost reply to the cut, in milliseconds.
const CUT_WITHIN_MS: u64 = 30;

/// What becomes of bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They arrive.
    Pass,
    /// They arrive so much later, and those behind them wait.
    Delay(Duration),
    /// They are lost without a sign.
    Lose,
    /// So many more pieces arrive, on any connection; the next is lost, and its connection is cut
    /// shortly after. Everything behind it passes.
    LoseOne(u64),
    /// So many more bytes of each connection arrive, and then it is cut.
    CutAfter(u64),
    /// Each piece is lost with this chance in a thousand; the connection is cut
    /// shortly after.
    LoseSome(u64),
}

/// A proxy before one address. It ends with this value, and cuts what it carried.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<SocketAddr>,
    dice: Dice,
    flows: Mutex<Flows>,
    /// Pieces since the last order, for [`Flow::LoseOne`].
    pieces: AtomicU64,
    refuses: AtomicBool,
    ends: watch::Sender<Ends>,
    connections: AtomicU64,
    requested: AtomicU64,
    lost: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Flows {
    requests: Flow,
    replies: Flow,
    /// Which order this is, for what counts from an order on.
    order: u64,
}

impl Flows {
    fn set(&mut self, requests: Flow, replies: Flow) {
        *self = Self { requests, replies, order: self.order + 1 };
    }
}

/// How often all connections were ended, how the last time, and how often the network healed.
#[derive(Clone, Copy, Debug)]
struct Ends {
    forced: u64,
    how: End,
    healed: u64,
}

/// What both sides see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Reset,
}

impl Proxy {
    /// Listens on a free port of this machine and passes everything on to `upstream`. `seed` is
    /// for [`Flow::LoseSome`].
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            dice: Dice::new(seed),
            flows: Mutex::new(Flows { requests: Flow::Pass, replies: Flow::Pass, order: 0 }),
            pieces: AtomicU64::new(0),
            refuses: AtomicBool::new(false),
            ends: watch::Sender::new(Ends { forced: 0, how: End::Close, healed: 0 }),
            connections: AtomicU64::new(0),
            requested: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let listener = tokio::spawn(listen(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, listener })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are made from now on are passed on to this server instead.
    pub fn lead_to(&self, upstream: SocketAddr) {
        *self.shared.upstream() = upstream;
    }

    /// Everything passes again. A connection that has lost bytes is cut.
    pub fn pass(&self) {
        self.pass_anew();
        self.shared.ends.send_modify(|ends| ends.healed += 1);
    }

    /// Everything passes again, but a connection that has lost bytes stays silent: nobody is told
    /// that it is of no more use.
    pub fn pass_anew(&self) {
        self.shared.flows().set(Flow::Pass, Flow::Pass);
        self.shared.refuses.store(false, Ordering::SeqCst);
    }

    /// What becomes of what the client sends from now on.
    pub fn requests(&self, flow: Flow) {
        self.shared.order(|flows| flows.set(flow, flows.replies));
    }

    /// What becomes of what the server sends from now on.
    pub fn replies(&self, flow: Flow) {
        self.shared.order(|flows| flows.set(flows.requests, flow));
    }

    /// Nothing passes in either direction, and nobody is told: neither side sees the other close.
    pub fn half_open(&self) {
        self.shared.flows().set(Flow::Lose, Flow::Lose);
    }

    /// Closes every connection, on both sides.
    pub fn cut(&self) {
        self.shared.end(End::Close);
    }

    /// Resets every connection, on both sides.
    pub fn reset(&self) {
        self.shared.end(End::Reset);
    }

    /// Resets new connections as soon as they are made, until [`pass`](Self::pass).
    pub fn refuse(&self) {
        self.shared.refuses.store(true, Ordering::SeqCst);
    }

    /// How many connections were made, without those that were refused.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many pieces clients have sent: a small request is one.
    #[must_use]
    pub fn requested(&self) -> u64 {
        self.shared.requested.load(Ordering::SeqCst)
    }

    /// How many pieces were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listener.abort();
        self.cut();
    }
}

impl Shared {
    fn order(&self, change: impl FnOnce(&mut Flows)) {
        let mut flows = self.flows();
        self.pieces.store(0, Ordering::SeqCst);
        change(&mut flows);
    }

    /// Whether a piece on its way is lost for good, together with its connection.
    fn is_lost(&self, flow: Flow) -> bool {
        match flow {
            Flow::LoseSome(per_mille) => self.dice.chance(per_mille),
            Flow::LoseOne(after) => self.pieces.fetch_add(1, Ordering::SeqCst) == after,
            Flow::Pass | Flow::Delay(_) | Flow::Lose | Flow::CutAfter(_) => false,
        }
    }

    fn upstream(&self) -> MutexGuard<'_, SocketAddr> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, how: End) {
        self.ends.send_modify(|ends| *ends = Ends { forced: ends.forced + 1, how, ..*ends });
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.refuses.load(Ordering::SeqCst) {
            reset(client);
            continue;
        }
        shared.connections.fetch_add(1, Ordering::SeqCst);
        // Before the server is reached: a cut that comes in between is for this one as well.
        let ends = shared.ends.subscribe();
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // Whoever cannot be passed on sees what one sees before a server that has gone.
            let upstream = *shared.upstream();
            match TcpStream::connect(upstream).await {
                Ok(server) => carry(client, server, ends, &shared).await,
                Err(_) => reset(client),
            }
        });
    }
}

fn reset(stream: TcpStream) {
    // Where it cannot be set, the close is an orderly one.
    drop(stream.set_zero_linger());
}

/// Carries one connection to its end.
async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    ends: watch::Receiver<Ends>,
    shared: &Shared,
) {
    // A small answer must not wait for more to go with it.
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let broken = AtomicBool::new(false);
    let forced = ends.borrow().forced;
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let request = |flows: &Flows| {
        shared.requested.fetch_add(1, Ordering::SeqCst);
        flows.requests
    };
    let requests = pump(client_reads, server_writes, request, shared, &broken);
    let replies = pump(server_reads, client_writes, |flows| flows.replies, shared, &broken);
    let end = tokio::select! {
        end = ended(ends, forced, &broken) => end,
        end = both(requests, replies) => end,
    };
    if end == End::Reset {
        reset(client);
        reset(server);
    }
}

/// The end that was ordered for this connection.
async fn ended(mut ends: watch::Receiver<Ends>, forced: u64, broken: &AtomicBool) -> End {
    while ends.changed().await.is_ok() {
        let now = *ends.borrow_and_update();
        if now.forced != forced {
            return now.how;
        }
        if broken.load(Ordering::SeqCst) {
            return End::Close;
        }
    }
    End::Close
}

/// Until both directions have ended, or one of them ends the connection.
async fn both(
    requests: impl Future<Output = Option<End>>,
    replies: impl Future<Output = Option<End>>,
) -> End {
    tokio::pin!(requests, replies);
    let (first, is_requests) = tokio::select! {
        end = &mut requests => (end, true),
        end = &mut replies => (end, false),
    };
    let second = match (first, is_requests) {
        (Some(end), _) => return end,
        (None, true) => replies.await,
        (None, false) => requests.await,
    };
    second.unwrap_or(End::Close)
}

/// Carries one direction until its sender closes (`None`) or the connection has to end.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    flow: impl Fn(&Flows) -> Flow,
    shared: &Shared,
    broken: &AtomicBool,
) -> Option<End> {
    let mut buffer = vec![0; 16 * 1024];
    let (mut carried, mut order) = (0, 0);
    loop {
        let count = from.read(&mut buffer).await;
        let flows = *shared.flows();
        let flow = flow(&flows);
        if flows.order != order {
            (carried, order) = (0, flows.order);
        }
        let count = match count {
            // Even the end is lost.
            _ if flow == Flow::Lose => 0,
            Err(_) => return Some(End::Reset),
            Ok(0) => {
                drop(to.shutdown().await);
                return None;
            }
            Ok(count) => count,
        };
        let mut piece = &buffer[..count];
        let mut ends = false;
        match flow {
            Flow::Pass => {}
            Flow::Delay(by) => sleep(by).await,
            Flow::Lose => return silence(from, None, shared, broken).await,
            Flow::LoseSome(_) | Flow::LoseOne(_) if shared.is_lost(flow) => {
                let cut_after = shared.dice.millis(0, CUT_WITHIN_MS);
                return silence(from, Some(cut_after), shared, broken).await;
            }
            Flow::LoseSome(_) | Flow::LoseOne(_) => {}
            Flow::CutAfter(limit) => {
                let room = usize::try_from(limit.saturating_sub(carried)).unwrap_or(usize::MAX);
                ends = count >= room;
                piece = &piece[..count.min(room)];
            }
        }
        carried += piece.len() as u64;
        if to.write_all(piece).await.is_err() {
            return Some(End::Reset);
        }
        if ends {
            return Some(End::Close);
        }
    }
}

/// Loses everything from here on, for good or until the cut. A close is lost as well.
async fn silence(
    mut from: impl AsyncRead + Unpin,
    cut_after: Option<Duration>,
    shared: &Shared,
    broken: &AtomicBool,
) -> Option<End> {
    broken.store(true, Ordering::SeqCst);
    shared.lost.fetch_add(1, Ordering::SeqCst);
    let swallow = async {
        drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
        std::future::pending().await
    };
    let cut = async {
        match cut_after {
            None => std::future::pending().await,
            Some(time) => sleep(time).await,
        }
    };
    tokio::select! {
        end = swallow => end,
        () = cut => Some(End::Close),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::wait::{bounded, until};

    const SOON: Duration = Duration::from_secs(5);
    const A_WHILE: Duration = Duration::from_millis(100);

    /// A server that answers each byte with itself and counts what it got.
    async fn echo() -> (SocketAddr, Arc<AtomicU64>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&got);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                        count.fetch_add(bytes as u64, Ordering::SeqCst);
                        if stream.write_all(&buffer[..bytes]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (address, got)
    }

    struct Bench {
        proxy: Proxy,
        client: TcpStream,
        got: Arc<AtomicU64>,
    }

    async fn bench() -> Bench {
        let (address, got) = echo().await;
        let proxy = Proxy::start(address, 1).await.unwrap();
        let client = TcpStream::connect(proxy.address()).await.unwrap();
        let mut bench = Bench { proxy, client, got };
        assert_eq!(bench.ask(b"hello").await.unwrap(), b"hello");
        bench
    }

    impl Bench {
        async fn ask(&mut self, text: &[u8]) -> std::io::Result<Vec<u8>> {
            self.client.write_all(text).await?;
            let mut answer = vec![0; text.len()];
            bounded("an answer", SOON, self.client.read_exact(&mut answer)).await.unwrap()?;
            Ok(answer)
        }

        /// What the client sees when it is told: an orderly close is 0 bytes.
        async fn told(&mut self) -> std::io::Result<usize> {
            let mut rest = [0; 64];
            bounded("an end", SOON, self.client.read(&mut rest)).await.unwrap()
        }

        async fn is_told_nothing(&mut self) -> bool {
            let mut rest = [0; 64];
            bounded("nothing", A_WHILE, self.client.read(&mut rest)).await.is_err()
        }

        async fn reconnect(&mut self) {
            self.client = TcpStream::connect(self.proxy.address()).await.unwrap();
        }

        async fn got(&self, bytes: u64) {
            let all = || async { Ok(self.got.load(Ordering::SeqCst) == bytes) };
            until("the server to get it", SOON, all).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_lost_reply_was_a_delivered_request() {
        let mut bench = bench().await;
        bench.proxy.replies(Flow::Lose);
        bench.client.write_all(b"more").await.unwrap();
        bench.got(9).await;
        assert!(bench.is_told_nothing().await);
        assert_eq!(bench.proxy.lost(), 1);
        // The hole is not papered over: that connection is of no more use.
        bench.proxy.pass();
        assert_eq!(bench.told().await.unwrap(), 0);
        bench.reconnect().await;
        assert_eq!(bench.ask(b"again").await.unwrap(), b"again");
        assert_eq!(bench.proxy.connections(), 2);
    }

    #[tokio::test]
    async fn a_lost_request_never_arrives() {
        let mut bench = bench().await;
        bench.proxy.requests(Flow::Lose);
        bench.client.write_all(b"more").await.unwrap();
        assert!(bench.is_told_nothing().await);
        assert_eq!(bench.got.load(Ordering::SeqCst), 5);
    }

    #[tokio::test]
    async fn an_unbroken_connection_survives_the_healing() {
        let mut bench = bench().await;
        bench.proxy.replies(Flow::Lose);
        bench.proxy.pass();
        assert_eq!(bench.ask(b"still here").await.unwrap(), b"still here");
    }

    #[tokio::test]
    async fn half_open_hides_even_a_close() {
        let mut bench = bench().await;
        bench.proxy.half_open();
        let mut other = TcpStream::connect(bench.proxy.address()).await.unwrap();
        other.shutdown().await.unwrap();
        assert!(bench.is_told_nothing().await);
        let mut rest = [0; 8];
        let read = bounded("nothing", A_WHILE, other.read(&mut rest)).await;
        assert!(read.is_err(), "{read:?}");
    }

    #[tokio::test]
    async fn what_was_silent_stays_silent_while_new_connections_pass() {
        let mut bench = bench().await;
        bench.proxy.half_open();
        bench.client.write_all(b"more").await.unwrap();
        until("the loss", SOON, || async { Ok(bench.proxy.lost() > 0) }).await.unwrap();
        bench.proxy.pass_anew();
        assert!(bench.is_told_nothing().await);
        bench.reconnect().await;
        assert_eq!(bench.ask(b"new").await.unwrap(), b"new");
    }

    #[tokio::test]
    async fn cut_closes_and_reset_resets() {
        let mut bench = bench().await;
        bench.proxy.cut();
        assert_eq!(bench.told().await.unwrap(), 0);
        bench.reconnect().await;
        assert_eq!(bench.ask(b"a").await.unwrap(), b"a");
        bench.proxy.reset();
        assert_eq!(bench.told().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn refused_until_it_passes() {
        let mut bench = bench().await;
        bench.proxy.refuse();
        assert_eq!(bench.ask(b"old").await.unwrap(), b"old");
        bench.reconnect().await;
        bench.told().await.unwrap_err();
        bench.proxy.pass();
        bench.reconnect().await;
        assert_eq!(bench.ask(b"new").await.unwrap(), b"new");
    }

    #[tokio::test]
    async fn a_reply_is_cut_in_the_middle() {
        let mut bench = bench().await;
        bench.proxy.replies(Flow::CutAfter(3));
        // An old connection as well as a new one.
        for got in [11, 17] {
            bench.client.write_all(b"abcdef").await.unwrap();
            let mut answer = Vec::new();
            bounded("the cut", SOON, bench.client.read_to_end(&mut answer)).await.unwrap().unwrap();
            assert_eq!(answer, b"abc");
            bench.got(got).await;
            bench.reconnect().await;
        }
    }

    #[tokio::test]
    async fn a_delay_holds_up_each_direction() {
        use tenure::clock::{Clock, SystemClock};
        let mut bench = bench().await;
        bench.proxy.requests(Flow::Delay(A_WHILE));
        bench.proxy.replies(Flow::Delay(A_WHILE));
        let start = SystemClock.now();
        assert_eq!(bench.ask(b"slow").await.unwrap(), b"slow");
        assert!(SystemClock.now().since(start) >= A_WHILE * 2);
    }

    #[tokio::test]
    async fn some_replies_are_lost_and_each_loss_ends_its_connection() {
        let mut bench = bench().await;
        bench.proxy.replies(Flow::LoseSome(200));
        let mut failed = 0;
        for n in 0..200_u8 {
            match bench.ask(&[n]).await {
                Ok(answer) => assert_eq!(answer, [n], "an answer to another question"),
                Err(_) => {
                    failed += 1;
                    bench.reconnect().await;
                }
            }
        }
        assert_eq!(bench.proxy.lost(), failed);
        assert!((15..80).contains(&failed), "{failed} of 200 at a chance of 0.2");
        bench.got(205).await;
    }

    #[tokio::test]
    async fn the_one_that_was_asked_for_is_lost() {
        let mut bench = bench().await;
        bench.proxy.replies(Flow::LoseOne(2));
        assert_eq!(bench.ask(b"a").await.unwrap(), b"a");
        assert_eq!(bench.ask(b"b").await.unwrap(), b"b");
        bench.ask(b"c").await.unwrap_err();
        bench.reconnect().await;
        assert_eq!(bench.ask(b"d").await.unwrap(), b"d");
        assert_eq!(bench.proxy.lost(), 1);
        bench.got(9).await;
    }

    #[tokio::test]
    async fn the_end_of_the_proxy_ends_what_it_carried() {
        let mut bench = bench().await;
        let (address, _) = echo().await;
        bench.proxy = Proxy::start(address, 2).await.unwrap();
        assert_eq!(bench.told().await.unwrap(), 0);
    }
}
