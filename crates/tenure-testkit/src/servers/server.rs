//! One server process: started, waited for, killed, started again.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure::clock::{Clock, SystemClock};

const READY_WITHIN: Duration = Duration::from_secs(60);
const PAUSED_WITHIN: Duration = Duration::from_secs(10);
const AFTERMATH_MAX: Duration = Duration::from_secs(10);

/// What to start, and how to see that it answers.
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// More variables for its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The user to run it as, where it refuses to run as root.
    pub user: Option<&'static str>,
    /// What ends it when the tests end: `KILL`, or what it wants for a clean end.
    pub last_signal: &'static str,
    /// Whether it answers by now.
    pub is_ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A running server with a temporary folder of its own. It ends with this value, and at the latest
/// with the process.
pub struct Server {
    name: &'static str,
    port: u16,
    folder: TempDir,
    program: Program,
    child: Mutex<Option<Child>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).field("port", &self.port).finish()
    }
}

impl Server {
    /// Starts a server. `program` is told the port to listen on and the folder to work in; it may
    /// prepare that folder.
    ///
    /// # Errors
    /// When it does not answer in time; the text ends with what it printed.
    pub fn start(
        name: &'static str,
        program: impl FnOnce(u16, &Path) -> Result<Program>,
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let port = free_port()?;
        let program = program(port, folder.path())?;
        let server = Self { name, port, folder, program, child: Mutex::new(None) };
        match server.start_once()? {
            None => Ok(server),
            Some(ended) => Err(server.failure(&ended)),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The folder it works in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Starts it after [`kill`](Self::kill), on the same port and folder, and waits until it
    /// answers. What its dead predecessor still holds may end a first attempt: it is repeated.
    ///
    /// # Errors
    /// When it does not answer in time; the text ends with what it printed.
    pub fn start_again(&self) -> Result<()> {
        let deadline = SystemClock.now() + AFTERMATH_MAX;
        loop {
            match self.start_once()? {
                None => return Ok(()),
                Some(ended) if SystemClock.now() >= deadline => return Err(self.failure(&ended)),
                Some(_) => nap(Duration::from_millis(100)),
            }
        }
    }

    /// Starts it and waits until it answers; says how it ended if it did.
    fn start_once(&self) -> Result<Option<String>> {
        // What a dead predecessor has left running would answer in its place.
        if TcpStream::connect(self.address()).is_ok() {
            return Ok(Some("was not started: something else answers on its port".to_owned()));
        }
        let child = spawn(self.command()?);
        let child = child.with_context(|| format!("{} cannot be started", self.name))?;
        *self.child() = Some(child);
        let deadline = SystemClock.now() + READY_WITHIN;
        loop {
            let is_ready = (self.program.is_ready)();
            // Asked afterwards: what answers must be this one, and no stranger on its port.
            let ended = self.child().as_mut().and_then(|child| child.try_wait().ok()).flatten();
            if let Some(ended) = ended {
                return Ok(Some(format!("ended: {ended}")));
            }
            if is_ready {
                return Ok(None);
            }
            if SystemClock.now() >= deadline {
                return Err(self.failure("does not answer"));
            }
            nap(Duration::from_millis(10));
        }
    }

    fn command(&self) -> Result<Command> {
        let output = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new("setpriv");
        if let Some(user) = self.program.user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command
            .args(["--pdeathsig", self.program.last_signal])
            .arg(&self.program.path)
            .args(&self.program.arguments)
            .envs(self.program.environment.iter().cloned())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }

    /// The file with all that it has printed.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("tenure-test.log")
    }

    fn failure(&self, how: &str) -> anyhow::Error {
        let said = fs::read_to_string(self.log()).unwrap_or_default();
        anyhow!("{} {how}: {}", self.name, tail(&said))
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn kill(&self) -> Result<()> {
        if let Some(mut child) = self.child().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Sends it a signal that ends it, and waits until it has ended.
    ///
    /// # Errors
    /// When it does not run, or not end.
    pub fn end(&self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        let deadline = SystemClock.now() + AFTERMATH_MAX;
        while self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            ensure!(SystemClock.now() < deadline, "{} does not end", self.name);
            nap(Duration::from_millis(10));
        }
        *self.child() = None;
        Ok(())
    }

    /// Stops it where it stands (SIGSTOP).
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // On a busy machine its threads go on for a moment after the signal was sent.
        let pid = self.pid().context("it does not run")?;
        for _ in 0..PAUSED_WITHIN.as_millis() {
            if is_stopped(pid)? {
                return Ok(());
            }
            nap(Duration::from_millis(1));
        }
        bail!("{} was told to stop and goes on", self.name)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child();
        let child = child.as_ref().with_context(|| format!("{} does not run", self.name))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no pid")?;
        Ok(kill_process(pid, signal)?)
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Where it does not end, the death signal still ends it with this process.
        drop(self.kill());
    }
}

/// A port on which nobody listens, below the range from which outgoing connections take theirs.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start.wrapping_mul(31) % COUNT + step) % COUNT;
        if is_free(port) {
            return Ok(port);
        }
    }
    bail!("no port is free")
}

/// Whether nobody listens there. Nor does the socket that finds out: a process that is started at
/// this moment has a copy of it, and would answer for as long as its own program is not loaded.
fn is_free(port: u16) -> bool {
    let bound = || -> rustix::io::Result<()> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    bound().is_ok()
}

/// Starts a process from a thread that never ends: the death signal comes when the thread that
/// started it goes, not only when the process does.
fn spawn(command: Command) -> Result<Child> {
    type Order = (Command, mpsc::Sender<std::io::Result<Child>>);
    static STARTER: Mutex<Option<mpsc::Sender<Order>>> = Mutex::new(None);
    let (reply, answer) = mpsc::channel();
    {
        let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = starter.get_or_insert_with(|| {
            let (orders, inbox) = mpsc::channel::<Order>();
            std::thread::spawn(move || {
                for (mut command, reply) in inbox {
                    drop(reply.send(command.spawn()));
                }
            });
            orders
        });
        orders.send((command, reply)).map_err(|_| anyhow!("the starter thread has ended"))?;
    }
    Ok(answer.recv()??)
}

#[expect(clippy::disallowed_methods, reason = "a server is waited for outside of any runtime")]
fn nap(time: Duration) {
    std::thread::sleep(time);
}

/// Whether every thread of a process stands still.
fn is_stopped(pid: u32) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let Some(stat) = unless_gone(fs::read_to_string(thread?.path().join("stat")))? else {
            continue;
        };
        // "1234 (name) T …": the name may hold anything.
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
        if !state.is_some_and(|state| state.starts_with('T')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What was read of a thread; `None` when it has ended meanwhile, and does not go on either.
fn unless_gone(read: std::io::Result<String>) -> Result<Option<String>> {
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        read => Ok(Some(read?)),
    }
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(2000);
    let start = (start..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_thread_that_ends_while_it_is_looked_at_is_no_failure() {
        let gone = |errno: Errno| unless_gone(Err(errno.into()));
        assert_eq!(gone(Errno::SRCH).unwrap(), None);
        assert_eq!(gone(Errno::NOENT).unwrap(), None);
        assert!(gone(Errno::ACCESS).is_err());
        assert_eq!(unless_gone(Ok("x".to_owned())).unwrap().as_deref(), Some("x"));
    }

    #[test]
    fn nobody_answers_on_a_free_port_while_processes_are_started() {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    Command::new("true").status().unwrap();
                }
            });
            let answered = (0..5000).find(|_| {
                let port = free_port().unwrap();
                TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
            });
            done.store(true, Ordering::Relaxed);
            assert_eq!(answered, None);
        });
    }

    #[test]
    fn what_another_answers_is_not_taken_for_its_own() {
        let program = |_, _: &Path| {
            Ok(Program {
                path: "sleep".into(),
                arguments: vec!["1000".into()],
                environment: Vec::new(),
                user: None,
                last_signal: "KILL",
                is_ready: Box::new(|| true),
            })
        };
        let server = Server::start("sleep", program).unwrap();
        server.end(Signal::TERM).unwrap();
        let other = TcpListener::bind(server.address()).unwrap();
        let refused = server.start_once().unwrap().unwrap();
        assert!(refused.contains("something else answers"), "{refused}");
        drop(other);
        server.start_again().unwrap();
    }
}
