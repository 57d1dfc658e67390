//! Helper processes: a test starts its own program again in another role, talks to it over its
//! output, and may stop or kill it.

pub mod counting;

use std::collections::VecDeque;
use std::ffi::OsStr;
#[cfg(feature = "servers")]
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
#[cfg(feature = "servers")]
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tenure::clock::{Clock, SystemClock};
use tenure::error::Chain;
use tenure::{Guard, Locks, Retry};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::mutants::{Mutant, StoreBug};
use crate::wait::{bounded, sleep};

const VARIABLE: &str = "TENURE_TESTKIT_ROLE";
const CARELESS: &str = "TENURE_TESTKIT_CARELESS";
const OPENINGS: usize = 5;
const LINE_MAX: Duration = Duration::from_secs(20);

/// What a helper process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds one key, kept alive, until it is killed. Says `held FENCE`.
    Hold {
        /// The store.
        url: String,
        /// What to hold.
        key: String,
        /// The ttl of the lease.
        ttl: Duration,
    },
    /// Acquires keys of its own as fast as it can and releases all but the last three. Says
    /// `granted KEY FENCE` after each grant and `releasing KEY FENCE` before each release.
    Load {
        /// The store.
        url: String,
        /// What its keys begin with.
        prefix: String,
    },
    /// Does what it is told, line by line: to `acquire KEY` it answers `granted FENCE` or
    /// `refused KIND TEXT`, and keeps what it got.
    Answer {
        /// The store.
        url: String,
    },
    /// Acquires one key again and again and asks its guard whether it holds, all the time. Says
    /// `held FENCE` after a grant, and `believed FENCE UNTIL` with the last moment (on the boot
    /// clock, which all processes of a machine share) of each belief when it ends.
    Believe {
        /// The store.
        url: String,
        /// What to hold.
        key: String,
        /// The ttl of the lease.
        ttl: Duration,
    },
    /// Tries for every key of a row, again and again, whatever errors come, and keeps what it
    /// gets. Says `ready`, and `took KEY FENCE AT` with the moment (on the boot clock) at which it
    /// knew.
    Rob {
        /// The store.
        url: String,
        /// What the keys begin with; a number from 0 follows.
        prefix: String,
        /// How many there are.
        count: usize,
        /// The ttl of the leases.
        ttl: Duration,
    },
    /// Adds one to a counter from each of many tasks, under a lock: see [`counting`](mod@counting).
    Count {
        /// The store.
        url: String,
        /// Where the counters are.
        folder: String,
        /// How many tasks, spread over the keys.
        tasks: usize,
    },
    /// Is a tenure server, on a file: see [`servers`](crate::servers).
    #[cfg(feature = "servers")]
    Serve {
        /// Where the file is.
        folder: PathBuf,
        /// Where it listens.
        port: u16,
    },
}

impl Role {
    fn encode(&self) -> String {
        let ms = |ttl: &Duration| ttl.as_millis();
        match self {
            Self::Hold { url, key, ttl } => format!("hold\n{url}\n{key}\n{}\n0", ms(ttl)),
            Self::Load { url, prefix } => format!("load\n{url}\n{prefix}\n0\n0"),
            Self::Answer { url } => format!("answer\n{url}\n\n0\n0"),
            Self::Believe { url, key, ttl } => format!("believe\n{url}\n{key}\n{}\n0", ms(ttl)),
            Self::Rob { url, prefix, count, ttl } => {
                format!("rob\n{url}\n{prefix}\n{}\n{count}", ms(ttl))
            }
            Self::Count { url, folder, tasks } => format!("count\n{url}\n{folder}\n0\n{tasks}"),
            #[cfg(feature = "servers")]
            Self::Serve { folder, port } => format!("serve\n\n{}\n0\n{port}", folder.display()),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let mut parts = text.split('\n').map(str::to_owned);
        let (name, url, key) = (parts.next()?, parts.next()?, parts.next()?);
        let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
        let count = parts.next()?.parse().ok()?;
        match name.as_str() {
            "hold" => Some(Self::Hold { url, key, ttl }),
            "load" => Some(Self::Load { url, prefix: key }),
            "answer" => Some(Self::Answer { url }),
            "believe" => Some(Self::Believe { url, key, ttl }),
            "rob" => Some(Self::Rob { url, prefix: key, count, ttl }),
            "count" => Some(Self::Count { url, folder: key, tasks: count }),
            #[cfg(feature = "servers")]
            "serve" => Some(Self::Serve { folder: key.into(), port: u16::try_from(count).ok()? }),
            _ => None,
        }
    }

    async fn play(self) -> Result<()> {
        match self {
            Self::Hold { url, key, ttl } => hold(&url, &key, ttl).await,
            Self::Load { url, prefix } => load(&url, &prefix).await,
            Self::Answer { url } => answer(&url).await,
            Self::Believe { url, key, ttl } => believe(&url, &key, ttl).await,
            Self::Rob { url, prefix, count, ttl } => rob(&url, &prefix, count, ttl).await,
            Self::Count { url, folder, tasks } => {
                counting::play(open(&url).await?, Path::new(&folder), tasks).await
            }
            #[cfg(feature = "servers")]
            Self::Serve { folder, port } => crate::servers::serve(&folder, port).await,
        }
    }
}

/// The program and the variable that make a process play `role`.
#[cfg(feature = "servers")]
pub(crate) fn as_role(role: &Role) -> Result<(PathBuf, (OsString, OsString))> {
    Ok((std::env::current_exe()?, (VARIABLE.into(), role.encode().into())))
}

/// Plays the role that the environment names, and then ends the process; otherwise returns. To be
/// called first in the `main` of a test that starts helpers.
pub fn run_if_asked() {
    let Ok(text) = std::env::var(VARIABLE) else { return };
    let outcome = Role::decode(&text).context("no such role").and_then(|role| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(role.play())
    });
    if let Err(error) = outcome {
        say(&format!("failed {error:#}"));
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// One line to whoever started this process. Nobody left to read it: nothing left to do.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(2);
    }
}

/// Locks with the usual settings. The process may have been started over a network that fails on
/// command: what says "try again" is tried again.
async fn open(url: &str) -> Result<Locks> {
    for _ in 1..OPENINGS {
        match open_once(url).await {
            Err(error) if error.retry() != Retry::Never => sleep(Duration::from_millis(20)).await,
            outcome => return Ok(outcome?),
        }
    }
    Ok(open_once(url).await?)
}

/// See [`Process::start_careless`].
async fn open_once(url: &str) -> tenure::Result<Locks> {
    if std::env::var_os(CARELESS).is_none() {
        return Locks::open(url).await;
    }
    let store = tenure::stores::open(url, Arc::new(SystemClock)).await?;
    let careless = Mutant::new(store, StoreBug::IgnoresCondition);
    Locks::builder().open_on(Arc::new(careless)).await
}

async fn hold(url: &str, key: &str, ttl: Duration) -> Result<()> {
    let locks = open(url).await?;
    let guard = locks.lock(key).ttl(ttl).acquire().await?;
    say(&format!("held {}", guard.fence()));
    let reason = guard.lost().await;
    bail!("lost: {reason:?}");
}

async fn load(url: &str, prefix: &str) -> Result<()> {
    let locks = open(url).await?;
    let mut held = VecDeque::new();
    for n in 0_u64.. {
        let key = format!("{prefix}{n}");
        let guard = locks.lock(&key).ttl(Duration::from_secs(60)).acquire().await?;
        say(&format!("granted {key} {}", guard.fence()));
        held.push_back(guard);
        if held.len() > 3
            && let Some(oldest) = held.pop_front()
        {
            say(&format!("releasing {} {}", oldest.key(), oldest.fence()));
            oldest.release().await?;
        }
    }
    Ok(())
}

async fn answer(url: &str) -> Result<()> {
    let locks = open(url).await?;
    let mut held = Vec::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let key = line.strip_prefix("acquire ").context("an order that it does not know")?;
        match locks.lock(key).ttl(Duration::from_secs(60)).wait(Duration::ZERO).acquire().await {
            Ok(guard) => {
                say(&format!("granted {}", guard.fence()));
                held.push(guard);
            }
            Err(error) => say(&format!("refused {:?} {}", error.kind(), Chain(&error))),
        }
    }
    Ok(())
}

async fn believe(url: &str, key: &str, ttl: Duration) -> Result<()> {
    let locks = open(url).await?;
    loop {
        let guard = locks.lock(key).ttl(ttl).acquire().await?;
        say(&format!("held {}", guard.fence()));
        let fence = guard.fence();
        let until = tokio::task::spawn_blocking(move || last_belief(&guard)).await?;
        say(&format!("believed {fence} {until}"));
    }
}

async fn rob(url: &str, prefix: &str, count: usize, ttl: Duration) -> Result<()> {
    let locks = open(url).await?;
    say("ready");
    let mut taken: Vec<Option<Guard>> = (0..count).map(|_| None).collect();
    loop {
        for (n, taken) in taken.iter_mut().enumerate().filter(|(_, taken)| taken.is_none()) {
            let key = format!("{prefix}{n}");
            // A store that is away is what this role is made for.
            if let Ok(Some(guard)) = locks.lock(&key).ttl(ttl).try_acquire().await {
                say(&format!("took {key} {} {}", guard.fence(), SystemClock.now().as_nanos()));
                *taken = Some(guard);
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Asks the guard all the time on a thread of its own, and returns the latest moment at which the
/// question was put and the answer was yes.
#[allow(clippy::disallowed_methods)]
fn last_belief(guard: &Guard) -> u64 {
    let mut last = 0;
    loop {
        let asked = SystemClock.now();
        if !guard.is_held() {
            return last;
        }
        last = asked.as_nanos();
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// A running helper. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program again in `role`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(role: &Role) -> Result<Self> {
        Self::start_in::<&str, &str>(role, [])
    }

    /// Starts this program again in `role`, with more in its environment.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_in<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        role: &Role,
        environment: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.envs(environment);
        Self::spawn(command, role)
    }

    /// Starts this program again in `role`, on a store that grants without a look at what stands: a
    /// test that goes on to pass proves nothing.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_careless(role: &Role) -> Result<Self> {
        Self::start_in(role, [(CARELESS, "1")])
    }

    /// Starts `program`, a copy of this one, in `role` as another user.
    ///
    /// # Errors
    /// When it cannot be started, as when this user may not become another.
    pub fn start_as(role: &Role, program: &Path, user: u32) -> Result<Self> {
        let mut command = Command::new(program);
        command.uid(user);
        Self::spawn(command, role)
    }

    fn spawn(mut command: Command, role: &Role) -> Result<Self> {
        let mut child = command
            .env(VARIABLE, role.encode())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the helper did not start")?;
        let out = child.stdout.take().context("the helper has no output")?;
        let orders = child.stdin.take().context("the helper has no input")?;
        Ok(Self { child, orders, lines: BufReader::new(out).lines() })
    }

    /// Gives it a line to act on.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn tell(&mut self, line: &str) -> Result<()> {
        self.orders.write_all(format!("{line}\n").as_bytes()).await.context("the helper ended")
    }

    /// Its next line, as it is; `None` when it has ended.
    ///
    /// # Errors
    /// When nothing comes for 20 seconds.
    pub async fn next(&mut self) -> Result<Option<String>> {
        let line = bounded("a line from the helper", LINE_MAX, self.lines.next_line()).await??;
        if let Some(error) = line.as_ref().and_then(|line| line.strip_prefix("failed ")) {
            bail!("the helper failed: {error}");
        }
        Ok(line)
    }

    /// The rest of its next line, which begins with `prefix`.
    ///
    /// # Errors
    /// When another line comes, or none.
    pub async fn line(&mut self, prefix: &str) -> Result<String> {
        let line = self.next().await?.context("the helper ended")?;
        match line.strip_prefix(prefix) {
            Some(rest) => Ok(rest.to_owned()),
            None => bail!("expected {prefix:?} from the helper, got {line:?}"),
        }
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Stops it with SIGSTOP: it does nothing until [`resume`](Self::resume).
    ///
    /// # Errors
    /// When it has ended already.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().context("the helper has ended already")?;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, signal).context("the helper could not be signalled")
    }
}
