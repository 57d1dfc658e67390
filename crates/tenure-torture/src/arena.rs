//! Where faults are carried out: on the server, the network and the workers.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tenure::Locks;
use tenure::clock::{Clock, Moment, SystemClock};
use tenure_testkit::faketime;
use tenure_testkit::proxy::{Flow, Proxy};
use tenure_testkit::servers::{Server, Service};
use tokio::task::JoinHandle;

use crate::clockwork;
use crate::fault::{Aim, Blow, Kind, Struck};
use crate::fleet::Fleet;
use crate::job::TTL_SHORT;
use crate::journal::Journal;
use crate::merge::FAULTS;

/// How often single replies are lost, in a thousand.
const LOSS: u64 = 60;

/// How long replies go on arriving late before a part of the network falls silent.
const SINKS_WITHIN: Duration = Duration::from_millis(700);

/// How long a server that was started again is asked whether it works. One that does not by then
/// counts as there all the same, and what fails is found.
const RECOVERS_MAX: Duration = Duration::from_secs(15);

const LOOK: Duration = Duration::from_millis(100);

/// Keys that no worker asks for. There are several, because one works earlier than all.
const PROBES: [&str; 4] = ["probe-0", "probe-1", "probe-2", "probe-3"];

/// All that can be hit, and what is being hit just now.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) links: Vec<Proxy>,
    pub(crate) fleet: Fleet,
    journal: Journal,
    /// The way to a server whose word that it is ready does not count.
    probe: Option<Locks>,
    /// What was carried out and is over.
    pub(crate) struck: Vec<Struck>,
    /// Faults of the network and of clocks that last.
    lasting: Vec<(Moment, Struck)>,
    /// Parts of the network that are to fall silent.
    sinking: Vec<(Moment, usize)>,
    /// What is being done to the server.
    server: Option<(Struck, JoinHandle<Result<()>>)>,
}

impl Arena {
    /// An arena in which nothing is wrong yet.
    pub(crate) fn new(
        service: Arc<dyn Service>,
        links: Vec<Proxy>,
        fleet: Fleet,
        probe: Option<Locks>,
        folder: &Path,
    ) -> Result<Self> {
        let journal = Journal::append(&folder.join(FAULTS))?;
        let (struck, lasting, sinking) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { service, links, fleet, journal, probe, struck, lasting, sinking, server: None })
    }

    /// Carries out a fault. One whose target is not there, or is hit already, does not happen.
    pub(crate) fn strike(&mut self, blow: &Blow) -> Result<()> {
        match blow.kind.aim() {
            Aim::Worker => self.strike_worker(blow),
            Aim::Network => self.strike_network(blow),
            Aim::Server => self.strike_server(blow),
        }
    }

    fn strike_worker(&mut self, blow: &Blow) -> Result<()> {
        let begin = SystemClock.now();
        let (kind, choice) = (blow.kind, blow.choice);
        let hit = match kind {
            Kind::WorkerPause => self.fleet.pause(choice, blow.length)?,
            Kind::ClockStep => self.fleet.step(choice)?,
            Kind::ClockRate => self.fleet.rush(choice)?,
            _ => self.fleet.kill(choice)?,
        };
        let Some(number) = hit else { return Ok(()) };
        let until = begin + blow.length;
        let (begin, end) = (begin.as_nanos(), until.as_nanos());
        let target = format!("worker {number}");
        let struck = Struck { kind, target, link: None, begin, end };
        if kind == Kind::ClockStep {
            self.lasting.push((until, struck));
            return Ok(());
        }
        self.done(struck)
    }

    fn strike_network(&mut self, blow: &Blow) -> Result<()> {
        let place = usize::try_from(blow.choice % (self.links.len() as u64).max(1)).unwrap_or(0);
        let Some(link) = self.links.get(place) else { return Ok(()) };
        if self.lasting.iter().any(|(_, struck)| struck.link == Some(place)) {
            return Ok(());
        }
        // Before anybody can feel it.
        let begin = SystemClock.now();
        match blow.kind {
            Kind::Cut => {
                link.refuse();
                link.cut();
            }
            Kind::LostRequests => link.requests(Flow::Lose),
            Kind::LostReplies => link.replies(Flow::Lose),
            Kind::LostReply => link.replies(Flow::LoseSome(LOSS)),
            Kind::LateRequests => {
                let by = Duration::from_millis(2000 + (blow.choice >> 32) % 2000);
                link.requests(Flow::Delay(by));
            }
            Kind::HalfOpen => link.half_open(),
            Kind::Sinking => {
                let by = Duration::from_millis(400 + (blow.choice >> 32) % 600);
                link.replies(Flow::Delay(by));
                self.sinking.push((SystemClock.now() + by + SINKS_WITHIN, place));
            }
            Kind::Latency => {
                let by = Duration::from_millis(15 + (blow.choice >> 32) % 135);
                link.requests(Flow::Delay(by));
                link.replies(Flow::Delay(by));
            }
            _ => link.reset(),
        }
        let until = begin + blow.length;
        let target = format!("network {place}");
        let (begin, end) = (begin.as_nanos(), until.as_nanos());
        let struck = Struck { kind: blow.kind, target, link: Some(place), begin, end };
        self.lasting.push((until, struck));
        Ok(())
    }

    fn strike_server(&mut self, blow: &Blow) -> Result<()> {
        let Some(server) = self.service.server().filter(|_| self.server.is_none()) else {
            return Ok(());
        };
        let (kind, length) = (blow.kind, blow.length);
        let begin = SystemClock.now();
        let until = begin + length;
        let (target, begin) = ("server".to_owned(), begin.as_nanos());
        let struck = Struck { kind, target, link: None, begin, end: begin };
        if kind == Kind::ServerClockStep {
            clockwork::step(server.folder(), clockwork::SERVER, blow.choice)?;
            self.lasting.push((until, struck));
            return Ok(());
        }
        let service = Arc::clone(&self.service);
        let probe = self.probe.clone();
        let strike = tokio::task::spawn_blocking(move || {
            if kind == Kind::ServerKill
                && let Some(done) = service.fail_over()
            {
                return done;
            }
            let server = service.server().context("no server")?;
            match kind {
                Kind::ServerPause => return pause(server, length),
                Kind::ServerKill => clean_after(server, || server.end(service.hardest_end()))?,
                // Some take their time, and that is not what is tried out.
                _ => clean_after(server, || server.end(Signal::TERM).or_else(|_| server.kill()))?,
            }
            nap(length);
            server.start_again()
        });
        let work = tokio::spawn(async move {
            strike.await??;
            match probe {
                Some(locks) if kind != Kind::ServerPause => works(&locks).await,
                _ => {}
            }
            Ok(())
        });
        self.server = Some((struck, work));
        Ok(())
    }

    /// Ends what is over.
    pub(crate) async fn tend(&mut self) -> Result<()> {
        let now = SystemClock.now();
        let (over, lasting) =
            std::mem::take(&mut self.lasting).into_iter().partition(|(until, _)| *until <= now);
        self.lasting = lasting;
        for (at, place) in std::mem::take(&mut self.sinking) {
            match self.links.get(place) {
                Some(link) if at <= now => link.requests(Flow::Lose),
                _ => self.sinking.push((at, place)),
            }
        }
        self.heal(over)?;
        if self.server.as_ref().is_some_and(|(_, work)| work.is_finished()) {
            self.mend().await?;
        }
        self.fleet.tend().await
    }

    /// Ends everything, so that nothing is wrong any more.
    pub(crate) async fn heal_all(&mut self) -> Result<()> {
        self.sinking.clear();
        let lasting = std::mem::take(&mut self.lasting);
        self.heal(lasting)?;
        self.mend().await
    }

    fn heal(&mut self, over: Vec<(Moment, Struck)>) -> Result<()> {
        for (_, mut struck) in over {
            if let Some(worker) = struck.worker() {
                self.fleet.right(worker)?;
            }
            if let Some(server) = self.service.server()
                && struck.kind == Kind::ServerClockStep
            {
                clockwork::right(server.folder(), clockwork::SERVER)?;
            }
            if let Some(link) = struck.link.and_then(|place| self.links.get(place)) {
                match struck.kind {
                    Kind::HalfOpen => link.pass_anew(),
                    _ => link.pass(),
                }
            }
            struck.end = SystemClock.now().as_nanos();
            self.done(struck)?;
        }
        Ok(())
    }

    /// Waits until the server is well again.
    async fn mend(&mut self) -> Result<()> {
        let Some((mut struck, work)) = self.server.take() else { return Ok(()) };
        work.await?.with_context(|| format!("{:?} of the server", struck.kind))?;
        struck.end = SystemClock.now().as_nanos();
        self.done(struck)
    }

    fn done(&mut self, struck: Struck) -> Result<()> {
        self.journal.write(&struck)?;
        self.struck.push(struck);
        Ok(())
    }
}

/// Waits until locks can be taken and given back.
async fn works(locks: &Locks) {
    let latest = SystemClock.now() + RECOVERS_MAX;
    let mut row = 0;
    while row < PROBES.len() && SystemClock.now() < latest {
        if cycle(locks, PROBES[row]).await {
            row += 1;
        } else {
            row = 0;
            SystemClock.sleep_until(SystemClock.now() + LOOK).await;
        }
    }
}

async fn cycle(locks: &Locks, key: &str) -> bool {
    match locks.lock(key).ttl(TTL_SHORT).try_acquire().await {
        Ok(Some(guard)) => guard.release().await.is_ok(),
        Ok(None) | Err(_) => false,
    }
}

/// Ends a server, and takes away what its clock has left behind.
pub(crate) fn clean_after(server: &Server, end: impl FnOnce() -> Result<()>) -> Result<()> {
    let left = [first(server), server.pid()];
    end()?;
    left.into_iter().flatten().for_each(faketime::clean);
    Ok(())
}

/// Stops the server and whatever it has started, for so long.
fn pause(server: &Server, length: Duration) -> Result<()> {
    let parts = parts(server);
    let tell = |signal| {
        for pid in &parts {
            // A part that has ended meanwhile needs no telling.
            let _ = kill_process(*pid, signal);
        }
    };
    server.pause()?;
    tell(Signal::STOP);
    nap(length);
    tell(Signal::CONT);
    server.resume()
}

/// The first process of a PostgreSQL; `None` for any other.
fn first(server: &Server) -> Option<u32> {
    let told = fs::read_to_string(server.folder().join("data/postmaster.pid")).ok()?;
    told.lines().next()?.parse().ok()
}

/// The other processes of a PostgreSQL; none for any other.
fn parts(server: &Server) -> Vec<Pid> {
    let Some(first) = first(server) else { return Vec::new() };
    let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

#[expect(clippy::disallowed_methods, reason = "a server is waited for outside of any runtime")]
fn nap(time: Duration) {
    std::thread::sleep(time);
}
