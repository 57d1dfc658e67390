//! The command as a process: starting it, passing signals on, stopping it.

use std::ffi::OsString;
use std::future::Future;
use std::io::{self, IsTerminal};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};
use tenure::Guard;
use tenure::clock::{Clock, SystemClock, within};
use tokio::process::Command;

use crate::exit::Exit;
use crate::failure::Failure;

const LOOK: Duration = Duration::from_millis(5);

/// How long to wait for those who were killed to be gone.
const REAP_MAX: Duration = Duration::from_secs(1);

/// A running command.
///
/// # What is not promised
/// - A command whose `tenure` is killed with SIGKILL goes on: to have the kernel end it too, it
///   would have to ask for that itself between fork and exec. Its lock ends with the ttl, and the
///   fence tells the resource.
/// - On a terminal the command shares our process group, so what it starts in turn gets the
///   terminal's own signals but is not stopped when the lock is lost.
/// - What the command leaves running behind it goes on without the lock.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    reach: Reach,
}

/// Whom a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The command and all it started that stayed in its group.
    Group(Pid),
    /// The command alone, which is in our group: in another one it could not use the terminal.
    Process(Pid),
}

/// How a command that had to stop was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// It, and all of its group, ended on SIGTERM.
    Terminated,
    /// Something of it did not, and was killed.
    Killed,
}

impl Child {
    /// Starts the command. It is told the key and the fence, never the owner.
    pub(crate) fn start(command: &[OsString], guard: &Guard) -> Result<Self, Failure> {
        let Some((program, args)) = command.split_first() else {
            return Err(Failure::new(Exit::Usage, "there is no command to run"));
        };
        let alone = !uses_terminal();
        let mut command = Command::new(program);
        command
            .args(args)
            .env("TENURE_KEY", guard.key().as_str())
            .env("TENURE_FENCE", guard.fence().to_string())
            // Should this process fail in a way nobody thought of, nobody keeps the lock either.
            .kill_on_drop(true);
        if alone {
            command.process_group(0);
        }
        let process = command.spawn().map_err(|error| not_started(program, &error))?;
        let raw = process.id().and_then(|id| i32::try_from(id).ok());
        let Some(pid) = raw.and_then(Pid::from_raw) else {
            return Err(Failure::new(Exit::Internal, "the command has no process id"));
        };
        let reach = if alone { Reach::Group(pid) } else { Reach::Process(pid) };
        Ok(Self { process, reach })
    }

    /// Waits for the command's end. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.process.wait().await.map_err(|error| {
            Failure::caused(Exit::Internal, "the command's end cannot be seen", &error)
        })
    }

    /// Passes on a signal that came to us, unless the terminal has sent it to the command as well.
    pub(crate) fn pass_on(&self, signal: Signal) {
        let from_terminal = matches!(signal, Signal::INT | Signal::QUIT);
        if matches!(self.reach, Reach::Group(_)) || !from_terminal {
            self.send(signal);
        }
    }

    /// Stops the command: SIGTERM now, SIGKILL when `too_late` comes. Returns when it is gone.
    pub(crate) async fn stop(&mut self, too_late: impl Future<Output = ()>) -> Stopped {
        adopt_orphans();
        self.send(Signal::TERM);
        tokio::select! {
            biased;
            () = self.gone() => return Stopped::Terminated,
            () = too_late => {}
        }
        self.send(Signal::KILL);
        // An error says that there is nothing left to wait for.
        let _ = self.process.wait().await;
        // They are dead, but whoever should see that may never look.
        let _ = within(&SystemClock, REAP_MAX, self.gone()).await;
        Stopped::Killed
    }

    /// Returns when the command has ended, and its group too.
    async fn gone(&mut self) {
        let _ = self.process.wait().await;
        let Reach::Group(group) = self.reach else { return };
        while is_left(group) {
            SystemClock.sleep_until(SystemClock.now() + LOOK).await;
        }
    }

    /// That someone is gone already is no failure.
    fn send(&self, signal: Signal) {
        let _ = match self.reach {
            Reach::Group(group) => kill_process_group(group, signal),
            // Once it was waited for, its number may be another's.
            Reach::Process(pid) if self.process.id().is_some() => kill_process(pid, signal),
            Reach::Process(_) => Ok(()),
        };
    }
}

/// Has those whose parent ends become our children: then it can be seen when they end. Where that
/// cannot be had, the first process of the system sees it.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Whether anyone is left in the group, the dead not counted that are ours to bury.
fn is_left(group: Pid) -> bool {
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    test_kill_process_group(group).is_ok()
}

/// Whether the command could use a terminal through what it inherits.
fn uses_terminal() -> bool {
    io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal()
}

/// As a shell says it.
fn not_started(program: &OsString, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => Exit::Internal,
        _ => Exit::NotExecutable,
    };
    Failure::caused(exit, &format!("the command {program:?} cannot be started"), error)
}
