//! The command as a process: starting it, passing signals on, stopping it.

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, wait,
};
use tenure::Guard;
use tenure::clock::{Clock, SystemClock, within};
use tokio::signal::unix::{self, SignalKind};

use super::offspring;
use super::signals::uses_terminal;
use super::tether::{Warden, tethered};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::owner_file::OwnerFile;
use crate::say;

/// Where the command finds the owner; by it all that the command starts is known.
pub(super) const OWNER_FILE: &str = "TENURE_OWNER_FILE";

const LOOK: Duration = Duration::from_millis(10);

/// How long to wait for those who were killed to be gone.
const REAP_MAX: Duration = Duration::from_secs(1);

/// A running command.
///
/// # Contract
/// - When the lock is lost, no process that descends from the command is left, whatever group or
///   session it has gone to.
/// - When `tenure` is killed, the kernel kills the command, and a [`Warden`] whatever the command
///   has started and kept its environment.
///
/// # What is not promised
/// - A command that runs as another user, through `sudo` or its own file's rights, can be beyond
///   our reach.
/// - What the command leaves running when it ends by itself goes on without the lock.
#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    /// Whether it has a group of its own.
    is_alone: bool,
    ended: Option<ExitStatus>,
    ends: unix::Signal,
    warden: Option<Warden>,
    owner_file: OwnerFile,
}

/// How a command that had to stop was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It, and all that it had started, ended on SIGTERM.
    Terminated,
    /// Something of it did not, and was killed.
    Killed,
}

impl Child {
    /// Starts the command. It is told the key, the fence, and where the owner stands.
    pub(super) fn start(command: &[OsString], guard: &Guard) -> Result<Self, Failure> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Failure::new(Exit::Usage, "there is no command to run"));
        };
        let ends = unix::signal(SignalKind::child()).map_err(|error| {
            Failure::caused(Exit::Internal, "the command's end cannot be seen", &error)
        })?;
        // Those whose parent ends become our children: then none of them is lost sight of.
        let _ = set_child_subreaper(Some(getpid()));
        let owner_file = OwnerFile::write(guard.owner())?;
        let is_alone = !uses_terminal();
        let mut command = tethered(program, arguments);
        command
            .env("TENURE_KEY", guard.key().as_str())
            .env("TENURE_FENCE", guard.fence().to_string())
            .env(OWNER_FILE, owner_file.path());
        if is_alone {
            command.process_group(0);
        }
        let process = command.spawn().map_err(|error| {
            Failure::caused(Exit::Internal, "no process can be started", &error)
        })?;
        let pid = Pid::from_child(&process);
        let warden = Warden::post(owner_file.path()).inspect_err(|error| {
            let what = "what the command starts may outlive a tenure that is killed";
            say::error(&format_args!("warning: {what}: {error}"));
        });
        Ok(Self { pid, is_alone, ended: None, ends, warden: warden.ok(), owner_file })
    }

    /// Waits for the command's end. Cancel-safe.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        loop {
            self.bury();
            if let Some(status) = self.ended {
                return status;
            }
            self.ends.recv().await;
        }
    }

    /// Takes note of all children that have ended: the command, and orphans that fell to us.
    fn bury(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
    }

    /// Passes on a signal that came to us, unless the terminal has sent it to the command as well.
    pub(super) fn pass_on(&self, signal: Signal) {
        let from_terminal = matches!(signal, Signal::INT | Signal::QUIT);
        // Once it was waited for, its number may be another's.
        if self.ended.is_none() && (self.is_alone || !from_terminal) {
            // That it is gone already is no failure.
            let _ = if self.is_alone {
                kill_process_group(self.pid, signal)
            } else {
                kill_process(self.pid, signal)
            };
        }
    }

    /// Stops the command and all that it has started: SIGTERM now, SIGKILL when `too_late` comes.
    /// Returns when they are gone.
    pub(super) async fn stop(&mut self, too_late: impl Future<Output = ()>) -> Stopped {
        let spared: Vec<Pid> = self.warden.iter().map(Warden::pid).collect();
        offspring::signal(&spared, Signal::TERM);
        tokio::select! {
            biased;
            () = self.gone(&spared) => return Stopped::Terminated,
            () = too_late => {}
        }
        self.kill().await;
        Stopped::Killed
    }

    /// Kills the command and all that it has started. Returns when they are gone.
    pub(super) async fn kill(&mut self) {
        let spared: Vec<Pid> = self.warden.iter().map(Warden::pid).collect();
        let killed = async {
            // Again, because one that is being killed may have started another.
            while !offspring::living(&spared).is_empty() {
                offspring::signal(&spared, Signal::KILL);
                self.bury();
                SystemClock.sleep_until(SystemClock.now() + LOOK / 10).await;
            }
        };
        // What the kernel holds back, waiting for a disk, does nothing any more either.
        let _ = within(&SystemClock, REAP_MAX, killed).await;
    }

    async fn gone(&mut self, spared: &[Pid]) {
        loop {
            self.bury();
            if offspring::living(spared).is_empty() {
                return;
            }
            SystemClock.sleep_until(SystemClock.now() + LOOK).await;
        }
    }

    /// The command is over: nobody has to watch any more.
    pub(super) fn leave(self) {
        self.warden.into_iter().for_each(Warden::dismiss);
        drop(self.owner_file);
    }
}
