//! Several hosts, of which some say nothing: what they cost is a moment, not the others.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use tenure::ErrorKind;
use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure_testkit::servers::postgres::Postgres;
use tenure_testkit::wait::bounded;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::{SOON, cycle, open, refusal, wakes};

/// So long an address of this machine takes to answer, at the most.
const AT_ONCE: Duration = Duration::from_millis(500);

/// An address that nothing comes back from.
struct Silent {
    listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Silent {
    /// Connections are made, and then not a word is said: a server that hangs.
    fn hung() -> Result<Self> {
        Self::listen(1024)
    }

    /// Connections are not even made: a machine that is off.
    async fn off() -> Result<Self> {
        let mut silent = Self::listen(1)?;
        let at = silent.address()?;
        while let Ok(made) = bounded("a connection", AT_ONCE, TcpStream::connect(at)).await {
            silent._queue.push(made?);
        }
        Ok(silent)
    }

    fn listen(queue: u32) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { listener: socket.listen(queue)?, _queue: Vec::new() })
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }
}

#[tokio::test]
async fn a_silent_host_keeps_nobody_from_the_next() -> Result<()> {
    let server = Postgres::start(&[])?;
    let real = server.server().address();
    let (off, hung) = (Silent::off().await?, Silent::hung()?);
    let (off, hung) = (off.address()?, hung.address()?);
    for hosts in [format!("{off},{real}"), format!("{hung},{real}"), format!("{off},{hung},{real}")]
    {
        let url = format!("postgres://postgres@{hosts}/postgres?schema=room_1");
        let store = bounded("the store to open", SOON, open(&url)).await??;
        cycle(&*store).await?;
        wakes(&*store, &*store).await?;
    }
    let told = format!("postgres://locked:wrong@{off},{real}/postgres?connect_timeout=1");
    let error = refusal(&told).await;
    ensure!(error.kind() == ErrorKind::Denied, "the server's own word is lost: {}", Chain(&error));
    Ok(())
}

#[tokio::test]
async fn each_address_has_the_time_that_is_said() -> Result<()> {
    let (off, hung) = (Silent::off().await?, Silent::hung()?);
    let refused_after = async |at: SocketAddr, seconds: u64| {
        let start = SystemClock.now();
        let url = format!("postgres://postgres@{at}/postgres?connect_timeout={seconds}");
        let error = refusal(&url).await;
        ensure!(error.kind() == ErrorKind::Unavailable, "{}", Chain(&error));
        Ok(SystemClock.now().since(start))
    };
    let (off, hung) = (off.address()?, hung.address()?);
    let (short, long, longer) =
        tokio::join!(refused_after(off, 1), refused_after(off, 7), refused_after(hung, 7));
    let (short, long, longer) = (short?, long?, longer?);
    let seconds = Duration::from_secs;
    ensure!(short >= seconds(1) && short < seconds(5), "after {short:?}, and not 1 s");
    ensure!(long >= seconds(7) && longer >= seconds(7), "after {long:?} and {longer:?}, not 7 s");
    Ok(())
}
